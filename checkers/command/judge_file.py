"""A history from anywhere, judged under a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from checkers.command.file_result import FileResult
from checkers.formats.formats import Loaded
from checkers.history.finding import OutOfBudget
from checkers.history.foreign_values import Atoms
from checkers.history.history import BadHistory, History
from checkers.linearizability import ModelResult, decide
from checkers.models.all_models import Specification
from checkers.models.model import UNSET, Settings
from checkers.models.operations import WHOLE, Operations
from checkers.models.user_model import ModelError, specification
from checkers.row_format import INFINITY, NONE, F

if TYPE_CHECKING:
    from checkers.measures.measure_result import Measure, Value

VERIFIED: Final = 100_000
"""Up to so many operations ``--explain`` has the proof verified, which looks at every operation one by one."""

_WORDS: Final = {True: "valid", False: "invalid", None: "unknown"}


def result(file: Path, loaded: Loaded, options: Mapping[str, Any]) -> FileResult:
    """The answer on one file. options: of the command. Raises BadHistory."""
    history, model, explain = loaded.history, options["model"], options["explain"]
    settings = _settings(loaded.settings, options)
    values, atoms = () if options["initial"] is None else (*history.values, settings.initial), Atoms()
    if confusion := atoms.confusion(atoms.intern_all(values)):
        raise BadHistory(f"{file}: --initial: {confusion[1]}")
    try:
        statement = specification(model)
        if statement.needs_times and not loaded.family.timed:
            raise ModelError(f"model {model} needs times, and here only the order of events is known")
        there = set(map(F, np.unique(history.columns["f"]).tolist()))
        if there and not there & statement.kinds:
            kinds, only = _kinds(statement.kinds), _kinds(there)
            raise ModelError(f"model {model} speaks of {kinds}; there is only {only}")
        answer = decide(history, statement, settings)
        proof = _verified(history, statement, settings, answer) if explain else None
    except ModelError as error:
        raise BadHistory(f"{file}: {error}") from error
    except BadHistory as error:
        raise error if str(file) in str(error) else BadHistory(f"{file}: {error}") from error
    if proof:
        refused = f"the proof that it is {_WORDS[answer.valid]} was refused, an error of this program: {proof}"
        answer = replace(answer, valid=None, reason=refused)
    measured: Sequence[Measure] = ()
    more: dict[str, Any] = {}
    if explain:
        from checkers.measures.all_measures import measures

        measured = measures(history, settings)
        more = {"measures": [*map(asdict, measured)], "proof": "verified" if proof == "" else None}
    lines = tuple(_lines(file, history, answer, proof, measured))
    witness = _witness(history, answer) if answer.valid is False else None
    reason = answer.kind if answer.valid is False else answer.reason
    return FileResult(answer.valid, model, answer.operations, lines, witness, reason, more)


def _settings(defaults: Settings, options: Mapping[str, Any]) -> Settings:
    """The settings of the command line. The other settings are what the format's tools assume."""
    given = {field.name: options[field.name] for field in fields(Settings) if options[field.name] is not None}
    if "ttl" in given:
        given["ttl"] = round(given["ttl"] * 1e9)
    if "initial" in given:
        given["initial"] = _value(given["initial"])
    return replace(defaults, **given)


def _value(text: str) -> Any:
    """A value from the command line: JSON, else EDN, and a bare word is itself."""
    from checkers.formats import edn, jsonl

    for read in (jsonl.value_of, edn.value_of):
        try:
            value = read(text)
        except ValueError:
            continue
        return value if text[:1] in ':"' or not isinstance(value, str) else text
    return text


def _kinds(kinds: Iterable[F]) -> str:
    return ", ".join(kind.name.lower().replace("_", "-") for kind in sorted(kinds))


def _verified(history: History, statement: Specification, settings: Settings, answer: ModelResult) -> str | None:
    """Empty if the proof is right, else what is wrong; None if there is no (minimal) proof, or it takes too long."""
    from checkers.proofs.verify_proof import verify_invalid, verify_valid

    if answer.valid is None or len(history) > VERIFIED:
        return None
    if answer.valid:
        return verify_valid(history, statement, settings, answer.order().tolist()) or ""
    try:
        return (verify_invalid(history, statement, settings, answer.rows) or "") if answer.minimal else None
    except OutOfBudget:
        return None


def _lines(
    file: Path, history: History, answer: ModelResult, proof: str | None, measured: Sequence[Measure]
) -> Iterator[str]:
    head = f"{file}: {_WORDS[answer.valid]} ({answer.model}, {answer.operations:,} operations)"
    if answer.valid is None:
        yield f"{head}: {answer.reason}"
    elif answer.valid:
        yield head
    else:
        alone = answer.key == WHOLE or len(history.facts.keys) <= 1
        yield f"{head}: {answer.kind}{'' if alone else f', key {_key(history, answer.key)}'}"
        yield from (f"  {sentence}" for sentence in answer.story)
        if not answer.minimal:
            yield "  Whether fewer operations prove it is not known."
    if proof == "":
        yield "  The proof was verified: " + (
            "all operations in an order that explains them."
            if answer.valid
            else "no order explains these operations, and none of them can be spared."
        )
    elif measured and (answer.valid or answer.minimal):
        yield "  The proof was not verified: it is too long."
    silent = [measure.name for measure in measured if measure.unexercised]
    for measure in measured:
        if not measure.unexercised:
            yield f"  {measure.name}: {', '.join(map(_number, measure.values))}"
            if measure.alert:
                yield f"    look at this: {measure.alert}"
    if silent:
        yield f"  nothing to measure: {', '.join(silent)}"


def _number(value: Value) -> str:
    name = f"{value.name} ({value.of})" if value.of else value.name
    if value.number is None:
        return f"{name} unknown"
    if value.unit == "ns":
        return f"{name} {value.number / 1e9:.6g} s"
    return f"{name} {value.number:,}" if value.unit == "count" else f"{name} {value.number:.3g}"


def _key(history: History, key: int) -> str:
    return history.facts.keys[key] if key < len(history.facts.keys) else str(key)


def _witness(history: History, answer: ModelResult) -> dict[str, Any]:
    key = None if answer.key == WHOLE else _key(history, answer.key)
    operations = list(_operations(history, answer.rows))
    return {
        "kind": answer.kind,
        "key": key,
        "minimal": answer.minimal,
        "story": answer.story,
        "operations": operations,
    }


def _operations(history: History, rows: Sequence[int]) -> Iterator[dict[str, Any]]:
    for operation in Operations(history, np.array(rows, np.int64)):
        row, kind, f = operation.row, operation.outcome.name.lower(), operation.f.name.lower().replace("_", "-")
        fields: dict[str, Any] = {"row": row, "process": operation.process, "type": kind, "f": f}
        if history.lines is not None:
            fields["lines"] = [line for line in history.lines[row].tolist() if line > 0]
        if history.clock is None:
            fields |= {"inv": operation.inv, "ret": None if operation.ret == INFINITY else operation.ret}
        else:
            fields["times"] = [time if time > 0 else None for time in history.clock[row].tolist()]
        for name in ("value", "base"):
            value = getattr(operation, name)
            if value is not UNSET and (history.values or value != NONE):
                fields[name] = value
        if operation.token != NONE:
            fields["token"] = operation.token
        yield {**fields, "owner": operation.owner}

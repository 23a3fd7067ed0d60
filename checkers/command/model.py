"""A history from anywhere, judged under a model."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from checkers.command.report import Told
from checkers.formats.formats import Loaded
from checkers.history.history import BadHistory, History
from checkers.linearizability import BUDGET, Judgement, decide
from checkers.models.model import UNSET, Settings
from checkers.models.operations import WHOLE, Operations, Source
from checkers.models.own import ModelError, specification
from checkers.models.registry import Specification
from checkers.wire import INFINITY, NONE, F

if TYPE_CHECKING:
    from checkers.measures.record import Measure, Value

VERIFIED: Final = 100_000
"""Operations up to which ``--explain`` has the proof verified: every operation is looked at one by one."""

_WORDS: Final = {True: "valid", False: "invalid", None: "unknown"}


def problem(model: str) -> str | None:
    """Why there is no such model, or None."""
    try:
        specification(model)
    except ModelError as error:
        return str(error)
    return None


def judged(file: Path, loaded: Loaded, options: Namespace) -> Told:
    """The answer on one file. options: of the command. Raises BadHistory."""
    history = loaded.history
    settings = _settings(loaded.settings, options)
    try:
        statement = specification(options.model)
        if statement.needs_times and not loaded.family.timed:
            raise ModelError(f"model {options.model} needs times, and here only the order of events is known")
        there = set(map(F, np.unique(history.columns["f"]).tolist()))
        if there and not there & statement.kinds:
            found = f"model {options.model} speaks of {_kinds(statement.kinds)}; there is only {_kinds(there)}"
            raise ModelError(found)
        judgement = decide(history, statement, settings, options.budget or BUDGET)
        proof = _verified(history, statement, settings, judgement) if options.explain else None
    except ModelError as error:
        raise BadHistory(f"{file}: {error}") from error
    except BadHistory as error:
        raise error if str(file) in str(error) else BadHistory(f"{file}: {error}") from error
    if proof:
        refused = f"the proof that it is {_WORDS[judgement.valid]} was refused, an error of this program: {proof}"
        judgement = replace(judgement, valid=None, reason=refused)
    measured = _measures(history, settings) if options.explain else ()
    more: dict[str, Any] = {}
    if options.explain:
        more["measures"] = [asdict(measure) for measure in measured]
        more["proof"] = "verified" if proof == "" else None
    return Told(
        judgement.valid,
        options.model,
        judgement.operations,
        tuple(_lines(file, history, judgement, proof, measured)),
        _witness(history, judgement) if judgement.valid is False else None,
        judgement.kind if judgement.valid is False else judgement.reason,
        more,
    )


def _settings(defaults: Settings, options: Namespace) -> Settings:
    """What the format's tools assume, where the command line does not say otherwise."""
    given: dict[str, Any] = {
        "permits": options.permits,
        "ttl": None if options.ttl is None else round(options.ttl * 1e9),
        "drift": options.drift,
        "failed_cas": options.failed_cas,
        "nil_read": options.nil_read,
        "strict_try": options.strict_try or None,
        "store": options.store,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if options.initial is not None:
        given["initial"] = _value(options.initial)
    return replace(defaults, **given)


def _value(text: str) -> Any:
    """A value from the command line: JSON, else EDN, and a bare word is itself."""
    from checkers.formats import edn, jsonl

    for read in (jsonl.one, edn.one):
        try:
            value = read(text)
        except ValueError:
            continue
        return value if text[:1] in ':"' or not isinstance(value, str) else text
    return text


def _kinds(kinds: Iterable[F]) -> str:
    return ", ".join(kind.name.lower().replace("_", "-") for kind in sorted(kinds))


def _verified(history: History, statement: Specification, settings: Settings, judgement: Judgement) -> str | None:
    """Empty where the proof is right, else what is wrong with it; None where there is none, or it is too long."""
    from checkers.proofs.verify import verify_invalid, verify_valid

    if judgement.valid is None or len(history) > VERIFIED:
        return None
    if judgement.valid:
        return verify_valid(history, statement, settings, judgement.order().tolist()) or ""
    return (verify_invalid(history, statement, settings, judgement.rows) or "") if judgement.minimal else None


def _measures(history: History, settings: Settings) -> Sequence[Measure]:
    from checkers.measures.measure import measures

    return measures(history, settings)


def _lines(
    file: Path, history: History, judgement: Judgement, proof: str | None, measured: Sequence[Measure]
) -> Iterator[str]:
    about = f"{judgement.model}, {judgement.operations:,} operations"
    head = f"{file}: {_WORDS[judgement.valid]} ({about})"
    if judgement.valid is None:
        yield f"{head}: {judgement.reason}"
    elif judgement.valid:
        yield head
    else:
        one = judgement.key == WHOLE or len(history.facts.keys) <= 1
        yield f"{head}: {judgement.kind}{'' if one else f', key {_key(history, judgement.key)}'}"
        yield from (f"  {sentence}" for sentence in judgement.story)
        if not judgement.minimal:
            yield "  Whether fewer operations prove it is not known."
    if proof == "":
        yield "  The proof was verified: " + (
            "all operations in an order that explains them."
            if judgement.valid
            else "no order explains these operations, and none of them can be spared."
        )
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


def _witness(history: History, judgement: Judgement) -> dict[str, Any]:
    """What proves the history invalid, as JSON."""
    return {
        "kind": judgement.kind,
        "key": None if judgement.key == WHOLE else _key(history, judgement.key),
        "minimal": judgement.minimal,
        "story": judgement.story,
        "operations": list(_operations(history, judgement.rows)),
    }


def _operations(history: History, rows: Sequence[int]) -> Iterator[dict[str, Any]]:
    for operation in Operations(Source(history), np.array(rows, np.int64)):
        row = operation.row
        told: dict[str, Any] = {
            "row": row,
            "process": operation.process,
            "type": operation.outcome.name.lower(),
            "f": operation.f.name.lower().replace("_", "-"),
        }
        if history.lines is not None:
            told["lines"] = [line for line in history.lines[row].tolist() if line > 0]
        if history.clock is None:
            told |= {"inv": operation.inv, "ret": None if operation.ret == INFINITY else operation.ret}
        else:
            told["times"] = [time if time > 0 else None for time in history.clock[row].tolist()]
        for name in ("value", "base"):
            value = getattr(operation, name)
            if value is not UNSET and (history.values or value != NONE):
                told[name] = value
        if operation.token != NONE:
            told["token"] = operation.token
        yield {**told, "owner": operation.owner}

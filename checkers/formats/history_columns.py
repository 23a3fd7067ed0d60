"""Makes the columns of a history from operations: keys, values, owners, tokens, and why something failed."""

from functools import cache
from typing import Final

import numpy as np

from checkers import row_format
from checkers.formats.event_columns import LARGEST, UNSAID, different, named
from checkers.formats.keys_and_values import KeysAndValues
from checkers.formats.pairing import PairedOperations, meanings, refuse
from checkers.formats.vocabulary import REASONS, SHARED_WORDS, reason_of, word
from checkers.history.counting import Array, Ints
from checkers.history.foreign_values import FrozenMap, plain, shown, spelled
from checkers.history.history import Facts, FaultInterval, History
from checkers.row_format import ACQUIRES, NONE, SHARED, F, Outcome, Reason

_HOLDERS: Final = (F.RELEASE, F.RENEW)


def history(
    name: str, ops: PairedOperations, faults: tuple[FaultInterval, ...], *, timed: bool, errors_as_values: bool
) -> History:
    """errors_as_values: the format writes an error in the place of a value. Raises BadHistory."""
    contents = KeysAndValues(ops)
    columns: dict[str, Array] = {field: np.zeros(len(ops), kind) for field, kind in row_format.FIELDS}
    for field in ("inv", "ret", "f", "outcome", "process"):
        columns[field][:] = getattr(ops, field)
    columns["key"][:], keys = contents.keys()
    columns["value"][:], columns["base"][:] = contents.values()
    columns["owner"][:] = _owners(ops)
    token, ttl = _tokens(ops, contents), ops.either("ttl")
    columns["token"][:] = np.where(token == UNSAID, NONE, token)
    columns["ttl"][:] = np.where(ttl == UNSAID, 0, ttl)
    columns["session"][:] = ops.either("session") + 1
    columns["error"][:], texts = _errors(ops, errors_as_values=errors_as_values)
    columns["reason"][:] = _reasons(ops, columns["error"], texts, token)
    columns["flags"][:] = _flags(ops, contents)
    facts = Facts("", name, "", "", "", "", (), 0, tuple(named(keys)), "grant", 0)
    events = np.stack((ops.invoked, ops.ended), axis=1)
    line = np.where(events >= 0, ops.events.line[events] + 1, 0)
    clock = None
    if not timed:
        times = np.stack((ops.at_invocation("time"), ops.at_end("time")), axis=1)
        clock = np.where(times == UNSAID, 0, times)
    return History(facts, columns, faults, texts, tuple(contents.atoms.values), line, clock)


def _owners(ops: PairedOperations) -> Ints:
    """The holder: the owner that the file names, else the process. Raises BadHistory if a file mixes the two.

    A grant that is known by its process and a release that is known by its owner, or the reverse, could not be matched.
    """
    owner = ops.either("owner")
    known = len(ops.events.atoms["owner"].values)
    if known:
        granted = np.isin(ops.f, ACQUIRES) & (ops.outcome == Outcome.OK)
        holds = granted | np.isin(ops.f, _HOLDERS)
        named_too = holds & (owner >= 0)
        if named_too.any():
            example = ops.line(int(np.argmax(named_too)), ended=True) + 1
            without = f"no owner, though others name theirs (line {example})"
            ops.refuse(holds & (owner < 0), lambda _: without, ended=True)
    return np.where(owner >= 0, owner + 1, known + 1 + ops.process)


def _tokens(ops: PairedOperations, contents: KeysAndValues) -> Ints:
    """The tokens that events name or, as in Hazelcast's tests, values of grants: ``{:fence 5}``. Raises BadHistory."""
    token, ended = ops.either("token"), contents.ended
    granted = np.isin(ops.f, ACQUIRES) & (ops.outcome == Outcome.OK) & (token == UNSAID)
    fences = np.full(len(contents.atoms.values) + 1, UNSAID)  # the last is for ABSENT
    for place in different(ended[granted]):
        value = contents.atoms.values[place]
        for key, fence in value if isinstance(value, FrozenMap) else ():
            if word(key) in ("fence", "token") and type(fence) is int:
                if not 0 <= fence < LARGEST:
                    line = ops.line(int(np.argmax(ended == place)), ended=True)
                    raise ops.events.source.bad(line, f"{shown(spelled(fence))} is not a token")
                fences[place] = fence
    return np.where(granted, fences[ended], token)


def _errors(ops: PairedOperations, *, errors_as_values: bool) -> tuple[Ints, tuple[str, ...]]:
    """Index of each operation's error text, and the texts."""
    texts = ["", *(plain(value) for value in ops.events.atoms["error"].values)]
    error = ops.either("error") + 1
    if errors_as_values:
        values = ops.events.atoms["value"].values
        ended, begun = ops.at_end("value"), ops.at_invocation("value")
        open_to = (ops.outcome != Outcome.OK) & (ended >= 0) & (ended != begun) & (error == 0)
        for value in different(ended[open_to]):
            if isinstance(values[value], str):
                error[open_to & (ended == value)] = len(texts)
                texts.append(values[value])
    return error, tuple(texts)


def _reasons(ops: PairedOperations, error: Ints, texts: tuple[str, ...], token: Ints) -> Ints:
    """`row_format.Reason` of each failed operation."""
    known, column = meanings(ops.events, "reason", REASONS), ops.events.column("reason")
    refuse(ops.events, (column >= 0) & (known[column] < 0), "reason", "a reason; known are " + ", ".join(REASONS))
    failed, given = ops.outcome == Outcome.FAIL, known[ops.either("reason")]
    result = np.where(failed & (given >= 0), given, Reason.NONE)

    @cache
    def meant(f: int, error: int, with_token: int) -> Reason:
        return reason_of(F(f), texts[error] if error else None, token=bool(with_token))

    rest = failed & (given < 0)
    kinds = zip(ops.f[rest].tolist(), error[rest].tolist(), (token[rest] != UNSAID).tolist(), strict=True)
    result[rest] = [meant(*kind) for kind in kinds]
    return result


def _flags(ops: PairedOperations, contents: KeysAndValues) -> Ints:
    """SHARED if the verb, the value or the event says so."""
    flags, given = ops.flags.copy(), ops.either("shared")
    for place, value in enumerate(ops.events.atoms["shared"].values):
        if not isinstance(value, bool):
            line = ops.events.first("shared", place)
            raise ops.events.source.bad(line, f"shared is {shown(plain(value))}, not true or false")
        if value:
            flags[given == place] |= SHARED
    locks = np.isin(ops.f, ACQUIRES)
    if locks.any():
        for value in (contents.begun, contents.ended):
            for place in different(value[locks]):
                if word(contents.atoms.values[place]) in SHARED_WORDS:
                    flags[locks & (value == place)] |= SHARED
    return flags

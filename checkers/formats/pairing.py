"""Pairs invocations with completions, puts all events in order, and makes operations and faults of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from checkers.formats.event_columns import UNSAID, EventColumns, missing
from checkers.formats.vocabulary import INVOKE, KINDS, NEMESIS, TYPES, VERBS, word
from checkers.history.counting import Flags, Ints
from checkers.history.foreign_values import plain, shown
from checkers.history.history import FaultInterval
from checkers.row_format import Outcome

MOST: Final = 2**31 - 2  # the largest process number that is accepted: the column has room for one more

_TYPE_NAMES: Final = {int(code): name for name, code in TYPES.items()}


class Ordered(NamedTuple):
    """Events in the order in which they happened, with what their words mean; each array has one element an event."""

    event: Ints  # which event of the file
    at: Ints  # ns, or its place in the order: 1, 2, 3, ...
    type: Ints  # `vocabulary.INVOKE` or a `row_format.Outcome`
    verb: Ints  # index into `vocabulary.KINDS`, -1 for a nemesis' own words
    process: Ints  # number of the process; -1 for the nemesis


@dataclass(frozen=True, slots=True)
class PairedOperations:
    """The operations of a file, one row each in order of invocation."""

    events: EventColumns
    f: Ints
    flags: Ints
    sign: Ints
    outcome: Ints
    process: Ints
    invoked: Ints  # which event of the file
    ended: Ints  # likewise, -1 where nothing ended it
    inv: Ints  # ns or places
    ret: Ints  # likewise, 0 where nothing ended it

    def __len__(self) -> int:
        return len(self.f)

    def at_invocation(self, field: str) -> Ints:
        return self.events.column(field)[self.invoked]

    def at_end(self, field: str) -> Ints:
        """The values that completions give; where there is no completion, `missing(field)`."""
        return np.where(self.ended >= 0, self.events.column(field)[self.ended], missing(field))

    def either(self, field: str) -> Ints:
        """The value that the invocation or the completion gives. Raises BadHistory if they contradict each other."""
        begun, ended = self.at_invocation(field), self.at_end(field)
        unsaid = missing(field)
        self.refuse_another(field, (begun != unsaid) & (ended != unsaid) & (begun != ended))
        return np.where(begun != unsaid, begun, ended)

    def line(self, row: int, *, ended: bool = False) -> int:
        """Line of an operation's invocation; if `ended`, of its completion, if it has one."""
        event = self.ended[row] if ended and self.ended[row] >= 0 else self.invoked[row]
        return int(self.events.line[event])

    def refuse_another(self, what: str, bad: Flags) -> None:
        """Raises BadHistory for the first row that is bad: its completion contradicts its invocation."""
        self.refuse(
            bad,
            lambda row: f"its {what} is another than in line {self.line(row) + 1}, where it was invoked",
            ended=True,
        )

    def refuse(self, bad: Flags, message: Callable[[int], str], *, ended: bool = False) -> None:
        """Raises BadHistory for the first row that is bad."""
        if bad.any():
            row = int(np.argmax(bad))
            raise self.events.source.bad(self.line(row, ended=ended), message(row))


def ordered(events: EventColumns, *, timed: bool) -> Ordered:
    """The events in order: of times if `timed`, else of indexes if all have one, else of lines. Raises BadHistory."""
    kind = meanings(events, "type", TYPES)[events.column("type")]
    refuse(events, kind < 0, "type", "a type; known are " + ", ".join(TYPES))
    process = _processes(events)
    kinds = {spelling: KINDS.index(verb) for spelling, verb in VERBS.items()}
    verb = meanings(events, "f", kinds)[events.column("f")]
    refuse(events, (verb < 0) & (process >= 0), "f", "an operation; known are " + ", ".join(sorted(VERBS)))
    order, at = _order(events, timed=timed)
    return Ordered(order, at, kind[order], verb[order], process[order])


def meanings(events: EventColumns, field: str, words: Mapping[str, int]) -> Ints:
    """Atom of a field → what its word means, -1 if that is not known; the last element is for `ABSENT`."""
    known = [words.get(str(word(value)), -1) for value in events.atoms[field].values]
    return np.array([*known, -1], np.int64)


def refuse(events: EventColumns, bad: Flags, field: str, wanted: str) -> None:
    """Raises BadHistory for the first event that is bad."""
    if bad.any():
        at = int(np.argmax(bad))
        value = events.atoms[field].values[events.column(field)[at]]
        raise events.source.bad(int(events.line[at]), f"{shown(plain(value))} is not {wanted}")


def _processes(events: EventColumns) -> Ints:
    values = events.atoms["process"].values
    numbers = [value for value in values if type(value) is int and 0 <= value <= MOST]
    free = max(numbers, default=-1) + 1
    table = np.empty(max(len(values), 1), np.int64)
    for place, value in enumerate(values):
        if word(value) == NEMESIS:
            table[place] = -1
        elif type(value) is int and 0 <= value <= MOST:
            table[place] = value
        elif (type(value) is int or isinstance(value, str)) and free <= MOST:
            table[place] = free
            free += 1
        else:
            line = events.first("process", place)
            raise events.source.bad(line, f"{shown(plain(value))} is not a process: a number or a name is wanted")
    return table[events.column("process")]


def _order(events: EventColumns, *, timed: bool) -> tuple[Ints, Ints]:
    """Events in order, and when each was: ns from 1, or places from 1."""
    if timed:
        time = events.column("time")
        order = np.argsort(time, kind="stable")
        earliest = int(time[order[0]]) if len(order) else 1
        return order, time[order] + (1 - earliest if earliest < 1 else 0)
    index = events.column("index")
    order = np.arange(len(events))
    if len(index) and (index != UNSAID).all() and (index >= 0).all():
        order = np.argsort(index, kind="stable")
        twice = np.flatnonzero(np.diff(index[order]) == 0)
        if len(twice):
            first, again = order[twice[0]], order[twice[0] + 1]
            already = f"index {index[first]} stands in line {events.line[first] + 1} already"
            raise events.source.bad(int(events.line[again]), already)
    return order, np.arange(1, len(events) + 1)


def pair(events: EventColumns, happened: Ordered) -> PairedOperations:
    """The operations. A process does one at a time, and may go on after an unknown outcome. Raises BadHistory."""
    clients = np.flatnonzero(happened.process >= 0)
    clients = clients[np.argsort(happened.process[clients], kind="stable")]
    invokes = happened.type[clients] == INVOKE
    same = np.diff(happened.process[clients], prepend=-1) == 0
    after_invoke = same & np.append(False, invokes[:-1])
    bad = np.flatnonzero(invokes == after_invoke)
    if len(bad):
        lines = events.line[happened.event[clients]]
        first = int(bad[np.argmin(lines[bad])])
        raise events.source.bad(int(lines[first]), _contradiction(events, happened, clients, first, same))
    invoked = clients[invokes]
    ended = np.full(len(clients), -1, np.int64)
    ended[:-1] = np.where(after_invoke[1:], clients[1:], -1)
    ended = ended[invokes]
    order = np.argsort(invoked, kind="stable")
    invoked, ended = invoked[order], ended[order]
    ends, last = ended >= 0, np.where(ended >= 0, ended, 0)
    _same_verb(events, happened, invoked[ends], ended[ends])
    verbs = np.array([(verb.f, verb.flags, verb.sign) for verb in KINDS], np.int64)[happened.verb[invoked]]
    return PairedOperations(
        events=events,
        f=verbs[:, 0],
        flags=verbs[:, 1],
        sign=verbs[:, 2],
        outcome=np.where(ends, happened.type[last], Outcome.INFO),
        process=happened.process[invoked],
        invoked=happened.event[invoked],
        ended=np.where(ends, happened.event[last], -1),
        inv=happened.at[invoked],
        ret=np.where(ends, happened.at[last], 0),
    )


def _contradiction(events: EventColumns, happened: Ordered, clients: Ints, place: int, same: Flags) -> str:
    event = happened.event[clients[place]]
    who = f"process {_words(events, 'process', event)}"
    what = _words(events, "f", event)
    before = happened.event[clients[place - 1]] if same[place] else -1
    if happened.type[clients[place]] == INVOKE:
        return f"{who} invokes {what} while its {_words(events, 'f', before)} of line {events.line[before] + 1} is open"
    ending = f"{who} ends {what} ({_TYPE_NAMES[int(happened.type[clients[place]])]}), but has nothing open"
    if before < 0:
        return ending
    return f"{ending}: its {_words(events, 'f', before)} ended in line {events.line[before] + 1}"


def _same_verb(events: EventColumns, happened: Ordered, invoked: Ints, ended: Ints) -> None:
    bad = happened.verb[invoked] != happened.verb[ended]
    if bad.any():
        at = int(np.argmax(bad))
        begun, end = happened.event[invoked[at]], happened.event[ended[at]]
        done = f"process {_words(events, 'process', end)} ends {_words(events, 'f', end)}"
        before = f"line {events.line[begun] + 1} invoked {_words(events, 'f', begun)}"
        raise events.source.bad(int(events.line[end]), f"{done}, but {before}")


def _words(events: EventColumns, field: str, event: int) -> str:
    return shown(plain(events.atoms[field].values[events.column(field)[event]]).removeprefix(":"))


_HEALS: Final = {
    "stop": "start", "heal": "", "recover": "", "reset": "", "resume": "pause", "restart": "kill", "start": "kill"
}  # fmt: skip
"""First word of a deed that heals → first word of the faults that it heals, "" for all faults."""


@dataclass(slots=True)
class _Fault:
    """A fault that was begun: its name, its four moments, and what it hit."""

    name: str
    moments: list[int]
    target: str = ""


def intervals(events: EventColumns, happened: Ordered) -> tuple[FaultInterval, ...]:
    """Faults in order of their beginning.

    A nemesis records each deed twice, before and after. A deed either heals what is open (``stop-x`` heals ``start-x``;
    ``stop`` and ``heal`` heal everything) or is a fault of its own.
    """
    faults: list[_Fault] = []
    pending: tuple[str, list[_Fault], int] | None = None
    for place in np.flatnonzero(happened.process < 0).tolist():
        event, at = happened.event[place], int(happened.at[place])
        name = word(events.atoms["f"].values[events.column("f")[event]]) or "fault"
        value = int(events.column("value")[event])
        if pending is not None and pending[0] == name:
            _, concerned, moment = pending
            pending = None
        else:
            concerned, moment = _healed(name, faults), 2
            if not concerned:
                concerned, moment = [_Fault(name, [at, 0, 0, 0])], 0
                faults += concerned
            pending = (name, concerned, moment + 1)
        for fault in concerned:
            fault.moments[moment] = at
            if moment < 2 and value >= 0 and events.atoms["value"].values[value] is not None:
                fault.target = plain(events.atoms["value"].values[value])
    return tuple(FaultInterval(fault.name, fault.name, fault.target, *fault.moments) for fault in faults)


def _healed(name: str, faults: list[_Fault]) -> list[_Fault]:
    """The faults that a nemesis heals by this name; none if the name is a fault itself."""
    verb, _, rest = name.partition("-")
    if verb not in _HEALS:
        return []
    cause = _HEALS[verb]
    going = (fault for fault in faults if not fault.moments[2] and (not rest or fault.name.partition("-")[2] == rest))
    anything = not cause or (verb == "stop" and not rest)
    return [fault for fault in going if anything or fault.name.partition("-")[0] == cause]

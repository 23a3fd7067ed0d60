"""From pairs of events to operations: what was asked when, by whom, and how it ended."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from checkers.formats.events import Events, missing
from checkers.formats.pairing import Ordered, Pairs
from checkers.formats.source import Numbers
from checkers.formats.vocabulary import KINDS
from checkers.wire import Outcome


@dataclass(frozen=True, slots=True)
class Operations:
    """The operations of a file, one row each in order of invocation.

    invoked, ended  which event of the file; -1 where nothing ended it.
    inv, ret        when: ns or places; ret 0 where nothing ended it.
    """

    events: Events
    f: Numbers
    flags: Numbers
    sign: Numbers
    outcome: Numbers
    process: Numbers
    invoked: Numbers
    ended: Numbers
    inv: Numbers
    ret: Numbers

    def __len__(self) -> int:
        return len(self.f)

    def at_invocation(self, field: str) -> Numbers:
        """What the invocations say."""
        return self.events.column(field)[self.invoked]

    def at_end(self, field: str) -> Numbers:
        """What the completions say; as if unsaid where there is none."""
        column = self.events.column(field)
        return np.where(self.ended >= 0, column[self.ended], missing(field))

    def either(self, field: str) -> Numbers:
        """What one of the two says. Raises BadHistory where they contradict each other."""
        begun, ended = self.at_invocation(field), self.at_end(field)
        unsaid = missing(field)
        self.refuse(
            (begun != unsaid) & (ended != unsaid) & (begun != ended),
            lambda row: f"its {field} is another than in line {self.line(row) + 1}, where it was invoked",
            ended=True,
        )
        return np.where(begun != unsaid, begun, ended)

    def line(self, row: int, *, ended: bool = False) -> int:
        """Line of an operation's invocation, or of its end where it has one."""
        event = self.ended[row] if ended and self.ended[row] >= 0 else self.invoked[row]
        return int(self.events.line[event])

    def refuse(self, bad: npt.NDArray[np.bool_], message: Callable[[int], str], *, ended: bool = False) -> None:
        """Raises BadHistory for the first row that is bad."""
        if bad.any():
            row = int(np.argmax(bad))
            raise self.events.source.bad(self.line(row, ended=ended), message(row))


def operations(events: Events, happened: Ordered, pairs: Pairs) -> Operations:
    """What the pairs are, by the words of their verbs."""
    verbs = np.array([(verb.f, verb.flags, verb.sign) for verb in KINDS], np.int64)
    verb = happened.verb[pairs.invoked]
    ends = pairs.ended >= 0
    kind = happened.type[pairs.ended] if len(happened.type) else pairs.ended
    return Operations(
        events=events,
        f=verbs[verb, 0],
        flags=verbs[verb, 1],
        sign=verbs[verb, 2],
        outcome=np.where(ends, kind, Outcome.INFO),
        process=happened.process[pairs.invoked],
        invoked=happened.event[pairs.invoked],
        ended=np.where(ends, happened.event[pairs.ended] if len(ends) else -1, -1),
        inv=happened.at[pairs.invoked],
        ret=np.where(ends, happened.at[pairs.ended] if len(ends) else 0, 0),
    )

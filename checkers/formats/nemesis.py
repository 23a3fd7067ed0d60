"""Fault intervals from what a nemesis did: Jepsen's ``:nemesis`` process."""

from typing import Final

import numpy as np

from checkers.formats.event_columns import EventColumns
from checkers.formats.pairing import Ordered
from checkers.formats.vocabulary import word
from checkers.history.foreign_values import plain
from checkers.history.history import FaultInterval

_HEALS: Final = {
    "stop": "start", "heal": "", "recover": "", "reset": "", "resume": "pause", "restart": "kill", "start": "kill"
}  # fmt: skip
"""First word of what heals → first word of what it heals, "" for everything."""


class _Fault:
    """One that was begun: its name, what it hit, and its four moments."""

    def __init__(self, name: str, begun: int) -> None:
        self.name = name
        self.target = ""
        self.moments = [begun, 0, 0, 0]


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
                concerned, moment = [_Fault(name, at)], 0
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
    return [
        fault
        for fault in faults
        if not fault.moments[2]
        and (not cause or fault.name.partition("-")[0] == cause or (verb == "stop" and not rest))
        and (not rest or fault.name.partition("-")[2] == rest)
    ]

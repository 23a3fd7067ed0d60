"""The sentences of stories, and those among them that tell what faults did.

A sentence is a value (subject, what it did, under which token, in which rows) until it is turned into text at the end.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from checkers.history.counting import grouped
from checkers.history.history import FaultInterval
from checkers.history.holds_and_lease_ends import Hold
from checkers.history.view import View
from checkers.properties.shared_counters import ON_LEASES, STORE
from checkers.row_format import NONE

Faults = list[list[FaultInterval]]  # groups of faults: those of one name that were active at the same time

FAULTS_TOLD: Final = 3
"""How many faults one story tells of: the latest. Faults of one name that were active at the same time count once."""
_HITS: Final = {"freeze": "frozen", "stall": "stalled", "kill": "killed", "call": "kept in one call of its job"}
"""Kind of a fault on a worker → what happened to the worker, or to one of its threads."""
_DONE: Final = {
    "cut": "cut", "slow": "slowed", "pause": "paused", "kill": "killed", "wipe": "wiped", "version": "changed",
    "clock": "changed the clock of", "promote-replica": "promoted", "terminate-backends": "ended",
    "change-leader": "changed leaders:",
}  # fmt: skip
"""Name or kind of a fault on servers or links → what it did to its target, if `hit` is not plain enough."""
_UNDONE: Final = {"clock": "set the clock right again", "wipe": "started again, empty, what it had wiped,"}
"""Kind of a fault on servers or links → what its heal did, if `was undone` is not plain enough."""
_LASTING: Final = frozenset({"cut", "slow", "pause", "disk", "refuse", "clock-strobe", "clock-drift"})
"""Names or kinds of faults on servers or links that go on: a story says when they began and were in force."""
_CLIENTS: Final = re.compile(r"(?:clients )?\bc\d+\b(?:, c\d+\b)*")  # groups of clients in the target of a fault


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a story; `str` makes the text of it."""

    at: int  # ns; determines the sentence's place among the others
    subject: str  # who did it: "worker 1", or the name of a fault
    what: str  # what was done, up to the token under which it was done
    owns: bool = False  # whether it is about something of the subject's: "worker 1's write ..."
    token: int = NONE  # the token under which it was done, `NONE` if there is none
    then: str = ""  # what follows the token, after a comma
    more: tuple[str, ...] = ()  # further clauses, each after a semicolon
    rows: tuple[int, ...] = ()  # the operations in it
    granted: int = NONE  # the token that it says was granted, `NONE` for none

    def __str__(self) -> str:
        return self.after(())

    def after(self, others: Sequence["Sentence"]) -> str:
        """The text behind other sentences in one line. If all have this subject, it does not repeat what they say."""
        same = bool(others) and all(other.subject == self.subject for other in others)
        known = {token for other in others for token in (other.token, other.granted)} if same else ()
        subject = ("its" if self.owns else "it") if same else self.subject + ("'s" if self.owns else "")
        token = f" with token {self.token}" if self.token != NONE and self.token not in known else ""
        main = f"{subject} {self.what}{token}{', ' if self.then else ''}{self.then}"
        return "; ".join((main, *self.more))


class FaultTeller:
    """Tells what faults did to workers, servers and links."""

    def __init__(self, view: View) -> None:
        self._view = view

    def hits(self, hold: Hold, at: int) -> list[FaultInterval]:
        """What hit a holder up to `at` (ns); a hit while it waited for the grant names its session instead."""
        hits = [hit for hit in self._view.struck if hit.owner and hit.applied <= at]
        in_line = [hit for hit in hits if hit.owner == hold.session and hold.inv <= hit.applied <= hold.ret]
        return [*in_line, *(hit for hit in hits if hit.owner == hold.owner)]

    def hit(self, worker: str, same: Sequence[FaultInterval], hold: Hold | None = None) -> Sentence:
        """What a fault did to a worker: its process, job, thread that renews, or both. same: its hits, on a holder."""
        clock, kind, workers = self._view.clock, same[0].kind, self._view.facts.workers
        renewal = {fault.process >= 0 and fault.process // workers % 2 == 1 for fault in same}
        applied, healing = min(fault.applied for fault in same), max(fault.healing for fault in same)
        span = self.span(applied, healing, "from", "to") if healing else f"from {clock(applied)} on"
        whole = kind == "freeze" or (kind != "stall" and False in renewal)
        threads = " and ".join(["job"] * (False in renewal) + ["renewal"] * (True in renewal))
        was = "was" if whole else f"{threads} {'was' if len(renewal) == 1 else 'were'}"
        happened = f"{was} {_HITS.get(kind, 'hit')} by {same[0].name}"
        when = f"at {clock(applied)}" if kind == "kill" else span
        since = hold.ret if hold is not None and hold.owner == same[0].owner else 0
        more = ("it waited for the lock then",) * (hold is not None and max(applied, since) < hold.ret)
        return Sentence(max(applied, since), worker, f"{happened} {when}", owns=not whole, more=more)

    def struck(self, holds: Sequence[Hold], at: int, *, all_told: bool) -> list[Sentence]:
        """What faults did to servers or links between the first grant and the violation, and which leases they met.

        Without grants only the last fault that was undone is told. all_told: also the faults that explain nothing.
        """
        begun = [fault for fault in self._view.struck if fault.begun <= at]
        of_servers = [fault for fault in begun if fault.process < 0]
        if holds:
            since = min(hold.start for hold in holds)
            groups = _together([fault for fault in of_servers if fault.over >= since])
            groups = groups if all_told else self._to_blame(groups, holds, at)
        else:
            groups = _together(sorted(of_servers, key=lambda fault: fault.over)[-1:])
            if begun and not groups:
                hit = max(begun, key=lambda fault: fault.over)
                held = ("it held the lock",) if hit.owner in self._view.holds.by_owner else ()
                return [replace(self.hit(self._view.who(hit.process), [hit]), more=held)]
        groups.sort(key=lambda faults: max(fault.applied for fault in faults))
        return [sentence for faults in groups[-FAULTS_TOLD:] for sentence in self._effects(faults, holds, at)]

    def _to_blame(self, groups: Faults, holds: Sequence[Hold], at: int) -> Faults:
        """The faults that explain what happened to an earlier holder's lease, if there are any; else all.

        It ran out while a fault kept its holder from renewing it, or a fault changed what the servers knew of it.
        """
        expiry = {hold.owner: hold.expiry for hold in _earlier(holds) or holds}
        hits = (hit for hit in self._view.struck if hit.owner in expiry)
        blamed = {hit.name for hit in hits if hit.applied <= expiry[hit.owner] <= min(hit.over, at)}
        blamed = blamed or {faults[0].name for faults in groups if any(self._changed(faults, holds, at))}
        return [faults for faults in groups if faults[0].name in blamed] if blamed else groups

    def _effects(self, faults: Sequence[FaultInterval], holds: Sequence[Hold], at: int) -> list[Sentence]:
        """When faults of one name were applied, and when they were undone."""
        name, kind = faults[0].name, faults[0].kind
        begun, applied = min(fault.begun for fault in faults), max(fault.applied for fault in faults)
        at_first, at_last = self._changed(faults, holds, at)
        deed = f"{_DONE.get(name, _DONE.get(kind, 'hit'))} {self._naming_workers(_targets(faults), faults[0])}"
        comma = "," * (", " in deed or " from " in deed)
        what = f"{deed}{comma} {self.span(begun, applied)}"
        if not _LASTING.isdisjoint((name, kind)):
            what = f"began {self.span(begun, applied, 'at', 'and was in force by')}: it {deed}"
        sentences = [Sentence(begun, name, f"{what}{at_first}")]
        undone = [fault for fault in faults if fault.applied < fault.healing <= at]
        if len(undone) == len(faults):
            healing, healed = min(fault.healing for fault in faults), max(fault.healed for fault in faults)
            what = f"{_UNDONE.get(kind, 'was undone')} {self.span(healing, healed)}{at_last}"
            if at_last and not at_first:  # no lease was changed before that
                return [Sentence(healing, name, f"had {deed}, and {what}")]
            sentences.append(Sentence(healing, name, what))
        return sentences

    def _naming_workers(self, target: str, fault: FaultInterval) -> str:
        """The target without groups of clients: of an only group, its workers are named if the history knows them."""
        view = self._view
        stalled = {view.facts.worker_of(hit.process) for hit in view.struck if hit.process >= 0 and _meet(hit, fault)}
        cut = {worker for worker, begin, end in view.facts.unreached if begin <= fault.over and fault.applied <= end}
        known = sorted(stalled if STORE in target else cut) if len(_CLIENTS.findall(target)) == 1 else ()
        whose = listing([f"worker {worker}'s client" for worker in known]) if known else "some clients"
        return _CLIENTS.sub("others", _CLIENTS.sub(whose, target, count=1))

    def span(self, first: int, last: int, since: str = "between", until: str = "and") -> str:
        """Both times in words, or the one if they look the same."""
        ends = list(dict.fromkeys(map(self._view.clock, (first, last))))
        return f" {until} ".join((f"{since if len(ends) > 1 else 'at'} {ends[0]}", *ends[1:]))

    def _changed(self, faults: Sequence[FaultInterval], holds: Sequence[Hold], at: int) -> tuple[str, str]:
        """Whose leases faults of one name can have changed when they began, and when they were undone, up to `at` (ns).

        The last grant is left out. Empty: nobody's.
        """
        kind = faults[0].kind
        begun = [fault.begun for fault in faults if kind in ON_LEASES]
        undone = [fault.healing for fault in faults if kind == "clock" and 0 < fault.healing <= at]
        return self._met(holds, begun), self._met(holds, undone)

    def _met(self, holds: Sequence[Hold], moments: Sequence[int]) -> str:
        spans = {hold: (hold.start, min(hold.expiry, hold.freed)) for hold in _earlier(holds)}
        met = [hold for hold, (begin, end) in spans.items() if any(begin <= moment <= end for moment in moments)]
        if not met:
            return ""
        names = listing([self._view.who(hold.process) for hold in met])
        if self._view.facts.lease == "none":
            return f", while {names} held the lock"
        whose = f"{names}'s lease was" if len(met) == 1 else f"the leases of {names} were"
        return f", while {whose} in force"


def _earlier(holds: Sequence[Hold]) -> list[Hold]:
    """All but the last grant, in the order of their answers."""
    return sorted(holds, key=lambda hold: hold.ret)[:-1]


def _targets(faults: Iterable[FaultInterval]) -> str:
    """What faults of one name hit; where they did the same to several, that is said once."""
    targets_hit = dict.fromkeys(fault.target.partition(" (pid")[0] for fault in faults)
    by_deed = grouped(targets_hit, lambda target: target.partition(": ")[2])
    names = {deed: listing([target.partition(": ")[0] for target in targets]) for deed, targets in by_deed.items()}
    return listing([f"{whose} ({deed})" if deed else whose for deed, whose in names.items()])


def _together(faults: Iterable[FaultInterval]) -> Faults:
    """Faults in groups: those of one name that were active at the same time."""
    groups: Faults = []
    for fault in faults:
        same = (group for group in groups if any(_meet(fault, other) for other in group))
        group = next(same, None)
        if group is None:
            groups.append([fault])
        else:
            group.append(fault)
    return groups


def _meet(first: FaultInterval, second: FaultInterval) -> bool:
    overlap = first.begun <= (second.healed or second.begun) and second.begun <= (first.healed or first.begun)
    return overlap and first.name == second.name


def listing(names: Sequence[str]) -> str:
    """a, b and c."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last

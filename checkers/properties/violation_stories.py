"""Tells findings in words: the story of a violation is a list of sentences, with seconds since the first operation.

A sentence is a value (subject, what it did, under which token, in which rows) until it is turned into text at the end.
Each tells one event, and they stand in order of time: a fault, a grant, the end of a lease, an access, a release. The
last one, the conclusion, says what was broken and what that costs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from checkers.history.finding import Finding
from checkers.history.history import FaultInterval
from checkers.history.holds_and_lease_ends import Hold
from checkers.history.view import View
from checkers.properties.check_result import Violation
from checkers.properties.conclusions import CONCLUSIONS, COSTS
from checkers.properties.shared_counters import ON_LEASES, ending
from checkers.row_format import ACQUIRES, FINAL, INFINITY, LATE, NESTED, NONE, SHARED, F, Outcome, Reason

FULL_STORIES: Final = 50
"""How many violations of one result get a whole story. The others get only its last sentence."""
HERD: Final = "herd"  # the kind of findings whose story says how often each client was woken
NOT_RECOVERED: Final = "not-recovered"  # the kind of findings whose conclusion says who asked for the lock
WITHOUT_FAULTS: Final = frozenset({HERD, "deadlock", "kept-by-another-name"})
"""Kinds of findings that no fault causes: they follow from how clients ask, or from what the service wakes."""
WITH_ENDS: Final = frozenset({"kept-by-another-name", "freed-by-inner-release"})
"""Kinds of findings that rest on more than grants, and whose story still says how each earlier holder left."""
FAULTS_TOLD: Final = 3
"""How many faults one story tells of: the latest. Faults of one name that were active at the same time count once."""
FREEING: Final = 2  # how many releases one story tells of that may have freed the lock of a holder: the latest
HARNESS: Final = "the harness"  # the subject of sentences about the final reads of the store
_HITS: Final = {
    "freeze": "was frozen",
    "stall": "was stalled",
    "kill": "was killed",
    "call": "was kept in one call",
    "skew": "had its clock moved",
}
"""Kind of a fault on a worker → what happened to the worker."""


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


def in_turn(holds: Iterable[Hold]) -> tuple[int, ...]:
    """Acquire rows of grants of one key, in order of tokens or, without tokens, of returns."""
    return tuple(hold.row for hold in sorted(holds, key=lambda hold: (hold.token, hold.ret, hold.row)))


class Narrator:
    def __init__(self, view: View) -> None:
        self._view = view
        self.clock = view.clock

    def tell(self, findings: Iterable[Finding]) -> tuple[Violation, ...]:
        """Violations in order of time."""
        ordered = sorted(findings, key=lambda finding: (finding.at, finding.rows))
        facts, violations = self._view.facts, []
        bounds = {name: f"{bound / 1e9:g} s" for name, bound in facts.bounds.items()}
        numbers = {**bounds, "permits": str(facts.permits)}
        for number, finding in enumerate(ordered):
            holders = finding.holders or self.holders(finding.rows)
            numbers["at"] = self.clock(finding.at)
            last = f"{finding.conclusion or CONCLUSIONS[finding.kind].format_map(numbers)} {COSTS[finding.kind]}"
            before = self.sentences(finding, holders) if number < FULL_STORIES else ()
            violations.append(Violation(finding.kind, finding.at, finding.rows, holders, (*map(str, before), last)))
        return tuple(violations)

    def holders(self, rows: Sequence[int]) -> tuple[int, ...]:
        """Acquire rows of the grants that the operations belong to, the earliest first."""
        return in_turn({hold for hold in map(self._view.hold_of, rows) if hold is not None})

    def sentences(self, broken: Finding | Violation, holders: Sequence[int]) -> list[Sentence]:
        """A sentence for each event of the story, in order of time. holders: rows of grants."""
        view, kind = self._view, broken.kind
        holds = [view.holds.by_row[row] for row in holders]
        rows = tuple(dict.fromkeys(broken.rows))
        locks = self._locks((*holders, *rows))
        beside = [row for row in rows if row not in holders]
        if kind == "lost-update":  # its conclusion says what the reads show
            beside = [row for row in beside if view.f[row] != F.READ]
        if kind == NOT_RECOVERED:  # its conclusion speaks of the requests, and of who was granted the lock too late
            holds, beside = [hold for hold in holds if hold.ret <= broken.at], []
        beside += self._released_meanwhile(holds, kind)
        sentences = [self._did(row, locks) for row in beside]
        last = max(holds, key=lambda hold: hold.ret) if len(holds) > 1 else None
        for hold in holds:
            sentences += self._held(hold, broken, locks, last=hold is last, alone=not beside and kind != NOT_RECOVERED)
        if kind == "overtaken":
            sentences += map(self._waited, rows)
        if kind == HERD:
            sentences = [replace(each, more=(*each.more, *self._woken(each.rows))) for each in sentences]
        if kind not in WITHOUT_FAULTS:
            sentences += self._struck(holds, broken.at)
        return sorted(sentences, key=lambda sentence: sentence.at)

    def _released_meanwhile(self, holds: Sequence[Hold], kind: str) -> list[int]:
        """Rows of the latest releases, by others or for a second time, that may have freed what several then held."""
        if kind not in ("granted-while-held", "overlap") or len(holds) < 2:
            return []
        view, first, last = self._view, min(holds, key=lambda hold: hold.ret), max(holds, key=lambda hold: hold.ret)
        own = {hold.owner for hold in holds}
        rows = view.rows(F.RELEASE, outcomes=(Outcome.OK, Outcome.INFO))
        there = (row for row in rows if view.key[row] == first.key and first.start <= view.inv[row] <= last.latest)
        others = (row for row in there if view.flags[row] & LATE or view.owner[row] not in own)
        return [row for row in others if view.flags[row] & LATE or self._of_a_lost_hold(row, first)][-FREEING:]

    def _of_a_lost_hold(self, row: int, holder: Hold) -> bool:
        """Whether a release was sent, after another's grant, for a grant from before it."""
        own = self._view.hold_of(row)
        return own is not None and own.ret < holder.ret <= self._view.inv[row]

    def worker(self, process: int) -> str:
        """The worker that has this process number, or the harness."""
        return f"worker {self._view.facts.worker_of(process)}" if process >= 0 else HARNESS

    def _locks(self, rows: Iterable[int]) -> dict[int, str]:
        """Key → how the story calls its lock: "the lock" if there is only one, else "lock A", "lock B", ..."""
        in_order = sorted(rows, key=self._view.ended.__getitem__)
        keys = list(dict.fromkeys(self._view.key[row] for row in in_order))
        letters = [f"lock {chr(ord('A') + number) if number < 26 else number + 1}" for number in range(len(keys))]
        return dict(zip(keys, letters if len(keys) > 1 else ["the lock"], strict=True)) if keys else {}

    def _held(
        self, hold: Hold, broken: Finding | Violation, locks: Mapping[int, str], *, last: bool, alone: bool
    ) -> list[Sentence]:
        """The grant, and what happened to the holder and its lease.

        last: whether it is the last of several grants, so that its end does not matter. alone: whether grants alone are
        the witness; then their ends show how long several were inside.
        """
        view, worker, expiry = self._view, self.worker(hold.process), hold.expiry
        lock = locks[hold.key]
        what = f"token {hold.token}" + (f" of {lock}" if len(locks) > 1 else "") if hold.token != NONE else lock
        what += " for reading" if hold.shared else ""
        hits = {fault.name: fault for fault in reversed(view.struck) if fault.owner == hold.owner}
        hit = [fault for fault in hits.values() if fault.applied <= broken.at]
        sentences = [replace(self._hit(worker, fault), at=max(fault.applied, hold.ret)) for fault in hit]
        more: tuple[str, ...] = ()
        if expiry < min(hold.released, INFINITY):
            if expiry <= hold.ret and not view.gave_itself(hold.row):
                more = (f"its lease could end before that, at {self.clock(expiry)}",)
            elif hold.ret < expiry <= broken.at:
                met = any(fault.applied <= expiry <= fault.over for fault in hit)
                ended = f"lease {'ran out' if met else 'could end'} at {self.clock(expiry)}"
                sentences.append(Sentence(expiry, worker, ended, owns=True))
            elif expiry > broken.at and not last and broken.kind not in WITHOUT_FAULTS:
                by_renewal = hold.renewed and not hold.session
                renewed = f", as renewed at {self.clock(hold.renewed)}" if by_renewal else ""
                more = (f"its lease should have lasted until {self.clock(expiry)}{renewed}",)
        if hold.freed < hold.renewed <= broken.at:
            renewed = f"renewal, sent at {self.clock(hold.renewed)}, was acknowledged"
            sentences.append(Sentence(hold.renewed, worker, renewed, owns=True))
        granted = f"{'gave itself' if view.gave_itself(hold.row) else 'was granted'} {what} at {self.clock(hold.ret)}"
        sentences.insert(0, Sentence(hold.ret, worker, granted, more=more, rows=(hold.row,), granted=hold.token))
        ends = hold.left <= broken.at or (not last and (alone or broken.kind in WITH_ENDS))
        if ends and broken.kind != HERD and hold.release not in broken.rows:
            sentences += self._parting(worker, hold)
        return sentences

    def _parting(self, worker: str, hold: Hold) -> list[Sentence]:
        """How the holder left: by its release or its notice of the loss, if it did not leave in silence."""
        view, at = self._view, self.clock(hold.left)
        if hold.release >= 0 and hold.left == view.inv[hold.release]:
            outcome = view.outcome[hold.release]
            if outcome == Outcome.FAIL:
                return [Sentence(hold.left, worker, f"release was refused at {at}", owns=True)]
            unanswered = outcome == Outcome.INFO
            deed = f"asked to release at {at} and got no answer" if unanswered else f"released at {at}"
            return [Sentence(hold.left, worker, deed)]
        if hold.lost < 0:
            return []
        noticed = view.inv[hold.lost]
        return [Sentence(noticed, worker, f"noticed the loss at {self.clock(noticed)}")]

    def _hit(self, worker: str, fault: FaultInterval) -> Sentence:
        """What a fault did to a worker."""
        thread = fault.process >= 0 and fault.process // self._view.facts.workers % 2 == 1  # of the renewal
        span = f"at {self.clock(fault.applied)}"
        if fault.kind != "kill":
            until = f" to {self.clock(fault.healing)}" if fault.healing else " on"
            span = f"from {self.clock(fault.applied)}{until}"
        happened = f"{'renewal ' * thread}{_HITS.get(fault.kind, 'was hit')} by {fault.name} {span}"
        return Sentence(fault.applied, worker, happened, owns=thread)

    def _waited(self, row: int) -> Sentence:
        """Since when an acquire was in the queue."""
        view = self._view
        inv, queued = view.inv[row], view.base[row]
        more = (f"it was in the queue at {self.clock(queued)}",) if queued > 0 else ()
        deed = f"asked for the lock at {self.clock(inv)}"
        return Sentence(inv, self.worker(view.process[row]), deed, more=more, rows=(row,))

    def _woken(self, rows: Iterable[int]) -> tuple[str, ...]:
        """How often clients were woken while they waited."""
        view = self._view
        return tuple(
            f"it was woken {'once' if view.value[row] == 1 else f'{view.value[row]} times'} since it asked at "
            f"{self.clock(view.inv[row])}"
            for row in rows
            if view.value[row] > 0
        )

    def _did(self, row: int, locks: Mapping[int, str]) -> Sentence:
        """One operation: who asked for it and how it ended."""
        view = self._view
        kind, outcome, flags, inv, ret = view.f[row], view.outcome[row], view.flags[row], view.inv[row], view.ret[row]
        value, token = view.value[row], view.token[row]
        at, who = (ret if ret < INFINITY else inv), self.worker(view.process[row])
        if kind == F.EFFECT:
            return Sentence(at, who, f"did job {value} at {self.clock(inv)}", rows=(row,))
        if kind in ACQUIRES and not flags & NESTED:
            asked = f"asked for {locks[view.key[row]]}{' for reading' * bool(flags & SHARED)} at {self.clock(inv)}"
            refused = outcome == Outcome.FAIL and view.reason[row] != Reason.TIMEOUT
            end = "got it" if outcome == Outcome.OK else "was refused" if refused else ending(row, view)
            return Sentence(at, who, f"{asked} and {end}{f' at {self.clock(ret)}' * (ret < INFINITY)}", rows=(row,))
        if view.facts.keeps_lists and kind in (F.READ, F.WRITE):
            return self._on_a_list(row, at, who)
        done = ""
        if kind == F.WRITE:
            what = f"{'late ' if flags & LATE else ''}write of {value}"
            done = "was accepted "
        elif kind == F.READ:
            what = f"{'final ' if flags & FINAL else ''}read"
            done = f"returned {'the initial value' if value == NONE else value} "
        else:
            nested = flags & NESTED and token != NONE and outcome == Outcome.OK
            done = f"succeeded with token {token} " if nested else "succeeded "
            token = NONE
            what = "renewal" if kind == F.RENEW else F(kind).name.lower().replace("_", "-")
            what = ("nested " if flags & NESTED else "shared " if flags & SHARED else "") + what
            what = f"{'second ' if flags & LATE else ''}{what}"
            what += f" of {locks[view.key[row]]}" if len(locks) > 1 else ""
        when = {
            Outcome.OK: f"{done}at {self.clock(ret)}",
            Outcome.FAIL: f"was refused at {self.clock(ret)}",
            Outcome.INFO: "got no answer",
        }[Outcome(outcome)]
        then = f"sent at {self.clock(inv)}, {when}"
        return Sentence(at, who, what, owns=True, token=token, then=then, rows=(row,))

    def _on_a_list(self, row: int, at: int, who: str) -> Sentence:
        """One access to a list, and how it ended."""
        view = self._view
        value, base, token, outcome = view.value[row], view.base[row], view.token[row], Outcome(view.outcome[row])
        more: tuple[str, ...] = ()
        answered = "accepted at" if view.f[row] == F.WRITE else "at"
        end = {Outcome.OK: answered, Outcome.FAIL: "refused at", Outcome.INFO: "without an answer since"}
        if view.f[row] == F.WRITE:
            deed = f"added {value} {'late ' * bool(view.flags[row] & LATE)}to {_list_up_to(base)}"
        else:
            deed = f"read {_list_up_to(value)}" if outcome == Outcome.OK else "asked for the list"
            if view.flags[row] & FINAL:
                more = (f"this final list has {base} element{'s' * (base != 1)}",)
        return Sentence(at, who, deed, token=token, then=f"{end[outcome]} {self.clock(at)}", more=more, rows=(row,))

    def _struck(self, holds: Sequence[Hold], at: int) -> list[Sentence]:
        """What faults did to nodes or links between the first grant and the violation, and which leases they met.

        Without grants only the last fault that was healed is told.
        """
        view = self._view
        begun = [fault for fault in view.struck if fault.process < 0 and fault.begun <= at]
        if holds:
            since = min(hold.start for hold in holds)
            groups = _together([fault for fault in begun if fault.over >= since])
        else:
            groups = _together(sorted(begun, key=lambda fault: fault.over)[-1:])
        groups.sort(key=lambda faults: max(fault.applied for fault in faults))
        return [sentence for faults in groups[-FAULTS_TOLD:] for sentence in self._effects(faults, holds, at)]

    def _effects(self, faults: Sequence[FaultInterval], holds: Sequence[Hold], at: int) -> list[Sentence]:
        """When faults of one name were applied, and when they were undone."""
        name, targets = faults[0].name, listing(list(dict.fromkeys(fault.target for fault in faults)))
        begun, applied = min(fault.begun for fault in faults), max(fault.applied for fault in faults)
        what, began = f"hit {targets}", f"it began between {self.clock(begun)} and {self.clock(applied)}"
        met = self._met(holds, [fault.begun for fault in faults]) if faults[0].kind in ON_LEASES else ()
        sentences = [Sentence(begun, name, what, more=(began, *met))]
        undone = [fault for fault in faults if fault.applied < fault.healing <= at]
        if len(undone) == len(faults):
            healing, healed = min(fault.healing for fault in faults), max(fault.healed for fault in faults)
            what = f"was healed between {self.clock(healing)} and {self.clock(healed)}"
            met = self._met(holds, [fault.healing for fault in faults]) if faults[0].kind == "clock" else ()
            sentences.append(Sentence(healing, name, what, more=met))
        return sentences

    def _met(self, holds: Sequence[Hold], moments: Sequence[int]) -> tuple[str, ...]:
        """Whose leases, but for the last granted one, were in force at one of these moments."""
        return tuple(
            f"{self.worker(hold.process)}'s lease was in force then"
            for hold in sorted(holds, key=lambda hold: hold.ret)[:-1]
            if any(hold.start <= moment <= hold.expiry for moment in moments)
        )


def _list_up_to(element: int) -> str:
    return "the empty list" if element == NONE else f"the list ending in {element}"


def _together(faults: Iterable[FaultInterval]) -> list[list[FaultInterval]]:
    """Faults in groups: those of one name that were active at the same time."""
    groups: list[list[FaultInterval]] = []
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

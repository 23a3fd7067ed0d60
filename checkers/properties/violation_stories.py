"""Tells findings in words: the story of a violation is a list of sentences, with seconds since the first operation.

A sentence is a value (subject, what it did, under which token, in which rows) until it is turned into text at the end.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from checkers.history.finding import Finding
from checkers.history.history import FaultInterval
from checkers.history.holds_and_lease_ends import Hold
from checkers.history.view import View
from checkers.properties.check_result import Violation
from checkers.properties.conclusions import CONCLUSIONS
from checkers.properties.shared_counters import ON_LEASES
from checkers.row_format import FINAL, INFINITY, LATE, NESTED, NONE, SHARED, F, Outcome

FULL_STORIES: Final = 50
"""How many violations of one result get a whole story. The others get only its last sentence."""
QUEUES: Final = frozenset({"overtaken", "herd"})
"""Kinds of findings whose story says how long a client waited, and how often it was woken."""
FAULTS_TOLD: Final = 3
"""How many faults one story tells of: the latest."""
HARNESS: Final = "the harness"
"""The subject of sentences about the final reads of the store."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a story; `str` makes the text of it."""

    at: int  # ns; determines the sentence's place among the others
    subject: str  # who did it: "worker 1". Empty for a fault and for the conclusion
    what: str  # what was done, up to the token under which it was done
    owns: bool = False  # whether it is about something of the subject's: "worker 1's write ..."
    token: int = NONE  # the token under which it was done, `NONE` if there is none
    then: str = ""  # what follows the token, after a comma
    more: tuple[str, ...] = ()  # further clauses, each after a semicolon
    rows: tuple[int, ...] = ()  # the operations in it
    known: frozenset[int] = frozenset()  # tokens that the sentence tells the reader: its own, and one that was granted
    fault: FaultInterval | None = None  # the fault, if the sentence is about one on nodes or links

    def __str__(self) -> str:
        return self.after(())

    def after(self, others: Sequence["Sentence"]) -> str:
        """The text behind other sentences in one line. If all have this subject, it does not repeat what they say."""
        same = bool(others and self.subject) and all(other.subject == self.subject for other in others)
        known = {token for other in others for token in other.known} if same else ()
        subject = ("its" if self.owns else "it") if same else self.subject + ("'s" if self.owns else "")
        token = f" with token {self.token}" if self.token != NONE and self.token not in known else ""
        main = f"{subject} {self.what}{token}{', ' if self.then else ''}{self.then}".lstrip()
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
        violations = []
        for number, finding in enumerate(ordered):
            holders = finding.holders or self.holders(finding.rows)
            last = finding.conclusion or CONCLUSIONS[finding.kind]
            before = self.sentences(finding, holders) if number < FULL_STORIES else ()
            violations.append(Violation(finding.kind, finding.at, finding.rows, holders, (*map(str, before), last)))
        return tuple(violations)

    def holders(self, rows: Sequence[int]) -> tuple[int, ...]:
        """Acquire rows of the grants that the operations belong to, the earliest first."""
        return in_turn({hold for hold in map(self._view.hold_of, rows) if hold is not None})

    def sentences(self, broken: Finding | Violation, holders: Sequence[int]) -> list[Sentence]:
        """A sentence for each grant, operation of the witness and fault, in order of time. holders: rows of grants."""
        holds = self.holds(holders)
        rows = tuple(dict.fromkeys(broken.rows))
        several = len({self._view.key[row] for row in rows}) > 1
        sentences = [self.granted(hold, named=several) for hold in holds]
        sentences += (self.did(row, named=several) for row in rows if row not in holders)
        if broken.kind in QUEUES:
            sentences += map(self.waited, rows)
        sentences += (self.struck([fault], holds, broken.at) for fault in self._beside(holds, broken.at))
        return sorted(sentences, key=lambda sentence: sentence.at)

    def holds(self, holders: Sequence[int]) -> list[Hold]:
        return [self._view.holds.by_row[row] for row in holders]

    def worker(self, process: int) -> str:
        """The worker that has this process number, or the harness."""
        return f"worker {self._view.facts.worker_of(process)}" if process >= 0 else HARNESS

    def granted(self, hold: Hold, *, named: bool = False) -> Sentence:
        """Who was granted what, when the lease could end, and what happened to the holder. named: name the lock."""
        lock = self._view.facts.keys[hold.key] if named else "the lock"
        what = f"token {hold.token}" + (f" of {lock}" if named else "") if hold.token != NONE else lock
        if hold.shared:
            what += " for reading"
        expiry = hold.expiry
        faults = [fault for fault in self._view.struck if fault.owner == hold.owner]
        frozen: FaultInterval | None = None
        more = []
        if expiry < min(hold.released, INFINITY):
            if expiry <= hold.ret:
                more.append(f"by then its lease could have ended already, at {self.clock(expiry)}")
            elif frozen := next((fault for fault in faults if fault.applied <= expiry <= fault.over), None):
                met = f"while it was hit by {frozen.name} ({frozen.kind})"
                more.append(f"its lease ran out at {self.clock(expiry)} {met}")
            else:
                more.append(f"its lease could end at {self.clock(expiry)}")
        others = (self._hit(fault) for fault in faults if frozen is None or fault.name != frozen.name)
        return Sentence(
            hold.ret,
            self.worker(hold.process),
            f"was granted {what} at {self.clock(hold.ret)}",
            more=(*others, *more, self._parting(hold)),
            rows=(hold.row,),
            known=frozenset({hold.token} - {NONE}),
        )

    def waited(self, row: int) -> Sentence:
        """Since when an acquire was in the queue, and how often its client was woken."""
        view = self._view
        inv, queued, wakes = view.inv[row], view.base[row], view.value[row]
        more = [f"it was in the queue at {self.clock(queued)}"] if queued > 0 else []
        if wakes > 0:
            more.append(f"it was woken {wakes} times" if wakes > 1 else "it was woken once")
        deed = f"asked for the lock at {self.clock(inv)}"
        return Sentence(inv, self.worker(view.process[row]), deed, more=tuple(more), rows=(row,))

    def did(self, row: int, *, named: bool = False) -> Sentence:
        """One operation: who asked for it and how it ended. named: name the lock."""
        view = self._view
        kind, outcome, flags, inv, ret = view.f[row], view.outcome[row], view.flags[row], view.inv[row], view.ret[row]
        value, token = view.value[row], view.token[row]
        when = {
            Outcome.OK: f"at {self.clock(ret)}",
            Outcome.FAIL: f"was refused at {self.clock(ret)}",
            Outcome.INFO: "got no answer",
        }[Outcome(outcome)]
        at, who = (ret if ret < INFINITY else inv), self.worker(view.process[row])
        if kind == F.EFFECT:
            return Sentence(at, who, f"did job {value} at {self.clock(inv)}", rows=(row,))
        verb = ""
        if kind == F.WRITE:
            what = f"{'late ' if flags & LATE else ''}write of {value}"
            verb = "was accepted "
        elif kind == F.READ:
            what = f"{'final ' if flags & FINAL else ''}read"
            verb = f"returned {'the initial value' if value == NONE else value} "
        else:
            nested = flags & NESTED and token != NONE and outcome == Outcome.OK
            verb = f"succeeded with token {token} " if nested else "succeeded "
            token = NONE
            what = F(kind).name.lower().replace("_", "-")
            what = ("nested " if flags & NESTED else "shared " if flags & SHARED else "") + what
            what += f" of {view.facts.keys[view.key[row]]}" if named else ""
        return Sentence(
            at,
            who,
            what,
            owns=True,
            token=token,
            then=f"sent at {self.clock(inv)}, {verb if outcome == Outcome.OK else ''}{when}",
            rows=(row,),
            known=frozenset({token} - {NONE}),
        )

    def struck(self, faults: Sequence[FaultInterval], holds: Sequence[Hold], at: int) -> Sentence:
        """What faults of one name did to nodes or links, how long, and which leases they met if they affect those."""
        first = faults[0]
        targets = listing(list(dict.fromkeys(fault.target for fault in faults)))
        begun, applied = min(fault.begun for fault in faults), max(fault.applied for fault in faults)
        undone = [fault for fault in faults if 0 < fault.healing <= at]
        more = []
        if len(undone) == len(faults):
            healing, healed = min(fault.healing for fault in faults), max(fault.healed for fault in faults)
            more.append(f"it was undone between {self.clock(healing)} and {self.clock(healed)}")
        moments = [fault.begun for fault in faults] + [fault.healing for fault in undone]
        if first.kind in ON_LEASES:
            more += (
                f"{self.worker(hold.process)}'s lease was in force then"
                for hold in sorted(holds, key=lambda hold: hold.ret)[:-1]
                if any(hold.start <= moment <= hold.expiry for moment in moments)
            )
        what = f"{first.name} hit {targets}, between {self.clock(begun)} and {self.clock(applied)}"
        return Sentence(begun, "", what, more=tuple(more), fault=first)

    def _hit(self, fault: FaultInterval) -> str:
        ends = fault.healed and fault.kind != "kill"  # a killed worker is only replaced
        until = f" until {self.clock(fault.healed)}" if ends else ""
        return f"{fault.name} hit it at {self.clock(fault.applied)}{until}"

    def _beside(self, holds: Sequence[Hold], at: int) -> list[FaultInterval]:
        """Faults on nodes and links between the first grant and the violation; without grants the last healed."""
        begun = [fault for fault in self._view.struck if fault.process < 0 and fault.begun <= at]
        if not holds:
            return sorted(begun, key=lambda fault: fault.over)[-1:]
        since = min(hold.start for hold in holds)
        met = [fault for fault in begun if fault.over >= since]
        return sorted(met, key=lambda fault: fault.applied)[-FAULTS_TOLD:]

    def _parting(self, hold: Hold) -> str:
        view = self._view
        if hold.release >= 0 and hold.left == view.inv[hold.release]:
            return f"it released at {self.clock(hold.left)}"
        if hold.lost >= 0:
            return f"it noticed the loss at {self.clock(view.inv[hold.lost])}"
        return f"nothing was heard of it after {self.clock(hold.left)}"


def listing(names: Sequence[str]) -> str:
    """a, b and c."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last

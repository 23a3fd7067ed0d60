"""The words for what was found: a violation's story in sentences, with seconds since the first operation."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from checkers.exercise import ON_LEASES, worker_of
from checkers.finding import Finding
from checkers.history import FaultInterval
from checkers.leases import INFINITY, Grant
from checkers.verdict import Violation
from checkers.view import View
from checkers.wire import FINAL, LATE, NESTED, NONE, SHARED, F, Outcome

FULL_STORIES: Final = 50
"""Violations of one verdict that get a whole story; the rest get its last sentence."""
QUEUES: Final = frozenset({"overtaken", "herd"})
"""Kinds of findings of which it matters how long somebody waited, and how often it was woken."""
FAULTS_TOLD: Final = 3
"""Faults in one story, the latest."""


Conclusion = str | Callable[[View, Finding], str]
"""The sentence that says what was broken, or what makes it."""


def earliest(grant: Grant) -> tuple[int, int, int]:
    """Sorts grants of one key: by token, where there is one, else by return."""
    return grant.token, grant.ret, grant.row


class Narrator:
    """Tells findings of one history."""

    def __init__(self, view: View) -> None:
        self._view = view

    def tell(self, findings: Iterable[Finding], conclusion: Mapping[str, Conclusion]) -> tuple[Violation, ...]:
        """Violations in order of time. conclusion: kind of finding → its last sentence."""
        ordered = sorted(findings, key=lambda finding: (finding.at, finding.rows))
        violations = []
        for number, finding in enumerate(ordered):
            holders = finding.holders or self.holders(finding.rows)
            ending = conclusion[finding.kind]
            last = ending if isinstance(ending, str) else ending(self._view, finding)
            story = (*self.operations(finding, holders), last) if number < FULL_STORIES else (last,)
            violations.append(Violation(finding.kind, finding.at, finding.rows, holders, story))
        return tuple(violations)

    def holders(self, rows: Sequence[int]) -> tuple[int, ...]:
        """Acquire rows of the grants that the operations belong to, the earliest first."""
        owners = self._view.column("owner")
        grants = {g for g in (self._view.by_owner.get(owners[row]) for row in rows) if g is not None}
        return tuple(g.row for g in sorted(grants, key=earliest))

    def operations(self, finding: Finding, holders: Sequence[int]) -> list[str]:
        """One sentence for each grant involved, each operation of the witness and each fault, in order of time."""
        grants = {row: self._view.windows[row].grant for row in holders}
        invs, rets, keys = self._view.column("inv"), self._view.column("ret"), self._view.column("key")
        several = len({keys[row] for row in finding.rows}) > 1
        told = [(grant.ret, self.granted(grant, named=several)) for grant in grants.values()]
        told += (
            (rets[row] if rets[row] < INFINITY else invs[row], self.did(row, named=several))
            for row in dict.fromkeys(finding.rows)
            if row not in grants
        )
        if finding.kind in QUEUES:
            told += ((invs[row], self.waited(row)) for row in finding.rows)
        told += ((fault.begun, self.struck(fault, grants, finding.at)) for fault in self._beside(grants, finding.at))
        return [sentence for _, sentence in sorted(told, key=lambda item: item[0])]

    # Sentences

    def clock(self, ns: int) -> str:
        """A time as people read it."""
        return f"{(ns - self._view.zero) / 1e9:.3f} s"

    def worker(self, process: int) -> str:
        """Whose process number this is."""
        return f"worker {worker_of(process, self._view)}" if process >= 0 else "the harness"

    def granted(self, grant: Grant, *, named: bool = False) -> str:
        """Who was granted what when, until when at least, and what befell the holder. named: which lock it was."""
        window = self._view.windows[grant.row]
        lock = self._view.facts.keys[grant.key] if named else "the lock"
        what = f"token {grant.token}" + (f" of {lock}" if named else "") if grant.token != NONE else lock
        if grant.shared:
            what += " for reading"
        parts = [f"{self.worker(grant.process)} was granted {what} at {self.clock(grant.ret)}"]
        expiry = window.expiry(window.start)
        if expiry < min(grant.released, INFINITY):
            frozen = self._fault_at(grant, expiry)
            ran_out = f"its lease could end at {self.clock(expiry)}"
            if expiry <= grant.ret:
                ran_out = f"by then its lease could have ended already, at {self.clock(expiry)}"
            elif frozen is not None:
                ran_out = f"its lease ran out at {self.clock(expiry)} while it was hit by {frozen.name} ({frozen.kind})"
            parts.append(ran_out)
        parts.append(self._parting(grant))
        return "; ".join(parts)

    def waited(self, row: int) -> str:
        """Since when an acquire was in the queue, and how often its client was woken."""
        view = self._view
        queued, wakes = view.column("base")[row], view.column("value")[row]
        parts = [
            f"{self.worker(view.column('process')[row])} asked for the lock at {self.clock(view.column('inv')[row])}"
        ]
        if queued > 0:
            parts.append(f"it was in the queue at {self.clock(queued)}")
        if wakes > 0:
            parts.append(f"it was woken {wakes} times" if wakes > 1 else "it was woken once")
        return "; ".join(parts)

    def did(self, row: int, *, named: bool = False) -> str:
        """One operation, who asked for it and how it ended. named: on which lock."""
        view = self._view
        kind, process = view.column("f")[row], view.column("process")[row]
        outcome, flags = view.column("outcome")[row], view.column("flags")[row]
        value, token = view.column("value")[row], view.column("token")[row]
        with_token = f" with token {token}" if token != NONE else ""
        begun, ended = self.clock(view.column("inv")[row]), self.clock(view.column("ret")[row])
        when = {
            Outcome.OK: f"at {ended}",
            Outcome.FAIL: f"was refused at {ended}",
            Outcome.INFO: "got no answer",
        }[Outcome(outcome)]
        subject = f"{self.worker(process)}'s"
        shown = "the initial value" if value == NONE else str(value)
        if kind == F.WRITE:
            verb = f"was accepted {when}" if outcome == Outcome.OK else when
            late = "late " if flags & LATE else ""
            return f"{subject} {late}write of {value}{with_token}, sent at {begun}, {verb}"
        if kind == F.READ:
            final = "final " if flags & FINAL else ""
            verb = f"returned {shown} {when}" if outcome == Outcome.OK else when
            return f"{subject} {final}read{with_token}, sent at {begun}, {verb}"
        if kind == F.EFFECT:
            return f"{self.worker(process)} did job {value} at {begun}"
        verb = f"succeeded{with_token if flags & NESTED else ''} {when}" if outcome == Outcome.OK else when
        what = F(kind).name.lower().replace("_", "-")
        what = ("nested " if flags & NESTED else "shared " if flags & SHARED else "") + what
        lock = f" of {view.facts.keys[view.column('key')[row]]}" if named else ""
        return f"{subject} {what}{lock}, sent at {begun}, {verb}"

    def struck(self, fault: FaultInterval, grants: Mapping[int, Grant], at: int) -> str:
        """What a fault on nodes or links hit, for how long, and whose lease it met where that is what it strikes."""
        parts = [f"{fault.name} hit {fault.target}, between {self.clock(fault.begun)} and {self.clock(fault.applied)}"]
        undone = 0 < fault.healing <= at
        if undone:
            parts.append(f"it was undone between {self.clock(fault.healing)} and {self.clock(fault.healed)}")
        if fault.kind in ON_LEASES:
            for grant in sorted(grants.values(), key=lambda grant: grant.ret)[:-1]:
                window = self._view.windows[grant.row]
                end = window.expiry(window.start)
                if window.start <= fault.begun <= end or (undone and window.start <= fault.healing <= end):
                    parts.append(f"{self.worker(grant.process)}'s lease was in force then")
        return "; ".join(parts)

    def _beside(self, grants: Mapping[int, Grant], at: int) -> list[FaultInterval]:
        """What was done to nodes and links between the first of these grants and the violation.

        Where nobody was granted anything, what was healed last.
        """
        begun = [
            fault for fault in self._view.history.faults if fault.process < 0 and fault.applied and fault.begun <= at
        ]
        if not grants:
            return sorted(begun, key=lambda fault: fault.healed or INFINITY)[-1:]
        since = min(grant.start for grant in grants.values())
        met = [fault for fault in begun if (fault.healed or INFINITY) >= since]
        return sorted(met, key=lambda fault: fault.applied)[-FAULTS_TOLD:]

    def _parting(self, grant: Grant) -> str:
        view = self._view
        if grant.release >= 0 and grant.left == view.column("inv")[grant.release]:
            return f"it released at {self.clock(grant.left)}"
        if grant.lost >= 0 and grant.left == view.column("inv")[grant.lost]:
            return f"it noticed the loss at {self.clock(grant.left)}"
        return f"nothing was heard of it after {self.clock(grant.left)}"

    def _fault_at(self, grant: Grant, moment: int) -> FaultInterval | None:
        for fault in self._view.history.faults:
            if fault.owner == grant.owner and fault.applied and fault.applied <= moment <= (fault.healed or INFINITY):
                return fault
        return None

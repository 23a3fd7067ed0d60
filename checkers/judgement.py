"""The judgement: what a verdict means for a lock, given what the lock claims and what it is known to break.

A hazard excuses only a violation that starts after its fault was applied and that its mechanism explains. The one
fault that nobody needs to apply is a stall of the machine: it is told by the holder's own late notice of its loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from checkers.claims import NO_FAULT, Claim, Hazard, Word, matches
from checkers.history import Facts, FaultInterval, History
from checkers.leases import INFINITY
from checkers.verdict import Verdict, Violation
from checkers.view import View
from checkers.wire import F, Outcome, Reason


@dataclass(frozen=True, slots=True)
class Judgement:
    """The word for one (lane, property, fault), with the reason in one sentence.

    violation  the one that the word rests on: the first that nothing excuses, or the first.
    """

    property: str
    word: Word
    because: str
    verdict: Verdict | None = None
    violation: Violation | None = None


# Mechanisms


Mechanism = Callable[[Violation, View, Sequence[FaultInterval]], bool]
"""Whether the hits of a hazard's faults explain a violation."""

BY_A_STALE_HOLDER: Final = frozenset({"overlap", "stale-write-accepted", "lost-update"})
"""What a holder can do that does not know that its lease is over; a service or a store that lies is none of it."""


def frozen_past_ttl(violation: Violation, view: View, hits: Sequence[FaultInterval]) -> bool:
    """An earlier holder of the violation was frozen when its lease ended, which was before the violation."""
    return violation.kind in BY_A_STALE_HOLDER and any(
        hit.kind == "freeze" and _frozen_at_expiry(row, violation.at, view, hit)
        for row in violation.holders[:-1]
        for hit in hits
    )


def stalled_past_ttl(violation: Violation, view: View) -> bool:
    """An earlier holder's belief had ended before the violation, and it only noticed late: the machine did not run it.

    Nobody asked for that, but it is what `frozen_past_ttl` is about: a busy machine freezes processes too. A holder
    that a fault hit before its belief ended is not meant: that is for the hazards that name the fault.
    """
    hits = {fault.owner: fault.applied for fault in view.history.faults if fault.applied}
    grants = [view.windows[row].grant for row in violation.holders[:-1]]
    return violation.kind in BY_A_STALE_HOLDER and any(
        grant.believed <= min(violation.at, hits.get(grant.owner, INFINITY)) for grant in grants
    )


def _frozen_at_expiry(acquire: int, at: int, view: View, hit: FaultInterval) -> bool:
    window = view.windows[acquire]
    end = window.expiry(window.start)
    return hit.owner == window.grant.owner and hit.applied <= end <= min(hit.healed or INFINITY, at)


def revoked_early(violation: Violation, view: View, hits: Sequence[FaultInterval]) -> bool:
    """A server that had been frozen came back, and the service said of the earlier holder's lease that it is gone,
    though it had acknowledged to prolong it: etcd's old leader revokes what it could not see kept alive (etcd #15247).
    """
    back = min((hit.healing for hit in hits if hit.kind == "pause" and hit.healing), default=INFINITY)
    return (
        violation.kind in ("granted-while-held", "overlap")
        and back <= violation.at
        and any(_told_gone_early(row, view) for row in violation.holders[:-1])
    )


def _told_gone_early(acquire: int, view: View) -> bool:
    """Whether a release or keep-alive was refused as not the owner's before the acknowledged end of the lease."""
    window = view.windows[acquire]
    owner, session, ret, reason = (view.column(name) for name in ("owner", "session", "ret", "reason"))
    return any(
        reason[row] == Reason.NOT_OWNER
        and ret[row] < window.expiry(window.start)
        and (owner[row] == window.grant.owner or (session[row] and session[row] == window.grant.session))
        for row in view.rows(F.RELEASE, F.RENEW, F.KEEP_ALIVE, outcomes=(Outcome.FAIL,))
    )


FROZEN: Final = "frozen-past-ttl"
MECHANISMS: Final[dict[str, Mechanism]] = {FROZEN: frozen_past_ttl, "revoked-early": revoked_early}


# Judgement


def judge(verdict: Verdict, history: History) -> Judgement:
    """What a verdict means for the lock whose claims and hazards the history carries."""
    claimed, hazard = declared(verdict.property, history.facts)

    def answer(word: Word, because: str, violation: Violation | None = None) -> Judgement:
        return Judgement(verdict.property, word, because, verdict, violation)

    inapplicable = not_applicable(verdict.property, history.facts)
    if inapplicable is not None:
        return answer(Word.NOT_APPLICABLE, inapplicable)
    if verdict.violations:
        excused = _excused(verdict, hazard, history)
        if excused[0] is not None and None not in excused:
            if verdict.reason is not None:
                return answer(Word.UNKNOWN, verdict.reason, verdict.violations[0])
            return answer(Word.BROKEN_AS_DOCUMENTED, excused[0], verdict.violations[0])
        first = verdict.violations[excused.index(None)]
        if claimed:
            return answer(Word.VIOLATED, first.kind, first)
        if hazard is not None:
            return answer(Word.VIOLATED, f"{first.kind}, which {hazard.mechanism} does not explain", first)
        return answer(Word.NOT_CLAIMED_BROKEN, first.kind, first)
    if verdict.valid is None:
        return answer(Word.UNKNOWN, verdict.reason or "the checker gave no answer")
    if hazard is None and not claimed and verdict.unexercised is not None:
        optional = nothing_to_exercise(verdict.property, history.facts)
        if optional is not None:
            return answer(Word.NOT_APPLICABLE, f"{optional}; {verdict.unexercised}")
    if hazard is not None and hazard.certain:
        return answer(Word.HAZARD_NOT_SHOWN, verdict.unexercised or f"no violation by {hazard.mechanism}")
    if verdict.unexercised is not None:
        return answer(Word.UNEXERCISED, verdict.unexercised)
    if claimed:
        return answer(Word.UPHELD, "held")
    return answer(Word.NOT_CLAIMED_HELD, "held, though not promised")


def declared(name: str, facts: Facts) -> tuple[bool, Hazard | None]:
    """Whether the property is claimed under the trial's faults, and the hazard that covers them, if any.

    A hazard takes precedence over a wider claim: it is the exception that the documentation names. A lock
    without any declaration is treated as claiming server-exclusion where there is no fault.
    """
    hazard = next((h for h in facts.hazards if h.covers(name, facts.fault_names, facts.store)), None)
    claims = facts.claims
    if not claims and not facts.hazards:
        claims = (Claim("server-exclusion", under=()),)
    claimed = any(c.covers(name, facts.fault_names, facts.store) for c in claims)
    return claimed and hazard is None, hazard


def not_applicable(name: str, facts: Facts) -> str | None:
    """Why the property means nothing in this trial, or None."""
    if name == "recovery" and all(fault == NO_FAULT for fault in facts.fault_names):
        return "there is no fault to recover from"
    return None


def nothing_to_exercise(name: str, facts: Facts) -> str | None:
    """Why nobody can be expected to exercise a property that is neither claimed nor a hazard, or None.

    What happens to break it is told nevertheless.
    """
    if name == "fenced-store" and facts.store == "unfenced":
        return "the store has no fence"
    return None


def _excused(verdict: Verdict, hazard: Hazard | None, history: History) -> list[str | None]:
    """What excuses each violation, None where nothing does.

    Either the mechanism of the hazard that covers the trial's faults, if the violation starts after its fault was
    applied; or a stall of the machine itself, where the lock is documented to break when its holder is frozen.
    """
    facts, view = history.facts, View(history)
    hits = [hit for hit in history.faults if hazard and hit.applied and matches(hit.name, hazard.under)]
    applied = min((hit.applied for hit in hits), default=INFINITY)
    fragile = any(
        h.mechanism == FROZEN and h.property == verdict.property and matches(facts.store, h.stores)
        for h in facts.hazards
    )

    def excuse(violation: Violation) -> str | None:
        if hazard and violation.at >= applied and MECHANISMS[hazard.mechanism](violation, view, hits):
            return f"explained by {hazard.mechanism}"
        if fragile and stalled_past_ttl(violation, view):
            return f"explained by {FROZEN}: the machine itself stalled the holder"
        return None

    return [excuse(violation) for violation in verdict.violations]

"""The judgement: what a check result means for a lock, given what the lock claims and what it is known to break.

A hazard excuses a violation only if the violation starts after the hazard's fault was applied, and if the hazard's
mechanism explains it (`checkers.judging.excuses_by_fault`). Under several faults a claim must cover each of them, and a
hazard of any of them may excuse. The other faults may mask a hazard, so it need not show. A stall of the machine is
recognized without a fault: by a holder that noticed its loss late, and by answers that were missing or late.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from checkers.claims import ANY, NO_FAULT, Claim, Hazard, Verdict, matches
from checkers.history.history import Facts, FaultInterval, History
from checkers.history.view import View
from checkers.judging.excuse_parts import Incident
from checkers.judging.excuses_by_fault import BY_THE_MACHINE, MECHANISMS, nodes_of
from checkers.properties.all_properties import OF_THE_SERVICE, PROPERTIES
from checkers.properties.check_result import CheckResult, Violation
from checkers.properties.recovery import RECOVERY


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on (lane, property, fault), and why. violation: the first that nothing excuses, else the first."""

    property: str
    word: Verdict
    because: str
    result: CheckResult | None = None
    violation: Violation | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What the lock's declarations say about a property under the faults of a trial."""

    claimed: bool  # the property is promised under every fault, and no hazard says otherwise
    hazards: tuple[Hazard, ...]  # the hazards that can break the property under one of the faults
    answered: bool  # each fault has a claim or a hazard, so a violation that no hazard explains breaks a promise

    @property
    def said(self) -> bool:
        return self.claimed or bool(self.hazards)

    @property
    def silent(self) -> bool:
        """Whether neither a claim nor a certain hazard says what must happen."""
        return not self.claimed and self.certain is None

    @property
    def certain(self) -> Hazard | None:
        """The hazard that must show, or None."""
        return next((hazard for hazard in self.hazards if hazard.certain), None)


def judge_all(results: Iterable[CheckResult], history: History) -> tuple[Judgement, ...]:
    """The judgements. If one ended the trial's work on the lane (`_ended_by`), NOT_STRESSED becomes NOT_APPLICABLE."""
    judgements = tuple(judge(result, history) for result in results)
    ended = next(filter(None, map(_ended_by, judgements)), None)
    return tuple(
        replace(judgement, word=Verdict.NOT_APPLICABLE, because=f"{ended}; {judgement.because}")
        if ended is not None and judgement.word is Verdict.NOT_STRESSED
        else judgement
        for judgement in judgements
    )


def _ended_by(judgement: Judgement) -> str | None:
    """Why the trial did not need to go on with the lane, or could not; None if neither."""
    if judgement.word is Verdict.VIOLATED:
        return f"{judgement.property} was broken, and no trial goes on for the rest"
    if judgement.property == RECOVERY.id and judgement.word is Verdict.WEAKNESS_SHOWN:
        return f"the lock did not recover within its bound ({judgement.because})"
    return None


def judge(result: CheckResult, history: History) -> Judgement:
    """What a check result means for the lock whose claims and hazards the history carries."""
    facts = history.facts
    stands = declared(result.property, facts)

    def answer(word: Verdict, because: str, violation: Violation | None = None) -> Judgement:
        return Judgement(result.property, word, because, result, violation)

    inapplicable = not_applicable(result.property, facts)
    if inapplicable is not None:
        return answer(Verdict.NOT_APPLICABLE, inapplicable)
    if result.violations:
        excused = _excused(result, stands.hazards, history)
        if excused[0] is not None and None not in excused:
            if result.reason is not None:
                return answer(Verdict.UNKNOWN, result.reason, result.violations[0])
            return answer(Verdict.WEAKNESS_SHOWN, excused[0], result.violations[0])
        first = result.violations[excused.index(None)]
        if stands.claimed:
            return answer(Verdict.VIOLATED, first.kind, first)
        if stands.hazards and stands.answered:
            mechanisms = " or ".join(dict.fromkeys(hazard.mechanism for hazard in stands.hazards))
            return answer(Verdict.VIOLATED, f"{first.kind}, which {mechanisms} does not explain", first)
        return answer(Verdict.NOT_PROMISED_BROKEN, first.kind, first)
    if result.valid is None:
        return answer(Verdict.UNKNOWN, result.reason or "the checker gave no answer")
    if result.unexercised is not None:
        because = not_expected(result.property, facts, stands) or _masked(facts)
        if because is not None:
            return answer(Verdict.NOT_APPLICABLE, f"{because}; {result.unexercised}")
    if stands.certain is not None:
        return answer(Verdict.WEAKNESS_NOT_SHOWN, result.unexercised or f"no violation by {stands.certain.mechanism}")
    if result.unexercised is not None:
        return answer(Verdict.NOT_STRESSED, result.unexercised)
    if stands.claimed:
        return answer(Verdict.UPHELD, "held")
    return answer(Verdict.NOT_PROMISED_HELD, "held, though not promised")


def declared(name: str, facts: Facts) -> Standing:
    """What the lock says about a property under the trial's faults."""
    return standing(name, facts.claims, facts.hazards, facts.fault_names, facts.store, facts.workload)


def standing(
    name: str, claims: Sequence[Claim], hazards: Sequence[Hazard], faults: Sequence[str], store: str, workload: str
) -> Standing:
    """What declarations say about a property under these faults, in this store mode and workload.

    A hazard takes precedence over a wider claim: it is the exception that the documentation names. A lock
    without any declaration is treated as claiming server-exclusion where there is no fault.
    """
    if not claims and not hazards:
        claims = (Claim("server-exclusion", under=()),)
    several = sum(fault != NO_FAULT for fault in faults) > 1
    covering = (hazard for hazard in hazards if hazard.covers(name, faults, store, workload))
    hazards = tuple(
        replace(each, certain=each.certain and not several and any(matches(fault, each.under) for fault in faults))
        for each in covering
    )
    owed = name in OF_THE_SERVICE
    claimed = owed or any(claim.covers(name, faults, store, workload) for claim in claims)
    promises: tuple[Claim | Hazard, ...] = (*claims, *hazards)
    answered = owed or all(any(each.covers(name, (fault,), store, workload) for each in promises) for fault in faults)
    return Standing(claimed and not hazards, hazards, answered)


def not_applicable(name: str, facts: Facts) -> str | None:
    """Why the property means nothing in this trial, or None."""
    if name in PROPERTIES and PROPERTIES[name].under and not facts.planned:
        return "there was no fault, without which nothing exercises it"
    return None


def not_expected(name: str, facts: Facts, stands: Standing) -> str | None:
    """Why no trial is expected to exercise a property, or None; None also if a hazard must show. See `Property`."""
    if stands.certain is not None or name not in PROPERTIES:
        return None
    definition = PROPERTIES[name]
    return definition.unexpected(facts) or (definition.not_expected_in.get(facts.store) if stands.silent else None)


def _masked(facts: Facts) -> str | None:
    """Why a trial may not have exercised everything although it tried to, or None."""
    rolls = any(matches(name, ("roll-*",)) for name in facts.planned)  # a roll goes on whatever else happens
    return "one of several faults may mask another" if len({*facts.planned}) > 1 and not rolls else None


def _excused(result: CheckResult, hazards: Sequence[Hazard], history: History) -> list[str | None]:
    """For each violation the reason that excuses it, None if nothing does.

    A hazard's mechanism may excuse a violation if the hazard needs no fault, or its fault was applied before. A stall
    of the machine may, if the lock is documented to break when a fault does the same, such as freeze its holder.
    """
    facts, view = history.facts, history.once(View)
    reasons = [(hazard, hits) for hazard in hazards if (hits := _hits(hazard, history.faults)) or hazard.unprovoked()]
    of_property = [each for each in facts.hazards if each.property == result.property]
    documented = {each.mechanism for each in of_property if matches(facts.store, each.stores)}

    def excuse(violation: Violation) -> str | None:
        for hazard, hits in reasons:
            came = [hit for hit in hits if hit.begun <= violation.at]
            if (came or hazard.unprovoked()) and MECHANISMS[hazard.mechanism](Incident(violation, view, came)):
                return f"explained by {hazard.mechanism}"
        for mechanism, (explains, how) in BY_THE_MACHINE.items():
            if mechanism in documented and explains(Incident(violation, view)):
                return f"explained by {mechanism}: {how}"
        return None

    return [excuse(violation) for violation in result.violations]


def _hits(hazard: Hazard, faults: Sequence[FaultInterval]) -> list[FaultInterval]:
    """The faults that match a hazard and hit a node that the lock rests on."""
    hits = (fault for fault in faults if fault.applied and matches(fault.name, hazard.under))
    return [hit for hit in hits if ANY in hazard.nodes or any(matches(node, hazard.nodes) for node in nodes_of(hit))]

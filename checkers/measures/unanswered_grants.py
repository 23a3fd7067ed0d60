"""Grants that nobody got an answer for: what their tokens, and what others were told, give away."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple, TypeVar

from checkers.history.counting import quantile
from checkers.history.interval_sets import clipped, length, meets, united
from checkers.history.order_of_grants import first_sent_later, superseded
from checkers.measures.measure import WITNESSES, Reading, count, measure, ns, silent, witnesses
from checkers.measures.measured_history import MeasuredHistory
from checkers.row_format import INFINITY, NONE, F, Outcome, Reason

T = TypeVar("T")

COUNTED: Final = 1
"""What tokens differ by, at the median, where a counter gives one to each grant."""


class TokenGaps(NamedTuple):
    """Tokens that were skipped between those of two grants.

    skipped      how many, and the acquire rows of the grants on both sides.
    unexplained  how many in all no unknown acquire can have got.
    step         what tokens that follow one another differ by, at the median; 0 where there are no two.
    """

    skipped: list[tuple[int, tuple[int, int]]]
    unexplained: int
    step: int

    @property
    def missing(self) -> int:
        """All that were skipped."""
        return sum(missing for missing, _ in self.skipped)


class Refusal(NamedTuple):
    """A refusal by a holder whom nobody knows.

    row      of the refused acquire.
    phantom  number of the grant that it gives away; one number may stand for several grants.
    blocked  ns; for the last of each phantom: how long others then asked until somebody known got it, else 0.
    """

    row: int
    phantom: int
    blocked: int


@measure("token-gap", "no_lock")
def token_gap(measured: MeasuredHistory) -> Reading:
    """Fencing tokens that were skipped between those of two grants of a key, and how many of them no unknown acquire
    can have got.

    Where a counter gives one token to each grant, a skipped one was given to somebody whose answer was lost. It was
    given before any grant with a larger token returned, so that its acquire was invoked by then: `unexplained` is what
    remains when unknown acquires take one each (exact: the sets of acquires that can have taken them contain one
    another). Tokens that mostly differ by more than one are no such counter, and a backend may use up tokens for what
    is no grant: a large number is no proof, and never a failure.
    """
    unknown = _unknown(measured)
    gaps = _gaps(measured, unknown)
    if gaps.step != COUNTED:
        return silent(
            f"the tokens are no counter of grants: at the median they differ by {gaps.step}"
            if gaps.step
            else "no two grants of a key carry different tokens"
        )
    return Reading(
        (
            count("missing", gaps.missing),
            count("unknown_acquires", len(unknown)),
            count("unexplained", gaps.unexplained),
        ),
        None,
        tuple(rows for _, rows in gaps.skipped[:WITNESSES]),
        "more tokens were skipped than acquires went without an answer" if gaps.unexplained else None,
    )


@measure("phantom-success", "unasked", "crowded")
def phantom_success(measured: MeasuredHistory) -> Reading:
    """Acquires without an answer that took effect all the same: how many at least, and for how long others asked in
    vain meanwhile.

    `by_refusal`: somebody was refused because the lock was held, while no known grant can have been in force: it had
    not been asked for yet, its release had been acknowledged, or a later grant had returned; nor was anybody in a queue
    who gave up later. Two such refusals with a
    whole known grant between them are two phantoms. A majority lock refuses without a holder and proves nothing,
    and where holders take twice what they have nobody knows whether a release was their last.
    `by_record`: the same holder's renewal or release was acknowledged later, taken at its word. Both may tell of one
    acquire, so that `at_least` is the larger. `by_token_gap`, which is not in it: tokens that were skipped, if unknown
    acquires can have got all of them (see token-gap for what that assumes). `blocked`: from the first refusal until
    somebody known got the lock, as far as others asked for it.
    """
    unknown = _unknown(measured)
    if not unknown:
        return silent("no acquire was left without an answer")
    gaps, refusals, owner = _gaps(measured, unknown), _refused_by_nobody(measured, unknown), measured.column("owner")
    deeds = {owner[row] for row in measured.whole(F.RENEW, F.RELEASE, outcomes=(Outcome.OK,))} - {0}
    recorded = [row for row in unknown if owner[row] in deeds]
    by_token = gaps.missing if gaps.step == COUNTED and not gaps.unexplained else 0
    by_refusal = refusals[-1].phantom if refusals else 0
    timed, at_least = measured.in_ns, max(by_refusal, len(recorded))
    alert = "skipped tokens say that an acquire without an answer took effect" if by_token else None
    return Reading(
        (
            count("unknown_acquires", len(unknown)),
            count("by_refusal", by_refusal),
            count("by_token_gap", by_token),
            count("by_record", len(recorded)),
            count("at_least", at_least),
            ns("blocked_longest", max((refusal.blocked for refusal in refusals), default=0) if timed else None),
            ns("blocked_total", sum(refusal.blocked for refusal in refusals) if timed else None),
        ),
        None
        if gaps.step == COUNTED or recorded or _refused(measured)
        else "nothing recorded could tell: no refusals, no counted tokens, nothing done later",
        witnesses([refusal.row for refusal in refusals] or recorded),
        "an acquire without an answer took effect" if at_least else alert,
    )


def _unknown(measured: MeasuredHistory) -> list[int]:
    """Rows of the acquires without an answer."""
    return measured.attempts(Outcome.INFO)


def _gaps(measured: MeasuredHistory, unknown: Sequence[int]) -> TokenGaps:
    sent = _by_key(measured, unknown, measured.column("inv"))
    skipped, steps, unexplained = list[tuple[int, tuple[int, int]]](), list[int](), 0
    for key, holds in measured.holds.by_key.items():
        with_token = sorted((hold for hold in holds if hold.token != NONE), key=attrgetter("token"))
        known_by = list(accumulate((hold.ret for hold in reversed(with_token)), min))[::-1]
        missing = lacking = 0
        for place, (before, after) in enumerate(pairwise(with_token), 1):
            step = after.token - before.token
            steps += [step] if step else []
            if step > 1:
                skipped.append((step - 1, (before.row, after.row)))
                missing += step - 1
                lacking = max(lacking, missing - bisect_right(sent[key], known_by[place]))
        unexplained += lacking
    return TokenGaps(skipped, unexplained, quantile(sorted(steps), 500) if steps else 0)


def _refused(measured: MeasuredHistory) -> list[int]:
    """Rows of the acquires that were refused because somebody held."""
    if measured.facts.lease == "quorum" or measured.reentered:
        return []
    reason = measured.column("reason")
    return [row for row in measured.attempts(Outcome.FAIL) if reason[row] == Reason.HELD]


def _refused_by_nobody(measured: MeasuredHistory, unknown: Sequence[int]) -> list[Refusal]:
    """In order of key and invocation."""
    inv, ret, reason, later = (*map(measured.column, ("inv", "ret", "reason")), superseded(measured))
    spans = list(zip(inv, measured.ended.tolist(), strict=True))
    answered = measured.attempts(Outcome.OK, Outcome.FAIL)
    failed = [row for row in measured.attempts(Outcome.FAIL) if reason[row] != Reason.HELD]
    asking, queued = _by_key(measured, answered, spans), _by_key(measured, failed, spans)
    candidates, refused = _by_key(measured, unknown, inv), _by_key(measured, _refused(measured), range(len(inv)))
    result: list[Refusal] = []
    phantom = 0
    for key in sorted(refused):
        holds = measured.holds.by_key.get(key, [])
        in_the_way = [*((hold.start, min(hold.freed, later[hold.row][0])) for hold in holds), *queued[key]]
        begins, ends = sorted(begin for begin, _ in in_the_way), sorted(end for _, end in in_the_way)
        rows = [
            row
            for row in refused[key]
            if not meets(begins, ends, inv[row], ret[row]) and min(candidates[key], default=INFINITY) <= ret[row]
        ]
        whole = first_sent_later([ret[row] for row in rows], holds)
        asks, begun = united(asking[key]), 0
        for n, row in enumerate(rows):
            if not n or whole[n - 1][0] < inv[row]:  # a whole known grant lies between
                phantom, begun = phantom + 1, ret[row]
            blocked = 0
            if n + 1 == len(rows) or whole[n][0] < inv[rows[n + 1]]:
                place = bisect_right(holds, inv[row], key=attrgetter("ret"))
                got = holds[place].ret if place < len(holds) else ret[row]
                first = bisect_right(asks, begun, key=itemgetter(1))
                last = bisect_left(asks, got, key=itemgetter(0))
                blocked = length(clipped(asks[first:last], begun, got))
            result.append(Refusal(row, phantom, blocked))
    return result


def _by_key(measured: MeasuredHistory, rows: Iterable[int], values: Sequence[T]) -> defaultdict[int, list[T]]:
    """Key → the values of its rows, in their order."""
    result: defaultdict[int, list[T]] = defaultdict(list)
    for row in rows:
        result[measured.column("key")[row]].append(values[row])
    return result

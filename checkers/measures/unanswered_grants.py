"""Grants whose acquires got no answer: what their tokens, and what others were told, give away."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple, TypeVar

from checkers.history.counting import quantile
from checkers.history.interval_sets import clipped, length, meets, united
from checkers.history.order_of_grants import first_sent_later, superseded
from checkers.measures.measure_result import WITNESSES, Reading, counts, durations, measure, witnesses
from checkers.measures.measured_history import MeasuredHistory
from checkers.properties.shared_counters import unless
from checkers.row_format import INFINITY, NONE, F, Outcome, Reason

T = TypeVar("T")

COUNTED: Final = 1  # the median difference of tokens that follow one another, if a counter gives one to each grant


class TokenGaps(NamedTuple):
    """Tokens that were skipped between those of two grants."""

    missing: int  # how many
    around: list[tuple[int, int]]  # acquire rows of the grants on both sides
    unexplained: int  # how many of them no unknown acquire can have got
    step: int  # the median difference of tokens that follow one another; 0 if there are no two


class Refusal(NamedTuple):
    """A refusal because of a holder that nobody knows."""

    row: int  # of the refused acquire
    phantom: int  # number of the grant that it gives away; one number may stand for several grants
    blocked: int  # ns; at the last refusal of a phantom: how long others asked from its first to a known grant; else 0


@measure("token-gap", "no_lock")
def token_gap(measured: MeasuredHistory) -> Reading:
    """Fencing tokens that were skipped between those of two grants of a key, and how many of them no unknown acquire
    can have got.

    If a counter gives one token to each grant, a skipped token was given to a client whose answer was lost, before any
    grant with a larger token returned. `unexplained` is how many remain when unknown acquires invoked by then take one
    each (exact: the sets of acquires that can have taken them contain one another). Tokens that mostly differ by more
    than one are no such counter. A backend may use up tokens for other things than grants: a large number is no proof.
    """
    unknown = measured.attempts(Outcome.INFO)
    gaps = _gaps(measured, unknown)
    if not gaps.step:
        return Reading(unexercised="no two grants of a key carry different tokens")
    if gaps.step != COUNTED:
        return Reading(unexercised=f"the tokens are no counter of grants: at the median they differ by {gaps.step}")
    return Reading(
        counts(missing=gaps.missing, unknown_acquires=len(unknown), unexplained=gaps.unexplained),
        None,
        tuple(gaps.around[:WITNESSES]),
        "more tokens were skipped than acquires went without an answer" if gaps.unexplained else None,
    )


@measure("phantom-success", "unasked", "crowded")
def phantom_success(measured: MeasuredHistory) -> Reading:
    """Acquires without an answer that took effect all the same: how many at least, and for how long others asked in
    vain meanwhile.

    `by_refusal`: an acquire was refused because the lock was held, while no known grant can have been in force (it had
    not been asked for yet, its release had been acknowledged, or a later grant had returned) and no client that gave up
    later was in a queue. Two such refusals with a whole known grant between them are two phantoms. Refusals prove
    nothing with a majority lock, which refuses without a holder, or if holders take again what they have: nobody knows
    their last release. `by_record`: a renewal or release of the same holder was acknowledged later; the answer is
    believed. Both may tell of one acquire, so `at_least` is the larger of the two. It leaves out `by_token_gap`:
    skipped tokens, if unknown acquires can have got all of them (see token-gap). `blocked`: from the first refusal
    until a known client got the lock, as far as others asked for it.
    """
    unknown = measured.attempts(Outcome.INFO)
    if not unknown:
        return Reading(unexercised="no acquire was left without an answer")
    gaps, refusals = _gaps(measured, unknown), _refused_by_nobody(measured, unknown)
    deeds = {measured.owner[row] for row in measured.whole(F.RENEW, F.RELEASE, outcomes=(Outcome.OK,))} - {0}
    recorded = [row for row in unknown if measured.owner[row] in deeds]
    by_token = gaps.missing if gaps.step == COUNTED and not gaps.unexplained else 0
    by_refusal = refusals[-1].phantom if refusals else 0
    blocked = [refusal.blocked for refusal in refusals] if measured.in_ns else None
    at_least = max(by_refusal, len(recorded))
    proving = gaps.step == COUNTED or recorded or _refused(measured)
    alert = "skipped tokens say that an acquire without an answer took effect" if by_token else None
    return Reading(
        counts(unknown_acquires=len(unknown), by_refusal=by_refusal, by_token_gap=by_token)
        + counts(by_record=len(recorded), at_least=at_least)
        + durations(blocked_longest=None if blocked is None else max(blocked, default=0))
        + durations(blocked_total=None if blocked is None else sum(blocked)),
        unless(proving, "nothing recorded could tell: no refusals, no counted tokens, nothing done later"),
        witnesses([refusal.row for refusal in refusals] or recorded),
        "an acquire without an answer took effect" if at_least else alert,
    )


def _gaps(measured: MeasuredHistory, unknown: Sequence[int]) -> TokenGaps:
    """unknown: rows of the acquires without an answer."""
    sent = _by_key(measured, unknown, measured.inv)
    around, steps, unexplained = list[tuple[int, int]](), list[int](), 0
    for key, holds in measured.holds.by_key.items():
        with_token = sorted((hold for hold in holds if hold.token != NONE), key=attrgetter("token"))
        known_by = list(accumulate((hold.ret for hold in reversed(with_token)), min))[::-1]
        missing = lacking = 0
        for place, (before, after) in enumerate(pairwise(with_token), 1):
            step = after.token - before.token
            steps += [step] if step else []
            if step > 1:
                around.append((before.row, after.row))
                missing += step - 1
                lacking = max(lacking, missing - bisect_right(sent[key], known_by[place]))
        unexplained += lacking
    skipped = sum(step - 1 for step in steps)
    return TokenGaps(skipped, around, unexplained, quantile(sorted(steps), 500) if steps else 0)


def _refused(measured: MeasuredHistory) -> list[int]:
    """Rows of the acquires that were refused because somebody held."""
    if measured.facts.lease == "quorum" or measured.reentered:
        return []
    return [row for row in measured.attempts(Outcome.FAIL) if measured.reason[row] == Reason.HELD]


def _refused_by_nobody(measured: MeasuredHistory, unknown: Sequence[int]) -> list[Refusal]:
    """The refusals without a known holder, in order of key and invocation."""
    inv, ret, later = measured.inv, measured.ret, superseded(measured)
    spans = list(zip(inv, measured.ended.tolist(), strict=True))
    answered = measured.attempts(Outcome.OK, Outcome.FAIL)
    failed = [row for row in measured.attempts(Outcome.FAIL) if measured.reason[row] != Reason.HELD]
    asking, queued = _by_key(measured, answered, spans), _by_key(measured, failed, spans)
    candidates, refused = _by_key(measured, unknown, inv), _by_key(measured, _refused(measured), range(len(inv)))
    result: list[Refusal] = []
    phantom = 0
    for key, its in sorted(refused.items()):
        holds = measured.holds.by_key.get(key, [])
        in_the_way = [*((hold.start, min(hold.freed, later[hold.row][0])) for hold in holds), *queued[key]]
        begins, ends = sorted(begin for begin, _ in in_the_way), sorted(end for _, end in in_the_way)
        since = min(candidates[key], default=INFINITY)
        rows = [row for row in its if since <= ret[row] and not meets(begins, ends, inv[row], ret[row])]
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
        result[measured.key[row]].append(values[row])
    return result

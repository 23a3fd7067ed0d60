"""Grants that nobody got an answer for: what their tokens, and what others were told, give away."""

from typing import Final, NamedTuple

import numpy as np

from checkers.history.counting import Ints, apart, covered, met, quantile, united, until
from checkers.measures.accesses import smallest_from
from checkers.measures.measured_history import MeasuredHistory, of_kind
from checkers.measures.record import Reading, count, measure, ns, silent, witnesses
from checkers.wire import NESTED, NONE, F, Outcome, Reason

COUNTED: Final = 1
"""What tokens differ by, at the median, where a counter gives one to each grant."""


class Gaps(NamedTuple):
    """Tokens that were skipped between those of two grants, one entry a gap.

    missing      how many; between: acquire rows of the grants on both sides, shape (gaps, 2).
    unexplained  how many in all no unknown acquire can have got.
    step         what tokens that follow one another differ by, at the median; 0 where there are no two.
    """

    missing: Ints
    between: Ints
    unexplained: int
    step: int


class Refusals(NamedTuple):
    """Refusals by a holder whom nobody knows, one entry each, in order of key and invocation.

    row      of the refused acquire.
    phantom  number of the grant that it gives away; one number may stand for several grants.
    blocked  ns; for the last of each phantom: how long others then asked until somebody known got it, else 0.
    """

    row: Ints
    phantom: Ints
    blocked: Ints


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
            count("missing", sum(gaps.missing.tolist())),
            count("unknown_acquires", len(unknown)),
            count("unexplained", gaps.unexplained),
        ),
        None,
        witnesses(gaps.between[:, 0], gaps.between[:, 1]),
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
    if not len(unknown):
        return silent("no acquire was left without an answer")
    gaps = _gaps(measured, unknown)
    refusals = _refused_by_nobody(measured, unknown)
    c = measured.history.columns
    deeds = of_kind(c, F.RENEW, F.RELEASE) & (c["outcome"] == Outcome.OK) & (c["flags"] & NESTED == 0)
    recorded = np.isin(c["owner"][unknown], c["owner"][deeds & (c["owner"] != 0)])
    by_token = sum(gaps.missing.tolist()) if gaps.step == COUNTED and not gaps.unexplained else 0
    by_refusal = len(np.unique(refusals.phantom))
    timed = measured.in_ns
    at_least = max(by_refusal, int(recorded.sum()))
    alert = "skipped tokens say that an acquire without an answer took effect" if by_token else None
    tellers = gaps.step == COUNTED or recorded.any() or len(_refused(measured))
    return Reading(
        (
            count("unknown_acquires", len(unknown)),
            count("by_refusal", by_refusal),
            count("by_token_gap", by_token),
            count("by_record", int(recorded.sum())),
            count("at_least", at_least),
            ns("blocked_longest", int(refusals.blocked.max(initial=0)) if timed else None),
            ns("blocked_total", int(refusals.blocked.sum()) if timed else None),
        ),
        None if tellers else "nothing recorded could tell: no refusals, no counted tokens, nothing done later",
        witnesses(refusals.row) or witnesses(unknown[recorded]),
        "an acquire without an answer took effect" if at_least else alert,
    )


def _unknown(measured: MeasuredHistory) -> Ints:
    """Rows of the acquires without an answer."""
    rows: Ints = measured.acquires[measured.array("outcome")[measured.acquires] == Outcome.INFO]
    return rows


def _gaps(measured: MeasuredHistory, unknown: Ints) -> Gaps:
    holds = measured.holds.columns
    key, token, ret, row = (c[holds.token != NONE] for c in (holds.key, holds.token, holds.ret, holds.row))
    order = np.lexsort((token, key))
    key, token, ret, row = key[order], token[order], ret[order], row[order]
    steps = np.diff(token)
    follows = (np.diff(key) == 0) & (steps > 0)
    sent = measured.array("inv")[unknown]
    moments = apart((key, ret), (measured.array("key")[unknown], sent))
    known_by = smallest_from(moments.places[0])[0][1:]
    gap = np.flatnonzero(follows & (steps > 1))
    missing = steps[gap] - 1
    unexplained = 0
    if len(gap):
        begin = np.flatnonzero(np.diff(key[gap], prepend=-1))
        skipped = np.cumsum(missing)
        skipped = skipped - np.repeat((skipped - missing)[begin], np.diff(np.append(begin, len(gap))))
        lacking = skipped - until(moments.places[1], known_by[gap], moments.width)
        unexplained = sum(np.maximum(np.maximum.reduceat(lacking, begin), 0).tolist())
    step = quantile(np.sort(steps[follows]), 500) if follows.any() else 0
    return Gaps(missing, np.stack((row[gap], row[gap + 1]), axis=1), unexplained, step)


def _refused(measured: MeasuredHistory) -> Ints:
    """Rows of the acquires that were refused because somebody held."""
    rows, c = measured.acquires, measured.history.columns
    if measured.facts.lease == "quorum" or measured.reentered:
        return rows[:0]
    refused: Ints = rows[(c["outcome"][rows] == Outcome.FAIL) & (c["reason"][rows] == Reason.HELD)]
    return refused


def _refused_by_nobody(measured: MeasuredHistory, unknown: Ints) -> Refusals:
    holds, c, ended = measured.holds.columns, measured.history.columns, measured.ended
    rows = _refused(measured)
    if not len(rows):
        return Refusals(rows, rows, rows)
    others = measured.acquires[c["outcome"][measured.acquires] != Outcome.INFO]
    queued = others[(c["outcome"][others] == Outcome.FAIL) & (c["reason"][others] != Reason.HELD)]
    key = c["key"].astype(np.int64)
    moments = apart(
        (key[rows], c["inv"][rows]),
        (key[rows], c["ret"][rows]),
        (holds.key, holds.start),
        (holds.key, np.minimum(holds.freed, measured.superseded)),
        (holds.key, holds.ret),
        (key[unknown], c["inv"][unknown]),
        (key[others], c["inv"][others]),
        (key[others], ended[others]),
        (key[queued], c["inv"][queued]),
        (key[queued], ended[queued]),
    )
    inv, ret, start, over, granted, candidates, sent, answered, came, left = moments.places
    by_nobody = (met(inv, ret, start, over) == 0) & (met(inv, ret, came, left) == 0)
    by_nobody &= until(candidates, ret, moments.width) > 0
    rows, inv, ret = rows[by_nobody], inv[by_nobody], ret[by_nobody]
    order = np.argsort(inv, kind="stable")
    rows, inv, ret = rows[order], inv[order], ret[order]
    if not len(rows):
        return Refusals(rows, rows, rows)
    by_start = np.argsort(start, kind="stable")
    soonest = smallest_from(granted[by_start])[0][np.searchsorted(start[by_start], ret[:-1], "right")]
    new = np.append(True, (moments.key(inv[1:]) != moments.key(inv[:-1])) | (soonest < inv[1:]))
    last = np.append(new[1:], True)
    begins, ends = united(sent, answered)
    after = np.append(np.sort(granted), -1)[np.searchsorted(np.sort(granted), inv[last], "right")]
    got = np.where(moments.key(after) == moments.key(inv[last]), after, ret[last])
    begun = np.minimum(ret[new], got)
    blocked = np.zeros_like(rows)
    blocked[last] = covered(moments, begins, ends, got) - covered(moments, begins, ends, begun)
    return Refusals(rows, np.cumsum(new), blocked)

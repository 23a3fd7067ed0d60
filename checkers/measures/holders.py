"""Two holders at once, how long they held, who thought that it held what another had, and who released it."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import Final

import numpy as np

from checkers.history.counting import Ints, apart, crossing, meeting, quantile
from checkers.history.holds_and_lease_ends import IN_SESSIONS, Hold, effective
from checkers.history.order_of_grants import superseded
from checkers.judging.excuse_parts import Incident
from checkers.judging.excuses_by_fault import MECHANISMS
from checkers.measures.measure_result import WITNESSES, Reading, counts, durations, measure, witnesses
from checkers.measures.measured_history import MeasuredHistory
from checkers.properties.check_result import Violation
from checkers.properties.exclusion import SERVER_EXCLUSION
from checkers.properties.honest_belief_and_renewal import BELIEF, belief_end
from checkers.properties.releases import OWNER_RELEASE, STALE_RELEASES
from checkers.row_format import INFINITY, F, Outcome

BY_A_CLOCK: Final = ("expired-by-jump", "expired-by-return", "expired-by-drift")
"""Mechanisms that explain a violation by a fault of kind clock."""
TWICE: Final = 2
"""A hold of more TTLs than this is named: its job is longer than its lease was made for, or its holder hangs."""


@measure("definite-overlap", "no_lock", "crowded", judged_by=SERVER_EXCLUSION.id)
def definite_overlap(measured: MeasuredHistory) -> Reading:
    """Pairs of grants of one key that were certainly in force together, and how long the longest overlap lasted.

    A grant is certainly in force in its core, from the latest moment at which it can have begun to the earliest at
    which it can have been over (checkers/CONDITIONS.md, section 3). A pair counts if neither grant can have been over
    before the other began: their cores intersect for some time, or one has no core and lies within the other's core.
    Pairs of readers are left out. `server-exclusion` also finds larger groups of grants for which there is no room.
    """
    pairs, (earlier, later, lasted) = _definite(measured), _worst(measured)
    return Reading(
        counts(pairs=pairs) + durations(longest=lasted.max(initial=0) if measured.in_ns else None),
        measured.idle,
        witnesses(earlier, later),
        "two held at once for certain" if pairs else None,
    )


@measure("possible-overlap", "no_lock", "crowded")
def possible_overlap(measured: MeasuredHistory) -> Reading:
    """Pairs of grants of one key that may have been in force together, but need not have been: never a failure.

    A grant may be in force from the request that won it to the return of its release. Without an acknowledged release
    (`open` counts these) it counts as far as it is certain. A pair counts if these times meet and it is not definite.
    """
    holds = measured.holds.columns
    begin, over = apart((holds.key, holds.start), (holds.key, holds.over)).places
    readers = holds.shared
    touching = meeting(begin, over) - meeting(begin[readers], over[readers])
    pairs, unreleased = touching - _definite(measured), (holds.freed > measured.finish).sum()
    return Reading(counts(pairs=pairs, open=unreleased), measured.idle)


@measure("clock-jump-double-grant", "no_clock", "no_lock", judged_by=SERVER_EXCLUSION.id)
def clock_jump(measured: MeasuredHistory) -> Reading:
    """Violations of `server-exclusion` that a fault on a clock explains, and the others.

    A violation is explained if the clock of a server was set, set right, or ran wrong while the lease of an earlier
    holder was in force, and the violation came later (mechanisms expired-by-jump, -return and -drift). If some
    violations are inside these windows and none outside, the clock is the suspected cause.
    """
    hits = [fault for fault in measured.struck if fault.kind == "clock"]
    result = SERVER_EXCLUSION.result(measured)

    def explained(violation: Violation) -> bool:
        came = [hit for hit in hits if hit.begun <= violation.at]
        return any(MECHANISMS[name](Incident(violation, measured, came)) for name in BY_A_CLOCK)

    inside = [violation for violation in result.violations if explained(violation)]
    return Reading(
        counts(inside=len(inside), outside=len(result.violations) - len(inside), faults=len(hits)),
        result.unexercised if not result.violations else None,
        tuple(violation.rows for violation in inside[:WITNESSES]),
        "granted twice around a clock fault" if inside else None,
    )


def _definite(measured: MeasuredHistory) -> int:
    holds = measured.holds.columns
    latest, end = apart((holds.key, holds.latest), (holds.key, holds.core_end)).places
    readers = holds.shared
    return int(crossing(latest, end).sum() - crossing(latest[readers], end[readers]).sum())


def _worst(measured: MeasuredHistory) -> tuple[Ints, Ints, Ints]:
    """For each grant that is the later one of a definite overlap, in order of time: the acquire row of the earlier
    grant that lasts longest, the acquire row of this grant, and how long (ns) both were certainly in force, as far as
    the history goes; not positive if the later grant has no core.
    """
    holds = measured.holds.columns
    latest, end = apart((holds.key, holds.latest), (holds.key, holds.core_end)).places
    core = latest < end
    order = np.flatnonzero(core)[np.argsort(latest[core], kind="stable")]
    # What began earlier: for a core, all cores before it; without one, those that began before it can have been over.
    before = np.searchsorted(latest[order], end, "left")
    before[order] = np.arange(len(order))
    until, place = (column[before] for column in _largest_until(end[order]))
    written, writer = (column[before] for column in _largest_until(np.where(holds.shared[order], -1, end[order])))
    until, place = np.where(holds.shared, written, until), np.where(holds.shared, writer, place)
    later = np.flatnonzero(until > latest)
    later = later[np.argsort(holds.latest[later], kind="stable")]
    earlier = order[place[later]]
    last = np.minimum(np.minimum(holds.core_end[earlier], holds.core_end[later]), measured.finish)
    return holds.row[earlier], holds.row[later], last - holds.latest[later]


def _largest_until(values: Ints) -> tuple[Ints, Ints]:
    """The largest among the first n values and where it stands first, for n = 0 ... len(values); -1 for none."""
    highest = np.maximum.accumulate(np.append(-1, values))
    new = np.diff(highest, prepend=-1) > 0
    return highest, np.maximum.accumulate(np.where(new, np.arange(len(highest)), 0)) - 1


@measure("hold-versus-ttl", "no_lock", "endless", "untimed")
def hold_versus_ttl(measured: MeasuredHistory) -> Reading:
    """How much of each lease was left when its holder left (the margin), and how many holds outlived their lease or
    lasted longer than twice its TTL.

    A hold lasts from the request that won it until the client left: asked for the release or noticed the loss; else
    until the last thing recorded of it. The margin is the earliest expiry, as far as it was put off by then, less that
    moment. It is negative if the holder was there when its lease can have been over. Acknowledged renewals, and what
    prolongs the session of a lease, count from their invocation. `met_another` counts those that `outlived` their lease
    and were there when another client had certainly been given the lock. Quantiles: p1 is the value that one hundredth
    of the margins do not exceed. See checkers/CONDITIONS.md, section 22.
    """
    holds = measured.holds.columns
    ttl = np.array([effective(hold.ttl, measured.facts) for hold in measured.holds], np.int64)
    margin = _prolonged(measured) + ttl - holds.left
    lasted = holds.left - holds.start
    outlived = margin < 0
    long = np.flatnonzero((lasted > TWICE * ttl) & (ttl > 0))
    long = long[np.argsort(-lasted[long], kind="stable")]
    ordered = np.sort(margin)
    margins = {f"margin_p{percent}": quantile(ordered, 10 * percent) for percent in (1, 10, 50, 90)}
    return Reading(
        counts(holds=len(holds))
        + durations(ttl=ttl.min(), margin_min=ordered[0], **margins, longest_hold=lasted.max())
        + counts(outlived=outlived.sum(), met_another=(outlived & (measured.superseded < holds.left)).sum())
        + counts(beyond_twice_ttl=len(long)),
        None,
        witnesses(holds.row[long]),
        f"{len(long)} of {len(holds)} holds lasted longer than {TWICE} TTLs" if len(long) else None,
    )


def _prolonged(measured: MeasuredHistory) -> Ints:
    """ns, for each grant; the last moment, before its client left, from which its lease certainly lasted its TTL."""
    lease, signs = measured.facts.lease, defaultdict[int, list[int]](list)
    for row in measured.rows(F.SESSION_OPEN, F.KEEP_ALIVE, outcomes=(Outcome.OK,)) if lease in IN_SESSIONS else ():
        signs[measured.session[row]].append(measured.inv[row])
    for hold in measured.holds if lease == "touch" else ():
        signs[hold.session] += [hold.start, *([hold.freeing] if hold.freeing < INFINITY else [])]
    ordered = {session: sorted(moments) for session, moments in signs.items() if session}

    def last(hold: Hold) -> int:
        own = [inv for inv, _ in hold.renewals if inv < hold.left]
        its = ordered.get(hold.session, [])
        return max(0 if lease == "session" else hold.start, *own, *its[: bisect_left(its, hold.left)][-1:], 0)

    return np.array([last(hold) for hold in measured.holds], np.int64)


@measure("release-by-non-owner", "unreleased", judged_by=OWNER_RELEASE.id)
def release_by_non_owner(measured: MeasuredHistory) -> Reading:
    """Releases that were acknowledged although the client that sent them certainly did not hold the lock.

    `superseded`: sent after another client had certainly been given the lock, which `owner-release` judges; `attempted`
    counts all of these, however they ended. `stranger` is for histories from elsewhere, which name holders: more
    releases of one holder and key were acknowledged by then than acquires can have been granted. If a service
    acknowledges every release (a delete that finds nothing), only its answer is wrong.
    """
    result = OWNER_RELEASE.result(measured)
    strangers = _strangers(measured) if measured.foreign else []
    rows = [*(violation.rows for violation in result.violations[:WITNESSES]), *((row,) for row in strangers)]
    return Reading(
        counts(superseded=len(result.violations), attempted=result.counters[STALE_RELEASES], stranger=len(strangers)),
        None if strangers else result.unexercised,
        tuple(rows[:WITNESSES]),
        "a release by somebody else was acknowledged" if rows else None,
    )


@measure("belief-versus-truth", "no_lock", "crowded", judged_by=BELIEF.id)
def belief_versus_truth(measured: MeasuredHistory) -> Reading:
    """How often, and for how long, a client believed that it held a lock that another had certainly been given.

    A belief is false from the return of the acquire that certainly came later (of the client's own acquire, if later)
    until the client asked for the release or was due to notice its loss. `probed` counts how often a client was asked
    in that time and said that it holds. `honest-belief` judges false beliefs against the lock's bound.
    """
    following = superseded(measured)
    losses = ((hold, *following[hold.row]) for hold in measured.holds)
    lasting = ((belief_end(hold) - max(given, hold.ret), hold.row, later) for hold, given, later in losses)
    spans = [span for span in lasting if span[0] > 0]
    lasted = [span[0] for span in spans]
    probes = measured.with_holds(measured.rows(F.BELIEF, outcomes=(Outcome.OK,)))
    probed = sum(measured.inv[row] > following[hold.row][0] for row, hold in probes)
    spans.sort(key=lambda span: (-span[0], span[1]))
    known = measured.in_ns
    return Reading(
        counts(false=len(spans), probed=probed)
        + durations(longest=max(lasted, default=0) if known else None, total=sum(lasted) if known else None)
        + durations(bound=measured.facts.bounds.get(BELIEF.id)),
        measured.idle,
        tuple((row, later) for _, row, later in spans[:WITNESSES]),
        "a client believed what was no longer true" if spans or probed else None,
    )


def _strangers(measured: MeasuredHistory) -> list[int]:
    """Rows of acknowledged releases by holders with more of these than acquires that can have been granted.

    Each release that was acknowledged before took one of the acquires that can have been granted by the end of this.
    """
    key, owner, inv, ret = (measured.recorded.columns[name].tolist() for name in ("key", "owner", "inv", "ret"))
    released = measured.whole(F.RELEASE, outcomes=(Outcome.OK,))
    came, done = defaultdict[tuple[int, int], list[int]](list), defaultdict[tuple[int, int], list[int]](list)
    for row in measured.attempts(Outcome.OK, Outcome.INFO):
        came[key[row], owner[row]].append(inv[row])
    for row in sorted(released, key=ret.__getitem__):
        done[key[row], owner[row]].append(ret[row])
    return [
        row
        for row in released
        for whose in [(key[row], owner[row])]
        if bisect_left(done[whose], inv[row]) >= bisect_right(came[whose], ret[row])
    ]

"""Who thought that it held what another had, and who released it."""

from bisect import bisect_left, bisect_right
from collections import defaultdict

from checkers.history.order_of_grants import superseded
from checkers.measures.measure import WITNESSES, Reading, count, measure, ns
from checkers.measures.measured_history import MeasuredHistory
from checkers.properties.honest_belief import BELIEF, belief_end
from checkers.properties.releases import OWNER_RELEASE, STALE_RELEASES
from checkers.row_format import F, Outcome


@measure("release-by-non-owner", "unreleased", judged_by=OWNER_RELEASE.id)
def release_by_non_owner(measured: MeasuredHistory) -> Reading:
    """Releases that were acknowledged although whoever sent them certainly did not hold the lock.

    `superseded`: sent after another had been given the lock for certain, which `owner-release` judges; `attempted`
    counts these however they ended. `stranger`, in histories from elsewhere, which name holders: of one holder and key,
    more releases were acknowledged by then than acquires can have been granted. A service that answers so to everybody
    (a delete that finds nothing) is wrong about nothing but the word.
    """
    result = measured.result(OWNER_RELEASE)
    strangers = _strangers(measured) if measured.foreign else []
    rows = [*(violation.rows for violation in result.violations[:WITNESSES]), *((row,) for row in strangers)]
    return Reading(
        (
            count("superseded", len(result.violations)),
            count("attempted", result.counters[STALE_RELEASES]),
            count("stranger", len(strangers)),
        ),
        None if strangers else result.unexercised,
        tuple(rows[:WITNESSES]),
        "a release by somebody else was acknowledged" if rows else None,
    )


@measure("belief-versus-truth", "no_lock", "crowded", judged_by=BELIEF.id)
def belief_versus_truth(measured: MeasuredHistory) -> Reading:
    """How often, and for how long, a client thought that it held what another had certainly been given.

    False from the return of the acquire that certainly came later (its own acquire's return, if that was later), to
    when the client asked for the release or was due to notice its loss. `probed` counts the times at which a client was
    asked in between, and said that it holds. `honest-belief` judges it against the lock's bound.
    """
    following = superseded(measured)
    spans = [
        (belief_end(hold) - max(given, hold.ret), hold.row, later)
        for hold in measured.holds
        for given, later in [following[hold.row]]
        if belief_end(hold) > max(given, hold.ret)
    ]
    lasted = [span[0] for span in spans]
    inv = measured.column("inv")
    probed = sum(
        inv[row] > following[hold.row][0]
        for row in measured.rows(F.BELIEF, outcomes=(Outcome.OK,))
        for hold in [measured.hold_of(row)]
        if hold is not None
    )
    spans.sort(key=lambda span: (-span[0], span[1]))
    known = measured.in_ns
    return Reading(
        (
            count("false", len(spans)),
            count("probed", probed),
            ns("longest", max(lasted, default=0) if known else None),
            ns("total", sum(lasted) if known else None),
            ns("bound", measured.facts.bounds.get(BELIEF.id)),
        ),
        measured.idle,
        tuple((row, later) for _, row, later in spans[:WITNESSES]),
        "a client believed what was no longer true" if spans or probed else None,
    )


def _strangers(measured: MeasuredHistory) -> list[int]:
    """Rows of acknowledged releases by holders of whom more were acknowledged than can have been granted.

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

"""Who thought that it held what another had, and who released it."""

import numpy as np

from checkers.history.counting import apart, until
from checkers.measures.measured_history import MeasuredHistory, of_kind
from checkers.measures.record import WITNESSES, Reading, count, measure, ns
from checkers.properties.honest_belief import BELIEF, belief_end
from checkers.properties.releases import OWNER_RELEASE, STALE_RELEASES
from checkers.properties.succession import superseded
from checkers.wire import NESTED, F, Outcome


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
    c = measured.recorded.columns
    whole = c["flags"] & NESTED == 0
    wanted = measured.acquires[c["outcome"][measured.acquires] != Outcome.FAIL]
    freed = np.flatnonzero(of_kind(c, F.RELEASE) & whole & (c["outcome"] == Outcome.OK))
    whose = apart((c["key"], c["owner"])).places[0]
    _, whose = np.unique(whose, return_inverse=True)
    moments = apart((whose[wanted], c["inv"][wanted]), (whose[freed], c["inv"][freed]), (whose[freed], c["ret"][freed]))
    came, sent, done = moments.places
    before = until(done, sent - 1, moments.width)
    rows: list[int] = freed[before >= until(came, done, moments.width)].tolist()
    return rows

"""What mechanisms share: the grants that they look at, and which kinds of violations each sort of failure causes."""

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Final

from checkers.history.history import FaultInterval
from checkers.history.holds_and_lease_ends import Hold
from checkers.history.view import View
from checkers.properties.check_result import Violation
from checkers.row_format import NONE, F

Hits = Sequence[FaultInterval]
Mechanism = Callable[[Violation, View, Hits], bool]
"""Whether the hits of a hazard's faults explain a violation."""

TWICE: Final = frozenset({"done-twice", "sold-twice"})
REFUSED: Final = "refused-though-held"
"""A lease that its holder is told to be over before its time."""
ALONE: Final = frozenset({REFUSED, "nested-refused", "token-changed", "grant-not-kept"})
"""What a holder is told, or members lack, before its lease is over. The witness names nobody who came later."""
BY_A_STALE_HOLDER: Final = (
    frozenset({"overlap", "stale-write-accepted", "lost-update", "too-many-inside"})
    | {"believed-too-long", "believed-past-lease"}
    | TWICE
)
"""What a holder can do that does not know that its lease is over; a service or a store that lies is none of it."""
BY_A_LOST_LEASE: Final = BY_A_STALE_HOLDER | {
    "granted-while-held",
    "no-room",
    "too-many-granted",
    "freed-by-inner-release",
}
"""What follows when the service has forgotten a lease that its holder still counts on."""
RENEWED: Final = "renewed-though-lost"
"""No lie where the other grant was the earlier of the two, and is what was lost."""
OVERTAKEN: Final = "overtaken"
"""Whoever was passed in the queue, and was answered last, may have lost its place there with its lease."""
BY_A_LOST_COUNTER: Final = frozenset({"token-not-larger", "token-repeated"})


def by_name(*mechanisms: Mechanism) -> dict[str, Mechanism]:
    """Each under the name by which hazards call it: that of its function, with hyphens."""
    return {mechanism.__name__.replace("_", "-"): mechanism for mechanism in mechanisms}


def holds_of(violation: Violation, view: View) -> list[Hold]:
    return [view.holds.by_row[row] for row in violation.holders]


def in_order(violation: Violation, view: View) -> list[Hold]:
    """The grants of a witness, the earliest first: by tokens, unless those contradict the answers to the acquires."""
    holds = holds_of(violation, view)
    contradicted = any(a.ret < b.start and a.token > b.token != NONE for a, b in permutations(holds, 2))
    return by_answer(holds) if contradicted else holds


def by_answer(holds: Sequence[Hold]) -> list[Hold]:
    """In the order in which their acquires returned: where data were lost, tokens do not tell."""
    return sorted(holds, key=lambda hold: hold.ret)


def cut_short(violation: Violation, view: View, moments: Sequence[tuple[int, int]], *, by_token: bool = True) -> bool:
    """Whether, before the violation, one of the moments met the lease of an earlier holder that did not outstay it."""
    for hold in losers(violation, view, by_token=by_token):
        end = hold.expiry
        stale = violation.kind in BY_A_STALE_HOLDER and last_deed(violation, hold, view)[0] > end
        if not stale and any(first <= min(end, violation.at) and hold.start <= last for first, last in moments):
            return True
    return False


def losers(violation: Violation, view: View, *, by_token: bool = True) -> Sequence[Hold]:
    """The grants of a witness whose loss explains what the violation is: none for one that no loss explains.

    Either may have been earlier if a slow answer and the tokens disagree, or if both were asked for at once and no
    token tells: there is none, or the counter may have been lost as well (not `by_token`).
    """
    holds = by_answer(holds_of(violation, view))
    if violation.kind in ALONE:
        return holds
    if violation.kind == RENEWED:
        return _perhaps_earlier(holds, by_token=by_token)
    if violation.kind == OVERTAKEN:
        return holds[-1:]
    if violation.kind not in BY_A_LOST_LEASE:
        return ()
    return [*holds[:-1], *in_order(violation, view)[:-1], *_perhaps_earlier(holds, by_token=by_token)]


def _perhaps_earlier(by_answers: Sequence[Hold], *, by_token: bool) -> Sequence[Hold]:
    """The grant that was answered last, if no token tells of its order and it was asked for before another answer."""
    untold = [hold for hold in by_answers[-1:] if hold.token == NONE or not by_token]
    return [hold for hold in untold if any(hold.start <= other.ret for other in by_answers[:-1])]


def last_deed(violation: Violation, hold: Hold, view: View) -> tuple[int, int]:
    """ns; when the holder's last write in the witness was sent, and done; without a write, when it was seen inside."""
    kind, inv, ret, owner = (view.column(name) for name in ("f", "inv", "ret", "owner"))
    writes = (row for row in violation.rows if kind[row] in (F.WRITE, F.EFFECT) and owner[row] == hold.owner)
    return max(((inv[row], ret[row]) for row in writes), default=(violation.at, violation.at))

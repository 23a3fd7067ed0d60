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
"""The kind of violation in which a holder is told that its lease is over before it is."""
ALONE: Final = frozenset({REFUSED, "nested-refused", "token-changed", "grant-not-kept"})
"""Kinds about what a holder is told, or members lack, before its lease is over. Their witness has no later grant."""
BY_A_STALE_HOLDER: Final = (
    frozenset({"overlap", "stale-write-accepted", "lost-update", "too-many-inside"})
    | {"believed-too-long", "believed-past-lease"}
    | TWICE
)
"""Kinds that a holder causes if it does not know that its lease is over; lies of a service or store cause others."""
BY_A_LOST_LEASE: Final = BY_A_STALE_HOLDER | {
    "granted-while-held",
    "no-room",
    "too-many-granted",
    "freed-by-inner-release",
}
"""Kinds that follow when the service has forgotten a lease that its holder still counts on."""
RENEWED: Final = "renewed-though-lost"
"""The kind that is no lie if the other grant was the earlier of the two, and was the grant that was lost."""
OVERTAKEN: Final = "overtaken"
"""The client that was passed in the queue, and answered last, may have lost its place there with its lease."""
BY_A_LOST_COUNTER: Final = frozenset({"token-not-larger", "token-repeated"})


def by_name(*mechanisms: Mechanism) -> dict[str, Mechanism]:
    """Mechanisms by the names that hazards use: the names of their functions, with hyphens."""
    return {mechanism.__name__.replace("_", "-"): mechanism for mechanism in mechanisms}


def holds_of(violation: Violation, view: View) -> list[Hold]:
    return [view.holds.by_row[row] for row in violation.holders]


def in_order(violation: Violation, view: View) -> list[Hold]:
    """The grants of a witness, the earliest first: by tokens, unless tokens contradict the answers to the acquires."""
    holds = holds_of(violation, view)
    contradicted = any(a.ret < b.start and a.token > b.token != NONE for a, b in permutations(holds, 2))
    return by_answer(holds) if contradicted else holds


def by_answer(holds: Sequence[Hold]) -> list[Hold]:
    """Holds in the order in which their acquires returned. After a loss of data, tokens do not tell the order."""
    return sorted(holds, key=lambda hold: hold.ret)


def cut_short(violation: Violation, view: View, moments: Sequence[tuple[int, int]], *, by_token: bool = True) -> bool:
    """Whether, before the violation, a moment met the lease of an earlier holder that did not outlast its lease."""
    for hold in losers(violation, view, by_token=by_token):
        end = hold.expiry
        stale = violation.kind in BY_A_STALE_HOLDER and last_deed(violation, hold, view)[0] > end
        if not stale and any(first <= min(end, violation.at) and hold.start <= last for first, last in moments):
            return True
    return False


def losers(violation: Violation, view: View, *, by_token: bool = True) -> Sequence[Hold]:
    """The grants of a witness whose loss explains the violation; none if no loss explains violations of this kind.

    Either grant may be the earlier one if a slow answer contradicts the tokens. So it is if both were asked for at
    once and no token tells: they have none, or the counter may have been lost as well (not `by_token`).
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
    """The grant that was answered last, if no token tells its order and it was requested before another answer."""
    untold = [hold for hold in by_answers[-1:] if hold.token == NONE or not by_token]
    return [hold for hold in untold if any(hold.start <= other.ret for other in by_answers[:-1])]


def last_deed(violation: Violation, hold: Hold, view: View) -> tuple[int, int]:
    """ns; when the holder's last write or job of the witness was sent, and returned; else the violation's moment."""
    kind, inv, ret, owner = (view.column(name) for name in ("f", "inv", "ret", "owner"))
    writes = (row for row in violation.rows if kind[row] in (F.WRITE, F.EFFECT) and owner[row] == hold.owner)
    return max(((inv[row], ret[row]) for row in writes), default=(violation.at, violation.at))

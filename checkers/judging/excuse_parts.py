"""What mechanisms share: the grants that they look at, and which kinds of violations each sort of failure causes."""

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Final

from checkers.history.history import FaultInterval
from checkers.history.holds_and_lease_ends import Hold
from checkers.history.view import View
from checkers.properties.check_result import Violation
from checkers.row_format import NONE, F


class Incident:
    """A violation, its grants, and the hits of a hazard's faults, which may explain it."""

    def __init__(self, violation: Violation, view: View, hits: Sequence[FaultInterval] = ()) -> None:
        self.kind, self.at, self.rows = violation.kind, violation.at, violation.rows
        self.view = view
        self.hits = hits
        self.holds = [view.holds.by_row[row] for row in violation.holders]  # the earliest first

    def hits_of(self, *kinds: str) -> list[FaultInterval]:
        """The hits of some kinds of faults."""
        return [hit for hit in self.hits if hit.kind in kinds]

    @property
    def by_answer(self) -> list[Hold]:
        """These in the order in which their acquires returned. After a loss of data, tokens tell no order."""
        return sorted(self.holds, key=lambda hold: hold.ret)

    @property
    def earlier(self) -> list[Hold]:
        """All but the last of the grants: by tokens, unless tokens contradict the answers to the acquires."""
        pairs = permutations(self.holds, 2)
        contradicted = any(a.ret < b.start and a.token > b.token != NONE for a, b in pairs)
        return (self.by_answer if contradicted else self.holds)[:-1]


Mechanism = Callable[[Incident], bool]  # whether the hits of a hazard's faults explain a violation

REFUSED: Final = "refused-though-held"
"""The kind of violation in which a holder is told that its lease is over before it is."""
ALONE: Final = frozenset({REFUSED, "nested-refused", "token-changed", "grant-not-kept"})
"""Kinds about what a holder is told, or members lack, before its lease is over. Their witness has no later grant."""
BY_A_STALE_HOLDER: Final = frozenset(
    {"overlap", "stale-write-accepted", "lost-update", "too-many-inside", "believed-too-long", "believed-past-lease"}
    | {"done-twice", "sold-twice"}
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


def cut_short(incident: Incident, moments: Sequence[tuple[int, int]], *, by_token: bool = True) -> bool:
    """Whether, before the violation, a moment met the lease of an earlier holder that did not outlast its lease."""
    for hold in losers(incident, by_token=by_token):
        end = hold.expiry
        stale = incident.kind in BY_A_STALE_HOLDER and last_deed(incident, hold)[0] > end
        if not stale and any(first <= min(end, incident.at) and hold.start <= last for first, last in moments):
            return True
    return False


def losers(incident: Incident, *, by_token: bool = True) -> Sequence[Hold]:
    """The grants of a witness whose loss explains the violation; none if no loss explains violations of this kind.

    Either grant may be the earlier one if a slow answer contradicts the tokens. So it is if both were asked for at
    once and no token tells: they have none, or the counter may have been lost as well (not `by_token`).
    """
    holds = incident.by_answer
    untold = [hold for hold in holds[-1:] if hold.token == NONE or not by_token]
    perhaps_earlier = [hold for hold in untold if any(hold.start <= other.ret for other in holds[:-1])]
    if incident.kind in ALONE:
        return holds
    if incident.kind == RENEWED:
        return perhaps_earlier
    if incident.kind == OVERTAKEN:
        return holds[-1:]
    return [*holds[:-1], *incident.earlier, *perhaps_earlier] if incident.kind in BY_A_LOST_LEASE else ()


def last_deed(incident: Incident, hold: Hold) -> tuple[int, int]:
    """ns; when the holder's last write or job of the witness was sent, and returned; else the violation's moment."""
    view = incident.view
    writes = (row for row in incident.rows if view.f[row] in (F.WRITE, F.EFFECT) and view.owner[row] == hold.owner)
    return max(((view.inv[row], view.ret[row]) for row in writes), default=(incident.at, incident.at))

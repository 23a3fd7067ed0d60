"""Leases: a lock that one client at a time holds until it releases, or until its TTL has passed without a renewal.

Source: checkers/CONDITIONS.md, section 16. What must be true is asked in modes, each of which believes more of what
clients were told than the one before:

blind      only grants: did the service grant inside a hold, even if its acknowledgements of renewals were lies?
told       ... and acknowledged renewals: the lock was its owner's when each was sent, and for a TTL from then on.
unrefused  ... and acknowledged releases: the lock was its owner's until then.
full       ... and refusals: a renewal or release that failed, as not its owner's, was told so when the lease was over.

A history is valid iff full is. Whoever is valid in one mode is so in all before it, so that the first mode that is
invalid says what is to blame: ``granted-inside-a-hold``, ``renewal-lied``, ``release-lied``, ``lost-early``.

In every mode: expiry may come late, never early; the server's clock may be fast by the drift; unanswered renewals
extend nothing; an unanswered release may have happened once it was sent, or never; an unanswered acquire need not have
happened, but has if its release was acknowledged; renewals and releases that failed because the service was unavailable
prove nothing. Where a service acknowledges releases of what another holds by then (deletes of what is not there),
``release-lied`` says so: the lock was not its holder's any more. Of sessions blind believes that grants were made, and
keep-alives that were answered before its lease can have run out as creation and keep-alives alone tell (a grant shows
more: so blame of a renewal may fall to the next mode); that other requests prolonged a session is believed from told
on. What a session was granted or acknowledged after the return of its own closing shows in blind and told that the
closing ended nothing; from unrefused on it is a contradiction in itself, as a renewal after its own release is. What
precedes a session's creation by its client's own order is no answer of the service, and refused as input.

Where all grants of a key carry tokens that do not contradict real time, they came in the order of their tokens. O(n log
n) for each mode, but for what `checkers.engines.lease_solve` has to search.
"""

import time
from collections.abc import Iterator
from typing import Final

from checkers.engines.lease_attempts import Attempts, gather
from checkers.engines.lease_blame import least
from checkers.engines.lease_modes import BLIND, FULL, TOLD, UNREFUSED, in_order_of_tokens, pose
from checkers.engines.lease_points import points
from checkers.engines.lease_solve import solve
from checkers.history.history import History
from checkers.models.engine_answer import Conflict, EngineAnswer
from checkers.models.model import Settings

BLAME: Final = {
    BLIND: "granted-inside-a-hold",
    TOLD: "renewal-lied",
    UNREFUSED: "release-lied",
    FULL: "lost-early",
}

WITNESSES: Final = 10
"""Conflicts that are made as small as they can be; the rest name the grants that have no room together."""
SECONDS: Final = 5.0
"""What that may take for all of them."""


def lease(history: History, settings: Settings) -> EngineAnswer:
    """Exact but for what exceeds a budget. Raises Unusable."""
    attempts = gather(history, settings)
    ordered = in_order_of_tokens(attempts)
    problem, who = pose(attempts, FULL, ordered=ordered)
    solution = solve(problem)
    conflicting = {key: tuple(who[list(grants)].tolist()) for key, grants in solution.conflicts.items()}
    conflicts = tuple(_blamed(attempts, settings, conflicting, ordered)) if conflicting else ()
    return EngineAnswer(conflicts, dict(solution.undecided), lambda: points(attempts, problem, who, solution))


def _blamed(
    attempts: Attempts, settings: Settings, conflicting: dict[int, tuple[int, ...]], ordered: frozenset[int]
) -> Iterator[Conflict]:
    """Key by key what the first mode in which there is a conflict found; the earliest as small as they can be.

    conflicting: key → attempts that have no room together in the mode that believes most.
    """
    left = conflicting
    blamed: list[tuple[int, int, int, tuple[int, ...]]] = []
    for mode in (BLIND, TOLD, UNREFUSED, FULL):
        conflicts = left
        if mode != FULL and left:
            problem, who = pose(attempts, mode, keys=_whole(attempts, left), ordered=ordered)
            conflicts = {key: tuple(who[list(grants)].tolist()) for key, grants in solve(problem).conflicts.items()}
        for key, mine in conflicts.items():
            blamed.append((int(attempts.start[list(mine)].max()), key, mode, mine))
        left = {
            key: mine for key, mine in left.items() if conflicts.keys().isdisjoint(attempts.key[list(mine)].tolist())
        }
    deadline = time.monotonic() + SECONDS
    for place, (_, key, mode, mine) in enumerate(sorted(blamed)):
        yield Conflict(
            BLAME[mode], key, least(attempts, settings, mode, mine, ordered, deadline if place < WITNESSES else 0.0)
        )


def _whole(attempts: Attempts, left: dict[int, tuple[int, ...]]) -> set[int]:
    """The keys of conflicts, and those that share sessions with them."""
    keys = set(left)
    if attempts.lives:
        keys.update(attempts.key[list({attempt for mine in left.values() for attempt in mine})].tolist())
    return keys

"""The order of grants: since when a client certainly has lost a lock, because another client was granted it.

Source: checkers/CONDITIONS.md, section 6. No TTL is used.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, groupby, pairwise
from operator import attrgetter
from typing import Final

from checkers.history.holds_and_lease_ends import Hold, exclude
from checkers.history.view import View
from checkers.row_format import INFINITY, NONE

NOBODY: Final = (INFINITY, -1)  # the entry for a grant after which no other grant certainly came


def next_granted(view: View, *, by_time: bool = False) -> dict[int, tuple[int, int]]:
    """Acquire row → (ns, acquire row) of the first return among the grants of its key that certainly came later.

    `NOBODY` if there is none. Which came later: checkers/CONDITIONS.md, section 6. by_time: tokens count only where
    they agree with real time. This is for a store that does not look at tokens.
    """
    result: dict[int, tuple[int, int]] = {}
    for holds in view.holds.by_key.values():
        if tokens_of(holds) and not (by_time and disordered(holds)):
            result |= _first_beyond(holds, attrgetter("token"))
        else:
            forced = _first_beyond((hold for hold in holds if hold.latest < hold.core_end), attrgetter("latest"))
            for hold, first in zip(holds, first_sent_later([hold.ret for hold in holds], holds), strict=True):
                result[hold.row] = min(first, forced.get(hold.row, first))
    return result


def ordered_by_tokens(view: View) -> frozenset[int]:
    """Keys whose grants all have tokens, in an order that real time allows."""
    return frozenset(key for key, holds in view.holds.by_key.items() if tokens_of(holds) and not disordered(holds))


def came_later(first: Hold, second: Hold, view: View) -> bool:
    """Whether the second cannot come before the first: by tokens, else as its core ends after the first's `latest`."""
    if first.key in view.once(ordered_by_tokens):
        return second.token > first.token
    return second.core_end > first.latest


def superseded(view: View) -> dict[int, tuple[int, int]]:
    """Acquire row → given(g) of checkers/CONDITIONS.md, section 6: as (ns, acquire row of the grant that returned)."""
    if view.facts.permits > 1:
        return {hold.row: NOBODY for hold in view.holds}
    following = next_granted(view, by_time=True)
    for holds in view.holds.by_key.values():
        readers, writers = ([hold for hold in holds if hold.shared is shared] for shared in (True, False))
        given = first_sent_later([hold.ret for hold in readers], writers)
        following |= {hold.row: first for hold, first in zip(readers, given, strict=True)}
    return following


def first_sent_later(moments: Iterable[int], others: Iterable[Hold]) -> list[tuple[int, int]]:
    """For each moment (ns) the first return (ns, acquire row) of holds that were sent after it, or `NOBODY`."""
    by_start = sorted(others, key=attrgetter("start"))
    starts = [other.start for other in by_start]
    first = list(accumulate(((other.ret, other.row) for other in reversed(by_start)), min, initial=NOBODY))
    return [first[len(starts) - bisect_right(starts, moment)] for moment in moments]


def _first_beyond(holds: Iterable[Hold], number: Callable[[Hold], int]) -> dict[int, tuple[int, int]]:
    """Acquire row → (ns, acquire row) of the first return among the holds that have a larger number, or `NOBODY`."""
    result: dict[int, tuple[int, int]] = {}
    first = NOBODY
    for _, equals in groupby(sorted(holds, key=number, reverse=True), number):
        same = list(equals)
        result |= dict.fromkeys((hold.row for hold in same), first)
        first = min(first, *((hold.ret, hold.row) for hold in same))
    return result


def tokens_of(holds: Sequence[Hold]) -> bool:
    return all(hold.token != NONE for hold in holds)


def disordered(holds: Sequence[Hold]) -> list[tuple[Hold, Hold]]:
    """Pairs (earlier, later) of one key whose tokens contradict real time, or are the same.

    A later grant is paired only with the largest token granted before it. holds: in order of their returns.
    """
    pairs: list[tuple[Hold, Hold]] = []
    highest: Hold | None = None
    done = 0
    for hold in sorted(holds, key=attrgetter("start")):
        while done < len(holds) and holds[done].ret < hold.start:
            if highest is None or _rank(holds[done]) > _rank(highest):
                highest = holds[done]
            done += 1
        if highest is not None and highest.token >= hold.token + (not exclude(highest, hold)):
            pairs.append((highest, hold))
    for first, second in pairwise(sorted(holds, key=attrgetter("token", "ret"))):
        if first.token == second.token and not first.ret < second.start and exclude(first, second):
            pairs.append((first, second))  # real time does not tell their order
    return pairs


def _rank(hold: Hold) -> tuple[int, bool]:
    """The sort key: the token. Of holds with the same token the writer is last, since it excludes readers as well."""
    return hold.token, not hold.shared

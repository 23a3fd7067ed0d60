"""`token-order`: each grant has a strictly larger fencing token than every grant before it in real time.

Readers that hold together may share a token: only writers must fence them off.

Source: checkers/CONDITIONS.md, section 8. Unknown acquires impose nothing, since nobody knows their tokens.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from checkers.history.finding import Finding
from checkers.history.holds import Hold, exclude
from checkers.history.view import View
from checkers.properties.property import Examined, Need, Property
from checkers.properties.shared_counters import Exercise, lock_unexercised
from checkers.row_format import NONE


def _examine(view: View) -> Examined:
    """Exact. A grant comes before another if its acquire returned before the other's request was sent."""
    return Examined(
        [
            Finding("token-repeated" if first.token == second.token else "token-not-larger", second.ret, rows, rows)
            for holds in view.holds.by_key.values()
            for first, second in disordered([hold for hold in holds if hold.token != NONE])
            for rows in [(first.row, second.row)]
        ]
    )


def _exercise(view: View) -> Exercise:
    tokens = sum(hold.token != NONE for hold in view.holds)
    missing = "the grants carry no tokens" if view.holds and not tokens else lock_unexercised(view)
    return Exercise(missing, {"tokens": tokens})


def tokens_of(holds: Sequence[Hold]) -> bool:
    """Whether all of them carry a fencing token."""
    return all(hold.token != NONE for hold in holds)


def disordered(holds: Sequence[Hold]) -> list[tuple[Hold, Hold]]:
    """Pairs (earlier, later) of one key whose tokens contradict real time, or are the same.

    For each later grant one pair, with the largest token granted before. grants in order of their returns.
    """
    return [*_not_larger(holds), *_repeated(holds)]


def _not_larger(holds: Sequence[Hold]) -> Iterator[tuple[Hold, Hold]]:
    highest: Hold | None = None
    done = 0
    for hold in sorted(holds, key=lambda g: g.start):
        while done < len(holds) and holds[done].ret < hold.start:
            if highest is None or _rank(holds[done]) > _rank(highest):
                highest = holds[done]
            done += 1
        if highest is not None and highest.token >= hold.token + (not exclude(highest, hold)):
            yield highest, hold


def _repeated(holds: Sequence[Hold]) -> Iterator[tuple[Hold, Hold]]:
    """Pairs with the same token whose order real time does not tell."""
    by_token = sorted(holds, key=lambda g: (g.token, g.ret))
    for first, second in pairwise(by_token):
        if first.token == second.token and not first.ret < second.start and exclude(first, second):
            yield first, second


def _rank(hold: Hold) -> tuple[int, bool]:
    """Sorts by token; of holds with the same token the writer is last, since it excludes readers as well."""
    return hold.token, not hold.shared


TOKEN_ORDER: Final = Property("token-order", _examine, _exercise, needs=frozenset({Need.EXCLUDES, Need.TOKENS}))

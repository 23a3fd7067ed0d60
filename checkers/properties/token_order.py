"""`token-order`: each grant has a strictly larger fencing token than every grant before it in real time.

Readers that hold together may share a token: only writers must fence them off.

Source: checkers/CONDITIONS.md, section 8. Unknown acquires impose nothing, since nobody knows their tokens.
"""

from typing import Final

from checkers.history.finding import Finding
from checkers.history.order_of_grants import disordered
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


TOKEN_ORDER: Final = Property("token-order", _examine, _exercise, needs=frozenset({Need.EXCLUDES, Need.TOKENS}))

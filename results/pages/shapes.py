"""The shapes of operations, as SVG path data around (0, 0), for the picture of a violation and for the canvas."""

from collections.abc import Mapping
from typing import Final

from checkers.row_format import F

SHAPES: Final[Mapping[str, str]] = {
    "write": "M0-6.5L6.5 0L0 6.5L-6.5 0z",
    "read": "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
    "renew": "M0-6v12M-3.5-2.5L0-6L3.5-2.5",
    "release": "M-1.5-8h3v16h-3z",
    "lost": "M-5.5 5L0-5.5L5.5 5z",
    "effect": "M0-7.5L2-2H7.5L3.2 1.4L4.7 6.8L0 3.6L-4.7 6.8L-3.2 1.4L-7.5-2H-2z",
    "other": "M-3-3h6v6h-6z",
    "cross": "M-4.5-4.5L4.5 4.5M-4.5 4.5L4.5-4.5",
    "small": "M-2.5-2.5L2.5 2.5M-2.5 2.5L2.5-2.5",
    "violation": "M-6-10h12L0 1z",
}
"""Name → path. `cross` and `small` mark what was refused, `violation` a moment."""

_SHAPED: Final = (F.WRITE, F.READ, F.RENEW, F.RELEASE, F.LOST, F.EFFECT)
"""Operations whose shape has their name."""


def shape_of(f: int) -> str:
    """The name of the shape of a kind of operation, which is also the class that gives it its colours."""
    return "renew" if f == F.KEEP_ALIVE else F(f).name.lower() if f in _SHAPED else "other"

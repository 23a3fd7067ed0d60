"""Orders of which the places are known: what comes before what, and what may stand anywhere from somewhere on."""

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from checkers.models.model import Deduction, Operation


class Placed(NamedTuple):
    """An operation that comes after all of lower places, in any order with those of its own place.

    guest  it changes nothing, and may stand at any later place too.
    """

    place: int
    operation: Operation
    guest: bool = False


def in_order(placed: Iterable[Placed]) -> Deduction:
    """Whether real time allows these places, and an order then.

    Each operation takes effect as early as it can: when it was invoked, or when the last of those before it was. There
    is an order iff none had returned by then; it is the order of those times.
    """
    latest = 0
    last: tuple[int, ...] = ()
    order = []
    for place, group in groupby(sorted(placed, key=attrgetter("place")), key=attrgetter("place")):
        here = list(group)
        for _, operation, _ in here:
            time = max(operation.inv, latest)
            if time > operation.ret:
                return Deduction(False, (*last, operation.row))
            order.append((time, place, operation.row))
        for _, operation, guest in here:
            if operation.inv > latest and not guest:
                latest, last = operation.inv, (operation.row,)
    return Deduction(True, [row for _, _, row in sorted(order)])

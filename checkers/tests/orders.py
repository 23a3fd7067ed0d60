"""Whether some order explains all answers: every one is tried, and nothing of it is shared with engines or search.

Sets of operations are the bits of a number, and what has to come before an operation is found once, before the search:
that is all that makes it fast. What failed once, with the same operations left in the same state, is not tried again.
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

Op = TypeVar("Op")


def explained(
    ops: Sequence[Op],
    spans: Sequence[tuple[int, int]],
    unknown: Sequence[bool],
    initial: Hashable,
    step: Callable[[Any, Op], Iterable[Any]],
) -> bool:
    """Whether an order of them respects real time and `step`, with unknown operations in it or left out.

    spans: of each operation the invocation and the return, late for unknown ones. step: the states that may follow.
    """
    by_end = sorted(range(len(ops)), key=lambda n: spans[n][1])  # the likely ones first
    ends = [spans[n][1] for n in by_end]
    moves = [(1 << place, (1 << bisect_left(ends, spans[n][0])) - 1, ops[n]) for place, n in enumerate(by_end)]
    answered = sum(1 << place for place, n in enumerate(by_end) if not unknown[n])
    dead: set[tuple[int, Any]] = set()

    def possible(left: int, state: Any) -> bool:
        if not left & answered:
            return True
        if (left, state) in dead:
            return False
        for bit, earlier, op in moves:
            if left & bit and not left & earlier:
                for after in step(state, op):
                    if possible(left ^ bit, after):
                        return True
        dead.add((left, state))
        return False

    return possible((1 << len(moves)) - 1, initial)

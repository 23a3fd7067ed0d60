"""The engine for fencing tokens against exhaustive search: verdicts, orders and contradictions."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from checkers.engines.tokens import fencing_tokens
from checkers.models.model import Settings
from checkers.models.tokens import FencingTokens
from checkers.row_format import NESTED, NONE, SHARED, F, Outcome
from checkers.tests.batches import Batched, names, sorted_history
from checkers.tests.build import FACTS, FAIL, INFO, OK
from checkers.tests.compare import Disagreement, compare, replayed
from checkers.tests.orders import explained

BELOW: Final = -9
"""A token below all others that are used here."""

Grant = tuple[int, int, int, Outcome, int]
"""inv, ret, token, outcome, flags."""

Lanes = list[list[Grant]]
"""Of two keys."""


def lanes(rng: Random) -> Lanes:
    """Grants with tokens, some of readers, some inside their own hold, some without a token or an answer."""
    drawn: Lanes = [[], []]
    wide = rng.choice((0, 2, 5))
    for number in range(rng.randint(1, 6)):
        inv = number * 2 + rng.randint(1, 5)
        token = number if rng.random() < 0.75 else rng.randint(-1, 5)
        flags = rng.choices((0, SHARED, NESTED), (5, 3, 1))[0]
        if flags == SHARED and drawn[0] and rng.random() < 0.5:
            token = drawn[0][-1][2]
        outcome = rng.choices((OK, FAIL, INFO), (8, 1, 1))[0]
        drawn[rng.random() < 0.2].append((inv, inv + rng.randint(0, wide), token, outcome, flags))
    if rng.random() < 0.1:
        drawn[0] = [(g[0], g[1], 6 - g[2] if g[2] >= 0 else g[2], g[3], g[4]) for g in drawn[0]]
    return drawn


def judged(some: Sequence[Lanes]) -> list[str]:
    """Two keys of one history for each."""
    by_key = [lane for both in some for lane in both]
    rows: list[tuple[Any, ...]] = []
    for owner, (key, grant) in enumerate(((k, grant) for k, lane in enumerate(by_key) for grant in lane), 1):
        inv, ret, token, outcome, flags = grant
        ret = 0 if outcome == INFO else ret
        rows.append((inv, ret, 0, 0, token, owner, NONE, NONE, 0, owner, 0, key, F.ACQUIRE, outcome, 0, flags))
    history, places = sorted_history(replace(FACTS, keys=names(len(by_key))), rows)
    told = [grant for lane in by_key for grant in lane]
    listed: dict[int, Grant] = dict(zip(places, told, strict=True))
    answer = fencing_tokens(history, Settings())
    assert not answer.undecided
    bad = {conflict.key for conflict in answer.conflicts}
    for conflict in answer.conflicts:
        pair = [listed[row] for row in conflict.rows]
        if _increasing([(inv, ret, token, flags & SHARED) for inv, ret, token, _, flags in pair]):
            raise Disagreement(f"no contradiction: {conflict}\n{by_key[conflict.key]}")
    truths = []
    for key, lane in enumerate(by_key):
        counted = [(inv, ret, token, flags) for inv, ret, token, outcome, flags in lane if outcome == OK]
        truths.append(_increasing([(*g[:3], g[3] & SHARED) for g in counted if g[2] != NONE and not g[3] & NESTED]))
        compare(key not in bad, truths[key], (key, lane, answer.conflicts))
    replayed(history, answer, FencingTokens())
    return ["valid" if all(truths[key : key + 2]) else "invalid" for key in range(0, len(truths), 2)]


def _increasing(grants: Sequence[tuple[int, int, int, int]]) -> bool:
    """Whether some order of (inv, ret, token, shared) respects real time and has tokens that increase."""

    def step(state: tuple[int, int], grant: tuple[int, int, int, int]) -> tuple[tuple[int, int], ...]:
        (highest, shared), (_, _, token, reader) = state, grant
        return ((token, reader),) if token > highest or (token == highest and shared and reader) else ()

    return explained(grants, [grant[:2] for grant in grants], [False] * len(grants), (BELOW, 0), step)


CHECKS: Final = {"fencing-tokens": Batched(lanes, lambda _: None, judged)}

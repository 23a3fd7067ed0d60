"""Proofs that a link is cut, and that it is whole again: fresh questions through the link.

While another fault is on, it may mask the effect that a proof looks for: a link that should be silent may refuse, one
that should be slow may be silent. Then a proof accepts any effect that the other faults can have, but never no effect.
"""

from collections.abc import Collection, Sequence
from typing import Final

from infra.errors import Failed
from infra.faults.fault import HEALED_WITHIN, LOOK_EVERY, PROVEN_WITHIN
from infra.faults.link_probe import PATIENCE, LinkAnswer
from infra.faults.target import Target
from infra.network.links import Cut
from infra.network.topology import STORE
from infra.waiting import at_once

Pairs = Sequence[tuple[str, str]]
"""Links of client groups: (group, node) for each, or the link of one group to the store."""

SHOWS: Final = {Cut.REFUSE: {LinkAnswer.CLOSED}, Cut.DROP: {LinkAnswer.SILENT}, Cut.HOLD: {LinkAnswer.SILENT}}
"""How a link is cut -> what becomes of a question."""
DOWN: Final = {LinkAnswer.CLOSED, LinkAnswer.SILENT}
"""What becomes of a question when only the replies are dropped: some servers end a connection after they reply."""
_PATIENCE: Final = 1.0
"""Seconds for an answer through a link that is whole; it takes 1-2 ms."""
_MASKED: Final = 1.0
"""Seconds after which a slow answer counts as none, while another fault is on."""


def await_cut(target: Target, pairs: Pairs, shows: Collection[LinkAnswer]) -> None:
    """Wait until questions through these links have no other results than `shows`. Raises Failed."""
    shown = set(shows if target.alone else DOWN)
    if not target.clock.wait(PROVEN_WITHIN, lambda: _answers(target, pairs, PATIENCE) <= shown):
        raise Failed(f"{_words(pairs)} are cut, but questions still pass")


def await_answers(target: Target, pairs: Pairs) -> None:
    """Unless another fault is on, wait until questions through these links are answered. Raises Failed."""
    if target.alone and not target.clock.wait(
        HEALED_WITHIN, lambda: _answers(target, pairs, _PATIENCE) <= {LinkAnswer.ANSWERED}, LOOK_EVERY
    ):
        raise Failed(f"{_words(pairs)} are healed, but questions stay without an answer")


def await_slow(target: Target, pairs: Pairs, seconds: float, size: int = 0, *, to_the_end: bool = False) -> None:
    """Wait until each question takes at least `seconds`, even if CLOSED ends it (see `Prober.timed`). Raises Failed."""
    endpoints = [target.endpoints[pair] for pair in pairs]
    patience = 30.0 + seconds if target.alone else _MASKED + seconds
    amiss: list[str] = []

    def shows() -> bool:
        answers = at_once(
            lambda endpoint: target.prober.timed(endpoint, patience, size, to_the_end=to_the_end), endpoints
        )
        amiss[:] = [
            f"{' to '.join(pair)}: {answer} after {took:.2f} s"
            for pair, (answer, took) in zip(pairs, answers, strict=True)
            if took < seconds or answer is LinkAnswer.SILENT
            if target.alone or answer is LinkAnswer.ANSWERED
        ]
        return not amiss

    if not target.clock.wait(PROVEN_WITHIN, shows, LOOK_EVERY):
        raise Failed(f"{_words(pairs)} are slow, but {amiss[0]}, which should have taken {seconds:.2f} s")


def _answers(target: Target, pairs: Pairs, patience: float) -> set[LinkAnswer]:
    """What becomes of questions through these links, asked at the same time."""
    prober = target.store_prober if any(node == STORE for _, node in pairs) else target.prober
    return set(prober.ask_all([target.endpoints[pair] for pair in pairs], patience))


def _words(pairs: Pairs) -> str:
    if any(node == STORE for _, node in pairs):
        return " and the ".join(pairs[0])
    ends = dict.fromkeys(end for pair in pairs for end in pair)
    return f"the links of {', '.join(ends)}"

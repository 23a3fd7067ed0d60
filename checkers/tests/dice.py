"""Chance that costs little: to draw is most of what it takes to make a tiny history."""

from random import Random
from typing import Any


class Dice(Random):
    """Draws the same as its base class, without the questions that `Random` asks of its arguments first."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return self._below(start) if stop is None else super().randrange(start, stop, step)

    def randint(self, a: int, b: int) -> int:
        return a + self._below(b - a + 1)

    def choice(self, seq: Any) -> Any:
        return seq[self._below(len(seq))]

    def _below(self, size: int) -> int:
        if size < 1:
            raise ValueError("nothing to choose from")
        bits = size.bit_length()
        drawn = self.getrandbits(bits)
        while drawn >= size:
            drawn = self.getrandbits(bits)
        return drawn

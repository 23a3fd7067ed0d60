"""What every checker asks of a history: its columns as lists, its holds, and whatever else is made of it once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar, cast

from checkers.history.history import History
from checkers.history.holds import Holds
from checkers.history.lists import Lists

T = TypeVar("T")


class View(Lists):
    """A history as every checker looks at it. Made once a history: `History.once(View)`."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._once: dict[Callable[[View], object], object] = {}

    def once(self, function: Callable[[View], T]) -> T:
        """What the function makes of this view; it is called once, however often it is asked for."""
        if function not in self._once:
            self._once[function] = function(self)
        return cast(T, self._once[function])

    @cached_property
    def holds(self) -> Holds:
        """Who held what, and when."""
        return Holds(self)

"""The operations of a tiny key, for rules that look things up: what `checkers.operations` does for any number."""

from typing import Any

from checkers.models.model import UNSET, Operation
from checkers.wire import F


class Few(list[Operation]):
    """Implements `checkers.models.model.Peers`; they come in order of invocation."""

    def where(
        self,
        *kinds: F,
        owner: int | None = None,
        value: Any = UNSET,
        base: Any = UNSET,
        tokens: tuple[int, int] | None = None,
        meets: tuple[int, int] | None = None,
    ) -> list[Operation]:
        """See `Peers`."""
        return [
            o
            for o in self
            if (not kinds or o.f in kinds)
            and (owner is None or o.owner == owner)
            and (value is UNSET or o.value == value)
            and (base is UNSET or o.base == base)
            and (tokens is None or tokens[0] <= o.token <= tokens[1])
            and (meets is None or (o.inv <= meets[1] and o.ret >= meets[0]))
        ]

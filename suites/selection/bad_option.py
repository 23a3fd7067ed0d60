"""The one error of a command line, and the names that it lists."""

from collections.abc import Mapping
from typing import Any


class BadOption(Exception):
    """What does not exist, or does not go together, was asked for. The text says in one line what does."""


def known(name: str, there: Mapping[str, Any], what: str) -> Any:
    """What stands under this name. Raises BadOption."""
    if name not in there:
        raise BadOption(f"unknown {what} {name!r}; there are: {', '.join(there)}")
    return there[name]

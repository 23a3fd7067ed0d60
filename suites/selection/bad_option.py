"""The error of a command line; it lists the known names."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class BadOption(Exception):
    """The options name what does not exist, or what does not go together. The message says in one line what does."""


def known(name: str, there: Mapping[str, Any], what: str) -> Any:
    """The value of this name. Raises BadOption. what: the kind of name, for the message."""
    if name not in there:
        raise BadOption(f"unknown {what} {name!r}; there are: {', '.join(there)}")
    return there[name]


@contextmanager
def raised_as(kind: Callable[[str], Exception], before: str, *errors: type[Exception]) -> Iterator[None]:
    """In the block, these errors are raised as one of another kind. before: what precedes the error's own text."""
    try:
        yield
    except errors as error:
        raise kind(f"{before}{error}") from error

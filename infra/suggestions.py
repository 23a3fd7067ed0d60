"""Suggestions to the user: known names for a name that does not exist, and what to type."""

import difflib
from collections.abc import Iterable
from pathlib import Path


def instead(name: object, known: Iterable[str]) -> str:
    """`did you mean pause-server?`, or a list of all known names if none is similar."""
    names = list(known)
    close = difflib.get_close_matches(str(name), names)
    return f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(names)}"


def command(words: str) -> str:
    """What a person types for a command of `python -m infra`: `fencepost` has it too, where this is no checkout."""
    checkout = (Path(__file__).parents[1] / "pyproject.toml").is_file()
    return f"{'python -m infra' if checkout else 'fencepost'} {words}"

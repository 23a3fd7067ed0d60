"""Suggestions of known names for a name that does not exist."""

import difflib
from collections.abc import Iterable


def instead(name: object, known: Iterable[str]) -> str:
    """`did you mean pause-server?`, or a list of all known names if none is similar."""
    names = list(known)
    close = difflib.get_close_matches(str(name), names)
    return f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(names)}"

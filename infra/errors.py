"""Errors as the user reads them: one line, and the exit status of the command."""

from collections.abc import Callable


class Trouble(Exception):
    """What went wrong and what to do about it, in words for the user. status: the exit status of a command."""

    status = 1


class Failed(Trouble):
    """It was tried, and it did not work."""


class UnknownName(Trouble):
    """No such backend or version; which there are."""

    status = 2


class NotPossible(Trouble):
    """Not on this machine, or not by us; what to do."""

    status = 3


def succeeds(call: Callable[[], object]) -> bool:
    """Make a call. Returns whether it did what it should: False if it raised Failed."""
    try:
        call()
    except Failed:
        return False
    return True

"""Errors as the user reads them: one line, and the exit status of the command."""


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

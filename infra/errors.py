"""Errors as the user reads them: one line, and the exit status of the command.

Trouble             one line for the user: what went wrong, and what to do about it
├── Failed          it was tried, and it did not work              1
├── UnknownName     no such backend or version; which there are    2
└── NotPossible     not on this machine, or not by us; what to do  3
"""


class Trouble(Exception):
    """What went wrong and what to do about it, in words for the user. status: the exit status of a command."""

    status = 1


class Failed(Trouble):
    """It was tried, and it did not work."""


class UnknownName(Trouble):
    status = 2


class NotPossible(Trouble):
    status = 3

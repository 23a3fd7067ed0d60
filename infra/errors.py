"""What goes wrong, as the user reads it: one line, and the exit status that it stands for.

Trouble             one line for the user: what went wrong, and what to do about it
├── Failed          it was tried, and it did not work          1
├── UnknownName     no such backend or version; what there is  2
└── NotPossible     not on this machine, or not by us          3
"""


class Trouble(Exception):
    """What went wrong and what to do about it, in words for the user. status: the exit status of a command."""

    status = 1


class Failed(Trouble):
    """It was tried, and it did not work."""


class UnknownName(Trouble):
    """There is no such backend or version; the message lists what there is."""

    status = 2


class NotPossible(Trouble):
    """It cannot be done on this machine or with our rights; the message says what to install."""

    status = 3

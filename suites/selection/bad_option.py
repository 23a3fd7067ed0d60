"""The one error of a command line."""


class BadOption(Exception):
    """What does not exist, or does not go together, was asked for. The text says in one line what does."""

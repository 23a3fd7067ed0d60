"""Where a command prints what has a layout."""

from typing import NoReturn

from rich.console import Console


class Output(Console):
    """Rich's console, which would end the process with a status of its own where the reader of the output went away:
    here that is one for `checkers.ending`, as of every other command.
    """

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError

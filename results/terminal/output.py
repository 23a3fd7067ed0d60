"""What commands print: lines, warnings, and what has a layout. Recorded strings are plain text in all of it."""

import sys
import textwrap
from typing import NoReturn

from rich.console import Console
from rich.text import Text

from results.text import plain


def say(words: str) -> None:
    """Print a line."""
    print(plain(words))


def warn(words: str) -> None:
    """Print a line on stderr, with the name of the room before it."""
    print(f"results: {plain(words)}", file=sys.stderr)


class Output(Console):
    """Rich's console, which would end the process with a status of its own where the reader of the output went away:
    here that is one for `checkers.command.exit_status`, as of every other command.
    """

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


class Printer:
    """Lines on a console: recorded strings can neither style nor steer the terminal, nor break its encoding."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def clean(self, words: str) -> str:
        """What can be printed of them."""
        return plain(words, self.console.encoding)

    def text(self, words: str, style: str = "") -> Text:
        """For a table."""
        return Text(self.clean(words), style=style)

    def line(self, words: str, style: str = "", indent: int = 0, hanging: int = 0) -> None:
        """Wrapped with its indentation; hanging: how much more the later lines have."""
        width = max(self.console.width - indent, 20)
        rest = " " * hanging
        for part in textwrap.wrap(self.clean(words), width, break_on_hyphens=False, subsequent_indent=rest) or [""]:
            self.console.print(Text(" " * indent + part, style=style), soft_wrap=True)

    def whole(self, words: str, indent: int = 0) -> None:
        """Never wrapped: a path that can be copied."""
        self.console.print(Text(" " * indent + self.clean(words)), soft_wrap=True)

    def gap(self) -> None:
        """An empty line."""
        self.console.print()

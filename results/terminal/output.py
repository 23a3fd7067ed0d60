"""How commands print: lines, warnings, and text with a layout. Recorded strings are shown as plain text."""

import sys
import textwrap
from typing import NoReturn

from rich.console import Console
from rich.text import Text

from results.text import plain


def say(*lines: str) -> None:
    for line in lines:
        print(plain(line))


def warn(*lines: str) -> None:
    """Print lines on stderr, each behind `results: `."""
    for line in lines:
        print(f"results: {plain(line)}", file=sys.stderr)


class Output(Console):
    """Rich's console. If the reader of the output is gone, Rich would end the process with a status of its own. Here
    `checkers.command.exit_status` decides on the status, as for every command.
    """

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


class Printer:
    """Prints lines on a console. Recorded strings cannot style or control the terminal, nor break its encoding."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def clean(self, words: str) -> str:
        """The text with escapes in place of what the console cannot print."""
        return plain(words, self.console.encoding)

    def text(self, words: str, style: str = "") -> Text:
        return Text(self.clean(words), style=style)

    def line(self, words: str, style: str = "", indent: int = 0, hanging: int = 0) -> None:
        """Print a wrapped, indented line. hanging: further indentation of the lines behind the first."""
        width = max(self.console.width - indent, 20)
        rest = " " * hanging
        for part in textwrap.wrap(self.clean(words), width, break_on_hyphens=False, subsequent_indent=rest) or [""]:
            self.console.print(Text(" " * indent + part, style=style), soft_wrap=True)

    def whole(self, words: str, indent: int = 0) -> None:
        """Print a line that is never wrapped, such as a path to be copied."""
        self.console.print(Text(" " * indent + self.clean(words)), soft_wrap=True)

    def gap(self) -> None:
        self.console.print()

"""The terminal while trials run: lines that stay, and below them a few lines that are redrawn.

All output, that of pytest included, goes through one object, so it never mixes with the redrawn lines. The cursor
stands below them and is never hidden: a process that is killed leaves the terminal in order.
"""

import contextlib
import errno
import os
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from rich.color import ColorSystem
from rich.style import Style

from results.terminal.event_journal import Tail
from results.terminal.progress import Level, Progress, ScreenLine
from results.text import cut, plain

_LOOKS: Final = 0.2  # seconds between two reads of the events
_REDRAWN: Final = 1.0  # seconds after which the last lines are redrawn even without a new event, since they show times
_NARROWEST: Final = 20
_ROOMY: Final = 100  # the fewest characters of a line with which columns are kept
_HANGING: Final = " " * 9


class Screen:
    """The file of a terminal or a log. pytest writes to it as well.

    live    whether lines can be redrawn. colour: whether styles are shown.
    begin   called to make pytest end its line, if pytest has written a part of one.
    """

    def __init__(self, file: TextIO, *, live: bool, colour: bool, begin: Callable[[], None] = lambda: None) -> None:
        self._file, self._live, self._colour, self._begin = file, live, colour, begin
        self._lock = threading.RLock()
        self._drawn: list[int] = []
        self._column_0 = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    @property
    def bare(self) -> bool:
        """Whether the last lines have been erased."""
        return self._live and not self._drawn

    @property
    def width(self) -> int:
        """Characters of a line: of `COLUMNS`, else of the terminal, else 80."""
        columns = os.environ.get("COLUMNS", "")
        if columns.isdecimal() and int(columns) > 0:
            return int(columns)
        try:
            return os.get_terminal_size(self._file.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def write(self, text: str) -> int:
        """Write above the last lines. The next `show` draws the last lines again."""
        with self._lock:
            self._put(self._erased() + text)
            if text:
                self._column_0 = text.endswith("\n")
            return len(text)

    def flush(self) -> None:
        with self._lock, _terminal_may_be_gone():
            self._file.flush()

    def show(self, lines: Sequence[ScreenLine], last: Sequence[ScreenLine] = ()) -> None:
        """Print lines that stay, then `last`, which the next call replaces."""
        with self._lock:
            width = max(self.width, _NARROWEST)
            if not self._column_0 and (lines or last):
                self._begin()
            new = "" if self._column_0 or not (lines or last) else "\n"
            text = self._erased() + new + "".join(self._whole(line, width) for line in lines)
            if self._live:
                parts = [cut(plain(line.text, self._encoding), width - 1) for line in last]
                text += "".join(self._styled(part, line.style) + "\n" for part, line in zip(parts, last, strict=True))
                self._drawn = [len(part) for part in parts]
            if text:
                self._column_0 = True
                self._put(text)

    @property
    def _encoding(self) -> str:
        return self._file.encoding or "utf-8"

    def _whole(self, line: ScreenLine, width: int) -> str:
        """A line as printed: in a log one line, however long; on a terminal wrapped, and indented behind the time."""
        text = plain(line.text if self._live else line.text + line.standing, self._encoding)
        parts = [text]
        if self._live and (len(text) > width or width < _ROOMY):
            begin = text[: len(text) - len(text.lstrip())]
            shrunk = begin + " ".join(text.split())
            parts = textwrap.wrap(shrunk, width, subsequent_indent=_HANGING, break_on_hyphens=False) or [""]
        return "".join(self._styled(part, line.style) + "\n" for part in parts)

    def _styled(self, text: str, style: str) -> str:
        if not (self._colour and style):
            return text
        return Style.parse(style).render(text, color_system=ColorSystem.STANDARD)

    def _erased(self) -> str:
        """The control codes that erase the last lines. A terminal that became narrower has wrapped them."""
        if not self._drawn:
            return ""
        width = max(self.width, 1)
        rows = sum(max(-(-length // width), 1) for length in self._drawn)
        self._drawn = []
        return f"\x1b[{rows}A\r\x1b[J"

    def _put(self, text: str) -> None:
        with _terminal_may_be_gone():
            self._file.write(text)
            self._file.flush()


class Display:
    """A thread that reads the events of a run and shows its state.

    level  the most detail that is shown.
    beat   seconds without a line after which a log gets one; None: the last lines are redrawn instead.
    """

    def __init__(
        self,
        folder: Path,
        screen: Screen,
        progress: Progress,
        level: Level,
        beat: float | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.progress = progress
        self._screen, self._level, self._beat, self._clock = screen, level, beat, clock
        self._tail = Tail(folder, new=True)
        self._said = self._drawn = clock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fencepost-progress", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Show the lines of the remaining events, and erase the redrawn lines."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(5)
        self._screen.show(self._news())

    def look(self) -> None:
        """Read and show what is new."""
        now, lines = self._clock(), self._news()
        if self._beat is None:
            if lines or self._screen.bare or now - self._drawn >= _REDRAWN:
                self._drawn = now
                self._screen.show(lines, self.progress.live(now))
            return
        if not lines and now - self._said >= self._beat:
            lines = [self.progress.beat(now)]
        if lines:
            self._said = now
            self._screen.show(lines)

    def _news(self) -> list[ScreenLine]:
        events = self._tail.read()
        return [line for event in events for line in self.progress.take(event) if line.level <= self._level]

    def _run(self) -> None:
        while not self._ended.wait(_LOOKS):
            self.look()


@contextlib.contextmanager
def _terminal_may_be_gone() -> Iterator[None]:
    """Ignore the error of a closed terminal window: SIGHUP ends the run in order."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EIO:
            raise

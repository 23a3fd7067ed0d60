"""Words for people: recorded strings made plain or cut, numbers of things, lists of names, command lines, times."""

import math
import shlex
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path


def plain(words: str, encoding: str = "utf-8") -> str:
    """A recorded text on one line: what cannot be printed, or what the encoding lacks, is written as escapes."""
    shown = "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in words)
    return shown.encode(encoding, "backslashreplace").decode(encoding)


def plain_lines(text: str) -> str:
    return "\n".join(map(plain, text.splitlines()))


def in_a_line(text: str) -> str:
    """Every run of white space, line ends included, as one space."""
    return " ".join(text.split())


def cut(text: str, longest: int, mark: str = "...") -> str:
    """At most `longest` characters; a longer text is cut and ends in the mark."""
    return text if len(text) <= longest else text[: max(longest - len(mark), 0)] + mark


def typed(path: Path) -> Path:
    """A path as a person would type it: from the working directory, where that is shorter."""
    try:
        return path.resolve().relative_to(Path.cwd())
    except ValueError:
        return path


def command_line(module: str, *arguments: str) -> str:
    """What a person types to run `python -m MODULE`: with the checkout's interpreter, else as a command of `fencepost`.

    Outside the checkout's folder both are named whole. An installed package gives pytest options of its own before the
    folder of the suite; `fencepost certify` adds them.
    """
    checkout = Path(__file__).resolve().parents[1]
    if (checkout / "pyproject.toml").is_file():
        where = "" if Path.cwd() == checkout else f"{checkout}/"
        suite = (f"{where}{word}" if word == "suites/" else word for word in arguments)
        return shlex.join([f"{where}.venv/bin/python", "-m", module, *suite])
    folder = next((place for place, word in enumerate(arguments) if Path(word).name == "suites"), -1)
    begins, place = {"pytest": ("certify", folder + 1), "checkers": ("check", 0)}.get(module, (module, 0))
    return shlex.join(["fencepost", begins, *arguments[place:]])


def again(command: Sequence[str]) -> str:
    """The command line that repeats a run, from the words that were stored of it; empty if there are none."""
    return command_line(*command) if command[:1] == ["pytest"] else shlex.join(command)


def count(number: int, what: str, several: str = "") -> str:
    """`1 trial`, `2 trials`. several: the plural, if it is not the singular with an `s`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {several or what + 's'}"


def few(names: Iterable[str], most: int, what: str = "more") -> list[str]:
    """The first `most` names and how many more there are, for `listing`. If there is one more, it is named."""
    names = list(names)
    return names if len(names) <= most + 1 else [*names[:most], f"{len(names) - most} {what}"]


def without_options(words: Sequence[str], valued: Collection[str], alone: Collection[str] = ()) -> list[str]:
    """A command line without some options. `valued` have a value, behind `=` or as the next word; `alone` have none."""
    kept = []
    rest = iter(words)
    for word in rest:
        if word in valued:
            next(rest, None)
        elif word not in alone and word.partition("=")[0] not in valued:
            kept.append(word)
    return kept


def moment(text: object) -> datetime | None:
    """The moment of an ISO 8601 text, in UTC if the text names no zone; None for anything else."""
    try:
        parsed = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)


def seconds(time: float, origin: int) -> str:
    """A moment as seconds since the origin. time, origin: ns."""
    return f"{(time - origin) / 1e9:.4f} s"


def duration(ns: float) -> str:
    """A length of time (ns) in seconds, milliseconds or microseconds."""
    if ns >= 999.5e6:  # three digits would round it up to four
        return f"{ns / 1e9:.2f} s"
    return f"{ns / 1e6:.3g} ms" if ns >= 999.5e3 else f"{ns / 1e3:.3g} µs"


def span(seconds: float) -> str:
    """A length of time in words: 7 s, 2 min 5 s, 1 h 10 min."""
    whole = round(max(seconds, 0))
    minutes, hours = whole // 60, whole // 3600
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


def roughly(seconds: float) -> str:
    """A rounded length of time: "about 40 s", "about 4 min", "about 1 h 10 min"."""
    seconds = max(seconds, 0.0)
    if seconds <= 55:
        return f"about {max(math.ceil(seconds / 10) * 10, 10)} s"
    minutes = math.ceil(seconds / 60 - 0.25)
    if minutes < 60:
        return f"about {max(minutes, 1)} min"
    hours, minutes = divmod(math.ceil(minutes / 10) * 10, 60)
    return f"about {hours} h {minutes} min" if minutes else f"about {hours} h"


def clock(seconds: float) -> str:
    """A length of time as a clock shows it: 0:07, 12:30, 1:00:00."""
    minutes, rest = divmod(int(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

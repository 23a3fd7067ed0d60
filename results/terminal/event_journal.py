"""The events of a run while it goes on. `events.jsonl` in its folder has a line of JSON for each, from all processes.

    {"at": 1763797893.104, "by": "gw0", "event": "judges", "lane": "redis/set/unfenced", "number": 2, "of": 7}

`at` is seconds since the epoch, `by` the process (`main`, or xdist's name for it). The events and their other keys:

    plan     backend, trials [[column, part, seconds expected]], shared (whether several processes may do it)
    resumed  kept [[backend, column, part, seconds that it took]], stored, again (trials): from here on new processes
             continue the run after an interruption
    boot     backend, version ("" for the usual one): a cluster is being started
    ready    backend, seconds
    trial    trial, backend, column, part, attempt, seed, lanes (how many), locks, plan (lines): it begins
    step     text: what is being done to the backend, or was done
    waits    text, within (seconds)
    repeats  text: why the trial runs its plan once more
    judges   lane, number, of
    verdict  lane, property, fault, word, because: one that fails the run
    done     trial, backend, column, part, seconds, words {word: judgements}, again (lanes that get another trial)
    broke    trial, backend, column, part, text
    says     text

Each process appends whole lines, and readers take whole lines only, so a process that is killed leaves nothing broken.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Final

NAME: Final = "events.jsonl"
_LONGEST: Final = 600  # the most characters of one text, so that the system appends a line at once


@dataclass(frozen=True, slots=True)
class Event:
    """One event. The journal adds the time (`at`) and the process (`by`)."""

    name: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    at: float = 0.0
    by: str = ""

    def text(self, fact: str) -> str:
        """The value of a key as text; "" where it is missing."""
        return str(self.facts.get(fact, ""))

    def number(self, fact: str) -> float:
        """The value of a key; 0 where it is missing or is no number."""
        value = self.facts.get(fact)
        return float(value) if isinstance(value, int | float) and isfinite(value) else 0.0


Tell = Callable[[Event], None]


def says(text: str) -> Event:
    return Event("says", {"text": text})


def step(text: str) -> Event:
    return Event("step", {"text": text})


def waits(text: str, within: float) -> Event:
    """text: what is waited for. within: seconds."""
    return Event("waits", {"text": text, "within": round(within, 1)})


class Journal:
    """Writes one process's events. Errors, such as a full disk, are ignored: they must not end a trial."""

    def __init__(self, folder: Path, by: str, clock: Callable[[], float] = time.time) -> None:
        self._by, self._clock = by, clock
        self._file = os.open(folder / NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def tell(self, event: Event) -> None:
        facts = {name: value[:_LONGEST] if isinstance(value, str) else value for name, value in event.facts.items()}
        line = json.dumps({"at": round(self._clock(), 3), "by": self._by, "event": event.name, **facts})
        with suppress(OSError):
            os.write(self._file, line.encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)


class Tail:
    """Reads the events that were appended since the last read. new: ignore those that are there already."""

    def __init__(self, folder: Path, *, new: bool = False) -> None:
        self._path, self._at, self._rest = folder / NAME, 0, b""
        if new:
            self.read()
            self._rest = b""

    def read(self) -> list[Event]:
        """The new events. An incomplete line is kept until its end is there; a damaged line is skipped."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                new = file.read()
        except OSError:
            return []
        self._at += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        return [event for line in lines if (event := _event(line)) is not None]


def _event(line: bytes) -> Event | None:
    try:
        fields = json.loads(line)
        return Event(str(fields.pop("event")), fields, float(fields.pop("at")), str(fields.pop("by")))
    except (AttributeError, KeyError, TypeError, ValueError):
        return None

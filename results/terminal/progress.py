"""The state of a run, from its events: lines for a log or a terminal, a few lines to be redrawn, and the time left."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from pathlib import Path
from statistics import fmean
from typing import Final, NamedTuple

from checkers.claims import Verdict
from checkers.properties.story_sentences import listing
from results.report.grid import short_names
from results.terminal.event_journal import Event, Tail
from results.text import clock, count, plain, roughly

MOST: Final = 6
"""Processes that have a line of their own."""
TRUST: Final = 60.0
"""Seconds of trials that count as if they had taken as long as expected: one slow trial at the start weighs less."""
_NAMES: Final = 3  # the most locks of a trial that are named


class Level(IntEnum):
    """How much detail a line is, the least first."""

    FAILING = 0
    DONE = 1
    BEGUN = 2
    STEP = 3


class ScreenLine(NamedTuple):
    """One line. style: of Rich; the text says everything without it. standing: the run's state, which a log shows."""

    text: str
    level: Level = Level.DONE
    style: str = ""
    standing: str = ""


class Key(NamedTuple):
    """One part of a column on one backend. Further trials of a positive control have the same key."""

    backend: str
    column: str
    part: int


@dataclass(slots=True)
class _Doing:
    """What one process is doing. Times in seconds since the epoch."""

    title: str
    began: float
    stage: str  # what the process does; if `within` is not 0, what it waits for, at most `within` seconds
    since: float
    key: Key | None = None  # of its trial, if it has begun one
    about: str = ""  # details of the trial, shown where there is room
    within: float = 0.0


@dataclass(slots=True)
class Progress:
    """The state of a run. processes: how many run trials. planned, took: expected and real seconds of each trial."""

    processes: int = 1
    planned: dict[Key, float] = field(default_factory=dict)
    took: dict[Key, float] = field(default_factory=dict)
    failing: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """(lane, property, fault) → word."""
    broken: int = 0
    _shared: set[str] = field(default_factory=set)
    _doing: dict[str, _Doing] = field(default_factory=dict)
    _free: dict[str, float] = field(default_factory=dict)
    """Process → the time from which the process could have begun its trial."""
    _begun: float = 0.0

    def take(self, event: Event) -> list[ScreenLine]:
        """Take an event into account. Returns the lines for people about it."""
        self._begun = self._begun or event.at
        lines: list[ScreenLine] = getattr(self, f"_on_{event.name}", self._on_says)(event)
        at = f"{datetime.fromtimestamp(event.at).astimezone():%H:%M:%S} "
        return [
            line._replace(text=plain((at if number == 0 else " " * len(at)) + line.text))
            for number, line in enumerate(lines)
        ]

    def live(self, now: float) -> list[ScreenLine]:
        """The state of the run, and a line for each process. Nothing before the first event."""
        if not (self._doing or self.took):
            return []
        lines = [ScreenLine(f"{self.standing(now)}; {clock(now - self._begun)} so far", style="bold")]
        shown = sorted(self._doing.values(), key=lambda doing: doing.began)
        lines += [ScreenLine(plain(f"{_now(doing, now)}{doing.about}")) for doing in shown[:MOST]]
        if len(shown) > MOST:
            lines.append(ScreenLine(f"and {len(shown) - MOST} more"))
        return lines

    def beat(self, now: float) -> ScreenLine:
        """`live` in one line, for a log that had no new line for a while."""
        doing = "; ".join(self.doing(now)) or ("between two trials" if self.took else "nothing is tried yet")
        at = f"{datetime.fromtimestamp(now).astimezone():%H:%M:%S}"
        return ScreenLine(plain(f"{at} still at it: {doing} [{self.standing(now)}]"), Level.FAILING)

    def doing(self, now: float) -> list[str]:
        return [_now(doing, now) for doing in sorted(self._doing.values(), key=lambda doing: doing.began)]

    def standing(self, now: float) -> str:
        """How many of the trials are done, what fails so far, and the time left."""
        parts = [f"{len(self.took)} of {len(self.planned)} trials" if self.planned else "no trial yet"]
        words = list(self.failing.values())
        parts += [f"{words.count(word)} {word}" for word in map(str, Verdict) if word in words]
        if self.broken:
            parts.append(f"{self.broken} broke")
        left = self.left(now)
        if left is not None and len(self.took) < len(self.planned):
            parts.append(f"{roughly(left)} left")
        return ", ".join(parts)

    def left(self, now: float) -> float | None:
        """Seconds until all is done, at each backend's pace so far, never negative; None before the plan is known.

        One process tries a backend that is not shared. The longest such backend decides, or, with few processes, all.
        """
        if not self.planned:
            return None
        elapsed = {doing.key: now - self._free.get(by, doing.began) for by, doing in self._doing.items()}
        of_backend: dict[str, float] = {}
        for key, expected in self.planned.items():
            if key not in self.took:
                rest = max(expected * self._pace(key.backend) - max(elapsed.get(key, 0.0), 0.0), 0.0)
                of_backend[key.backend] = of_backend.get(key.backend, 0.0) + rest
        alone = max((rest for backend, rest in of_backend.items() if backend not in self._shared), default=0.0)
        return max(alone, sum(of_backend.values()) / max(self.processes, 1))

    def _pace(self, backend: str) -> float:
        """Time taken divided by time expected, of the backend's trials or else of all, plus `TRUST` seconds in both."""
        of_all = [(took, self.planned[key], key.backend) for key, took in self.took.items() if self.planned.get(key)]
        mine = [done for done in of_all if done[2] == backend] or of_all
        return (TRUST + sum(took for took, _, _ in mine)) / (TRUST + sum(expected for _, expected, _ in mine))

    # What each event changes, by its name

    def _on_says(self, event: Event) -> list[ScreenLine]:
        return [ScreenLine(event.text("text"), Level.BEGUN)]

    def _on_plan(self, event: Event) -> list[ScreenLine]:
        trials = event.facts.get("trials")
        for column, part, seconds in trials if isinstance(trials, list) else ():
            self.planned[Key(event.text("backend"), str(column), int(part))] = float(seconds)
        if event.facts.get("shared"):
            self._shared.add(event.text("backend"))
        return []

    def _on_resumed(self, event: Event) -> list[ScreenLine]:
        """Forget all but the kept trials: the others are tried again."""
        again, kept = event.number("again"), event.facts.get("kept")
        self.planned, self.took, self.failing, self.broken = {}, {}, {}, 0
        self._shared, self._doing, self._free, self._begun = set(), {}, {}, event.at
        for backend, column, part, seconds in kept if isinstance(kept, list) else ():
            self.took[Key(str(backend), str(column), int(part))] = float(seconds)
        stored = f"resumed: {count(round(event.number('stored')), 'trial')} stored"
        return [ScreenLine(stored + (f", {count(round(again), 'trial')} set aside, to be run again" if again else ""))]

    def _on_boot(self, event: Event) -> list[ScreenLine]:
        name = f"{event.text('backend')} {event.text('version')}".strip()
        self._doing[event.by] = _Doing(name, event.at, "is being started", event.at)
        return [ScreenLine(f"{name} is being started", Level.STEP)]

    def _on_ready(self, event: Event) -> list[ScreenLine]:
        self._doing.pop(event.by, None)
        return [ScreenLine(f"{event.text('backend')} is ready after {event.number('seconds'):.1f} s", Level.BEGUN)]

    def _on_trial(self, event: Event) -> list[ScreenLine]:
        key = _key(event)
        if key not in self.planned:  # the rest of a trial that broke
            self.planned[key] = fmean(self.planned.values()) if self.planned else 0.0
        self._free.setdefault(event.by, event.at)
        lanes = f"{count(round(event.number('lanes')), 'lane')} of {lock_names(event.facts.get('locks'))}"
        title = f"{key.backend} {key.column}" + (f", trial {event.text('attempt')}" if _again(event) else "")
        self._doing[event.by] = _Doing(title, event.at, "starting its workers", event.at, key, f" ({lanes})")
        plan = event.facts.get("plan")
        lines = [ScreenLine(f"{_title(event)}: {lanes}", Level.BEGUN)]
        return lines + [ScreenLine(f"  {line}", Level.BEGUN) for line in (plan if isinstance(plan, list) else ())]

    def _stage(self, event: Event, stage: str, within: float = 0.0) -> None:
        if doing := self._doing.get(event.by):
            doing.stage, doing.since, doing.within = stage, event.at, within

    def _on_step(self, event: Event) -> list[ScreenLine]:
        doing, text = self._doing.get(event.by), event.text("text")
        if doing and doing.key:
            text = text.removeprefix(f"{doing.key.column}: ")
        self._stage(event, text)
        return [ScreenLine(f"{self._who(event)}{text}", Level.STEP)]

    def _on_waits(self, event: Event) -> list[ScreenLine]:
        self._stage(event, event.text("text"), event.number("within"))
        return [ScreenLine(f"{self._who(event)}waiting for {event.text('text')}", Level.STEP)]

    def _on_repeats(self, event: Event) -> list[ScreenLine]:
        if doing := self._doing.get(event.by):
            doing.about = f" ({event.text('text')})"
        return [ScreenLine(f"{self._who(event)}{event.text('text')}", Level.BEGUN)]

    def _on_judges(self, event: Event) -> list[ScreenLine]:
        self._stage(event, f"judging {event.text('lane')} ({event.text('number')} of {event.text('of')})")
        return []

    def _who(self, event: Event) -> str:
        doing = self._doing.get(event.by)
        return f"{doing.title}: " if doing else ""

    def _on_verdict(self, event: Event) -> list[ScreenLine]:
        word, lane, name, fault = (event.text(fact) for fact in ("word", "lane", "property", "fault"))
        if self.failing.get((lane, name, fault)) == word:
            return []
        self.failing[lane, name, fault] = word
        text = f"{word}: {name} in {lane} under {fault}: {event.text('because')}"
        return [ScreenLine(text, Level.FAILING, "bold red")]

    def _on_done(self, event: Event) -> list[ScreenLine]:
        words = event.facts.get("words")
        counts = [f"{count} {word}" for word, count in words.items()] if isinstance(words, Mapping) else []
        text = f"{_title(event)}: {event.number('seconds'):.1f} s, {', '.join(counts) or 'nothing was judged'}"
        if again := event.number("again"):
            text += f"; {count(round(again), 'lane')} again"
            self._stage(event, f"{count(round(again), 'lane')} again")
            return [ScreenLine(text)]
        self._end(event)
        return [ScreenLine(text, standing=f" [{self.standing(event.at)}]")]

    def _on_broke(self, event: Event) -> list[ScreenLine]:
        self.broken += 1
        self._end(event)
        return [ScreenLine(f"{_title(event)}: broke, {event.text('text')}", Level.FAILING, "bold red")]

    def _end(self, event: Event) -> None:
        self._doing.pop(event.by, None)
        key = _key(event)
        self.planned.setdefault(key, 0.0)
        self.took[key] = max(event.at - self._free.get(event.by, self._begun), 0.0)
        self._free[event.by] = event.at


def unfinished(folder: Path) -> list[str]:
    """What the processes of a run were doing at its last event; empty if all had finished."""
    progress, events = Progress(), Tail(folder).read()
    for event in events:
        progress.take(event)
    return progress.doing(events[-1].at if events else 0.0)


def _now(doing: _Doing, now: float) -> str:
    if doing.within:
        waited = f"{max(now - doing.since, 0.0):.0f} s of {math.ceil(doing.within)} s"
        return f"{doing.title}: waiting {waited} for {doing.stage}"
    lasts = f"{max(now - doing.began, 0.0):.0f} s"
    return f"{doing.title} {doing.stage}, {lasts}" if doing.key is None else f"{doing.title}: {doing.stage}, {lasts}"


def _key(event: Event) -> Key:
    return Key(event.text("backend"), event.text("column"), int(event.number("part")) or 1)


def _again(event: Event) -> bool:
    return event.number("attempt") > 1


def _title(event: Event) -> str:
    """The trial of an event, in columns, so that lines can be compared."""
    part = f", part {event.number('part'):.0f}" if event.number("part") > 1 else ""
    again = f", trial {event.number('attempt'):.0f}" if _again(event) else ""
    return f"{event.text('backend'):<10} {event.text('column'):<22} seed {event.text('seed')}{part}{again}"


def lock_names(locks: object) -> str:
    """The names of a few locks, or how many they are."""
    names = list(short_names(map(str, locks)).values()) if isinstance(locks, Iterable) else []
    if len(names) > _NAMES:
        return f"{len(names)} locks"
    return listing(names) if names else ""

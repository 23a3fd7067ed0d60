"""All runs of a folder and what changed from one to the next: `<results>/index.html`, written whenever a run is closed.

Each run's summary.json is read once. What the page needs of it is cached in `<results>/.trend.json`, which may be
deleted: it is made again from the summaries.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from checkers.claims import Verdict
from results.pages import rates, runs_page
from results.pages.runs_page import NO_LONGER, Listed, VerdictChange
from results.pages.web import to_page
from results.record import Cell, judged, mapping, versions, words
from results.report.verdict_changes import Kind, kind
from results.storage import files, summary
from results.storage.files import BadFile
from results.storage.reading import RunContents
from results.storage.run_folder import CLOSED, GOING_ON, RunFolder, is_running
from results.text import without_options

CACHE: Final = ".trend.json"
_FORMAT: Final = 1
_MOST_CHANGES: Final = 100
"""The most changes that are kept of a run, the heaviest first. The number of changes of each kind is kept as well."""
_CHOOSING: Final = ("--from", "--to", "--lock", "--backend", "--faults", "--plan", "--shard", "--count", "--library")
"""Options that choose what is tried. Only runs with the same values can be compared."""


class _Row(NamedTuple):
    """The heaviest verdict of all trials on a property of a lane under a fault, and the link to this verdict."""

    backend: str
    lock: str
    fault: str
    property: str
    lane: str
    word: Verdict
    link: str


@dataclass(slots=True)
class _Known:
    """What is cached of one run."""

    key: list[int]  # identifies the version of its files that was read
    listed: Listed
    since: list[Any] = field(default_factory=list)  # name and key of the run that `listed.changes` compares with
    verdicts: list[_Row] | None = None  # kept only while a later run may be compared with it; None: to be read again


def write(root: Path) -> Path:
    """Draw the page of the runs in `root`. Returns its path. Damaged runs are named there. Raises OSError."""
    wrong: list[str] = []
    known = _runs(root, _load(root), wrong)
    _compare(root, known)
    body = json.dumps(msgspec.to_builtins(known))
    files.write_text(root / CACHE, f"{_digest(body)}\n{body}\n")
    page = root / "index.html"
    files.write_text(page, runs_page.render([each.listed for each in known.values()], wrong))
    return page


def refresh(root: Path) -> list[str]:
    """Call `write`, but do not let an error stop the caller. Returns a line if the page cannot be written."""
    try:
        write(root)
    except (BadFile, OSError) as error:
        return [f"the page of all runs was not written: {files.reason(error)}"]
    return []


# What is read


def _runs(root: Path, cached: Mapping[str, _Known], wrong: list[str]) -> dict[str, _Known]:
    """The runs by name, oldest first."""
    runs: dict[str, _Known] = {}
    for path in files.entries(root, wrong, follow=True):
        try:
            if path.is_symlink() or not (path / "run.json").exists():
                continue
            key, known = _key(path), cached.get(path.name)
            if known is None or known.key != key:
                known = _read(path, key)
        except (BadFile, OSError) as error:
            wrong.append(files.reason(error).removeprefix(f"{root}/"))
            continue
        page = path / "index.html"
        known.listed = replace(known.listed, link=to_page(page, root) if page.is_file() else "")
        runs[path.name] = known
    return dict(sorted(runs.items(), key=lambda item: (item[1].listed.started, item[1].key, item[0])))


def _key(path: Path) -> list[int]:
    """Identifies the version of the files that `_read` reads. Raises OSError."""
    file = path / summary.NAME
    if file.exists():
        status = file.stat()
        return [status.st_mtime_ns, status.st_size]
    run_file, trials = path / "run.json", path / "trials"
    return [run_file.stat().st_mtime_ns, trials.stat().st_mtime_ns if trials.exists() else 0, is_running(path)]


def _read(path: Path, key: list[int]) -> _Known:
    """What is cached of a run, read from its folder. Raises BadFile."""
    run = RunFolder(path)
    if (state := run.state()) == CLOSED:
        made = summary.load(path)
    elif state == GOING_ON:
        made = summary.make(path, "", run.about(), {}, RunContents((), (), ()))
    else:
        made = run.summarise("", {})
    listed = Listed(
        name=path.name,
        state=state,
        started=made.started,
        closed=made.closed,
        command=" ".join(without_options(words(made.asked.get("command")), ("--results",))),
        like=_like(made.asked),
        profile="" if (profile := made.asked.get("profile")) is None else str(profile),
        seed="" if (seed := made.asked.get("seed")) is None else str(seed),
        versions=versions(made.cells),
        words={str(word): count for word, count in made.words.items() if count},
        left_out=len(made.problems),
        certificate=summary.certificate(made.about),
        rates=rates.per(lambda lane: lane.backend, made.lanes),
    )
    return _Known(key, listed, verdicts=_verdicts(made.cells, path) if state == CLOSED else None)


def _verdicts(cells: Iterable[Cell], path: Path) -> list[_Row]:
    heaviest: dict[tuple[str, ...], _Row] = {}
    for cell in judged(cells):
        if cell.page is not None:
            link = to_page(cell.page, path.parent, cell.lane, cell.property)
            row = _Row(cell.backend, cell.lock, cell.fault, cell.property, cell.lane, cell.word, link)
            if row.word.weight < heaviest.setdefault(row[:5], row).word.weight:
                heaviest[row[:5]] = row
    return list(heaviest.values())


def _like(about: Mapping[str, Any]) -> str:
    """A text that is equal for runs that tried the same, whatever their seed, machine and default versions."""
    chosen: list[str] = []
    command = words(about.get("command"))
    for at, word in enumerate(command):
        name, equals, value = word.partition("=")
        if name in _CHOOSING:
            chosen.append(f"{name} {value if equals else ''.join(command[at + 1 : at + 2])}")
    return json.dumps([about.get("profile"), sorted(chosen), sorted(mapping(about.get("targets")))])


# What changed


def _compare(root: Path, known: Mapping[str, _Known]) -> None:
    """Set what changed in each closed run since the last comparable one."""
    last: dict[str, _Known] = {}
    for now in known.values():
        if now.listed.state != CLOSED:
            continue
        before = last.get(now.listed.like)
        since: list[Any] = [] if before is None else [before.listed.name, before.key]
        if since != now.since:
            changes = [] if before is None else _changes(_verdicts_of(root, before), _verdicts_of(root, now))
            kinds = [change.kind for change in changes]
            now.since = since
            now.listed = replace(
                now.listed,
                since=before.listed.name if before is not None else "",
                changes=tuple(changes[:_MOST_CHANGES]),
                changed={kind: kinds.count(kind) for kind in runs_page.KINDS if kind in kinds},
            )
        if before is not None:
            before.verdicts = None
        last[now.listed.like] = now


def _verdicts_of(root: Path, known: _Known) -> list[_Row]:
    """A run's verdicts, read again if they were not kept; none if the run cannot be read any more."""
    if known.verdicts is None:
        path = root / known.listed.name
        try:
            known.verdicts = _verdicts(summary.load(path).cells, path)
        except BadFile:
            known.verdicts = []
    return known.verdicts


def _changes(earlier: Iterable[_Row], later: Iterable[_Row]) -> list[VerdictChange]:
    """The changes, heaviest first. What only one run judged is a change only if it failed."""
    there, here = ({row[:5]: row for row in rows} for rows in (earlier, later))
    changes: dict[tuple[str, ...], VerdictChange] = {}
    for key in {**there, **here}:
        old, new = there.get(key), here.get(key)
        before, now = (None if row is None else row.word for row in (old, new))
        if what := _kind(before, now):
            backend, lock, fault, name, lane = key
            same = (what, backend, lock, fault, name, str(before or ""), str(now or ""))
            first = changes.get(same) or VerdictChange(*same, lane, "" if new is None else new.link)
            changes[same] = replace(first, lanes=first.lanes + 1)
    order = list(runs_page.KINDS)
    return sorted(changes.values(), key=lambda row: (order.index(row.kind), row.lock, row.fault, row.property))


def _kind(old: Verdict | None, new: Verdict | None) -> str | None:
    """The kind of a change; None if it is not shown."""
    if old is None:
        return Kind.NEW if new is not None and new.fails else None
    if new is None:
        return NO_LONGER if old.fails else None
    return None if old is new else kind(old, new)


# The cache


def _load(root: Path) -> dict[str, _Known]:
    """The cache; empty if it is missing, damaged or of another version: then all runs are read again."""
    try:
        digest, _, rest = files.read_bytes(root / CACHE).decode().partition("\n")
        body = rest.removesuffix("\n")
        return msgspec.json.decode(body, type=dict[str, _Known]) if digest == _digest(body) else {}
    except (BadFile, ValueError):
        return {}


def _digest(body: str) -> str:
    """A digest which proves that this version wrote the body, so the body has the shape that this version reads."""
    shape = ",".join((*Listed.__slots__, *VerdictChange.__slots__, *rates.Rates.__slots__))
    return hashlib.sha256(f"{_FORMAT}{shape}{body}".encode()).hexdigest()

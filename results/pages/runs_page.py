"""The page of all runs: the verdicts of each, what changed since the last comparable run, and rates over time."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import PurePosixPath
from typing import Any, Final

from checkers.claims import Verdict
from results.pages import web
from results.pages.rates import UNKNOWN, ChartLine, Rates, line
from results.report.verdict_changes import Kind
from results.storage import files
from results.storage.run_folder import CLOSED
from results.text import count, moment, span

NO_LONGER: Final = "no longer judged"
KINDS: Final[Mapping[str, tuple[str, str]]] = {
    Kind.NEW: ("▲", "fails now, and did not before"),
    NO_LONGER: ("?", "failed before, and is not judged any more"),
    Kind.CHANGED: ("~", "another word"),
    Kind.CLEARED: ("▼", "failed before, and does not any more"),
}
"""Kind of change → its glyph and its meaning, in the order in which they are shown."""
_MOST_TOLD: Final = 20  # the most runs whose changes are listed


@dataclass(frozen=True, slots=True)
class VerdictChange:
    """A property of a lock under a fault whose verdict changed. before, after: the verdicts; empty: not judged.

    lane, link  of the first of `lanes` lanes that changed in the same way.
    """

    kind: str
    backend: str
    lock: str
    fault: str
    property: str
    before: str
    after: str
    lane: str
    link: str
    lanes: int = 0


@dataclass(frozen=True, slots=True)
class Listed:
    """One run, as the list shows it.

    started, closed  ISO 8601; closed: empty unless `state` is `CLOSED`.
    like     equal for runs that can be compared.
    words    verdict → how often it occurs, without verdicts that do not occur.
    since    the run that `changes` compares with; empty: none. changed: kind → how many changes.
    certificate  its sentence; empty: it has none.
    link     from the list to the run's page; empty: it has none.
    """

    name: str
    state: str
    started: str
    closed: str
    command: str
    like: str
    profile: str
    seed: str
    versions: Mapping[str, str]
    words: Mapping[str, int]
    left_out: int
    rates: Mapping[str, Rates]
    certificate: str = ""
    since: str = ""
    changes: tuple[VerdictChange, ...] = ()
    changed: Mapping[str, int] = field(default_factory=dict)
    link: str = ""


def render(runs: Sequence[Listed], wrong: Sequence[str]) -> str:
    """The page as HTML. runs: oldest first. wrong: a line for each run that cannot be read."""
    newest = list(reversed(runs))
    measured = next((run for run in newest if run.state == CLOSED and run.rates), None)
    alike = [run for run in runs if measured and run.state == CLOSED and run.like == measured.like]
    return web.render(
        "runs.html",
        script=("tables.js",),
        style="run.css",
        title="runs - fencepost",
        sentence=_sentence(newest),
        wrong=list(wrong),
        closed=CLOSED,
        when=when,
        runs=[_row(run) for run in newest],
        all_kinds=KINDS,
        changes=[run for run in newest if run.changes][:_MOST_TOLD],
        alike=_alike(alike),
        charts=[_charts(backend, alike) for backend in sorted({name for run in alike for name in run.rates})],
    )


def _sentence(newest: Sequence[Listed]) -> str:
    if not newest:
        return "No runs yet."
    number = "One run." if len(newest) == 1 else f"{len(newest)} runs."
    last = next((run for run in newest if run.state == CLOSED), None)
    if last is None:
        return f"{number} None of them has ended."
    if last.certificate:
        return f"{number} The last one that ended: {last.certificate}"
    failing = _failing(last)
    came_to = count(failing, "failing verdict") if failing else "no failing verdict"
    left = f", {last.left_out} left out" if last.left_out else ""
    since = ""
    if last.since:
        changes = ", ".join(f"{number} {kind}" for kind, number in last.changed.items()) or "nothing changed"
        since = f"; {changes} since the last one like it"
    return f"{number} The last one that ended came to {came_to}{left}{since}."


def _row(run: Listed) -> dict[str, Any]:
    started, closed = moment(run.started), moment(run.closed)
    took = (closed - started).total_seconds() if started and closed and run.state == CLOSED else None
    return {
        "run": run,
        "certificate_link": str(PurePosixPath(run.link).with_name(files.CERTIFICATE_PAGE)) if run.link else "",
        "failing": _failing(run),
        "took": UNKNOWN if took is None else span(took),
        "seconds": took,
    }


def _failing(run: Listed) -> int:
    return sum(count for word, count in run.words.items() if Verdict(word).fails)


def _alike(runs: Sequence[Listed]) -> str:
    """A description of the runs that the charts show."""
    if not runs:
        return ""
    profile, chosen, targets = json.loads(runs[-1].like)
    shared = [f"profile {profile}"] if profile else []
    shared += [str(word) for word in chosen]
    shared += [f"against a {backend} of its own" for backend in targets]
    number = "One run" if len(runs) == 1 else f"{len(runs)} runs"
    return f"{number} like the last one" + (f": {', '.join(shared)}" if shared else "")


def _charts(backend: str, runs: Sequence[Listed]) -> dict[str, Any]:
    """Four charts: acquires without faults and during them, throughput, recovery."""
    places = [(when(run), run.link) for run in runs]
    rates = [run.rates.get(backend) for run in runs]

    def series(name: str, of: str) -> ChartLine:
        return ChartLine(name, tuple(None if rate is None else attrgetter(of)(rate) for rate in rates))

    made = [
        ("acquire without faults, ms", series("p50", "quiet.p50"), series("p99", "quiet.p99")),
        ("acquire during faults, ms", series("p50", "faulted.p50"), series("p99", "faulted.p99")),
        ("grants a second and lane", series("without faults", "quiet.rate"), series("during faults", "faulted.rate")),
        ("recovery after the heal, s", series("middle", "recovery"), series("longest", "slowest")),
    ]
    drawn = [(title, both, line(f"{backend}: {title}", places, both)) for title, *both in made]
    return {
        "backend": backend,
        "charts": [(title, [line.name for line in both], chart) for title, both, chart in drawn if chart is not None],
    }


def when(run: Listed) -> str:
    """When a run was started, to the minute; its name if that is unknown."""
    started = moment(run.started)
    return f"{started:%Y-%m-%d %H:%M}" if started is not None else run.name

"""A trial's page: the verdict, the story and the picture of the violation; where it ran, and how to do it again."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from checkers.history.history import FaultInterval
from checkers.history.view import View
from checkers.judging.judgement import Judgement
from results.pages import web
from results.pages.lane import timeline
from results.pages.lane.windows import Window, moments, windows
from results.record import LaneRecord, TrialRecord, mapping, words
from results.report import sentences
from results.report.descriptions import WORDS
from results.report.grid import tally
from results.storage.files import BadFile
from results.storage.reading import load_trial
from results.text import command_line, duration, seconds, typed

_FILTERED: Final = 6  # the number of lanes from which on the page has a filter
_MOST_WINDOWS: Final = 8  # the most violations of a lane that are drawn
_FEWEST_WINDOWS: Final = 2
_ALL_WINDOWS: Final = 64  # the most violations of a trial that are drawn; each lane has `_FEWEST_WINDOWS` at least
_UNPACKED: Final = 400_000
"""The most characters of windows that a page has unpacked. Beyond that, lanes that are not shown first are packed."""
_LOGGED: Final = 200_000  # bytes of a server's log that are in the page: the last
_MOST_FAULTS: Final = 12  # the most faults that are listed unfolded
MEANINGS: Final[Mapping[str, str]] = WORDS["counters"]
"""Counter of the checkers → what it counts, in plain words."""


def render(record: TrialRecord, folder: Path, *, inline: bool = False) -> str:
    """The page of a stored trial. folder: as people type it. inline: complete without the run's folder of assets."""
    lanes = sorted(record.lanes, key=lambda lane: sentences.lane_word(lane).weight)
    about = record.about
    struck = faults(lanes)
    judged = _heaviest_first(judgement for lane in lanes for judgement in lane.judgements)
    counted = {name for judgement in judged if judgement.result is not None for name in judgement.result.counters}
    several = sum(len(moments(lane)) > 1 for lane in lanes)
    most = min(_MOST_WINDOWS, max(_FEWEST_WINDOWS, _ALL_WINDOWS // max(several, 1)))
    shown = [_lane(lane, number, most, folder) for number, lane in enumerate(lanes)]
    logs = {name: web.spelled(log[-_LOGGED:].decode(errors="replace")) for name, log in record.logs.items()}
    return web.render(
        "trial.html",
        script=("page.js", "trial.js"),
        assets="../../assets",
        inline=inline,
        title=f"{record.name} - fencepost",
        name=record.name,
        error=str(about.get("error") or ""),
        heading=sentences.trial_heading(lanes),
        sentence=sentences.trial_sentence(lanes),
        words=tally(judgement.word for judgement in judged),
        lanes=shown,
        filtered=len(lanes) >= _FILTERED,
        properties=list(dict.fromkeys(judgement.property for judgement in judged)),
        glossary=[(name, MEANINGS[name]) for name in sorted(counted & MEANINGS.keys())],
        meaning_of=MEANINGS,
        packed=lambda text: web.packed(web.spelled(text)),
        unpacked=_UNPACKED,
        plan_lines=list(about.get("plan_lines") or ()),
        faults=struck,
        clocks=len(_zeros(lanes)),
        many_faults=len(struck) > _MOST_FAULTS,
        facts=facts(record),
        nodes=nodes(about),
        again=again(record, folder),
        recheck=recheck(folder, "*.arrow"),
        files=[lane.file for lane in lanes],
        logs=list(logs),
        logged=web.packed(json.dumps([zero, logs])) if isinstance(zero := about.get("clock_zero"), int) else "",
        rest=rest(about),
    )


def _lane(lane: LaneRecord, number: int, most: int, folder: Path) -> dict[str, Any]:
    """What the template needs of a lane. broken: properties, heaviest first. common: counters that are equal in all
    judged properties, and so describe the lane; counters: property → its others.
    """
    history, violations = lane.history, moments(lane)
    shown: list[Window] = []
    whole = Markup()
    if len(history):
        view = history.once(View)
        shown = windows(lane, view, most)
        whole = timeline.draw(view, shown[0].focus, violations, f"lane{number}")
    judged = _heaviest_first(lane.judgements)
    rows = {j.property: {*j.result.counters.items()} for j in judged if j.result is not None and j.result.counters}
    common: set[tuple[str, int]] = set.intersection(*rows.values()) if len(rows) > 1 else set()
    return {
        "name": history.facts.lane,
        "word": sentences.lane_word(lane),
        "sentence": sentences.lane_sentence(lane),
        "windows": shown,
        "violations": len(violations),
        "broken": list(dict.fromkeys(j.property for j in judged if j.result is not None and j.result.violations)),
        "operations": len(history),
        "timeline": whole,
        "judgements": judged,
        "common": sorted(common),
        "counters": {name: sorted(mine - common) for name, mine in rows.items()},
        "recheck": recheck(folder, lane.file),
    }


def _heaviest_first(judgements: Iterable[Judgement]) -> list[Judgement]:
    return sorted(judgements, key=lambda judgement: judgement.word.weight)


# Where it ran, with what, and the commands that do it again

_OURS: Final = "suites.locks."
"""The package of the locks that are known by their names. Other locks are asked for by their whole path."""
_PLAIN: Final = (
    ("backend", "backend"),
    ("version asked for", "version"),
    ("shape", "shape"),
    ("seed", "seed"),
    ("profile", "profile"),
    ("attempt", "attempt"),
    ("part of the column's lanes", "part"),
    ("started", "started"),
    ("host", "host"),
    ("Python", "python"),
    ("workers run on", "interpreter"),
    ("clocks", "clock"),
)
_LOAD: Final = ("workload", "workers", "keys", "ttl", "rate", "duration")  # options that set something of every lane
_TOLD: Final = frozenset(
    {"plan_lines", "own_plan", "error", "versions", "seconds", "clock_zero", "nodes", "lanes", "faults"}
    | {"column", "boundaries", "clients"}
    | {key for _, key in _PLAIN}
)
"""Keys of a trial's `about` that the page shows by name. The others are shown as JSON."""


@dataclass(frozen=True, slots=True)
class ServerRow:
    """A server of the trial. digest and command are empty where nothing was stored."""

    name: str
    version: str
    image: str
    digest: str
    command: str


def facts(record: TrialRecord) -> list[tuple[str, str]]:
    """(name, value) of the facts of a trial."""
    about = record.about
    rows = [(name, str(about[key])) for name, key in _PLAIN if about.get(key) not in (None, "")]
    if isinstance(about.get("seconds"), int | float):
        rows.append(("lasted", f"{about['seconds']:.1f} s"))
    ttls = sorted({lane.history.facts.ttl for lane in record.lanes if lane.history.facts.ttl})
    rows += (("time to live asked for", duration(ttl)) for ttl in ttls)
    if clients := mapping(about.get("clients")):
        rows.append(("client libraries", ", ".join(f"{name} {version}" for name, version in clients.items())))
    for lane, verbs in mapping(about.get("boundaries")).items():
        hit = (f"{verb}: {len(each['hit'])} of {each['messages']}" for verb, each in verbs.items())
        rows.append((f"messages at which {lane} was hit", ", ".join(hit)))
    return rows


def nodes(about: Mapping[str, Any]) -> list[ServerRow]:
    """The servers, and all else that has a version."""
    versions, stored = mapping(about.get("versions")), mapping(about.get("nodes"))
    servers = []
    for name in dict.fromkeys((*versions, *stored)):
        node = mapping(stored.get(name))
        settings = mapping(node.get("settings"))
        command = [*(f"{key}={value}" for key, value in settings.items()), *words(node.get("command"))]
        image, digest = (str(node.get(key, "")) for key in ("image", "digest"))
        servers.append(ServerRow(str(name), str(versions.get(name, "")), image, digest, shlex.join(command)))
    return servers


def _zeros(lanes: Sequence[LaneRecord]) -> set[int]:
    """ns; from when each lane's times count: one moment for all, except in older trials."""
    return {lane.history.once(View).zero for lane in lanes if len(lane.history)}


def faults(lanes: Sequence[LaneRecord]) -> list[dict[str, Any]]:
    """Every fault once: faults on links and servers are in the history of each lane."""
    origin = min(_zeros(lanes), default=0)
    seen: dict[FaultInterval, None] = {fault: None for lane in lanes for fault in lane.history.faults}
    return [
        {
            "name": fault.name,
            "target": fault.target,
            "moments": [
                seconds(moment, origin) if moment else "never"
                for moment in (fault.begun, fault.applied, fault.healing, fault.healed)
            ],
        }
        for fault in sorted(seen, key=lambda fault: fault.begun)
    ]


def again(record: TrialRecord, folder: Path) -> str:
    """The command that runs the same trial. folder: where it is stored, for a plan of the user's own."""
    about = record.about
    names = dict.fromkeys(name for lane in record.lanes for name in lane.history.facts.fault_names) or {"none": None}
    column = str(about.get("column") or "+".join(names))
    words = ["suites/"]
    locks = mapping(about.get("locks"))
    if about.get("profile"):
        # The profile chose the lanes. A lock that is asked for by name would be tried in all its lanes.
        words += ["--profile", str(about["profile"]), "--backend", str(about.get("backend")), "-k", column]
    else:
        for name, spelling in locks.items():
            words += ["--lock", str(name) if str(spelling).startswith(_OURS) else str(spelling)]
        if about.get("backend") and not locks:
            words += ["--backend", str(about["backend"])]
        words += ["--plan", str(folder / "plan.json")] if about.get("own_plan") else ["--faults", column]
    for option, what in (("--version-of", "version"), ("--shape", "shape")):
        if about.get("backend") and about.get(what):
            words += [option, f"{about['backend']}={about[what]}"]
    words += load_words(mapping(about.get("load")))
    words += ["--python", str(about["interpreter"])] if about.get("interpreter") else []
    if about.get("seed") is not None:
        words += ["--seed", str(about["seed"])]
    return command_line("pytest", *words)


def command_of(page: Path | None) -> str:
    """The command that runs the trial of a stored page again; empty without a page, or if the trial cannot be read."""
    try:
        return again(load_trial(page.parent), typed(page.parent)) if page is not None else ""
    except BadFile:
        return ""


def load_words(load: Mapping[str, Any]) -> list[str]:
    """The options of `pytest suites/` that set this load for every lane. What no option sets is left out."""
    given = {name: load[name] for name in _LOAD if name in load}
    return [
        word
        for name, values in given.items()
        for value in (values if isinstance(values, list | tuple) else (values,))
        for word in (f"--{name}", f"{value:g}" if isinstance(value, float) else str(value))
    ]


def recheck(folder: Path, file: str) -> str:
    """The command that judges a stored history again. file: `*.arrow` for all of the trial."""
    path = f"{shlex.quote(str(folder))}/*.arrow" if file == "*.arrow" else shlex.quote(str(folder / file))
    return f"{command_line('checkers')} {path}"


def rest(about: Mapping[str, Any]) -> str:
    """What else is stored of the trial, as JSON."""
    left = {key: value for key, value in about.items() if key not in _TOLD}
    return json.dumps(left, indent=2, ensure_ascii=False, default=str) if left else ""

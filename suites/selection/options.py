"""The options of `pytest suites/`: checked once, with an answer that lists what exists."""

import math
import os
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from infra.backends import BACKENDS
from infra.docker import images
from infra.docker.servers_with_bugs import PLANTS
from infra.docker.sources import STANDS_FOR
from infra.faults.all_faults import FAULTS, NO_FAULT
from infra.faults.plan import STORM, BadPlan, Plan, fault_names, storm_seed
from infra.faults.plan import parse as parse_plan
from infra.suggestions import instead
from infra.target import external_cluster, hooks
from infra.target.external_cluster import External
from infra.target.hooks import Hooks
from results.stages import CLIENTS
from results.storage.files import RUNS
from suites.lanes import validate_declarations
from suites.lanes.lane import WORKLOADS, Lane, Load, lanes_of
from suites.lock import admitted
from suites.locks import registry
from suites.mutants.catalogue import mutant_of
from suites.selection import bugs_of_certification, shards, upgrade_stages
from suites.selection.bad_option import BadOption
from suites.selection.profiles import PROFILES
from suites.selection.selection import Selection
from suites.selection.upgrade_stages import ONLY, ROLLING, Stage
from suites.worker import python_environment
from suites.worker.python_environment import Interpreter

EVERY_FAULT: Final = (NO_FAULT, *FAULTS)
MOST_WORKERS: Final = 1_000
MOST_KEYS: Final = 100_000
_ALL: Final = f"{', '.join(FAULTS)}, {NO_FAULT} (no fault)"


def options() -> dict[str, dict[str, Any]]:
    """Spelling → what `add_argument` of an argparse parser takes besides, and pytest's `addoption` too."""
    made: dict[str, dict[str, Any]] = {}

    def add(spelling: str, text: str, **settings: object) -> None:
        made[spelling] = {**settings, "help": text}

    repeatable = {"action": "append", "default": []}
    names = {**repeatable, "metavar": "NAME"}
    versions = {**repeatable, "metavar": "BACKEND=VERSION"}
    locks, workloads, profiles = (", ".join(known) for known in (registry.LOCKS, WORKLOADS, PROFILES))
    add("--lock", f"only this lock; repeatable. One of: {locks}; or module:Class", **names)
    add("--backend", f"only locks on this backend; repeatable. One of: {', '.join(BACKENDS)}", **names)
    faults = "only these faults, comma-separated; a+b: both at once; "
    faults += f"{STORM}17: up to three at random, of that seed; repeatable (python -m infra faults)"
    add("--faults", faults, **names)
    plan = "do what this plan says (plan.json of an earlier trial, or your own) instead of --faults; repeatable"
    add("--plan", plan, **repeatable, metavar="FILE")
    workload = f"only this workload, also of a lock that does not declare it; repeatable. One of: {workloads}"
    add("--workload", workload, **names)
    several = _whole(2, MOST_WORKERS, ": with one worker nothing is contended")
    add("--workers", "how many workers compete for the locks of each lane", type=several, metavar="N")
    keys = "how many locks each lane has; where more than workers, every other round asks for the first"
    add("--keys", keys, type=_whole(1, MOST_KEYS), metavar="K")
    ttl = "TTL of every lock, in seconds (default: the shortest that each lock is worth trying with)"
    add("--ttl", ttl, type=_positive, metavar="S")
    rate = "how many rounds the workers of each lane begin per second, whether those before have ended or not"
    add("--rate", rate, type=_positive, metavar="R")
    add("--duration", "seconds for which each trial runs at least", type=_positive, metavar="S")
    add("--profile", f"how much to try: {profiles}", default="default")
    add("--seed", "what every random choice of the run starts from (default: 1)", type=int, default=1)
    version = "a series (etcd=3.6), an exact version (etcd=3.5.21), another server for a backend (valkey=8), or "
    version += "an image of your own (etcd=image:NAME); repeatable (python -m infra versions lists them)"
    add("--version-of", version, **versions)
    old = "with --to: certify an upgrade from this version, spelled as for --version-of, or this release of a client "
    add("--from", f"{old}library (kazoo=2.9); repeatable", **versions, dest="from_")
    add("--to", "the version that is to come: may we go there?", **versions)
    target = "a cluster that exists already, all of its nodes (redis=tls://... with TLS); repeatable, one per backend; "
    target += "user, password and certificates by FENCEPOST_<BACKEND>_USER, _PASSWORD, _CA, _CERT, _KEY"
    add("--target", target, **repeatable, metavar="BACKEND=HOST:PORT,...")
    hook = "what does this to a node of a target, as pause='ssh {node} ...'; repeatable; " + ", ".join(hooks.VERBS)
    add("--hook", hook, **repeatable, metavar="VERB='COMMAND'")
    python = "what runs the workers: a virtual environment, or a Python, with client libraries of its own (and psycopg)"
    add("--python", python, metavar="PATH")
    shard = "only the I-th of N parts, which take about as long as each other (python -m results merge puts "
    add("--shard", shard + "them together)", metavar="I/N")
    resume = "go on with a run that was interrupted, where it was: its name, its folder, or `last`"
    add("--resume", resume, metavar="RUN")
    add("--count", "so many runs, one after another, each with the next seed", type=_whole(1, 10_000), metavar="N")
    endless = "runs, each with the next seed, until one fails; with --count at most so many"
    add("--until-failed", endless, action="store_true")
    results = "where runs are stored (default: results/runs of this checkout)"
    add("--results", results, default=str(RUNS), metavar="DIR")
    return made


def _whole(least: int, most: int, because: str = "") -> Callable[[str], int]:
    """The type of an option: a whole number between these two."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and least <= int(text[:9]) <= most):
            raise ArgumentTypeError(f"{text}: expected a whole number from {least} to {most}{because}")
        return int(text)

    return parse


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise ArgumentTypeError(f"{text}: expected a number above 0")
    return number


def add_options(parser: Any) -> None:
    """parser: pytest's."""
    group = parser.getgroup("fencepost", "fencepost: which promises of a lock survive which faults")
    for spelling, settings in options().items():
        group.addoption(spelling, **settings)


def parse(option: Any) -> Selection:
    """option: pytest's parsed options. Raises BadOption."""
    profile = _one(option.profile, PROFILES, "profile")
    backends = tuple(_one(name, dict.fromkeys(BACKENDS, name), "backend") for name in option.backend)
    mutants = [mutant for name in option.lock if (mutant := mutant_of(name)) is not None]
    servers = {mutant.server for mutant in mutants}
    version_of = [*option.version_of, *(plant.spelling for plant in PLANTS if str(plant) in servers)]
    python = _interpreter(option.python)
    upgraded, libraries = _stages(option, version_of, python)
    targets = _targets(option.target, version_of)
    commands = _hooks(option.hook, targets)
    plans = _plans(option.plan, targets)
    if plans and option.faults:
        raise BadOption("--plan and --faults: a run does one or the other")
    storms = tuple(f"{STORM}{option.seed + number}" for number in range(profile.storms))
    certified = upgraded is not ONLY
    more = profile.own if any(name not in registry.LOCKS for name in option.lock) else ()
    usual = (*(profile.faults or EVERY_FAULT), *more, *(profile.upgrades if upgraded[0].versions else ()), *storms)
    faults = tuple(plans) or _faults(option.faults, upgraded) or usual
    there = _lanes(option.lock, load(option))
    imported = {module for name in libraries for python in upgraded[0].pythons for module in python.modules(name)}
    lanes = tuple(
        lane
        for lane in there
        if all(lane.backend in (named or BACKENDS) for named in (backends, targets, upgraded[0].versions))
        # Of what the user names it is not looked for: it may come in by ways that are not seen.
        and (option.lock or not libraries or imported & registry.imports(lane.lock))
    )
    if not lanes and libraries:
        raise BadOption(f"no lock of ours imports {' or '.join(libraries)}: name yours with --lock")
    if not lanes:
        there_is = ", ".join(f"{lane.lock_name} on {lane.backend}" for lane in _one_each(there))
        where = " that is a target" if targets else " that --from names" if certified else ""
        named = ", ".join(backends or targets or upgraded[0].versions)
        raise BadOption(f"no lock runs on {named}{where}; there is {there_is}")
    outside = {
        lane.lock_name: lane.backend
        for lane in _one_each(lanes)
        if lane.backend in targets and not (targets[lane.backend].access.open or admitted(lane.lock))
    }
    for name in option.lock:
        if name in outside:
            raise BadOption(
                f"{name}: its open() takes no `access`, which --target {outside[name]} needs (suites/lock.py)"
            )
    lanes = tuple(lane for lane in lanes if lane.lock_name not in outside)
    planted: tuple[Lane, ...] = ()
    everything = certified and not (plans or option.faults)
    if everything or (certified and any(column in bugs_of_certification.COLUMNS for column in faults)):
        here = dict.fromkeys(lane.backend for lane in lanes)
        planted = tuple(lane for lane in bugs_of_certification.lanes(here) if lane not in lanes)
    if everything:
        faults += (*((CLIENTS,) if libraries else ROLLING), *bugs_of_certification.columns(planted))
    results = Path(option.results)
    for folder in (results, *results.parents):
        if folder.exists() and not folder.is_dir():
            raise BadOption(f"--results {results}: {folder} is not a folder")
    by_name = option.lock or option.faults
    selection = Selection(
        lanes,
        faults,
        profile,
        option.seed,
        results,
        _versions(version_of, "--version-of"),
        plans,
        worlds={backend: external_cluster.world(target, commands) for backend, target in targets.items()},
        targets=targets,
        hooks=commands,
        # Locks with a planted bug are tried as all of ours are, in the lanes that the profile chooses.
        named=bool(option.workload or ((plans or by_name) and not mutants)),
        stages=upgraded,
        planted=planted,
        python=python,
        libraries=libraries,
    )
    return selection if option.shard is None else selection.only(shards.parse(option.shard))


def load(option: Any) -> Load:
    """What these options set of every lane. Raises BadOption for a workload that does not exist."""
    for name in option.workload:
        if name not in WORKLOADS:
            raise BadOption(f"unknown workload {name!r}; there are: {', '.join(WORKLOADS)}")
    given = {field.name: getattr(option, field.name) for field in fields(Load)}
    return Load(**{**given, "workload": tuple(dict.fromkeys(option.workload))})


def _lanes(names: Sequence[str], load: Load) -> list[Lane]:
    """The lanes of these locks, of all where none is named. Raises BadOption where there is none."""
    lanes: list[Lane] = []
    for name in dict.fromkeys(names or registry.LOCKS):
        try:
            lock = validate_declarations.lock(name)
        except registry.UnknownLock as error:
            raise BadOption(str(error)) from error
        _one(lock.backend, dict.fromkeys(BACKENDS), f"backend of {name}")
        lanes += lanes_of(name, lock, load)
    if not lanes:
        raise BadOption(f"{' or '.join(names)}: not shared, not reentrant: no workload {' or '.join(load.workload)}")
    for lane in lanes:
        if lane.ttl < lane.lock.min_ttl:
            raise BadOption(f"--ttl {load.ttl:g}: {lane.lock_name} needs {lane.lock.min_ttl:g} s or more (--lock)")
    return lanes


def _interpreter(path: str | None) -> Interpreter:
    """From now on locks may import what only this interpreter has. Raises BadOption."""
    if path is None:
        return Interpreter()
    try:
        python = python_environment.ask(path)
    except python_environment.BadInterpreter as error:
        raise BadOption(f"--python {path}: {error}") from error
    python.lend()
    return python


def _one_each(lanes: Sequence[Lane]) -> Iterable[Lane]:
    return {lane.lock_name: lane for lane in lanes}.values()


def _faults(lists: Sequence[str], stages: Sequence[Stage]) -> tuple[str, ...]:
    columns = [name.strip() for text in lists for name in text.split(",")]
    for column in columns:
        if column in upgrade_stages.OF_UPGRADES:
            if not any(stage.tries(column) for stage in stages):
                what = "a client library" if column == CLIENTS else "servers"
                raise BadOption(f"--faults {column}: between which versions? It goes with --from and --to of {what}")
            continue
        names = fault_names(column)
        if "" in names:
            expected = f"expected NAME, NAME,NAME, NAME+NAME or {STORM}SEED; there are {_ALL}"
            raise BadOption(f"--faults {column!r}: {expected}")
        if NO_FAULT in names and len(names) > 1:
            raise BadOption(f"--faults {column}: {NO_FAULT} means no fault, and cannot be combined with one")
        for name in names if storm_seed(column) is None else ():
            if name not in EVERY_FAULT:
                raise BadOption(f"unknown fault {name!r}; {instead(name, (*FAULTS, NO_FAULT))} (no fault)")
        if len(set(names)) < len(names):
            raise BadOption(f"--faults {column}: a fault cannot overlap itself")
    return tuple(dict.fromkeys(columns))


def _plans(files: Sequence[str], targets: Mapping[str, External]) -> dict[str, Plan]:
    """Name of a plan → the plan in one of these files."""
    members = {backend: target.names for backend, target in targets.items()}
    plans: dict[str, Plan] = {}
    for file in files:
        try:
            plan = parse_plan(Path(file).read_text(), members)
        except (OSError, UnicodeDecodeError) as error:
            raise BadOption(f"--plan {file}: {getattr(error, 'strerror', None) or 'not a text'}") from error
        except BadPlan as error:
            raise BadOption(f"--plan {file}: {error}") from error
        if plans.setdefault(plan.name, plan) != plan:
            raise BadOption(f"--plan {file}: another plan is called {plan.name} as well")
    return plans


def _stages(
    option: Any, version_of: Sequence[str], python: Interpreter
) -> tuple[tuple[Stage, ...], dict[str, tuple[str, str]]]:
    """The stages of an upgrade, and the releases of client libraries between which it goes, if it is one of them."""
    if not (option.from_ or option.to):
        return ONLY, {}
    for given, name in ((option.target, "--target"), (option.shard, "--shard")):
        if given:
            raise BadOption(f"{name} does not go with --from and --to")
    named = {pair.partition("=")[0] for pair in (*option.from_, *option.to)}
    here = python if python.path or named <= _SERVERS.keys() else python_environment.ask(sys.executable)
    if not any(map(here.has, named - _SERVERS.keys())):
        old, new = _versions(option.from_, "--from"), _versions(option.to, "--to")
        upgrade_stages.both_named(old, new)
        if version_of:
            raise BadOption("--version-of does not go with --from and --to of servers")
        return upgrade_stages.of_servers(old, new), {}
    if mixed := sorted(named & _SERVERS.keys()):
        raise BadOption(f"--from {mixed[0]}=...: servers or client libraries are upgraded, not both in one run")
    old, new = (_releases(pairs, name, here) for pairs, name in ((option.from_, "--from"), (option.to, "--to")))
    upgrade_stages.both_named(old, new)
    try:
        before, after = (python_environment.with_libraries(here, wanted) for wanted in (old, new))
    except python_environment.BadInterpreter as error:
        raise BadOption(f"--from and --to: {error}") from error
    return upgrade_stages.of_clients(before, after), {name: (before.release(name), after.release(name)) for name in old}


_SERVERS: Final = dict.fromkeys((*BACKENDS, *STANDS_FOR))
_WHAT: Final = "backend, or client library that is installed here,"


def _releases(pairs: Sequence[str], name: str, python: Interpreter) -> dict[str, str]:
    """Client library → the release that is asked for."""
    releases: dict[str, str] = {}
    for pair in pairs:
        library, _, release = pair.partition("=")
        if not python.has(library):
            _one(library, _SERVERS, _WHAT)
        if releases.setdefault(library, release) != release:
            raise BadOption(f"{name} {pair}: {library}={releases[library]} is asked for as well; one run has one")
    return releases


def _versions(pairs: Sequence[str], name: str) -> dict[str, str]:
    versions: dict[str, str] = {}
    for pair in pairs:
        backend, version = images.spelled(pair)
        if not version.removeprefix("image:"):
            raise BadOption(f"{name} {pair}: expected BACKEND=VERSION, for example etcd=3.4")
        _one(backend, _SERVERS, "backend" if name == "--version-of" else _WHAT)
        try:
            images.resolve(backend, version)
        except images.UnknownVersion as error:
            raise BadOption(f"{name} {pair}: {error}") from error
        if versions.setdefault(backend, version) != version:
            raise BadOption(f"{name} {pair}: {backend}={versions[backend]} is asked for as well; one run has one")
    return versions


def _targets(pairs: Sequence[str], versions: Sequence[str]) -> dict[str, External]:
    try:
        targets = external_cluster.parse(pairs, os.environ)
    except external_cluster.BadTarget as error:
        raise BadOption(f"--target {error}") from error
    for backend in targets:
        if clash := next((pair for pair in versions if images.spelled(pair)[0] == backend), None):
            raise BadOption(f"--version-of {clash}: --target {backend}=... runs what it runs")
    return targets


def _hooks(pairs: Sequence[str], targets: Mapping[str, External]) -> Hooks:
    if pairs and not targets:
        raise BadOption("--hook is for the nodes of a --target, and there is none")
    try:
        return hooks.parse(pairs)
    except hooks.BadHook as error:
        raise BadOption(f"--hook {error}") from error


def _one(name: str, known: Mapping[str, Any], what: str) -> Any:
    if name not in known:
        raise BadOption(f"unknown {what} {name!r}; there are: {', '.join(known)}")
    return known[name]

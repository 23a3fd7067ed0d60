"""What the options of `pytest suites/` select. They are checked once, and an error lists what exists."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from infra.backends import BACKENDS, parse_shapes
from infra.docker import images
from infra.docker.servers_with_bugs import PLANTS
from infra.errors import UnknownName
from infra.faults.all_faults import FAULTS, NO_FAULT
from infra.faults.fault_options import Members
from infra.faults.plan import STORM, BadPlan, Plan, fault_names, storm_seed
from infra.faults.plan import parse as parse_plan
from infra.suggestions import instead
from infra.target import external_cluster, hooks
from infra.target.external_cluster import External
from infra.target.hooks import Hooks
from results.stages import CLIENTS
from suites.lanes import validate_declarations
from suites.lanes.lane import WORKLOADS, Lane, Load, lanes_of
from suites.lock import admitted
from suites.locks import registry
from suites.mutants.catalogue import mutant_of
from suites.selection import bugs_of_certification, shards, upgrade_stages
from suites.selection.bad_option import BadOption, known, raised_as
from suites.selection.profiles import PROFILES, Profile
from suites.selection.selection import Selection, members_of
from suites.selection.upgrade_stages import ONLY, ROLLING, Stage
from suites.selection.which_versions import stages, versions
from suites.worker import python_environment
from suites.worker.python_environment import Interpreter

EVERY_FAULT: Final = (NO_FAULT, *FAULTS)
_ALL: Final = f"{', '.join(FAULTS)}, {NO_FAULT} (no fault)"


def parse(option: Any) -> Selection:
    """option: pytest's parsed options. Raises BadOption."""
    profile = known("smoke" if option.quick else option.profile, PROFILES, "profile")
    profile = replace(profile, locks=None) if option.lock else profile
    if option.quick and option.profile not in ("default", profile.name):
        raise BadOption(f"--quick and --profile {option.profile}: a run does one or the other")
    mutants = [mutant for name in option.lock if (mutant := mutant_of(name)) is not None]
    servers = {mutant.server for mutant in mutants}
    version_of = [*option.version_of, *(plant.spelling for plant in PLANTS if str(plant) in servers)]
    python = _interpreter(option.python)
    upgraded, libraries = stages(option, version_of, python)
    targets = _targets(option.target, version_of)
    commands = _hooks(option.hook, targets)
    shapes = _shapes(option.shape, targets)
    plans = _plans(option.plan, members_of(shapes, targets))
    if plans and option.faults:
        raise BadOption("--plan and --faults: a run does one or the other")
    faults = tuple(plans) or _faults(option.faults, upgraded) or _usual_faults(option, profile, upgraded)
    lanes = _admitted(_selected_lanes(option, upgraded, libraries, targets), targets, option.lock)
    planted: tuple[Lane, ...] = ()
    certified = upgraded is not ONLY
    if option.budget is not None and not certified:
        raise BadOption(f"--budget {option.budget:g} goes with --from and --to: what is undecided is tried again there")
    everything = certified and not (plans or option.faults)
    if everything or (certified and any(column in bugs_of_certification.COLUMNS for column in faults)):
        here = dict.fromkeys(lane.backend for lane in lanes)
        planted = tuple(lane for lane in bugs_of_certification.lanes(here) if lane not in lanes)
    if everything:
        faults += (*((CLIENTS,) if libraries else ROLLING), *bugs_of_certification.columns(planted))
    by_name = option.lock or option.faults
    selection = Selection(
        lanes,
        faults,
        profile,
        option.seed,
        _results(option.results),
        versions(version_of, "--version-of"),
        shapes,
        plans,
        worlds={backend: external_cluster.world(target, commands) for backend, target in targets.items()},
        targets=targets,
        hooks=commands,
        # Locks with a planted bug are tried like all of our locks, in the lanes that the profile chooses.
        named=bool(option.workload or ((plans or by_name) and not mutants)),
        stages=upgraded,
        planted=planted,
        python=python,
        libraries=libraries,
        budget=option.budget or profile.budget,
    )
    selection = selection.quick() if option.quick else selection
    return selection if option.shard is None else selection.only(shards.parse(option.shard))


def _results(path: str) -> Path:
    results = Path(path)
    for folder in (results, *results.parents):
        if folder.exists() and not folder.is_dir():
            raise BadOption(f"--results {results}: {folder} is not a folder")
    return results


def _usual_faults(option: Any, profile: Profile, upgraded: Sequence[Stage]) -> tuple[str, ...]:
    """The faults of a run that names none."""
    more = profile.own if any(name not in registry.LOCKS for name in option.lock) else ()
    upgrades = profile.upgrades if upgraded[0].versions else profile.libraries if upgraded[0].pythons else ()
    storms = (f"{STORM}{option.seed + number}" for number in range(profile.storms))
    return (*(profile.faults or EVERY_FAULT), *more, *upgrades, *storms)


def _selected_lanes(
    option: Any, upgraded: Sequence[Stage], libraries: Mapping[str, tuple[str, str]], targets: Mapping[str, External]
) -> tuple[Lane, ...]:
    """The lanes of the locks, backends, targets and client libraries that are named. Raises BadOption without one."""
    backends = tuple(known(name, dict.fromkeys(BACKENDS, name), "backend") for name in option.backend)
    there = _lanes(option.lock, load(option))
    imported = {module for name in libraries for python in upgraded[0].pythons for module in python.modules(name)}
    lanes = tuple(
        lane
        for lane in there
        if all(lane.backend in (named or BACKENDS) for named in (backends, targets, upgraded[0].versions))
        # A lock that the user names is not checked for the import: it may import the library in ways that are not seen.
        and (option.lock or not libraries or imported & registry.imports(lane.lock))
    )
    if not lanes and libraries:
        raise BadOption(f"no lock of ours imports {' or '.join(libraries)}: name yours with --lock")
    if not lanes:
        there_is = ", ".join(f"{lane.lock_name} on {lane.backend}" for lane in _one_each(there))
        where = " that is a target" if targets else " that --from names" if upgraded is not ONLY else ""
        named = ", ".join(backends or targets or upgraded[0].versions)
        raise BadOption(f"no lock runs on {named}{where}; there is {there_is}")
    return lanes


def _admitted(lanes: Sequence[Lane], targets: Mapping[str, External], named: Sequence[str]) -> tuple[Lane, ...]:
    """The lanes, without locks that cannot log in to their target. Raises BadOption if the user named such a lock."""
    outside = {
        lane.lock_name: lane.backend
        for lane in _one_each(lanes)
        if lane.backend in targets and not (targets[lane.backend].access.open or admitted(lane.lock))
    }
    for name in named:
        if name in outside:
            target = f"--target {outside[name]}"
            raise BadOption(f"{name}: its open() takes no `access`, which {target} needs (suites/lock.py)")
    return tuple(lane for lane in lanes if lane.lock_name not in outside)


def load(option: Any) -> Load:
    """What these options set for every lane. Raises BadOption for a workload that does not exist."""
    for name in option.workload:
        known(name, WORKLOADS, "workload")
    given = {field.name: getattr(option, field.name) for field in fields(Load)}
    return Load(**{**given, "workload": tuple(dict.fromkeys(option.workload))})


def _lanes(names: Sequence[str], load: Load) -> list[Lane]:
    """The lanes of these locks, or of all locks if none is named. Raises BadOption if there is no lane."""
    lanes: list[Lane] = []
    for name in dict.fromkeys(names or registry.LOCKS):
        with raised_as(BadOption, "", registry.UnknownLock):
            lock = validate_declarations.lock(name)
        lanes += lanes_of(name, lock, load)
    if not lanes:
        raise BadOption(f"{' or '.join(names)}: not shared, not reentrant: no workload {' or '.join(load.workload)}")
    for lane in lanes:
        if lane.ttl < lane.lock.min_ttl:
            raise BadOption(f"--ttl {load.ttl:g}: {lane.lock_name} needs {lane.lock.min_ttl:g} s or more (--lock)")
    return lanes


def _interpreter(path: str | None) -> Interpreter:
    """The interpreter. From now on locks may import packages that only it has. Raises BadOption."""
    if path is None:
        return Interpreter()
    with raised_as(BadOption, f"--python {path}: ", python_environment.BadInterpreter):
        python = python_environment.ask(path)
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
                raise BadOption(f"unknown fault {name!r}; {instead(name, (*FAULTS, NO_FAULT))}")
        if len(set(names)) < len(names):
            raise BadOption(f"--faults {column}: a fault cannot overlap itself")
    return tuple(dict.fromkeys(columns))


def _plans(files: Sequence[str], members: Mapping[str, Members]) -> dict[str, Plan]:
    """Name of a plan → the plan in one of these files."""
    plans: dict[str, Plan] = {}
    for file in files:
        try:
            text = Path(file).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise BadOption(f"--plan {file}: {getattr(error, 'strerror', None) or 'not a text'}") from error
        with raised_as(BadOption, f"--plan {file}: ", BadPlan):
            plan = parse_plan(text, members)
        if plans.setdefault(plan.name, plan) != plan:
            raise BadOption(f"--plan {file}: another plan is called {plan.name} as well")
    return plans


def _targets(pairs: Sequence[str], versions: Sequence[str]) -> dict[str, External]:
    with raised_as(BadOption, "--target ", external_cluster.BadTarget):
        targets = external_cluster.parse(pairs, os.environ)
    for backend in targets:
        if clash := next((pair for pair in versions if images.spelled(pair)[0] == backend), None):
            raise BadOption(f"--version-of {clash}: --target {backend}=... runs what it runs")
    return targets


def _shapes(pairs: Sequence[str], targets: Mapping[str, External]) -> dict[str, str]:
    with raised_as(BadOption, "", UnknownName):
        shapes = parse_shapes(pairs)
    if clash := next((backend for backend in shapes if backend in targets), None):
        raise BadOption(f"--shape {clash}={shapes[clash]}: --target {clash}=... has the nodes that it names")
    return shapes


def _hooks(pairs: Sequence[str], targets: Mapping[str, External]) -> Hooks:
    if pairs and not targets:
        raise BadOption("--hook is for the nodes of a --target, and there is none")
    with raised_as(BadOption, "--hook ", hooks.BadHook):
        return hooks.parse(pairs)

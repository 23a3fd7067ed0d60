"""The options of `pytest suites/`, as users see them. What they select: `suites.selection.parse_options`."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from infra.backends import BACKENDS, SHAPES
from infra.faults.plan import STORM
from infra.suggestions import command
from infra.target import hooks
from results.storage.files import RUNS
from results.text import command_line
from suites.lanes.lane import WORKLOADS
from suites.locks import registry
from suites.selection.bad_option import BadOption, raised_as
from suites.selection.profiles import PROFILES


def options(error: Callable[[str], Exception] = BadOption) -> dict[str, dict[str, Any]]:
    """Spelling → the other arguments for `add_argument` of an argparse parser, and for pytest's `addoption`.

    error: what a parser raises for a bad number. (A ValueError it would print below its whole usage.)
    """
    made: dict[str, dict[str, Any]] = {}

    def add(spelling: str, text: str, **settings: object) -> None:
        if "type" in settings:
            settings["type"] = partial(_checked, error, spelling, settings["type"])
        made[spelling] = {**settings, "help": text}

    repeatable = {"action": "append", "default": []}
    names = {**repeatable, "metavar": "NAME"}
    versions = {**repeatable, "metavar": "BACKEND=VERSION"}
    minutes = ", ".join(f"{profile.budget:g} in {name}" for name, profile in PROFILES.items())
    locks, workloads, profiles = (", ".join(known) for known in (registry.LOCKS, WORKLOADS, PROFILES))
    add("--lock", f"only this lock; repeatable. One of: {locks}; or module:Class", **names)
    add("--backend", f"only locks on this backend; repeatable. One of: {', '.join(BACKENDS)}", **names)
    faults = "only these faults, comma-separated; a+b: both at once; "
    faults += f"{STORM}17: up to three at random, of that seed; repeatable ({command('faults')})"
    add("--faults", faults, **names)
    plan = "do what this plan says (plan.json of an earlier trial, or your own) instead of --faults; repeatable"
    add("--plan", plan, **repeatable, metavar="FILE")
    workload = f"only this workload, also of a lock that does not declare it; repeatable. One of: {workloads}"
    add("--workload", workload, **names)
    several = _whole(2, 1_000, ": with one worker nothing is contended")
    add("--workers", "how many workers compete for the locks of each lane", type=several, metavar="N")
    keys = "how many locks each lane has; where more than workers, every other round asks for the first"
    add("--keys", keys, type=_whole(1, 100_000), metavar="K")
    ttl = "TTL of every lock, in seconds (default: the shortest that each lock is worth trying with)"
    add("--ttl", ttl, type=_positive, metavar="S")
    rate = "how many rounds the workers of each lane begin per second, whether those before have ended or not"
    add("--rate", rate, type=_positive, metavar="R")
    add("--duration", "seconds for which each trial runs at least", type=_positive, metavar="S")
    add("--profile", f"how much to try: {profiles}", default="default")
    quick = "faults of the profile smoke, unless --faults names others, and of each lock the two lanes that ask most"
    add("--quick", quick, action="store_true")
    add("--seed", "what every random choice of the run starts from (default: 1)", type=_seed, default=1)
    version = "a series (etcd=3.6), an exact version (etcd=3.5.21), another server for a backend (valkey=8), or "
    version += f"an image of your own (etcd=image:NAME); repeatable ({command('versions')} lists them)"
    add("--version-of", version, **versions)
    shape = f"which members a cluster of ours has; repeatable. One of: {', '.join(SHAPES)}"
    add("--shape", shape, **repeatable, metavar="BACKEND=SHAPE")
    old = "with --to: certify an upgrade from this version, spelled as for --version-of, or this release of a client "
    add("--from", f"{old}library (kazoo=2.9); repeatable", **versions, dest="from_")
    add("--to", "the version that is to come: may we go there?", **versions)
    budget = "with --from and --to: minutes for each backend, within which what is undecided is tried again (default: "
    add("--budget", f"{budget}{minutes})", type=_positive, metavar="MINUTES")
    target = "a cluster that exists already, all of its nodes (redis=tls://... with TLS); repeatable, one per backend; "
    target += "user, password and certificates by FENCEPOST_<BACKEND>_USER, _PASSWORD, _CA, _CERT, _KEY"
    add("--target", target, **repeatable, metavar="BACKEND=HOST:PORT,...")
    hook = "what does this to a node of a target, as pause='ssh {node} ...'; repeatable; " + ", ".join(hooks.VERBS)
    add("--hook", hook, **repeatable, metavar="VERB='COMMAND'")
    python = "what runs the workers: a virtual environment, or a Python, with client libraries of its own (and psycopg)"
    add("--python", python, metavar="PATH")
    shard = "only the I-th of N parts, which take about as long as each other"
    add("--shard", f"{shard} ({command_line('results', 'merge')} puts them together)", metavar="I/N")
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
            raise ValueError(f"expected a whole number from {least} to {most}{because}")
        return int(text)

    return parse


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise ValueError("expected a number above 0")
    return number


def _seed(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("expected a whole number") from None


def _checked(error: Callable[[str], Exception], spelling: str, kind: Any, text: str) -> Any:
    with raised_as(error, f"{spelling} {text}: ", ValueError):
        return kind(text)


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("fencepost", "fencepost: which promises of a lock survive which faults")
    for spelling, settings in options(pytest.UsageError).items():
        group.addoption(spelling, **settings)

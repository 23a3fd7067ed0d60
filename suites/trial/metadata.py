"""What is stored of a trial besides its histories (specification, servers), and of a run (locks, faults in words)."""

import os
import platform
import subprocess
import time
import tomllib
from collections.abc import Iterable, Sequence
from importlib import metadata
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from checkers.history.history import History
from checkers.row_format import F
from infra.environment import Environment
from infra.faults.all_faults import FAULTS
from infra.faults.plan import storm_seed
from infra.faults.runner import Record
from infra.faults.servers.upgrades import REFUSED
from infra.network.topology import STORE
from results.record import CPU_PARTS
from suites.locks import registry
from suites.selection.selection import Selection
from suites.selection.trial import Trial
from suites.trial.lane_history import first_operation

_ROLL: Final = "roll-version"
_OURS: Final = "operations are timed by CLOCK_MONOTONIC of this host, which all workers share"


def suite_version() -> str:
    """The version of this suite, with the commit and whether files were changed, if git knows."""
    root = Path(__file__).parents[2]
    if not (root / "pyproject.toml").is_file():
        return metadata.version("fencepost")  # installed as a package
    version: str = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    describe = ["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude", "*"]
    try:
        commit = subprocess.run(describe, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return version
    return f"{version} ({commit})"


def described(selection: Selection) -> dict[str, Any]:
    """For `results.report.descriptions`. A column has the texts of all its faults, and a group if they share one."""
    columns = {}
    for column in selection.faults:
        names = {name: 0 for backend in selection.backends for name in selection.fault_names(column, backend)}
        if faults := [FAULTS[name] for name in names if name in FAULTS]:
            group, *others = {fault.group for fault in faults}
            texts = (fault.text if len(faults) == 1 else fault.brief for fault in faults)
            columns[column] = {"group": "" if others else group, "text": " ".join(texts)}
    return {"faults": columns, "locks": {lane.lock_name: registry.described(lane.lock) for lane in selection.lanes}}


def about(trial: Trial) -> dict[str, Any]:
    return {
        "backend": trial.backend,
        "column": trial.column,
        "own_plan": trial.plan is not None and storm_seed(trial.column) is None,
        "faults": list(trial.faults),
        "seed": trial.seed,
        "profile": trial.profile,
        "part": trial.part,
        "attempt": trial.attempt,
        "stage": trial.stage,
        "version": trial.version,
        **({"shape": trial.shape} if trial.shape else {}),
        "lanes": [lane.name for lane in trial.lanes],
        "locks": {lane.lock_name: registry.spelling(lane.lock_name) for lane in trial.lanes},
        "ttl": {lane.lock_name: lane.ttl for lane in trial.lanes},
        **({"load": load} if (load := trial.load.to_json()) else {}),
        **({"planted": dict(trial.planted)} if trial.planted else {}),
        **({"interpreter": trial.pythons[0]} if any(trial.pythons) and len(trial.pythons) == 1 else {}),
        "python": platform.python_version(),
        "host": f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores",
    }


def servers(environment: Environment, backend: str) -> dict[str, Any]:
    """Images, how servers were started (Toxiproxy and the store too), and which clock times operations and whether
    faults can move those of servers. Raises Failed when a container is gone.
    """
    cluster = environment.cluster(backend)
    nodes = cluster.everybody
    moved = environment.ours and any(node.process.has_clock() for node in nodes)
    whose = "the clocks of the servers cannot be moved"
    if moved:
        whose = "faults on clocks move the wall clocks of servers (a preloaded library), their monotonic ones stay real"
    return {
        "nodes": {**{node.name: node.process.made_from() for node in nodes}, **environment.made_from()},
        "clock": f"{_OURS}; {whose}",
    }


def rolled(records: Iterable[Record], histories: Sequence[History]) -> list[dict[str, Any]]:
    """The steps of a rolling upgrade; empty for other trials. A step is a server that was replaced, with whether it
    refused, or another fault meanwhile (one step for all workers that were hit together).

    at: seconds after the first operation of the trial, as on its page.
    """
    in_order = sorted(records, key=lambda record: record.begun)
    if all(record.name != _ROLL for record in in_order):
        return []
    zero = first_operation(histories)
    steps = []
    for _, together in groupby(in_order, lambda record: record.name if record.process >= 0 else record):
        first, *others = together
        who = first.target if first.process < 0 else f"{1 + len(others)} workers"
        what = who if first.name == _ROLL else f"{first.name}: {who}"
        refused = first.name == _ROLL and first.kind == REFUSED
        steps.append({"at": round((first.begun - zero) / 1e9, 1), "what": what, "refused": refused})
    return steps


class CpuMeter:
    """Counts the CPU seconds of a trial by part, from its creation on."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._services = environment.cpu_seconds()
        self._own = time.process_time()

    def by_part(self, workers: float) -> dict[str, float]:
        """workers: seconds that the workers used. A server that was started anew counts only since its start."""
        used = {**dict.fromkeys(CPU_PARTS, 0.0), "workers": workers, "harness": time.process_time() - self._own}
        for service, seconds in self._environment.cpu_seconds().items():
            part = {"toxiproxy": "links", STORE: "store"}.get(service, "servers")
            before = self._services.get(service, 0.0)
            used[part] += seconds - before if seconds >= before else seconds
        return {part: round(seconds, 2) for part, seconds in used.items()}


def stalled(histories: Sequence[History]) -> float:
    """The share (0 to 1) of the workers' time in which the machine did not run them, as their sentinels recorded it."""
    lost = there = 0
    for history in histories:
        c = history.columns
        stalls = (c["f"] == F.STALL) & (c["ret"] > 0)  # without the stall of a worker that was killed meanwhile
        lost += int((c["ret"] - c["inv"])[stalls].sum())
        there += int(max(c["ret"].max(), c["inv"].max()) - c["inv"].min()) * history.facts.workers if len(stalls) else 0
    return round(lost / there, 3) if there else 0.0

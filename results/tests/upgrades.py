"""Upgrades made by hand: cells and trials of every stage, and whole runs of them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from checkers.claims import Verdict
from checkers.properties.fenced_store import STALE
from checkers.properties.shared_counters import CONTENDED, EXPIRED, MIXED
from results.certificate.certify import Certificate, certify
from results.certificate.trials import UpgradeLane, UpgradeTrial
from results.record import Cell, LaneRecord, TrialRecord
from results.run import Run
from results.stages import ALONE, BASELINE, CANDIDATE, COLUMNS, STAGES
from results.storage import verdicts
from results.storage.reading import RunContents
from results.tests import samples
from results.tests.test_comparison import VALUES
from results.tests.trials import measures

UPGRADES: Final = {"redis": ("7.0", "8.0")}
OCCURRED: Final = {CONTENDED: 3, EXPIRED: 2, STALE: 1, MIXED: 40}


def step(at: float, what: str, *, refused: bool = False) -> dict[str, Any]:
    return {"at": at, "what": what, "refused": refused}


ROLLED: Final[Mapping[str, list[dict[str, Any]]]] = {
    "upgrade-leader-last": [step(2.5, "redis2 from 7.0 to 8.0"), step(6.25, "redis1 (leader) from 7.0 to 8.0")],
    "rollback-end": [step(9.5, "redis1 stays 8.0: it does not start on its data", refused=True)],
}


def cell(stage: str, word: Verdict, **given: Any) -> Cell:
    """A judgement of one lane, in a stage in which all events happened that stress a promise."""
    fault = COLUMNS.get(stage, ("freeze-holder",))[0]
    given = {"fault": fault, "counters": OCCURRED, "trial": f"redis-{fault}-1-{stage}", "stage": stage, **given}
    return samples.cell(word, **{"property": "token-order", **given})


KEPT: Final = tuple(cell(stage, Verdict.UPHELD) for stage in ALONE)


def told(stage: str, **given: object) -> UpgradeTrial:
    """A trial of two lanes in which everything happens that a certificate needs: a fenced and an unfenced one."""
    lanes = (UpgradeLane("a", "fence-writes", "grant", 3), UpgradeLane("b", "unfenced", "grant"))
    fault = COLUMNS.get(stage, ("freeze-holder",))[0]
    made = UpgradeTrial(f"redis-{fault}-1-{stage}", "redis", fault, stage, {}, lanes)
    return replace(made, **given)  # type: ignore[arg-type]


def of(
    *cells: Cell, problems: tuple[str, ...] = (), parts: Iterable[str] = ALONE, upgrades: Any = UPGRADES, **given: Any
) -> Certificate:
    stages = [stage for stage in STAGES if any(one.stage == stage for one in cells)]
    given = {"trials": [told(stage) for stage in stages], **given}
    lanes = tuple(samples.summary(measures(1.0, VALUES), fault="freeze-holder", stage=stage) for stage in stages)
    return certify(RunContents(cells, lanes, problems), upgrades, parts=list(parts), **given)


def whole(*cells: Cell, **given: Any) -> Certificate:
    """The certificate of an upgrade with all stages asked for, in which all is upheld that is not among `cells`."""
    kept = [cell(stage, Verdict.UPHELD) for stage in STAGES]
    names = {(one.stage, one.property) for one in cells}
    return of(*cells, *(one for one in kept if (one.stage, one.property) not in names), parts=STAGES, **given)


def record(stage: str, column: str, seed: int = 7, **about: Any) -> TrialRecord:
    """A trial of two lanes, as a run stores it, with the steps that its servers took."""
    nodes = _node("trixie", "2", "128m") if stage == CANDIDATE else _node("bookworm", "1", "64m")
    about = {
        "stage": stage, "column": column, "attempt": 1, "rolled": ROLLED.get(column, []), "nodes": nodes,
        "versions": {"redis1": "8.0.2" if stage == CANDIDATE else "7.0.15"}, "host": "Linux 6.1 x86_64, 2 cores",
        "locks": {"redis": "suites.locks.redis_single:RedisLock"}, **about,
    }  # fmt: skip
    made = samples.trial(f"redis-{column}-{seed}-{stage}", seed=seed, **about)
    return judged(replace(made, lanes=tuple(_replaced(lane, stage) for lane in made.lanes)))


def judged(record: TrialRecord) -> TrialRecord:
    return replace(record, lanes=tuple(verdicts.again(lane) for lane in record.lanes))


def _replaced(lane: LaneRecord, stage: str) -> LaneRecord:
    history = lane.history
    if stage not in ALONE:
        first = replace(history.faults[0], name="roll-version", kind="version", target="redis2 from 7.0 to 8.0")
        at = first.healed
        last = replace(first, target="redis1 from 7.0 to 8.0", begun=at, applied=at, healing=at + 1, healed=at + 2)
        history = replace(history, faults=(*history.faults, first, last))
    return replace(lane, history=history)


def run(root: Path, *, parts: Iterable[str] | None = STAGES, **about: Any) -> Run:
    """A run whose lock behaves alike on both versions, in all `parts` asked for. None: a run from before parts."""
    stages = {BASELINE: {"redis": "7.0"}, CANDIDATE: {"redis": "8.0"}}
    asked = {"command": ["pytest", "suites/", "--lock", "redis"], "seed": 7, "profile": "default", "stages": stages}
    asked |= {"suite": "0.1.0 (abc)"} | ({} if parts is None else {"parts": list(parts)})
    made = Run.create(root, {**asked, **about})
    for stage in ALONE if parts is None else parts:
        for column in COLUMNS.get(stage, ("freeze-holder",)):
            made.save_trial(record(stage, column))
    return made


def closed(root: Path, *more: TrialRecord, **given: Any) -> Run:
    made = run(root, **given)
    for one in more:
        made.save_trial(one)
    made.close({})
    return made


def _node(suite: str, digit: str, memory: str) -> dict[str, Any]:
    node = {
        "image": f"fencepost/redis:{suite}", "digest": f"sha256:{digit * 64}", "packager": f"Debian {suite}",
        "command": ["redis-server", "--cluster-name", f"fp-123-0{digit}cd"],
        "settings": {"MEMORY": memory, "NET": f"10.77.{digit}.19"},
    }  # fmt: skip
    return {"redis1": node}

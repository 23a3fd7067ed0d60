"""Samples made by hand: cells, histories (a small one with a stale write, a long one), trials, runs."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from checkers.claims import ANY, Claim, Hazard, Verdict
from checkers.history.finding import Finding
from checkers.history.history import DTYPE, Facts, FaultInterval, History, from_rows
from checkers.history.view import View
from checkers.judging.judgement import Judgement, judge
from checkers.properties.check_result import CheckResult, Violation
from checkers.properties.violation_stories import Narrator
from checkers.row_format import LATE, NONE, F, Outcome, Reason
from checkers.tests.build import FACTS
from results.record import Cell, LaneRecord, LaneSummary, TrialRecord
from results.run import Run

MS = 1_000_000
START = 5_000_000 * MS  # CLOCK_MONOTONIC of a machine that has been up for a while
OWNER = 0x1234_5678_9ABC_0000
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{7*7}}\ud800"


def cell(word: Verdict, property: str = "server-exclusion", **given: Any) -> Cell:
    made = Cell(
        "redis", "redis", "register", "unfenced", "redis/register/unfenced", "none", property, word, "because so",
        {}, (), None, "redis-none-1", 1, 1,
    )  # fmt: skip
    return replace(made, **given)


def summary(measures: Any, **given: Any) -> LaneSummary:
    made = LaneSummary(
        "redis", "redis", "", "register", "unfenced", "redis/register/unfenced", "none", 1, 1, "redis-none-1",
        None, 9, "", measures,
    )  # fmt: skip
    return replace(made, **given)


def run(path: Path, *trials: TrialRecord, started: str = "2026-11-23T08:00:00+00:00", **about: Any) -> Run:
    path.mkdir(parents=True)
    made = Run.create_at(path, started, about)
    for record in trials:
        made.save_trial(record)
    return made


def row(f: F, inv: float, ret: float, process: int, **given: Any) -> dict[str, Any]:
    """One operation; times in milliseconds since the start of the trial."""
    values: dict[str, Any] = {"token": NONE, "value": NONE, "base": NONE, "outcome": Outcome.OK, **given}
    if "sent" in values:
        values["sent"] = START + int(values["sent"] * MS)
    done = START + int(ret * MS) if ret else 0
    return {"f": f, "inv": START + int(inv * MS), "ret": done, "process": process, **values}


def rows_of(operations: Iterable[dict[str, Any]]) -> npt.NDArray[Any]:
    operations = list(operations)
    rows = np.zeros(len(operations), DTYPE)
    for at, operation in enumerate(operations):
        for name, value in operation.items():
            rows[name][at] = value
    return rows


def facts(**given: Any) -> Facts:
    hazards = (
        Hazard("holder-exclusion", ("freeze-holder",), "frozen-past-ttl"),
        Hazard("fenced-store", ("freeze-holder",), "frozen-past-ttl", stores=("unfenced",)),
    )
    made = replace(
        FACTS, trial="redis-freeze-holder-7", fault_names=("freeze-holder",), seed=7, keys=("k0",), ttl=1000 * MS,
        workers=5, drift=0.01, grain=MS, versions={"redis-server": "8.0.2", "redis-py": "8.1.0"},
        properties=("server-exclusion", "holder-exclusion", "token-order", "fenced-store"), hazards=hazards,
        claims=(Claim("server-exclusion"), Claim("token-order"), Claim("fenced-store", stores=("fence-*",))),
    )  # fmt: skip
    return replace(made, **given)


def hold(process: int, token: int, begin: float, end: float, writes: int, found: int) -> list[dict[str, Any]]:
    """An ordinary hold: acquire, reads and writes, release. found: the value that the first read returns."""
    given: dict[str, Any] = {"owner": OWNER + token, "token": token}
    operations = [row(F.ACQUIRE, begin - 30, begin, process, sent=begin - 1, ttl=1000 * MS, **given)]
    step = (end - begin) / (writes + 1)
    for number in range(writes):
        at = begin + step * (number + 0.5)
        operations += [
            row(F.READ, at, at + step / 8, process, value=token * 100 + number - 1 if number else found, **given),
            row(F.WRITE, at + step / 4, at + step / 3, process, value=token * 100 + number, **given),
        ]
    return [*operations, row(F.RELEASE, end, end + 1, process, **given)]


def stale_write(store: str = "unfenced", **given: Any) -> History:
    """Worker 3 is frozen while it holds token 41; token 42 is granted; then worker 3 writes with token 41."""
    held: dict[str, Any] = {"owner": OWNER + 41, "token": 41}
    late = {} if store == "unfenced" else {"outcome": Outcome.FAIL, "reason": Reason.STALE_TOKEN}
    operations = [
        *hold(1, 39, 60, 160, 3, NONE),
        *hold(2, 40, 165, 290, 3, 3902),
        row(F.ACQUIRE, 180, 300, 3, sent=299, ttl=1000 * MS, **held),
        row(F.READ, 310, 313, 3, value=4002, **held),
        row(F.RENEW, 620, 622, 8, **held),
        row(F.ACQUIRE, 320, 1660, 1, sent=1659, ttl=1000 * MS, owner=OWNER + 42, token=42),
        row(F.READ, 1664, 1667, 1, value=4002, owner=OWNER + 42, token=42),
        row(F.WRITE, 1690, 1694, 1, value=4200, owner=OWNER + 42, token=42),
        row(F.ACQUIRE, 350, 380, 2, outcome=Outcome.FAIL, reason=Reason.TIMEOUT, error=1),
        row(F.WRITE, 1900, 1905, 3, value=4100, **held, **late),
        row(F.WRITE, 1930, 1935, 1, value=4201, owner=OWNER + 42, token=42),
        row(F.RELEASE, 1950, 1952, 3, outcome=Outcome.FAIL, reason=Reason.NOT_OWNER, error=2, **held),
        row(F.LOST, 1953, 1953, 3, **held),
        row(F.RELEASE, 2000, 2001, 1, owner=OWNER + 42, token=42),
        row(F.WRITE, 2020, 2024, 1, value=4202, owner=OWNER + 42, token=42, flags=LATE),
        *hold(2, 43, 2040, 2160, 3, 4202),
        row(F.ACQUIRE, 2100, 0, 4, outcome=Outcome.INFO, owner=OWNER + 99, error=3),
        *hold(1, 44, 2170, 2300, 4, 4302),
    ]  # fmt: skip
    fault = FaultInterval(
        "freeze-holder", "freeze", "worker 3 of redis/register/unfenced",
        START + 330 * MS, START + 640 * MS, START + 1880 * MS, START + 1890 * MS, owner=OWNER + 41, process=3,
    )  # fmt: skip
    errors = ("", "timeout after 0.03 s", "release: not owner", "connection reset by peer")
    return from_rows(facts(store=store, **given), rows_of(operations), (fault,), errors)


def find(history: History, f: F, **columns: int) -> int:
    matching = history.columns["f"] == f
    for name, value in columns.items():
        matching = matching & (history.columns[name] == value)
    return int(np.argmax(matching))


def stale_violation(history: History) -> Violation:
    c = history.columns
    old, new = find(history, F.ACQUIRE, token=41), find(history, F.ACQUIRE, token=42)
    newer, stale = find(history, F.WRITE, value=4200), find(history, F.WRITE, value=4100)
    rows, conclusion = (old, new, newer, stale), "The store should have refused it: 42 had been accepted."
    finding = Finding("stale-write-accepted", int(c["ret"][stale]), rows, (old, new), conclusion)
    (violation,) = Narrator(history.once(View)).tell([finding])
    return violation


def stale_result(history: History) -> CheckResult:
    return CheckResult("fenced-store", False, (stale_violation(history),), {"stale attempts": 1, "accepted writes": 14})


def upheld(name: str, **counters: int) -> CheckResult:
    return CheckResult(name, True, (), counters)


def judgements(history: History) -> tuple[Judgement, ...]:
    stale = stale_violation(history)
    overlap = replace(stale, kind="overlap", rows=stale.rows[:2])
    refused = upheld("fenced-store", **{"stale attempts": 1, "refused": 1})
    results = (
        upheld("server-exclusion", **{"contended acquires": 6}),
        CheckResult("holder-exclusion", False, (overlap,), {"leases that expired while held": 1}),
        upheld("token-order", grants=6),
        stale_result(history) if history.facts.store == "unfenced" else refused,
    )
    return tuple(judge(result, history) for result in results)


def trial(name: str = "redis-freeze-holder-7", *histories: History, **about: Any) -> TrialRecord:
    histories = histories or (stale_write(), stale_write("fence-writes", lane="redis/register/fence-writes"))
    about = {
        "backend": "redis", "seed": 7, "attempt": 0, "versions": {"redis-server": "8.0.2", "redis-py": "8.1.0"},
        "plan": {"name": "freeze-holder", "seed": 7, "steps": [{"fault": "freeze-holder", "after": 0.3}]},
        "plan_lines": ["at 0.3 s: freeze-holder for 1.25 s (seed 7)"],
        "started": "2025-11-21T07:49:00+00:00", "seconds": 4.2, "endpoints": {"c1": ["127.0.0.1:21001"]},
        "boundaries": {"redis/register/unfenced": {"acquire at once": {"messages": 3, "hit": [1, 3]}}},
        "error": None, **about,
    }  # fmt: skip
    lanes = tuple(LaneRecord(history, judgements(history)) for history in histories)
    return TrialRecord(name, about, lanes, {"redis1": b"ready to accept connections\n", "../redis2": b"x"})


def one_lane(history: History, *judgements: Judgement, name: str = "redis-freeze-holder-7") -> TrialRecord:
    return replace(trial(name), lanes=(LaneRecord(history, judgements),))


def long(size: int = 100_000, processes: int = 8) -> History:
    """A passing history of `size` operations: holds one after another, every fourth a contended one."""
    generator = np.random.default_rng(1)
    per_hold = 10
    holds = size // per_hold
    rows = np.zeros(holds * per_hold, DTYPE)
    rows["token"], rows["value"], rows["base"], rows["outcome"] = NONE, NONE, NONE, Outcome.OK
    begin = START + np.arange(holds) * 600_000 + generator.integers(0, 50_000, holds)
    kinds = [F.ACQUIRE, F.READ, F.WRITE, F.READ, F.WRITE, F.RENEW, F.READ, F.WRITE, F.WRITE, F.RELEASE]
    for place, kind in enumerate(kinds):
        part = rows[place::per_hold]
        part["f"] = kind
        part["inv"] = begin + place * 55_000
        part["ret"] = part["inv"] + 30_000 + generator.exponential(8_000, holds).astype(np.int64)
        part["process"] = np.arange(holds) % processes
        part["token"] = np.arange(holds) + 1
        part["owner"] = OWNER + np.arange(holds)
        if kind in (F.READ, F.WRITE):
            part["value"] = np.arange(holds) * 10 + place
        if kind == F.ACQUIRE:
            part["inv"] -= 2_000_000 * (np.arange(holds) % 4 == 0) + 40_000
            part["sent"] = part["inv"]
            part["ttl"] = 1000 * MS
    span = holds * 600_000
    fault = FaultInterval(
        "slow-links", "slow", "c1 - redis1 (40 ms)",
        START + span // 3, START + span // 3 + 5 * MS, START + span // 2, START + span // 2 + 5 * MS,
    )  # fmt: skip
    claims = (Claim("server-exclusion", (ANY,)),)
    named = facts(fault_names=("slow-links",), workers=processes, store="fence-writes", claims=claims)
    return from_rows(named, rows, (fault,))

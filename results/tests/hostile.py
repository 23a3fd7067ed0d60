"""Strings that try to be more than text, one for every place that a history, a plan or a client fills."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from checkers.judging.judgement import judge
from checkers.properties.check_result import CheckResult
from results.record import LaneRecord, NotRun, TrialRecord
from results.run import Run
from results.stages import BASELINE, CALIBRATION, CANDIDATE, COLUMNS, STAGES
from results.tests import samples

ATTACKS: Final = (
    "<script>pwned=1</script>",
    "</script><script>pwned=2</script>",
    "</style></title></svg><img src=x onerror=pwned=3>",
    '"\' onfocus=pwned=4 autofocus tabindex=1 x="',
    "javascript:pwned=5",
    "]]><!--<script>",
    "${pwned=6}{{7*7}}{%raw%}&lt;b&gt;\\u003cb\\u003e",
    "\u2028\u2029",
)
"""Each string sets a global if it is run, or swallows the text behind it if it becomes markup."""

OVERRIDE: Final = "\u202e"  # right-to-left override: text behind it is shown backwards, even text of our own

CONTROLS: Final = f"\x1b[31m{OVERRIDE}\0\ud800"

PLACES: Final = (
    "trial", "lane", "lock", "backend", "workload", "key", "error", "fault", "target", "plan-line", "log", "version",
    "component", "about-key", "about-value", "aborted", "property", "counter", "reason", "story", "kind",
)  # fmt: skip


def attack(place: str) -> str:
    """A hostile string. It begins with its place, so that a test can find it."""
    return f"in-{place} {''.join(ATTACKS)}{CONTROLS}end-{place}"


def trial() -> TrialRecord:
    """A trial of one lane whose every string is an attack."""
    versions = {attack("component"): attack("version")}
    names: dict[str, Any] = {name: attack(name) for name in ("trial", "lane", "lock", "backend", "workload")}
    names |= {"keys": (attack("key"),), "fault_names": (attack("fault"),), "versions": versions}
    history = samples.stale_write(**names)
    fault = replace(history.faults[0], name=attack("fault"), target=attack("target"))
    history = replace(history, errors=("", *(attack("error") for _ in history.errors[1:])), faults=(fault,))
    violation = replace(samples.stale_violation(history), story=(attack("story"),) * 5, kind=attack("kind"))
    later = replace(violation, at=violation.at + 1)
    judgements = (
        judge(CheckResult("server-exclusion", False, (violation, later), {attack("counter"): 1}), history),
        judge(CheckResult(attack("property"), None, reason=attack("reason")), history),
    )
    record = samples.trial(
        attack("trial"), history, backend=attack("backend"), plan_lines=[attack("plan-line")], versions=versions,
        error=attack("aborted"), **{attack("about-key"): attack("about-value")},
    )  # fmt: skip
    return replace(record, lanes=(LaneRecord(history, judgements),), logs={attack("log"): b"x"})


def not_run() -> NotRun:
    return NotRun(attack("lock"), attack("backend"), attack("fault"), attack("because"))


def upgrade(root: Path) -> Run:
    """A run of an upgrade, with a hostile trial in each stage, and one in the calibration."""
    stages = {BASELINE: {"redis": "7.0"}, CANDIDATE: {"redis": attack("version")}}
    asked = {"command": ["pytest", attack("command")], "stages": stages, "parts": STAGES, "suite": attack("suite")}
    run = Run.create(root, asked)
    made = trial()
    more = {
        "rolled": [{"at": 1.5, "what": attack("rolled"), "refused": True}],
        "host": attack("host"),
        "nodes": {attack("component"): {name: attack(name) for name in ("image", "digest", "packager")}},
    }
    for stage in STAGES:
        about = {**made.about, **more, "stage": stage, "column": COLUMNS.get(stage, ("x",))[0]}
        run.save_trial(replace(made, name=f"hostile-{stage}", about=about))
    [lane] = made.lanes
    lane = replace(lane, history=replace(lane.history, facts=replace(lane.history.facts, lock=attack("planted"))))
    about = {**made.about, "stage": CALIBRATION, "planted": {attack("lane"): attack("property")}}
    run.save_trial(replace(made, name="planted", about=about, lanes=(lane,)))
    run.save_not_run([not_run()])
    run.close({})
    return run

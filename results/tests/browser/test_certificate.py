"""The certificate fits one sheet of paper, has the verdict first, and says nothing by colour alone."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from playwright.sync_api import Browser, ViewportSize
from pypdf import PdfReader

from checkers.claims import Verdict
from checkers.history.history import History
from checkers.judging.judgement import Judgement
from checkers.properties.check_result import CheckResult
from checkers.properties.shared_counters import MIXED
from results.certificate.certificate_files import issue
from results.certificate.certify import sentence
from results.record import LaneRecord, NotRun, TrialRecord
from results.run import Run
from results.stages import ALONE, BASELINE, CALIBRATION, CANDIDATE, COLUMNS, STAGES
from results.stages import MIXED as IN_BETWEEN
from results.tests import samples
from results.tests.browser import seeing
from results.tests.browser.visit import on_paper, visit
from results.tests.upgrades import OCCURRED, step

LOCKS: Final = tuple(f"etcd-{name}" for name in (
    "lock", "key", "v3lock", "v3lock-checked", "session", "rw", "semaphore", "reentrant", "fair", "guarded", "lease",
    "election", "queue", "stm", "keepalive",
))  # fmt: skip
PROMISES: Final = (
    "server-exclusion", "holder-exclusion", "token-order", "fenced-store", "no-lost-update", "owner-release",
    "crash-release", "recovery",
)  # fmt: skip
VERSIONS: Final = {BASELINE: "3.4.23", CANDIDATE: "3.5.16"}
FAULTS: Final = ("freeze-holder", "kill-leader")


def typical(root: Path, *, lost: bool = False) -> Run:
    """A run like most: fifteen locks with eight promises each, in every stage. The new version cleared two defects, and
    both versions have another. lost: whether a promise broke during the rolling upgrade.
    """
    command = ["pytest", "suites/", "--from", "etcd=3.4.23", "--to", "etcd=3.5.16"]
    stages = {stage: {"etcd": version} for stage, version in VERSIONS.items()}
    asked = {"seed": 1, "profile": "default", "suite": "0.1.0 (d4d97ec)", "stages": stages, "parts": list(STAGES)}
    made = Run.create(root, {"command": command, **asked})
    for stage in STAGES:
        for column in COLUMNS.get(stage, FAULTS):
            made.save_trial(_trial(stage, column, lost=lost and stage == IN_BETWEEN))
    made.save_trial(_planted())
    reasons = {
        "slow-disk": "the disks of this machine are memory: they cannot be made slow",
        "failover": "etcd has no replica that could take over too early",
        "delayed-write": "no lane of this profile has a late write",
        "clock-jump-forward": "the clock of an image of your own cannot be moved",
        "wipe": "it needs a hook: --hook wipe='...'",
    }
    made.save_not_run(NotRun("", "etcd", fault, because) for fault, because in reasons.items())
    made.close({})
    return made


def _trial(stage: str, column: str, *, lost: bool) -> TrialRecord:
    suite, digit = ("trixie", "5") if stage == CANDIDATE else ("bookworm", "3")
    node = {
        "image": f"fencepost/etcd:{suite}", "digest": f"sha256:{digit * 64}", "packager": f"Debian {suite}",
        "command": ["etcd", "--data-dir", "/data/etcd", *(["--experimental-x"] if stage == BASELINE else [])],
        "settings": {"ETCD_ELECTION_TIMEOUT": "1000"},
    }  # fmt: skip
    nodes = dict.fromkeys(("etcd1", "etcd2", "etcd3"), node)
    lanes = tuple(_lane(stage, column, lock, lost=lost and lock == LOCKS[4]) for lock in LOCKS)
    made = samples.trial(f"etcd-{column}-1-{stage}", backend="etcd", stage=stage, column=column, attempt=1, nodes=nodes,
        versions=dict.fromkeys(nodes, VERSIONS.get(stage, "3.5.16")), rolled=_rolled(stage, column),
        host="Linux 6.1.0 x86_64, 2 cores", python="3.11.7",
        clock="operations are timed by CLOCK_MONOTONIC of this host, which all workers share; faults on clocks move "
        "the wall clocks of servers (a preloaded library), their monotonic ones stay real",
    )  # fmt: skip
    return replace(made, lanes=lanes)


def _planted() -> TrialRecord:
    """A trial of three planted bugs, each caught by the property that must name it."""
    lane, bugs = _lane(BASELINE, FAULTS[0], LOCKS[1], lost=False), ("LeaseForToken", "WatchesTheHolder", "WithoutLease")
    facts = (replace(lane.history.facts, lane=bug, lock=f"mutant:{bug}") for bug in bugs)
    lanes = tuple(replace(lane, history=replace(lane.history, facts=its)) for its in facts)
    planted = dict.fromkeys(bugs, "no-lost-update")
    made = samples.trial("etcd-planted-none-1", backend="etcd", stage=CALIBRATION, attempt=1, planted=planted)
    return replace(made, lanes=lanes)


def _rolled(stage: str, column: str) -> list[dict[str, Any]]:
    if stage in ALONE:
        return []
    back = column.startswith("rollback")
    old, new = VERSIONS[CANDIDATE if back else BASELINE], VERSIONS[BASELINE if back else CANDIDATE]
    if back:
        words = "fencepost/etcd:bookworm does not start on its data: cannot downgrade the cluster version to 3.4"
        return [step(8.2, f"etcd2 stays {old}: {words}", refused=True)]
    order = ("1 (leader)", "2", "3") if column.endswith("first") else ("2", "3", "1 (leader)")
    return [step(4.1 + 6.3 * place, f"etcd{name} from {old} to {new}") for place, name in enumerate(order)]


def _lane(stage: str, column: str, lock: str, *, lost: bool) -> LaneRecord:
    store = "unfenced" if LOCKS.index(lock) % 2 else "fence-writes"
    history = samples.stale_write(
        store, lane=f"{lock}/register/{store}", lock=lock, backend="etcd", properties=PROMISES,
        versions={"etcd1": VERSIONS.get(stage, "3.5.16")},
    )  # fmt: skip
    told = {BASELINE: "etcdserver: request timed out", CANDIDATE: "etcdserver: leader changed"}.get(stage)
    reset = "connection reset by 10.77.3.19:2379 while the keep-alive of a lease was under way"
    history = replace(history, errors=(*history.errors[:2], told or reset, *history.errors[3:]))
    return LaneRecord(history, tuple(_judged(history, stage, column, name, lost=lost) for name in PROMISES))


def _judged(history: History, stage: str, column: str, name: str, *, lost: bool) -> Judgement:
    lock, counters = history.facts.lock, {**OCCURRED, MIXED: 0 if stage in ALONE else 812}
    defects = {(LOCKS[2], "fenced-store"), (LOCKS[3], "crash-release")}
    hazard = name == "holder-exclusion" or (name == "fenced-store" and history.facts.store == "unfenced")
    word = Verdict.WEAKNESS_SHOWN if hazard else Verdict.UPHELD
    if (lock, name) == (LOCKS[1], "no-lost-update") or ((lock, name) in defects and stage == BASELINE):
        word = Verdict.VIOLATED
    if lost and name == "fenced-store" and column == COLUMNS[IN_BETWEEN][0]:
        word = Verdict.VIOLATED
    if word is Verdict.UPHELD:
        return Judgement(name, word, "held", CheckResult(name, True, (), counters))
    violation = samples.stale_violation(history)
    because = violation.kind if word is Verdict.VIOLATED else "explained by frozen-past-ttl"
    return Judgement(name, word, because, CheckResult(name, False, (violation,), counters), violation)


SHEET: Final[ViewportSize] = {"width": 718, "height": 1069}
"""An A4 sheet without its margins, in CSS pixels. A wider page is printed smaller."""


@pytest.mark.parametrize(("kind", "scheme"), [("clear", "dark"), ("lost", "light")])
def test_the_print_is_one_sheet(chromium: Browser, tmp_path: Path, kind: str, scheme: Literal["light", "dark"]) -> None:
    certificate, path = issue(typical(tmp_path, lost=kind == "lost"))
    with visit(chromium, path, path.parent, scheme=scheme) as page:
        assert page.locator("h1").evaluate("(one) => parseFloat(getComputedStyle(one).fontSize)") >= 24
        on_paper(page)
        page.set_viewport_size(SHEET)
        width = page.evaluate("document.documentElement.scrollWidth")
        faint = seeing.faint(seeing.texts(page, on_paper=True))
        printed = PdfReader(io.BytesIO(page.pdf(prefer_css_page_size=True)))
    text = " ".join(" ".join(sheet.extract_text() for sheet in printed.pages).split())
    assert width == SHEET["width"]
    assert len(printed.pages) == 1
    size = printed.pages[0].mediabox
    assert (round(float(size.width)), round(float(size.height))) == (595, 842)
    assert faint == []
    assert 0 <= text.find(sentence(certificate)) < 200
    for told in ("No way back from", "baseline", "candidate", "mixed", "after rollback", "24,360", "suites/", "verify"):
        assert told in text
    assert "3 of 3 (LeaseForToken, WatchesTheHolder, WithoutLease)" in text

"""The certificate is one sheet of paper, with the verdict first, and never by colour alone."""

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from playwright.sync_api import Browser, ViewportSize, expect
from pypdf import PdfReader

from checkers.claims import Verdict
from checkers.history.history import History
from checkers.judging.judgement import Judgement
from checkers.properties.check_result import CheckResult
from checkers.properties.shared_counters import MIXED
from results.certificate.certify import sentence
from results.certificate.write_certificate import issue
from results.record import LaneRecord, NotRun, TrialRecord
from results.run import Run
from results.stages import ALONE, BASELINE, CALIBRATION, CANDIDATE, COLUMNS, STAGES
from results.stages import MIXED as IN_BETWEEN
from results.tests import samples, upgrades
from results.tests.browser import seeing
from results.tests.browser.visit import on_paper, unfold, visit
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
    """As most are: fifteen locks with eight promises each, in every stage. It cleared two defects and knows another;
    lost: and lost a promise during the rolling upgrade.
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
    """Of three bugs, each caught by the property that must name it."""
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
    word = Verdict.BROKEN_AS_DOCUMENTED if hazard else Verdict.UPHELD
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
"""An A4 sheet without its margins, in CSS pixels: what is wider is printed smaller."""

Pages = Mapping[str, tuple[str, Path]]
"""Kind → the sentence of a certificate, and its page."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    found = {}
    for kind in ("clear", "lost"):
        certificate, page = issue(typical(tmp_path_factory.mktemp(kind), lost=kind == "lost"))
        found[kind] = sentence(certificate), page
    return found


@pytest.mark.parametrize(("kind", "scheme"), [("clear", "dark"), ("lost", "light")])
def test_is_one_sheet_of_paper(chromium: Browser, pages: Pages, kind: str, scheme: Literal["light", "dark"]) -> None:
    said, path = pages[kind]
    with visit(chromium, path, path.parent, scheme=scheme) as page:
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
    assert 0 <= text.find(said) < 200
    for told in ("No way back from", "baseline", "candidate", "mixed", "after rollback", "24,360", "suites/", "verify"):
        assert told in text
    assert "3 of 3 (LeaseForToken, WatchesTheHolder, WithoutLease)" in text


def test_the_heading_is_the_verdict_with_its_sign(chromium: Browser, pages: Pages) -> None:
    lost = "✖ REGRESSION: etcd-session lost fenced-store during the rolling upgrade"
    for kind, heading in (("clear", "✔ NO REGRESSION FOUND (2 defects cleared)"), ("lost", lost)):
        _, path = pages[kind]
        with visit(chromium, path, path.parent) as page:
            expect(page.get_by_role("heading", level=1)).to_have_text(heading)
            assert float(page.locator("h1").evaluate("(one) => parseFloat(getComputedStyle(one).fontSize)")) >= 24


def test_every_promise_has_its_evidence_in_each_stage(chromium: Browser, pages: Pages) -> None:
    _, path = pages["lost"]
    with visit(chromium, path, path.parent) as page:
        first = page.locator("table.promises tbody tr").first
        assert first.locator("th").inner_text() == "fenced-store lost"
        links = [one.get_attribute("href") for one in first.locator("td a").all()]
        unfold(page)
        assert page.locator("table.promises tbody tr").count() == len(LOCKS) * len(PROMISES)
    stages = [str(link).rpartition("-")[2].removesuffix("/index.html") for link in links]
    assert stages == ["baseline", "candidate", "mixed", "rollback"]
    assert all((path.parent / str(link)).exists() for link in links)


def test_says_what_is_not_conclusive_and_what_was_refused(chromium: Browser, tmp_path: Path) -> None:
    run = upgrades.run(tmp_path, parts=("baseline", "candidate"))
    run.close({"interrupted": True})
    _, path = issue(run)
    with visit(chromium, path, path.parent) as page:
        expect(page.get_by_role("heading", level=1)).to_have_text("? INCONCLUSIVE: the run was interrupted")
        expect(page.get_by_role("region", name="What is not conclusive")).to_contain_text("the run was interrupted")
    _, path = issue(upgrades.closed(tmp_path / "rolled"))
    with visit(chromium, path, path.parent) as page:
        steps = page.get_by_role("region", name="Rolling upgrade, and rolling back")
        expect(steps).to_contain_text("2.5 s redis2 from 7.0 to 8.0; 6.2 s redis1 (leader) from 7.0 to 8.0")
        expect(steps).to_contain_text("refused redis1 stays 8.0: it does not start on its data")

"""Scorecards: the advice that follows from verdicts, and the pages that show it."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from checkers.claims import Verdict
from infra.faults.all_faults import FAULTS
from results import __main__ as command
from results.pages import scorecard
from results.pages.scorecard import Tried
from results.record import Cell
from results.report import advice
from results.report.descriptions import COLUMNS, OTHER, groups
from results.run import Run
from results.storage.files import BadFile
from results.tests import samples
from results.tests.markup import Page
from results.tests.test_damage import RUNS


def data(word: Verdict, fault: str = "freeze-holder", store: str = "unfenced", name: str = "no-lost-update") -> Cell:
    return samples.cell(word, name, fault=fault, store=store, lane=f"redis/set/{store}")


LOST, HELD, FREE = Verdict.WEAKNESS_SHOWN, Verdict.UPHELD, Verdict.NOT_PROMISED_HELD
TOKENS = samples.cell(HELD, "token-order")
PAUSED = data(LOST)
BOTH = "fence-reads-and-writes"
BY_BOTH = f"Not by itself, only with a store that checks tokens on reads and writes ({BOTH})"
BY_OWNER = "Not by itself, only with a store that compares owners (compare-owner)"
COST = "without that check a paused holder's write was accepted"

NONE, READS, WRITES = (advice.check(mode) for mode in ("unfenced", BOTH, "fence-writes"))
TWICE = "Two were inside at once even without any fault: what they do elsewhere, such as a payment, can happen twice."
LEFT = "under late-write, kill-server and wipe-server"

ADVICE: dict[str, tuple[list[Cell], str, str]] = {
    "a promise of data is violated, though a check keeps it": (
        [TOKENS, data(Verdict.VIOLATED), data(HELD, store=BOTH)],
        "No", "redis broke its promise of no-lost-update under freeze-holder: because so.",
    ),
    "a promise about who holds it is violated": (
        [TOKENS, PAUSED, data(HELD, store=BOTH), samples.cell(Verdict.VIOLATED, "holder-exclusion")],
        "No", "redis broke its promise of holder-exclusion without any fault: because so.",
    ),
    "a promise about waiting is violated, which costs no data": (
        [TOKENS, PAUSED, data(HELD, store=BOTH), samples.cell(Verdict.VIOLATED, "recovery")], BY_BOTH, f"{COST}.",
    ),
    "no data": ([TOKENS], "Not shown", "nothing that was tried looked at data behind this lock."),
    "a check of reads and writes keeps it": ([TOKENS, PAUSED, data(HELD, store=BOTH)], BY_BOTH, f"{COST}."),
    "a stale access that is refused shows that a check of reads keeps it": (
        [TOKENS, PAUSED, data(HELD, store=BOTH, name="fenced-store")], BY_BOTH, f"{COST}.",
    ),
    "two checks keep it": (
        [TOKENS, PAUSED, data(HELD, store="guarded"), data(FREE, store=BOTH)],
        f"{BY_BOTH} or data in the lock service, which checks the lock (guarded)", f"{COST}.",
    ),
    "no token, and owners are compared": (
        [PAUSED, data(HELD, store="compare-owner")], BY_OWNER, f"{COST}; this lock gives no fencing token.",
    ),
    "no token, and no check was tried": (
        [PAUSED],
        "Not by itself",
        "a paused holder's write was accepted; this lock gives no fencing token, and no check at the store was tried.",
    ),
    "a check of writes that was never asked for lost updates keeps nothing": (
        [TOKENS, PAUSED, data(HELD, store="fence-writes", name="fenced-store")],
        "Not by itself", "a paused holder's write was accepted, and no check that was tried was shown to keep it.",
    ),
    "a check that held only without a pause keeps nothing": (
        [TOKENS, PAUSED, data(HELD, "kill-server", BOTH)],
        "Not by itself", "a paused holder's write was accepted, and no check that was tried was shown to keep it.",
    ),
    "a check that broke once keeps nothing": (
        [TOKENS, PAUSED, data(HELD, store=BOTH), data(Verdict.NOT_PROMISED_BROKEN, "slow-links", BOTH)],
        "Not by itself", "a paused holder's write was accepted, and no check that was tried was shown to keep it.",
    ),
    "a check with an open question keeps nothing": (
        [TOKENS, PAUSED, data(HELD, store=BOTH), data(Verdict.UNKNOWN, "slow-links", BOTH)],
        "Not by itself", "a paused holder's write was accepted, and no check that was tried was shown to keep it.",
    ),
    "lost without a pause": (
        [TOKENS, data(LOST, "delayed-write"), data(HELD), data(HELD, "delayed-write", BOTH)],
        BY_BOTH, "without that check data was lost under delayed-write.",
    ),
    "lost without a fault": (
        [data(LOST, "none"), data(HELD, "none", "compare-and-set")],
        "Not by itself, only with a store that compares versions (compare-and-set)",
        "without that check data was lost even without any fault; this lock gives no fencing token.",
    ),
    "a job done twice": (
        [TOKENS, data(LOST, name="no-duplicate"), data(HELD, store="idempotency-key", name="no-duplicate")],
        "Not by itself, only with a store that takes each job once (idempotency-key)",
        "without that check a paused holder's job was done twice.",
    ),
    "not stressed": (
        [TOKENS, data(HELD), data(Verdict.NOT_STRESSED, "late-write")],
        "Not shown", "Nothing put no-lost-update of redis to the test under late-write: because so.",
    ),
    "a weakness that did not show": (
        [TOKENS, data(Verdict.WEAKNESS_NOT_SHOWN)],
        "Not shown",
        "redis is documented to break no-lost-update under freeze-holder, and this was not shown: because so.",
    ),
    "nobody was paused": (
        [TOKENS, data(HELD, "kill-server"), data(HELD, "none")],
        "Not shown", "nothing was lost under 1 fault, but no holder was paused.",
    ),
    "nothing was lost, whatever the store does": (
        [TOKENS, data(FREE), data(HELD, "slow-links")],
        "No loss was seen", "with a store that checks nothing, under 2 faults.",
    ),
    "nothing was lost with a check": (
        [TOKENS, data(HELD, store=BOTH)],
        "No loss was seen",
        "with a store that checks tokens on reads and writes, under 1 fault. Without such a check nothing was tried.",
    ),
    "a mode of a later version": (
        [TOKENS, PAUSED, data(HELD, store="fence-all")],
        "Not by itself, only with a store in the mode fence-all (fence-all)", f"{COST}.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ADVICE)
def test_the_line_of_advice_follows_from_the_verdicts(case: str) -> None:
    cells, answer, because = ADVICE[case]
    made = advice.advise(cells)
    assert (made.answer, made.because) == (answer, because)
    assert made.answer.split()[0].lower() in advice.RULES[made.rule][0].lower(), "it is what the rule says"
    assert advice.advise(cells[::-1]).answer == answer, "whatever the order"


def test_every_rule_has_a_case() -> None:
    assert {advice.advise(cells).rule for cells, _, _ in ADVICE.values()} == set(range(len(advice.RULES)))


def test_grounds_name_the_heaviest_first_and_what_was_not_tried() -> None:
    cells = [
        TOKENS, PAUSED, data(LOST, "late-write", "fence-writes"), data(HELD, store=BOTH),
        samples.cell(Verdict.VIOLATED, "recovery", fault="kill-server"), samples.cell(LOST, "holder-exclusion"),
        samples.cell(LOST, "token-order", fault="wipe-server"), samples.cell(Verdict.NOT_APPLICABLE, "fifo"),
    ]  # fmt: skip
    assert [f"{ground.word}: {ground.text}" for ground in advice.advise(cells).grounds] == [
        "violated: redis broke its promise of recovery under kill-server: because so. That costs time, no data.",
        f"{LOST}: {TWICE}",
        f"{LOST}: Tokens went back under wipe-server: a check then takes the old holder for the new one.",
        f"{LOST}: Data was lost with {NONE} under freeze-holder and with {WRITES} under late-write.",
        f"{HELD}: Nothing was lost with {READS} ({advice.CHECKS[BOTH][1]}), under 1 fault; not tried {LEFT}.",
    ]  # fmt: skip


def test_faults_are_grouped_by_what_they_need() -> None:
    for name, fault in FAULTS.items():
        group = "links" if fault.kind in ("cut", "slow", "reset") else "servers"
        group = "workers" if "workers" in fault.needs else group
        group = "clocks" if fault.kind in ("clock", "skew") else group
        assert groups(name) == ("store" if "store-link" in fault.needs else group,), name
    assert {group for name in ("none", *FAULTS) for group in groups(name)} == set(COLUMNS) - {OTHER}
    assert groups("freeze-holder+kill-server+made-up") == ("servers", "workers", OTHER)


def marks(page: Page, row: str) -> list[str]:
    """What stands in a row of the table, behind its head."""
    line = next(line for line in page.lines.splitlines() if line.startswith(f"| {row}"))
    return [mark.strip() for mark in line.split("|")[2:]]


def made(path: Path, *cells: Cell, locks: tuple[str, ...] = ("redis",)) -> Page:
    return Page(scorecard.render(locks, [Tried(path, cells, ())], path / "x.html"))


def test_the_table_has_the_heaviest_verdict_of_each_promise_and_group(tmp_path: Path) -> None:
    page = tmp_path / "trials" / "t" / "index.html"
    page.parent.mkdir(parents=True)
    page.touch()
    tried: dict[str, Any] = {"page": page}
    cells = [
        samples.cell(HELD, "fifo", fault="kill-server", **tried),
        samples.cell(Verdict.VIOLATED, "fifo", fault="slow-links+pause-server", **tried),
        samples.cell(Verdict.NOT_APPLICABLE, "", fault="clock-drift", because="no clock"),
        samples.cell(Verdict.WEAKNESS_SHOWN, "no-lost-update", fault="late-write", store="fence-writes", **tried),
        samples.cell(HELD, "no-lost-update", fault="freeze-holder", store="fence-writes", **tried),
        samples.cell(HELD, "of-a-later-version", **tried),
    ]
    read = made(tmp_path, *cells)
    assert [head.text for head in read.all("th", scope="col")][:7] == ["promise", *COLUMNS[:-1]]
    link = "<trials/t/index.html#lane=redis%2Fregister%2Funfenced&property=fifo>"
    broken = f"{link} ✖ violated 1"
    row = ["not tried", broken, f"{broken} of 2", "n/a", "not tried", "not tried"]
    assert marks(read, "first come, first served fifo") == row
    assert marks(read, "a store that checks tokens on writes")[4].endswith("◆ weakness 1 of 2")
    assert marks(read, "of-a-later-version")[0].endswith("✔ upheld 1")
    assert [mark.given["title"] for mark in read.all("span", class_="mark w-not_applicable")] == ["no clock"] * 2


def test_versions_and_locks_stand_side_by_side(tmp_path: Path) -> None:
    page = tmp_path / "trials" / "t" / "index.html"
    old, new = (samples.cell(word, "fifo", version=version, page=page) for word, version in ((LOST, "7"), (HELD, "8")))
    other = samples.cell(HELD, "fifo", lock="etcd", backend="etcd", version="3.5", page=page)
    runs = [Tried(tmp_path / name, cells, ()) for name, cells in (("a", (old,)), ("b", (new, other)), ("c", (new,)))]
    read = Page(scorecard.render(["redis", "etcd"], runs, tmp_path / "x.html"))
    assert read.one("h1") == "May I use redis or etcd where lost data costs money?"
    assert marks(read, "first come, first served fifo")[0].split() == [
        "A", "◆", "weakness", "1", "B", "✔", "upheld", "2", "C", "✔", "upheld", "1",
    ]  # fmt: skip
    facts = [paragraph.text for paragraph in read.all("p", class_="facts")]
    assert facts == [
        "A redis on redis 7: 1 trial, 0 faults",
        "B redis on redis 8: 1 trial, 0 faults in 2 runs",
        "C etcd on etcd 3.5: 1 trial, 0 faults",
    ]


def test_an_attempt_is_made_good_only_within_its_run(tmp_path: Path) -> None:
    page = tmp_path / "trials" / "t" / "index.html"
    silent = data(Verdict.WEAKNESS_NOT_SHOWN)
    runs = [
        Tried(tmp_path / name, (samples.cell(word, silent.property, fault=silent.fault, page=page),), ())
        for name, word in (("a", silent.word), ("b", LOST))
    ]
    assert "∅" in marks(Page(scorecard.render(["redis"], runs, tmp_path / "x.html")), "a store that checks nothing")[4]


@pytest.fixture(params=sorted(RUNS))
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    return Run(shutil.copytree(RUNS[request.param], tmp_path / "runs" / RUNS[request.param].name))


def ran(capsys: pytest.CaptureFixture[str], run: Run, *words: str, status: int = 0) -> tuple[str, str]:
    assert command.main(["--results", str(run.path.parent), "scorecard", *words]) == status
    printed = capsys.readouterr()
    return printed.out.strip(), printed.err.strip()


def test_a_run_of_any_format_has_scorecards_that_lead_to_its_trials(
    old: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (old.path / "trials").iterdir():
        old.draw_trial(folder)
    old.draw(old.summarise("", {}))
    for lock in ("etcd", "redis"):
        page = old.path / "scorecards" / lock / "index.html"
        drawn = page.read_text("utf-8")
        assert ran(capsys, old, lock)[0].endswith(f"scorecards/{lock}/index.html")
        assert page.read_text("utf-8") == drawn, "the command makes what the run has"
        links = {link.given["href"] for link in Page(drawn).all("a") if "href" in link.given}
        assert len(links) > 2
        assert all((page.parent / link.partition("#")[0]).is_file() for link in links)
        assert "safe" not in Page(drawn).text.lower()
    run_page = Page((old.path / "index.html").read_text("utf-8"))
    links = {row.given["data-card"] for row in run_page.all("tr") if "data-card" in row.given}
    assert links == {f"scorecards/{lock}/index.html" for lock in ("etcd", "redis")}


def test_one_file_to_be_sent_to_somebody(old: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "sent.html"
    ran(capsys, old, "redis", "last", "--beside", "etc", "--output", str(file), "--without-links")
    page = Page(file.read_text("utf-8"))
    assert page.one("h1") == "May I use redis or etcd where lost data costs money?"
    assert not [link for link in page.all("a") if "href" in link.given]
    assert list(page.all("script", src="")) == [] == list(page.all("img"))
    assert ran(capsys, old, "redis", "--beside", "etcd")[0].endswith("scorecards/redis-beside-etcd/index.html")
    assert ran(capsys, old, "zookeeper", status=2) == (
        "", "results: no lock 'zookeeper' was tried; there are etcd and redis",
    )  # fmt: skip


def test_locks_whose_names_are_alike_as_files_have_a_page_each(tmp_path: Path) -> None:
    cells = tuple(samples.cell(HELD, lock=lock, page=tmp_path / "p") for lock in ("a/b", "a:b", "A-b", "../x"))
    scorecard.write_all(Tried(tmp_path, cells, ()))
    places = scorecard.places(cells)
    assert len({place.lower() for place in places.values()}) == 4
    for lock, place in places.items():
        title = Page((tmp_path / place).read_text("utf-8")).one("h1")
        assert title == f"May I use {lock} where lost data costs money?"


@pytest.mark.parametrize("part", ["scorecards", "scorecards/redis"])
def test_no_scorecard_is_written_through_a_link(tmp_path: Path, part: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "run" / part
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadFile, match="a link, which is not followed"):
        scorecard.write_all(Tried(tmp_path / "run", (samples.cell(HELD),), ()))
    assert list((tmp_path / "elsewhere").iterdir()) == []

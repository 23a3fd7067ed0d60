"""Scorecards: the advice that follows from verdicts, the pages that show it, and texts on faults and the rest."""

import re
from pathlib import Path
from typing import Any

import pytest

from checkers.claims import Verdict
from checkers.judging.excuses_by_fault import MECHANISMS
from checkers.properties.all_properties import PROPERTIES
from checkers.tests.build import cases
from infra.faults.all_faults import FAULTS
from results.pages.scorecard import Tried, places, render, write_all
from results.record import Cell
from results.report import advice, descriptions
from results.report.descriptions import COLUMNS, OTHER, UNGROUPED, Descriptions, groups, mechanism, property_text
from results.run import Run
from results.storage.files import BadFile
from results.tests import samples
from results.tests.conftest import Results
from results.tests.markup import Page, golden


def data(word: Verdict, fault: str = "freeze-holder", store: str = "unfenced", name: str = "no-lost-update") -> Cell:
    return samples.cell(word, name, fault=fault, store=store, lane=f"redis/set/{store}")


LOST, HELD, FREE = Verdict.WEAKNESS_SHOWN, Verdict.UPHELD, Verdict.NOT_PROMISED_HELD
BOTH = "fence-reads-and-writes"
TOKENS, PAUSED, CHECKED = samples.cell(HELD, "token-order"), data(LOST), data(HELD, store=BOTH)
KEPT = [TOKENS, PAUSED, CHECKED]

ADVICE: dict[str, list[Cell]] = {
    "a promise of data is violated, though a check keeps it": [TOKENS, data(Verdict.VIOLATED), CHECKED],
    "a promise about who holds it is violated": [*KEPT, samples.cell(Verdict.VIOLATED, "holder-exclusion")],
    "a promise about waiting broke": [*KEPT, samples.cell(Verdict.VIOLATED, "recovery")],
    "no data": [TOKENS],
    "a check of reads and writes keeps it": KEPT,
    "a refusal shows that a check keeps it": [TOKENS, PAUSED, data(HELD, store=BOTH, name="fenced-store")],
    "two checks keep it": [TOKENS, PAUSED, data(HELD, store="guarded"), data(FREE, store=BOTH)],
    "no token, and owners are compared": [PAUSED, data(HELD, store="compare-owner")],
    "no token, and no check was tried": [PAUSED],
    "a check of writes that was never asked for lost updates": [
        TOKENS, PAUSED, data(HELD, store="fence-writes", name="fenced-store"),
    ],
    "a check that held only without a pause": [TOKENS, PAUSED, data(HELD, "kill-server", BOTH)],
    "a check that broke": [*KEPT, data(Verdict.NOT_PROMISED_BROKEN, "slow-links", BOTH)],
    "a check with an open question": [*KEPT, data(Verdict.UNKNOWN, "slow-links", BOTH)],
    "lost without a pause": [TOKENS, data(LOST, "delayed-write"), data(HELD), data(HELD, "delayed-write", BOTH)],
    "lost without a fault": [data(LOST, "none"), data(HELD, "none", "compare-and-set")],
    "a job done twice": [
        TOKENS, data(LOST, name="no-duplicate"), data(HELD, store="idempotency-key", name="no-duplicate"),
    ],
    "not stressed": [TOKENS, data(HELD), data(Verdict.NOT_STRESSED, "late-write")],
    "a weakness that did not show": [TOKENS, data(Verdict.WEAKNESS_NOT_SHOWN)],
    "nobody was paused": [TOKENS, data(HELD, "kill-server"), data(HELD, "none")],
    "nothing was lost, whatever the store does": [TOKENS, data(FREE), data(HELD, "slow-links")],
    "nothing was lost with a check": [TOKENS, CHECKED],
    "a mode of a later version": [TOKENS, PAUSED, data(HELD, store="fence-all")],
    "the heaviest ground comes first, and what was not tried is named": [
        *KEPT, data(LOST, "late-write", "fence-writes"), samples.cell(LOST, "token-order", fault="wipe-server"),
        samples.cell(Verdict.VIOLATED, "recovery", fault="kill-server"), samples.cell(LOST, "holder-exclusion"),
        samples.cell(Verdict.NOT_APPLICABLE, "fifo"),
    ],
}  # fmt: skip


def advised(case: str) -> str:
    made = advice.advise(ADVICE[case])
    grounds = [f"{ground.word}: {ground.text}" for ground in made.grounds]
    return "\n".join([f"# {case}", f"{made.answer}: {made.because}", *grounds])


@pytest.mark.parametrize("case", ADVICE)
def test_the_advice_follows_from_the_verdicts_and_matches_the_golden_text(case: str) -> None:
    assert advised(case) in golden("advice.txt", "\n\n".join(map(advised, ADVICE)) + "\n").strip().split("\n\n")
    made = advice.advise(ADVICE[case])
    assert made.answer.split()[0].lower() in advice.RULES[made.rule].lower(), "it is what the rule says"
    assert advice.advise(ADVICE[case][::-1]).answer == made.answer, "whatever the order"


def test_every_rule_has_a_case() -> None:
    assert {advice.advise(cells).rule for cells in ADVICE.values()} == set(range(len(advice.RULES)))


def test_faults_are_grouped_by_what_they_need() -> None:
    for name, fault in FAULTS.items():
        group = "links" if fault.kind in ("cut", "slow", "reset") else "servers"
        group = "workers" if "workers" in fault.needs else group
        group = "clocks" if fault.kind in ("clock", "skew") else group
        assert groups(name) == ("store" if "store-link" in fault.needs else group,), name
    assert {group for name in ("none", *FAULTS) for group in groups(name)} == set(COLUMNS) - {OTHER}
    assert groups("freeze-holder+kill-server+made-up") == ("servers", "workers", OTHER)


def marks(page: Page, row: str) -> list[str]:
    """The cells of a row of the table, without its head."""
    line = next(line for line in page.lines.splitlines() if line.startswith(f"| {row}"))
    return [mark.strip() for mark in line.split("|")[2:]]


def made(path: Path, *cells: Cell, locks: tuple[str, ...] = ("redis",)) -> Page:
    return Page(render(locks, [Tried(path, cells, ())], path / "x.html"))


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
    read = Page(render(["redis", "etcd"], runs, tmp_path / "x.html"))
    assert read.one("h1") == "May I use redis or etcd where lost data costs money?"
    first = marks(read, "first come, first served fifo")[0]
    assert " ".join(first.split()) == "A ◆ weakness 1 B ✔ upheld 2 C ✔ upheld 1"
    one = "1 trial, 0 faults"
    told = [f"A redis on redis 7: {one}", f"B redis on redis 8: {one} in 2 runs", f"C etcd on etcd 3.5: {one}"]
    assert [paragraph.text for paragraph in read.all("p", class_="facts")] == told


def test_an_attempt_is_made_good_only_within_its_run(tmp_path: Path) -> None:
    page = tmp_path / "trials" / "t" / "index.html"
    silent = data(Verdict.WEAKNESS_NOT_SHOWN)
    runs = [
        Tried(tmp_path / name, (samples.cell(word, silent.property, fault=silent.fault, page=page),), ())
        for name, word in (("a", silent.word), ("b", LOST))
    ]
    assert "∅" in marks(Page(render(["redis"], runs, tmp_path / "x.html")), "a store that checks nothing")[4]


def test_a_run_of_any_format_has_scorecards_that_lead_to_its_trials(old: Run, results: Results) -> None:
    for folder in (old.path / "trials").iterdir():
        old.draw_trial(folder)
    old.draw(old.summarise("", {}))
    for lock in ("etcd", "redis"):
        page = old.path / "scorecards" / lock / "index.html"
        drawn = page.read_text("utf-8")
        status, out, _ = results("--results", old.path.parent, "scorecard", lock)
        assert (status, out.endswith(f"scorecards/{lock}/index.html\n")) == (0, True)
        assert page.read_text("utf-8") == drawn, "the command makes what the run has"
        links = {link.given["href"] for link in Page(drawn).all("a") if "href" in link.given}
        assert len(links) > 2
        assert all((page.parent / link.partition("#")[0]).is_file() for link in links)
        assert "safe" not in Page(drawn).text.lower()
    rows = Page((old.path / "index.html").read_text("utf-8")).all("tr")
    links = {row.given["data-card"] for row in rows if "data-card" in row.given}
    assert links == {f"scorecards/{lock}/index.html" for lock in ("etcd", "redis")}


def test_a_scorecard_without_links_is_one_file_that_can_be_sent(old: Run, results: Results, tmp_path: Path) -> None:
    file, asked = tmp_path / "sent.html", ("--results", old.path.parent, "scorecard")
    assert results(*asked, "redis", "last", "--beside", "etc", "--output", file, "--without-links")[0] == 0
    page = Page(file.read_text("utf-8"))
    assert page.one("h1") == "May I use redis or etcd where lost data costs money?"
    assert not [link for link in page.all("a") if "href" in link.given]
    assert list(page.all("script", src="")) == [] == list(page.all("img"))
    status, out, _ = results(*asked, "redis", "--beside", "etcd")
    assert (status, out.endswith("scorecards/redis-beside-etcd/index.html\n")) == (0, True)
    assert results(*asked, "zookeeper") == (2, "", "results: no lock 'zookeeper' was tried; there are etcd and redis\n")


def test_locks_whose_names_are_alike_as_files_have_a_page_each(tmp_path: Path) -> None:
    cells = tuple(samples.cell(HELD, lock=lock, page=tmp_path / "p") for lock in ("a/b", "a:b", "A-b", "../x"))
    write_all(Tried(tmp_path, cells, ()))
    placed = places(cells)
    assert len({place.lower() for place in placed.values()}) == 4
    for lock, place in placed.items():
        assert Page((tmp_path / place).read_text("utf-8")).one("h1") == f"May I use {lock} where lost data costs money?"


@pytest.mark.parametrize("part", ["scorecards", "scorecards/redis"])
def test_no_scorecard_is_written_through_a_link(tmp_path: Path, part: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "run" / part
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadFile, match="a link, which is not followed"):
        write_all(Tried(tmp_path / "run", (samples.cell(HELD),), ()))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_every_property_is_described_in_a_few_sentences_and_every_mechanism_in_half_a_sentence() -> None:
    for name in PROPERTIES:
        text = property_text(name)
        assert 1 <= len(re.findall(r"[.!?](?:\s|$)", text)) <= 5, name
        assert not {"`", "\n"} & {*text}, name
    for name in MECHANISMS:
        assert re.fullmatch(r"[a-z][^\n:]{15,140}[^.]", mechanism(name)), name
    assert (property_text("of-another-version"), mechanism("of-another-version")) == ("", "")


def test_each_property_of_a_module_with_several_has_its_own_sentence() -> None:
    owner, crash = map(property_text, ("owner-release", "crash-release"))
    assert owner.startswith("The holder's release or death ends a lock, and nobody else ends it. owner-release asks")
    assert crash.split(". ")[0] == owner.split(". ")[0]
    assert "crash-release" not in owner


WOKEN = "explained by woken-all (everybody who waits watches the same thing)"
NEITHER = "overlap, which no-exclusion{} or client-clock{} does not explain"
CLOCKS = " (tokens are the clients' clocks)"
WRONG = {"group": ["x"], "text": 7}


@cases(
    "text, told",
    ("alone", "explained by woken-all", WOKEN),
    ("what follows stays", "explained by woken-all: the machine itself", f"{WOKEN}: the machine itself"),
    ("two", NEITHER.format("", ""), NEITHER.format(" (there is no lock, or its answer is ignored)", CLOCKS)),
    ("of a later version", *["explained by magic-of-tomorrow"] * 2),
    ("none", "held", "held"),
)
def test_a_mechanism_in_a_reason_is_followed_by_its_meaning_in_words(text: str, told: str) -> None:
    assert descriptions.explained(text) == told


def test_stored_descriptions_of_faults_and_locks_are_read() -> None:
    faults = {"kill": {"group": "servers", "text": "One. Two? 3.5 is no end. Four. Five! Six."}, "a+b": {"group": ""}}
    made = Descriptions.of({"described": {"faults": faults, "locks": {"mine": "a ``lock``.\n\nOf mine."}}})
    assert made.faults["kill"] == "One. Two? 3.5 is no end. Four. Five!"
    assert made.locks == {"mine": "A lock. Of mine."}
    assert [made.group(fault) for fault in ("none", "kill", "a+b", "other")] == ["", "servers", "several", UNGROUPED]


@pytest.mark.parametrize(
    "stored", [None, 7, {}, {"faults": 7, "locks": [1]}, {"faults": {"kill": 7}}, {"faults": {"kill": WRONG}}]
)
def test_faults_are_ungrouped_if_no_valid_descriptions_are_stored(stored: Any) -> None:
    made = Descriptions.of({"described": stored})
    assert (made.group("none"), made.group("kill"), made.faults.get("kill", "")) == ("", UNGROUPED, "")
    assert UNGROUPED in descriptions.GROUPS

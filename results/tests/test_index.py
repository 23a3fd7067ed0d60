"""A run's page: the matrix and the data behind it, the sections below it, and that the page stays small."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from checkers.claims import Verdict
from checkers.tests.build import cases
from results.commands.digest import digest
from results.comparison.presentation import Side
from results.pages import rates, run_page
from results.record import Cell, LaneSummary
from results.report import grid
from results.run import Run
from results.storage import files
from results.tests import samples
from results.tests.browser.made import violated
from results.tests.markup import Element, Page, golden

ROOT = Path("/runs/r")


def cell(lock: str, fault: str, word: Verdict, about: str = "server-exclusion", **given: Any) -> Cell:
    trial = f"{files.safe_name(lock)}-{fault}-1"
    given = {"page": ROOT / "trials" / trial / "index.html", "trial": trial, "fault": fault, **given}
    return samples.cell(word, about, **{"lock": lock, "backend": lock, "lane": f"{lock}/register/unfenced", **given})


def drawn(cells: Sequence[Cell], lanes: Sequence[LaneSummary] = (), problems: Sequence[str] = (), **about: Any) -> Page:
    return Page(run_page.render(ROOT, about, cells, problems, lanes))


def cycle(phase: str, p50: float | None, p99: float | None, count: int = 10) -> dict[str, Any]:
    times = {"count": count, "p50": p50, "p90": None, "p99": p99, "longest": None, "given_up": 0}
    return {"phase": phase, "seconds": 4.0, "grants": 20, "acquire_ms": times}


QUIET = {"cycles": [cycle("before", 12.34, None)], "recovery_s": []}  # measures of a lane without a fault
WEAK = cell("redis", "none", Verdict.WEAKNESS_SHOWN, "herd-free")


def square(page: Page) -> Element:
    [found] = page.all("a", data_i="0")
    return found


def test_a_square_tells_every_word_the_heaviest_first() -> None:
    held = [Verdict.UPHELD, Verdict.NOT_PROMISED_HELD]
    words = [*held, Verdict.VIOLATED, *held, Verdict.UPHELD]
    made = square(drawn([cell("redis", "none", word, f"p{at}") for at, word in enumerate(words)]))
    assert made.text == "✖ 1 violated◦ 2 held✔ 3 upheld"
    assert made.given["title"].splitlines() == ["1 violated", "2 not promised: held", "3 upheld"]
    assert made.given["class"] == "w-violated h-violated"


@cases(
    "words, shade",
    ("all that was promised held", [(Verdict.NOT_PROMISED_HELD, "fifo"), (Verdict.UPHELD, "recovery")], "upheld"),
    ("nothing was promised", [(Verdict.NOT_PROMISED_HELD, "a"), (Verdict.NOT_APPLICABLE, "b")], "not_promised_held"),
    ("by the fault", [(Verdict.UPHELD, "a"), (Verdict.WEAKNESS_SHOWN, "b")], "weakness_shown"),
    ("without it too", [(Verdict.UPHELD, "a"), (Verdict.WEAKNESS_SHOWN, "herd-free")], "upheld thin"),
    ("both", [(Verdict.WEAKNESS_SHOWN, "b"), (Verdict.WEAKNESS_SHOWN, "herd-free")], "weakness_shown thin"),
    ("only without it", [(Verdict.WEAKNESS_SHOWN, "herd-free")], "lasting thin"),
    ("broken, not promised", [(Verdict.NOT_PROMISED_BROKEN, "a"), (Verdict.UPHELD, "b")], "not_promised_broken"),
    ("failing", [(Verdict.WEAKNESS_SHOWN, "herd-free"), (Verdict.NOT_STRESSED, "b")], "not_stressed thin"),
    ("it did not show this time", [(Verdict.UPHELD, "herd-free")], "upheld"),
    ("not applicable", [(Verdict.NOT_APPLICABLE, "a")], "not_applicable"),
)
def test_the_fault_colours_a_square_and_other_weaknesses_mark_it(words: list[tuple[Verdict, str]], shade: str) -> None:
    page = drawn([WEAK, *(cell("redis", "kill-server", word, about) for word, about in words)])
    alone, made = (link.given["class"] for link in page.all("a") if "data-i" in link.given)
    assert alone == "w-weakness_shown h-weakness_shown", "without a fault it is the whole of it"
    assert made.partition(" h-")[2] == shade
    heaviest_first = sorted(words, key=lambda judged: judged[0].weight)
    flagged = [number >= 16 for number in page.data["squares"][1][::7]]
    assert flagged == [judged == (Verdict.WEAKNESS_SHOWN, "herd-free") for judged in heaviest_first]


@pytest.mark.parametrize("word", list(Verdict), ids=lambda word: word.name.lower())
def test_no_word_is_hidden_by_a_lighter_one(word: Verdict) -> None:
    for order in (1, -1):
        cells = [cell("redis", "none", each, "p", seed=each.weight) for each in [*Verdict][word.weight :][::order]]
        made = square(drawn(cells))
        assert made.text.startswith(f"{grid.SIGNS[word].glyph} 1 {grid.SIGNS[word].short}")
        assert made.given["title"].startswith(f"1 {word}")


def test_a_square_leads_to_the_lane_of_its_heaviest_word() -> None:
    lanes = ("redis/set/fence-writes", "redis/register/a b%")
    words = zip((Verdict.UPHELD, Verdict.VIOLATED), lanes, strict=True)
    made = square(drawn([cell("redis", "none", word, lane=lane) for word, lane in words]))
    assert unquote(made.given["href"]) == f"trials/redis-none-1/index.html#lane={lanes[1]}"
    assert "%25" in made.given["href"]


def test_the_data_behind_the_squares_are_what_was_judged() -> None:
    page = drawn([
        cell("redis", "none", Verdict.UPHELD, version="8.0"),
        cell("redis", "none", Verdict.VIOLATED, "token-order", story=("one", "two")),
        cell("redis", "none", Verdict.VIOLATED, "token-order", story=("another",), lane="redis/set/unfenced"),
        cell("etcd", "kill-server", Verdict.NOT_APPLICABLE, "", page=None, lane="", because="no engine"),
    ])  # fmt: skip
    data = page.data
    told = []
    for word, *texts, trial, story in (flat[at : at + 7] for flat in data["squares"] for at in range(0, len(flat), 7)):
        named = [data["texts"][text] for text in texts]
        told.append((list(Verdict)[word], *named, trial if trial < 0 else data["trials"][trial][1], story < 0))
    link = "trials/redis-none-1/index.html"
    assert told == [
        (Verdict.VIOLATED, "token-order", "redis/register/unfenced", "", "because so", link, False),
        (Verdict.VIOLATED, "token-order", "redis/set/unfenced", "", "because so", link, True),
        (Verdict.UPHELD, "server-exclusion", "redis/register/unfenced", "8.0", "because so", link, True),
        (Verdict.NOT_APPLICABLE, "", "", "", "no engine", -1, True),
    ]
    assert "one\ntwo" in data["texts"]
    assert [link.given["data-i"] for link in page.all("a") if "data-i" in link.given] == ["0", "1"]


def test_faults_stand_in_their_groups_and_what_fails_stands_first() -> None:
    groups = {"cut": "links", "slow": "links", "kill": "servers", "drift": "clocks", "both": ""}
    stored = {name: {"group": group, "text": f"It is {name}."} for name, group in groups.items()}
    cells = [cell(lock, fault, Verdict.UPHELD) for lock in ("a", "b") for fault in ("none", "odd", *groups)]
    page = drawn(cells, described={"faults": stored, "locks": {"a": "a lock."}})
    heads = [(one.given.get("data-group"), one.given.get("data-fault")) for one in page.all("th") if len(one.given) > 2]
    columns = [fault for _, fault in heads if fault]
    assert columns == ["none", "cut", "slow", "kill", "drift", "both", "odd"]
    assert [group for group, _ in heads if group] == ["links", "servers", "clocks", "several", "faults"]
    assert (page.data["about"]["fault"]["cut"], page.data["about"]["lock"]) == ("It is cut.", {"a": "A lock.", "b": ""})
    page = drawn([*cells, cell("b", "slow", Verdict.VIOLATED, "fifo"), cell("b", "kill", Verdict.UNKNOWN, "fifo")],
                 described={"faults": stored})  # fmt: skip
    columns = [one.given["data-fault"] for one in page.elements if "data-fault" in one.given]
    assert columns[:4] == ["none", "slow", "cut", "kill"]
    assert [one.given["data-lock"] for one in page.all("tr") if "data-lock" in one.given] == ["b", "a"]


def test_rows_are_grouped_by_backend_and_named_as_shortly_as_they_can_be() -> None:
    mine, yours = "/home/a/locks.py:Mine", "/home/b/locks.py:Mine"
    page = drawn([
        cell(mine, "none", Verdict.UPHELD, backend="redis"), cell(yours, "none", Verdict.UPHELD, backend="redis"),
        cell("etcd", "kill-server", Verdict.UPHELD),
    ])  # fmt: skip
    heads = [(head.given["title"], head.text) for head in page.all("th", scope="row")]
    assert heads == [("etcd", "etcd"), (mine, "a/locks.py:Mine"), (yours, "b/locks.py:Mine")]
    for name, values in (("data-backend", ["etcd", "redis"]), ("data-fault", ["none", "kill-server"])):
        assert [one.given[name] for one in page.elements if name in one.given] == values
    assert len(list(page.all("td", class_="nothing"))) == 3


@cases(
    "names, short",
    ("ours", ["redis", "redis-fair"], ["redis", "redis-fair"]),
    ("module", ["a.b.locks:Mine", "etcd"], ["Mine", "etcd"]),
    ("tail-of-another", ["a.b.locks:Mine", "Mine"], ["locks:Mine", "Mine"]),
    ("hostile", ["a/", ":", "", "."], ["a/", ":", "", "."]),
    ("files", ["/x/a.py:L", "/y/a.py:L", "/y/b.py:M"], ["x/a.py:L", "y/a.py:L", "M"]),
    ("dotted-folder", ["/v1.2/a.py:L", "/v1.3/a.py:L"], ["v1.2/a.py:L", "v1.3/a.py:L"]),
)
def test_short_names_are_the_shortest_tails_that_tell_names_apart(names: list[str], short: list[str]) -> None:
    assert list(grid.short_names(names).values()) == short


def test_reasons_that_differ_only_in_numbers_are_one_case() -> None:
    cells = [
        cell("redis", "none", Verdict.NOT_STRESSED, "recovery", lane=f"l{n}", because=f"{why} grants: {n}, 9 needed")
        for n, why in enumerate(["too few"] * 5 + ["no"])
    ]
    told = [(case.lanes, case.first.because) for case in grid.failures(cells)]
    assert told == [(5, "too few grants: 0, 9 needed"), (1, "no grants: 5, 9 needed")]


def test_the_page_of_a_run_matches_the_golden_text() -> None:
    cells = [
        cell("etcd", "none", Verdict.WEAKNESS_SHOWN, "holder-exclusion", story=("documented story",)),
        cell("redis", "none", Verdict.VIOLATED, story=("Worker 1 held it.", "So did worker 2.")),
        cell("redis", "none", Verdict.UPHELD, "fifo"),
    ]
    mechanisms = (("fenced-store", "frozen-past-ttl: the machine"), ("recovery", "left-behind"))
    cells += [
        cell(lock, fault, Verdict.WEAKNESS_SHOWN, about, because=f"explained by {why}")
        for lock, fault, (about, why) in product(("redis", "etcd"), ("freeze-holder", "late-write"), mechanisms)
    ]
    nowhere: dict[str, Any] = {"page": None, "lane": ""}
    cells += [
        cell(f"lock{n}", fault, Verdict.NOT_APPLICABLE, "", because=f"no leader: {n}", **nowhere)
        for n, fault in product(range(9), ("change-leader", "isolate-leader"))
    ]
    cells.append(cell("", "kill-server", Verdict.NOT_APPLICABLE, "", because="not ours", backend="etcd", **nowhere))
    problems = [f"trials/{n}: damaged " + "x" * 50 for n in range(7)]
    about = {"command": ["pytest", "suites/", "-k", "a or b"], "seed": 7, "profile": "default"}
    times = {"started": "2026-01-02T03:04:05+00:00", "closed": "2026-01-02T03:09:15+00:00"}
    struck = {"acquire at once": {"messages": 3, "hit": 2}}
    lanes = [samples.summary(QUIET, boundaries=struck), samples.summary(None, lock="old-format")]
    page = drawn(cells, lanes, problems, **about, **times)
    assert page.lines == golden("run.txt", page.lines)
    assert "old-format" not in page.one("section", id="rates")


def test_failures_beyond_the_first_hundred_are_only_counted() -> None:
    page = drawn([cell("redis", "none", Verdict.VIOLATED, f"p{n}") for n in range(130)])
    assert len(list(page.all("div", class_="case fails"))) == 100
    assert "And 30 more" in page.one("section", id="failures")
    assert "and 129 more promises broke (130 of 130 promises)" in page.one("h1", id="verdict")


@cases(
    "about, says",
    ("going on", {"closed": ""}, "still going on"),
    ("interrupted", {"closed": "", "interrupted": True}, "interrupted"),
    ("damaged", {"started": "x", "closed": 7, "profile": None}, "1 of 1 promises upheld"),
)
def test_the_page_says_whether_the_run_goes_on_or_was_interrupted(about: dict[str, Any], says: str) -> None:
    assert says in drawn([cell("redis", "none", Verdict.UPHELD)], **about).one("main")


def test_rates_weigh_lanes_by_their_acquires() -> None:
    measures: list[dict[str, Any]] = [
        {"cycles": [cycle("before", 10.0, 90.0, count=100)], "recovery_s": []},
        {"cycles": [cycle("before", 50.0, None, count=30), cycle("during", 500.0, None)], "recovery_s": [2.0, None]},
        {"cycles": [cycle("during", 700.0, None), cycle("after", 1.0, 1.0)], "recovery_s": [4.0, 3.0]},
    ]
    [one] = rates.per(lambda lane: lane.lock, [samples.summary(one) for one in measures]).values()
    assert (one.quiet, one.faulted) == (rates.Phase(10.0, 90.0, 5.0, 130), rates.Phase(500.0, None, 5.0, 20))
    assert rates.table({("", "redis"): replace(one, quiet=rates.Phase(0.2, 5e3, 5.0, 1))})["low"] == "0.200"
    assert (one.recovery, one.slowest, one.missing, one.heals, one.lanes) == (3.0, 4.0, 1, 4, 3)
    assert [rates.middle(values) for values in ([], [(5.0, 0)], [(1.0, 1), (math.inf, 5)])] == [None] * 3
    assert rates.middle([(3.0, 1), (1.0, 1), (2.0, 1)]) == 2.0
    assert (rates.middle([(1.0, 1), (9.0, 5)]), rates.middle([(1.0, 5), (math.inf, 5)])) == (9.0, 1.0)


def test_an_unknown_rate_has_no_number_and_without_measures_there_is_no_table() -> None:
    page = drawn([], [samples.summary(QUIET)])
    numbers = [(one.given.get("data-v"), one.text) for one in page.all("td", class_="number") if "title" in one.given]
    assert (numbers[:3], set(numbers[3:])) == ([("12.34", "12.3"), (None, "-"), ("5.0", "5.00")], {(None, "-")})
    nothing = drawn([], [samples.summary(None)])
    assert nothing.one("h1", id="verdict") == "NOT CLEAN: nothing was judged"
    assert not list(nothing.all("table"))
    assert not list(nothing.all("section", id="rates"))


def test_stories_of_what_fails_are_all_there_however_many_there_are() -> None:
    long = "x" * 100_000
    stories = [(n, word) for n in range(9) for word in list(Verdict)[:6]]
    cells = [cell(f"l{n}", "none", word, story=(f"{word} {n}", long), seed=word.weight) for n, word in stories]
    texts = " ".join(drawn(cells).data["texts"])
    left_out = [word for n, word in stories if f"{word} {n}\n" not in texts]
    assert len(left_out) > 9
    assert not any(word.fails for word in left_out)


def test_the_page_of_a_whole_matrix_is_small() -> None:
    locks, faults = 47, 25
    told = ("a worker was granted a token; its lease ran out while it was frozen; it noticed the loss",) * 3
    cells: list[Cell] = []
    for lock, fault in product(range(locks), range(faults)):
        trial = f"{lock % 4}-{fault}"
        where: dict[str, Any] = {"backend": f"backend-{lock % 4}", "trial": trial, "page": ROOT / trial / "index.html"}
        one = cell(f"lock-{lock}", f"some-fault-{fault}", Verdict.UPHELD, **where)
        cells += [replace(one, property=f"property-{at}") for at in range(5)]
        cells.append(replace(one, word=Verdict.WEAKNESS_SHOWN, story=(f"{lock} {fault}", *told)))
    text = run_page.render(ROOT, {}, cells, [], ())
    assert len(text.encode()) < 1_500_000
    assert len(Page(text).data["squares"]) == locks * faults


def test_what_fails_has_its_picture_and_command_and_what_was_left_out_is_a_click_away(tmp_path: Path) -> None:
    run = Run.create(tmp_path, {})
    run.save_trial(replace(samples.trial("aborted", error="worker 2 broke"), lanes=()))
    run.save_trial(violated(samples.trial()))
    (run.path / "trials" / "linked").symlink_to(run.path / "trials" / "aborted")
    (run.path / "trials" / "half").mkdir()
    page = Page(run.close({}).read_text())
    for words in ("aborted: aborted: worker 2 broke", "half/trial.json: No such file", "linked: a link, which is not"):
        assert f"trials/{words}" in page.one("section", id="problems")
    failing, left_out = (page.within("section", id=name) for name in ("failures", "problems"))
    drawn = [one.given.get("aria-label") for one in failing if one.tag in ("svg", "button")]
    assert drawn == ["redis/register/unfenced: the operations around the violation", "copy the command"] * 2
    commands = [one.text.partition("suites/ ")[2] for one in failing if one.tag == "code"]
    assert commands == ["--backend redis --faults freeze-holder --seed 7"] * 2
    assert digest(Side.of(run)).count("again: <code>") == 3
    links = [one.given["href"].rpartition("property=")[2] for one in (*failing, *left_out) if one.tag == "a"]
    assert links == ["holder-exclusion", "fenced-store", "trials/aborted/index.html"]

"""Pages of trials and their stories: in reading order, complete, small, and immune to hostile strings."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from xml.etree import ElementTree

import numpy as np
import pytest

from checkers.check import check
from checkers.claims import Verdict
from checkers.history.finding import Finding
from checkers.history.history import from_rows
from checkers.history.holds_and_lease_ends import Holds
from checkers.history.view import View
from checkers.judging.judgement import Judgement, judge, judge_all
from checkers.properties.check_result import CheckResult, Violation
from checkers.properties.violation_stories import Narrator
from checkers.row_format import NONE, F, Outcome
from checkers.tests.build import cases, there
from results.pages import trial_page
from results.pages.lane.windows import standalone
from results.record import LaneRecord, TrialRecord, decisive
from results.report import sentences, short_story
from results.run import Run
from results.storage.reading import load_trial
from results.tests import samples
from results.tests.browser.made import RECORDED
from results.tests.markup import Page, golden, unpacked

LOAD = {"workload": ["set", "once"], "keys": 1_000, "ttl": 30.0, "hook": "pause=evil"}
LOCKS = {"locks": {"redis": "suites.locks.redis:RedisLock", "mine": "pkg.locks:Mine"}}
PROFILE = {**LOCKS, "profile": "default", "column": "none"}


def read(record: TrialRecord) -> Page:
    stored = tuple(replace(lane, file=f"{n}.arrow") for n, lane in enumerate(record.lanes))
    return Page(trial_page.render(replace(record, lanes=stored), Path("runs/r/trials/t")))


def packed(record: TrialRecord) -> list[Page]:
    """The parts that the page unpacks when somebody asks for them, by lane."""
    return [Page(unpacked(div.given["data-packed"])) for div in read(record).all("div", class_="packed")]


def windows(of: Page) -> list[tuple[str, str, bool]]:
    """(number, property, whether it is shown) of each violation that is drawn."""
    divs = [div.given for div in of.all("div") if "data-window" in div.given]
    return [(div["data-window"], div["data-property"], "hidden" not in div) for div in divs]


def test_the_page_of_a_trial_matches_the_golden_text() -> None:
    node = {"image": "fencepost/redis:trixie", "digest": "sha256:980b", "settings": {"A": "b c"}}
    nodes = {"redis1": {**node, "command": ["redis-server", "--save", ""]}}
    text = read(samples.trial(nodes=nodes, clock="CLOCK_MONOTONIC", versions={"redis1": "8.0.2"})).lines
    assert text == golden("trial.txt", text)


def test_the_sentence_covers_the_whole_trial_also_one_that_was_aborted_without_lanes() -> None:
    fenced, unfenced, third = (samples.stale_write(lane=name, lock=name) for name in ("one", "two", "three"))
    record = samples.trial("t", fenced, unfenced, third)
    one, two, three = record.lanes

    def lane(record: LaneRecord, *words: tuple[str, Verdict]) -> LaneRecord:
        return replace(record, judgements=tuple(Judgement(name, word, f"why {name}", None) for name, word in words))

    a, b, c = ("order", Verdict.VIOLATED), ("order", Verdict.UPHELD), ("order", Verdict.NOT_STRESSED)
    trials: list[list[LaneRecord]] = [[lane(one, a), lane(two, b), lane(three, c)], [lane(one, c), lane(two)], []]
    trials.append([lane(one, a), lane(two, ("fifo", Verdict.VIOLATED), b)])
    text = "".join(f"{sentences.trial_sentence(lanes)}\n" for lanes in trials)
    assert text == golden("sentences.txt", text)
    heading = sentences.trial_heading([lane(one, a), lane(two, ("fifo", Verdict.VIOLATED), b)])
    assert heading == "2 locks broke their promise of order and 1 more under freeze-holder"
    for word in Verdict:
        several = [lane(each, ("order", word), ("fifo", word)) for each in record.lanes]
        assert len(sentences.trial_heading(several).split()) <= 12
    assert "The trial was aborted. a lock broke" in read(replace(samples.trial(error="a lock broke"), lanes=())).text


@cases(
    "about, command",
    ("storm", {"column": "storm-17", "seed": 17}, "--backend redis --faults storm-17 --seed 17"),
    ("own lock", LOCKS, "--lock redis --lock pkg.locks:Mine --faults"),
    ("profile", PROFILE, "--profile default --backend redis -k none --seed 7"),
    ("no backend", {"column": "none", "backend": None, "version": "7.0"}, "--faults none --seed 7"),
    ("shape", {"column": "none", "shape": "five"}, "--backend redis --faults none --shape redis=five --seed 7"),
    ("load", {"load": LOAD, "column": "none"},
     "--backend redis --faults none --workload set --workload once --keys 1000 --ttl 30 --seed 7"),
)  # fmt: skip
def test_the_page_has_the_command_that_runs_the_trial_again(about: dict[str, Any], command: str) -> None:
    assert f"pytest suites/ {command}" in read(samples.trial(**about)).text


def test_the_heaviest_lane_comes_first() -> None:
    fenced, unfenced = samples.stale_write("fence-writes", lane="z"), samples.stale_write(lane="a")
    broken = CheckResult("server-exclusion", False, (samples.stale_violation(unfenced),))
    record = samples.trial("t", fenced, unfenced)
    judged = Judgement("server-exclusion", Verdict.VIOLATED, "overlap", broken)
    text = read(replace(record, lanes=(record.lanes[0], replace(record.lanes[1], judgements=(judged,))))).text
    assert "redis broke its promise of server-exclusion under freeze-holder: overlap." in text
    assert text.index(" a ") < text.index(" z ")


def test_a_hold_past_its_lease_is_hatched_right_of_the_part_before() -> None:
    reader = read(samples.trial("t", samples.stale_write("fence-writes")))
    [past] = [rect.given for rect in reader.all("rect") if rect.given.get("class", "").startswith("past marked")]
    ends = {float(rect.given["x"]) + float(rect.given["width"]) for rect in reader.all("rect", class_="hold marked")}
    assert min(abs(float(past["x"]) - end) for end in ends) < 0.3
    assert {"cross", "write bad"} <= {element.given.get("class") for element in reader.elements}


def test_the_story_is_of_the_heaviest_word_and_among_equals_of_the_longest_witness() -> None:
    lane = samples.trial("t", samples.stale_write()).lanes[0]
    of = {judgement.property: judgement for judgement in lane.judgements}
    assert sentences.leading(lane) == of["fenced-store"]
    heavier = replace(of["holder-exclusion"], word=Verdict.VIOLATED)
    assert sentences.leading(replace(lane, judgements=(*lane.judgements, heavier))) == heavier


def test_other_keys_stay_out_of_the_picture() -> None:
    history = samples.stale_write(keys=("k0", "k1"))
    rows = samples.rows_of(samples.hold(0, 7, 700, 800, 2, NONE))
    rows["key"] = 1
    both = np.concatenate((rows, np.zeros(len(history), rows.dtype)))
    for name, column in history.columns.items():
        both[name][len(rows) :] = column
    text = read(samples.trial("t", from_rows(history.facts, both, history.faults, history.errors))).text
    assert "The operations around the violation, on key k0" in text
    assert "acquire with token 41" in text
    assert "acquire with token 7 " not in text
    assert "worker 1 holds #4, token 42" in text, "grants of other keys do not count"
    assert "worker 0 holds" not in text


def test_the_legend_names_what_the_picture_shows_and_nothing_else() -> None:
    drawn = {"write": "write", "read": "read", "renew": "renew", "release": "release", "lost": "lost"}
    shown = {"cross": "refused", "question": "unknown", "lease": "lease", "past-plain": "past", "band": "fault"}
    shown |= {"tear": "cut", "waiting": "waiting", "number": "number", "tail": "tail", "open": "open", "hold": "hold"}
    calm = from_rows(samples.facts(), samples.rows_of(samples.hold(1, 39, 60, 160, 3, NONE)))
    for history in (samples.stale_write("fence-writes"), samples.stale_write(), calm):
        reader = read(samples.one_lane(history))
        classes: set[str] = set()
        for part in reader.within("svg", class_="picture")[1:]:
            classes |= set(part.given.get("class", "").split())
        named = {span.given["data-symbol"] for span in reader.all("span") if "data-symbol" in span.given}
        assert named - {"whisker"} == {name for class_, name in (drawn | shown).items() if class_ in classes}


def test_every_violation_has_a_window_of_its_own() -> None:
    record = samples.trial("t", samples.stale_write())
    shown, [more] = read(record), packed(record)
    assert (windows(shown), windows(more)) == ([("0", "fenced-store", True)], [("1", "holder-exclusion", False)])
    ids = [element.given["id"] for element in (*shown.elements, *more.elements) if "id" in element.given]
    assert len(ids) == len(set(ids))


def test_lanes_beyond_a_bound_are_packed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    record = samples.trial("t", samples.stale_write(lane="a"), samples.stale_write(lane="b"))
    monkeypatch.setattr(trial_page, "_UNPACKED", 1)
    numbers = [[number for number, *_ in windows(each)] for each in (read(record), *packed(record))]
    assert numbers == [["0"], ["1"], ["0", "1"]]


def test_counters_that_all_properties_share_are_said_once_and_explained() -> None:
    history = samples.stale_write()
    shared = {"grants": 6, "hand-overs": 5}
    results = samples.upheld("server-exclusion", **shared), samples.upheld("token-order", **shared, tokens=6)
    text = read(samples.one_lane(history, *(judge(result, history) for result in results))).text
    assert text.count("6 grants") == 1
    for said in ("5 hand-overs", "6 tokens", "hand-overs grants that followed on another client's"):
        assert said in text


@pytest.mark.parametrize("violations", [0, 3000])
def test_a_page_of_1e5_operations_is_small(violations: int) -> None:
    history = samples.long(100_000)
    result = CheckResult("server-exclusion", not violations, (samples.stale_violation(history),) * violations)
    record = samples.one_lane(history, Judgement("x", Verdict.UPHELD, "", result))
    assert len(trial_page.render(record, Path("t")).encode()) < 600_000


def test_a_page_of_twenty_lanes_with_1e5_operations_is_small() -> None:
    history = samples.long(5_000)
    broken = CheckResult("server-exclusion", False, (samples.stale_violation(history),) * 100)
    named = [replace(history, facts=replace(history.facts, lane=f"lane/{n}")) for n in range(20)]
    lanes = tuple(LaneRecord(one, (judge(broken, one),)) for one in named)
    assert len(trial_page.render(replace(samples.trial(), lanes=lanes), Path("t")).encode()) < 1_500_000


def test_a_passing_trial_shows_the_worker_hit_by_the_fault_or_a_contended_hand_over() -> None:
    fenced = samples.stale_write("fence-writes")
    text = read(samples.one_lane(fenced, *(j for j in samples.judgements(fenced) if j.result and j.result.valid))).text
    assert "The worker hit by freeze-holder, and its successor" in text
    assert "write 4100 with token 41" in text
    text = read(samples.one_lane(replace(samples.long(2000), faults=()))).text
    assert "The most contended hand-over" in text
    assert "Nothing was judged" in text


@pytest.mark.parametrize("size", [0, 1])
def test_an_empty_or_almost_empty_history_has_a_page(size: int) -> None:
    rows = samples.rows_of([samples.row(F.ACQUIRE, 1, 0, 0, outcome=Outcome.INFO)][:size])
    history = from_rows(samples.facts(), rows)
    result = CheckResult("server-exclusion", True, unexercised="no grant")
    page = read(samples.one_lane(history, judge(result, history)))
    assert "Nothing put server-exclusion of redis to the test" in page.text
    assert ("Nothing was recorded" in page.text, len(list(page.all("canvas")))) == (size == 0, size)


def test_the_holds_of_a_history_are_computed_only_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trial, made = samples.trial(), Mock(wraps=Holds)
    monkeypatch.setattr("checkers.history.view.Holds", made)
    history = samples.stale_write()
    judgements = judge_all(check(history), history)
    assert any(judgement.violation for judgement in judgements)
    lane = LaneRecord(history, judgements)
    trial_page.render(replace(trial, lanes=(lane,)), tmp_path)
    short_story.stories(lane)
    made.assert_called_once()
    assert made.call_args.args[0].history is history


@pytest.mark.parametrize(("name", "said"), [("holder-exclusion", "worker 3"), ("token-order", "token-order held: ")])
def test_the_picture_of_a_judgement_stands_alone_whether_it_broke_or_held(name: str, said: str) -> None:
    history = samples.stale_write(keys=("<a>",))
    root = ElementTree.fromstring(standalone(history, judge(check(history, [name])[0], history)))
    assert (root.findtext("{http://www.w3.org/2000/svg}desc") or "").startswith(said)
    assert root.findtext("{http://www.w3.org/2000/svg}style")


def told(view: View, *rows: int) -> Violation:
    at = max(view.ret[row] for row in rows)
    [violation] = Narrator(view).tell([Finding("lost-update", at, rows, conclusion="So one was lost.")])
    return violation


def test_a_short_story_stays_whole_and_a_long_one_is_shortened_without_losing_a_row() -> None:
    history = samples.stale_write()
    stale = samples.find(history, F.WRITE, value=4100)
    violation = told(View(history), stale)
    lines = short_story.tell(View(history), violation)
    assert [line.text for line in lines] == list(violation.story)
    assert [line.rows for line in lines] == [(samples.find(history, F.ACQUIRE, token=41),), (), (), (stale,), ()]
    values = (4002, 4200, 4201, 4202, 4100)
    rows = [samples.find(history, F.READ, token=41), *(samples.find(history, F.WRITE, value=v) for v in values[1:])]
    violation = told(View(history), *rows)
    lines = short_story.tell(View(history), violation)
    assert len(violation.story) > short_story.MOST_LINES >= len(lines)
    assert sorted(row for line in lines for row in line.rows) == sorted({*rows, *violation.holders})
    assert lines[-1].text == "So one was lost. It costs data."
    assert any("; its late write of 4202 with token 42, sent at " in line.text for line in lines)


def test_the_story_names_a_fault_on_a_holder_even_if_no_lease_ran_out() -> None:
    history = samples.stale_write(lease="none")
    fault = replace(history.faults[0], name="stall-holder", kind="stall", owner=samples.OWNER + 42, process=1)
    history = replace(history, faults=(fault,))
    [first, then, *_] = short_story.tell(View(history), told(View(history), samples.find(history, F.WRITE, value=4200)))
    assert first.rows == (samples.find(history, F.ACQUIRE, token=42),)
    applied = (fault.applied - View(history).zero) / 1000 / samples.MS
    assert then.text.startswith(f"worker 1's job was stalled by stall-holder from {applied:.3f} s to ")


def test_the_cells_of_a_run_have_the_short_stories_of_the_page(tmp_path: Path) -> None:
    record, name = load_trial(RECORDED), "no-lost-update"
    lane = next(lane for lane in record.lanes if name in short_story.stories(lane))
    violation = there(decisive(next(one for one in lane.judgements if one.property == name)))
    short = tuple(line.text for line in short_story.tell(View(lane.history), violation))
    assert len(violation.story) > short_story.MOST_LINES >= len(short)
    run = Run.create(tmp_path, {})
    folder = run.save_trial(record).parent
    stories = [cell.story for cell in run.read().cells]
    assert short in stories
    assert all(len(lines) <= short_story.MOST_LINES for lines in stories)
    assert [one.judgements for one in load_trial(folder).lanes] == [one.judgements for one in record.lanes]

    file = folder / "verdicts.json"
    file.write_text(re.sub('"told":', '"of another version":', file.read_text()))
    assert violation.story in [cell.story for cell in run.read().cells]
    assert short_story.stories(replace(lane, judgements=())) == {}, "what held has no story"

"""Stories for pages: at most five lines, in which every operation of the witness stands once."""

import re
from dataclasses import replace
from pathlib import Path

from checkers.history.finding import Finding
from checkers.history.view import View
from checkers.properties.check_result import Violation
from checkers.properties.stories import Narrator
from checkers.row_format import F
from results.record import decisive
from results.report import short_story
from results.run import Run
from results.storage.reading import load_trial
from results.tests import samples
from results.tests.browser.made import RECORDED
from results.tests.samples import MS


def told(view: View, *rows: int) -> Violation:
    at = max(view.column("ret")[row] for row in rows)
    [violation] = Narrator(view).tell([Finding("lost-update", at, rows)], lambda *_: "So one was lost.")
    return violation


def test_a_short_story_is_told_as_the_checkers_tell_it_with_its_rows() -> None:
    history = samples.stale_write()
    stale = samples.find(history, F.WRITE, value=4100)
    violation = told(View(history), stale)
    lines = short_story.tell(View(history), violation)
    assert [line.text for line in lines] == list(violation.story)
    assert [line.rows for line in lines] == [(samples.find(history, F.ACQUIRE, token=41),), (stale,), ()]


def test_a_long_story_is_drawn_together_and_loses_no_operation() -> None:
    history = samples.stale_write()
    values = (4002, 4200, 4201, 4202, 4100)
    rows = [samples.find(history, F.READ, token=41), *(samples.find(history, F.WRITE, value=v) for v in values[1:])]
    violation = told(View(history), *rows)
    lines = short_story.tell(View(history), violation)
    assert len(violation.story) > short_story.MOST_LINES >= len(lines)
    assert sorted(row for line in lines for row in line.rows) == sorted({*rows, *violation.holders})
    assert lines[-1].text == "So one was lost."
    assert any("; its late write of 4202, sent at " in line.text for line in lines)


def test_a_fault_on_a_holder_is_told_where_no_lease_ran_out() -> None:
    history = samples.stale_write(lease="none")
    row = samples.find(history, F.ACQUIRE, token=42)
    fault = replace(history.faults[0], name="stall-holder", kind="stall", owner=samples.OWNER + 42, process=1)
    history = replace(history, faults=(fault,))
    [first, *_] = short_story.tell(View(history), told(View(history), samples.find(history, F.WRITE, value=4200)))
    assert first.rows == (row,)
    applied = (fault.applied - View(history).zero) / 1000 / MS
    assert f"; stall-holder hit it at {applied:.3f} s until " in first.text


def test_whoever_tells_a_story_tells_it_as_the_page_does(tmp_path: Path) -> None:
    record, name = load_trial(RECORDED), "no-lost-update"
    lane = next(lane for lane in record.lanes if name in short_story.stories(lane))
    violation = decisive(next(one for one in lane.judgements if one.property == name))
    assert violation is not None
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

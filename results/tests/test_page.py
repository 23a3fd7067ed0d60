"""Pages: in reading order, complete, small, and deaf to hostile strings."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from checkers.claims import Word
from checkers.history import from_rows
from checkers.judgement import Judgement, judge
from checkers.verdict import Verdict
from checkers.wire import NONE, F, Outcome
from results import page, run, story
from results.holds import holds
from results.record import LaneRecord, NotRun, TrialRecord
from results.tests import samples
from results.tests.samples import MS, START

VOID = {"meta", "link", "input", "br", "hr", "img"}


class Reader(HTMLParser):
    """Collects elements, text outside of scripts and styles, and checks that tags are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.stack: list[str] = []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.elements if name == tag)


def read(record: TrialRecord) -> Reader:
    return Reader(page.render(record, [f"{n}.arrow" for n in range(len(record.lanes))], Path("runs/r/trials/t")))


def test_reading_order() -> None:
    text = read(samples.trial()).text
    places = [
        text.index(part)
        for part in (
            "redis broke holder-exclusion and fenced-store under freeze-holder, as documented",
            "redis/register/unfenced",
            "Worker 3 held token 41 from 0.300 s",
            "The operations around the violation",
            "acquire with token 41",
            "The whole lane: 48 operations",
            "What put it to the test",
            "All judgements",
            "What was done",
            "pytest suites/ --backend redis --faults freeze-holder --seed 7",
            "python -m checkers runs/r/trials/t/0.arrow",
        )
    ]
    assert places == sorted(places)


def test_a_storm_is_run_again_by_its_name() -> None:
    record = samples.trial()
    text = read(replace(record, about={**record.about, "column": "storm-17", "seed": 17})).text
    assert "pytest suites/ --backend redis --faults storm-17 --seed 17" in text


def test_the_heaviest_lane_comes_first() -> None:
    fenced, unfenced = samples.stale_write("fence-writes", lane="z"), samples.stale_write(lane="a")
    broken = Verdict("server-exclusion", False, samples.stale_verdict(unfenced).violations)
    record = samples.trial("t", fenced, unfenced)
    violated = replace(record.lanes[1], judgements=(Judgement("server-exclusion", Word.VIOLATED, "overlap", broken),))
    text = read(replace(record, lanes=(record.lanes[0], violated))).text
    assert "redis broke its promise of server-exclusion under freeze-holder: overlap." in text
    assert text.index(" a ") < text.index(" z ")


def test_the_picture_shows_tokens_values_refusals_and_faults() -> None:
    record = samples.trial("t", samples.stale_write("fence-writes"))
    reader = read(record)
    text = reader.text
    for shown in ("41", "42", "4200", "lease ends", "freeze-holder: worker 3", "worker 1", "ms cut"):
        assert shown in text
    assert "write 4100 with token 41 outcome: refused: stale token" in text
    classes = [attributes.get("class") for _, attributes in reader.elements]
    assert "cross" in classes
    assert "write bad" in classes
    # The part of the hold after its lease is hatched, right of the part before.
    [past] = [rect for rect in reader.all("rect") if rect.get("fill") == "url(#lane0-past)"]
    before = [rect for rect in reader.all("rect") if rect.get("class") == "hold marked"]
    ends = {float(rect["x"] or 0) + float(rect["width"] or 0) for rect in before}
    assert min(abs(float(past["x"] or 0) - end) for end in ends) < 0.3
    # The renewal thread has a process number of its own and no row of its own.
    assert "worker 8" not in text
    assert "processes 3, 8" in text


def test_the_story_is_of_the_heaviest_word_and_among_equals_of_the_longest_witness() -> None:
    record = samples.trial("t", samples.stale_write())
    lane = record.lanes[0]
    lead = story.leading(lane)
    assert lead is not None
    assert (lead.property, lead.violation and lead.violation.kind) == ("fenced-store", "stale-write-accepted")
    overlap = next(judgement for judgement in lane.judgements if judgement.property == "holder-exclusion")
    heavier = replace(overlap, word=Word.VIOLATED)
    assert story.leading(replace(lane, judgements=(*lane.judgements, heavier))) == heavier


def test_other_keys_stay_out_of_the_picture() -> None:
    history = samples.stale_write(keys=("k0", "k1"))
    other = samples.hold(0, 7, 1700, 1800, 2, NONE)
    rows = samples.rows_of(other)
    rows["key"] = 1
    both = np.concatenate((rows, np.zeros(len(history), rows.dtype)))
    for name, column in history.columns.items():
        both[name][len(rows) :] = column
    text = read(samples.trial("t", from_rows(history.facts, both, history.faults, history.errors))).text
    assert "The operations around the violation, on key k0" in text
    assert "acquire with token 41" in text
    assert "acquire with token 7 " not in text
    assert "worker 0 holds" not in text


def test_the_witness_is_numbered_in_the_order_of_time() -> None:
    text = read(samples.trial("t", samples.stale_write())).text
    witness = text[text.index("# worker operation") :]
    places = [
        witness.index(part)
        for part in ("1 3 acquire with token 41", "2 1 acquire with token 42", "3 1 write 4200", "4 3 write 4100")
    ]
    assert places == sorted(places)


def test_no_request_leaves_the_page() -> None:
    for record in (samples.trial(), samples.hostile()):
        reader = read(record)
        for tag, attributes in reader.elements:
            for name in ("src", "href", "xlink:href", "action", "data", "style"):
                value = attributes.get(name) or ""
                assert "//" not in value, (tag, value)
            assert "src" not in attributes
            assert not [name for name in attributes if name.startswith("on")]
        [policy] = [m["content"] or "" for m in reader.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy


def test_hostile_strings_stay_text() -> None:
    record = samples.hostile()
    reader = read(record)
    assert len(list(reader.all("script"))) == 1
    assert not list(reader.all("img"))
    assert "49" not in re.findall(r"&(\d+)", reader.text)
    assert reader.text.count("<script>alert(1)</script>") > 20


def test_hostile_strings_stay_text_in_the_run_page(tmp_path: Path) -> None:
    stored = run.Run.create(tmp_path, {samples.HOSTILE: samples.HOSTILE})
    stored.save_trial(samples.hostile())
    stored.save_not_run([NotRun(samples.HOSTILE, samples.HOSTILE, samples.HOSTILE, samples.HOSTILE)])
    reader = Reader(stored.close({}).read_text())
    assert len(list(reader.all("script"))) == 1
    assert not list(reader.all("img"))
    assert "<script>alert(1)</script>" in reader.text
    assert (tmp_path / stored.path.name).is_dir()


def test_links_of_the_run_page_lead_somewhere(tmp_path: Path) -> None:
    stored = run.Run.create(tmp_path, {})
    stored.save_trial(samples.trial())
    stored.save_not_run([NotRun("etcd", "etcd", "freeze-holder", "no engine here")])
    reader = Reader(stored.close({}).read_text())
    links = {str(link["href"]) for link in reader.all("a")}
    assert links == {"trials/redis-freeze-holder-7/index.html"}
    assert (stored.path / links.pop()).is_file()
    assert "no engine here" in reader.text


@pytest.mark.parametrize("broken", [False, True])
def test_a_page_of_1e5_operations_is_small(broken: bool) -> None:
    history = samples.long(100_000)
    verdict = Verdict("server-exclusion", True, (), {"contended acquires": 2500})
    if broken:
        verdict = replace(verdict, valid=False, violations=samples.stale_verdict(history).violations * 3000)
    record = replace(samples.trial(), lanes=(LaneRecord(history, (Judgement("x", Word.UPHELD, "", verdict),)),))
    page.render(samples.trial(), ["0.arrow", "1.arrow"], Path("t"))  # templates are compiled once per process
    begun = time.perf_counter()
    text = page.render(record, ["0.arrow"], Path("t"))
    print(f"{len(text.encode()) / 1e3:.0f} kB in {time.perf_counter() - begun:.3f} s")
    assert len(text.encode()) < 300_000


def test_a_passing_trial_shows_the_worker_that_the_fault_hit() -> None:
    history = samples.stale_write("fence-writes")
    record = samples.trial("t", history)
    passed = tuple(j for j in record.lanes[0].judgements if j.verdict and j.verdict.valid)
    text = read(replace(record, lanes=(LaneRecord(history, passed),))).text
    assert "The worker hit by freeze-holder, and its successor" in text
    assert "write 4100 with token 41" in text


def test_a_trial_without_faults_shows_a_contended_hand_over() -> None:
    history = replace(samples.long(2000), faults=())
    text = read(replace(samples.trial(), lanes=(LaneRecord(history, ()),))).text
    assert "The most contended hand-over" in text
    assert "Nothing was judged" in text


@pytest.mark.parametrize("size", [0, 1])
def test_almost_empty_histories(size: int) -> None:
    rows = samples.rows_of([samples.row(F.ACQUIRE, 1, 0, 0, outcome=Outcome.INFO)][:size])
    history = from_rows(samples.facts(), rows)
    verdict = judge(Verdict("server-exclusion", True, unexercised="no grant"), history)
    record = replace(samples.trial(), lanes=(LaneRecord(history, (verdict,)),))
    assert "Nothing put server-exclusion of redis to the test" in read(record).text


def test_an_aborted_trial_without_lanes_has_a_page() -> None:
    text = read(replace(samples.trial(error="worker 2 broke"), lanes=())).text
    assert "The trial was aborted. worker 2 broke" in text


def test_holds_end_where_they_end() -> None:
    history = samples.stale_write()
    found = holds(history)
    tokens = history.columns["token"][found.acquire].tolist()
    assert tokens == [39, 40, 41, 42, 43, 44]
    frozen = tokens.index(41)
    assert found.begin[frozen] == START + 300 * MS
    assert found.end[frozen] == START + 1950 * MS
    # The renewal at 620 ms counts from its invocation; a second of a server whose clock is 1 % fast, less its grain.
    assert found.lease[frozen] == START + 620 * MS + int(1000 * MS / 1.01) - MS
    assert not found.open.any()


def test_a_hold_without_release_is_open_and_lasts_until_its_last_operation() -> None:
    held = {"owner": 5, "token": 1}
    history = from_rows(
        samples.facts(lease="none"),
        samples.rows_of(
            [
                samples.row(F.ACQUIRE, 10, 20, 0, sent=10, **held),
                samples.row(F.WRITE, 50, 55, 0, value=1, **held),
                samples.row(F.ACQUIRE, 100, 110, 1, sent=101, owner=6, token=2),
                samples.row(F.LOST, 120, 120, 1, owner=6, token=2),
            ]
        ),
    )
    found = holds(history)
    assert found.open.tolist() == [True, False]
    assert ((found.end - START) / MS).tolist() == [55, 120]
    assert found.lease.tolist() == [0, 0]

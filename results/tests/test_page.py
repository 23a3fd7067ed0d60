"""Pages: in reading order, complete, small, and deaf to hostile strings."""

from __future__ import annotations

import base64
import itertools
import re
import time
import zlib
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
from results import story
from results.pages import page
from results.record import LaneRecord, TrialRecord
from results.tests import samples

VOID = {"meta", "link", "input", "br", "hr", "img"}


class Reader(HTMLParser):
    """Collects elements, text outside of scripts and styles, and checks that tags are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.stack: list[str] = []
        self.depths: list[int] = []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.depths.append(len(self.stack))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def within(self, tag: str, class_: str) -> list[tuple[str, dict[str, str | None]]]:
        """The first element of this kind and those inside of it."""
        first = next(
            at for at, (name, given) in enumerate(self.elements) if (name, given.get("class")) == (tag, class_)
        )
        after = itertools.takewhile(lambda at: self.depths[at] > self.depths[first], range(first + 1, len(self.depths)))
        return [self.elements[at] for at in (first, *after)]

    def all(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.elements if name == tag)


def read(record: TrialRecord) -> Reader:
    return Reader(page.render(record, [f"{n}.arrow" for n in range(len(record.lanes))], Path("runs/r/trials/t")))


def packed(record: TrialRecord) -> list[Reader]:
    """What the page unpacks when somebody asks for it, by lane."""
    return [
        Reader(zlib.decompress(base64.b64decode(div["data-packed"] or ""), -zlib.MAX_WBITS).decode())
        for div in read(record).all("div")
        if div.get("class") == "packed"
    ]


def test_reading_order() -> None:
    text = read(samples.trial()).text
    places = [
        text.index(part)
        for part in (
            "In both lanes redis broke holder-exclusion and fenced-store under freeze-holder, as documented",
            "redis/register/unfenced",
            "Worker 3 held token 41 from 0.300 s",
            "The operations around the violation",
            "acquire with token 41",
            "The whole lane: 48 operations",
            "What put it to the test",
            "python -m checkers runs/r/trials/t/0.arrow",
            "All judgements",
            "What was done",
            "Where it ran",
            "pytest suites/ --backend redis --faults freeze-holder --seed 7",
            "python -m checkers runs/r/trials/t/*.arrow",
        )
    ]
    assert places == sorted(places)


def test_the_sentence_covers_the_whole_trial() -> None:
    fenced, unfenced, third = (samples.stale_write(lane=name, lock=name) for name in ("one", "two", "three"))
    record = samples.trial("t", fenced, unfenced, third)
    one, two, three = record.lanes

    def lane(record: LaneRecord, *words: tuple[str, Word]) -> LaneRecord:
        return replace(record, judgements=tuple(Judgement(name, word, f"why {name}", None) for name, word in words))

    a, b, c = ("order", Word.VIOLATED), ("order", Word.UPHELD), ("order", Word.UNEXERCISED)
    assert story.trial_sentence([lane(one, a), lane(two, b), lane(three, c)]) == (
        "In 1 of 3 lanes one broke its promise of order under freeze-holder: why order; "
        "of the others, 1 “unexercised” and 1 “upheld”."
    )
    assert story.trial_sentence([lane(one, a), lane(two, ("fifo", Word.VIOLATED), b)]) == (
        "In both lanes one and two broke their promise of order and fifo under freeze-holder: mostly why order."
    )
    assert story.trial_sentence([lane(one, c), lane(two)]) == (
        "In 1 of 2 lanes nothing put order of one to the test under freeze-holder: why order; "
        "of the others, 1 not judged."
    )
    assert story.trial_sentence([]) == "No lane came to an end."


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
    [past] = [rect for rect in reader.all("rect") if (rect.get("class") or "").startswith("past marked")]
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


def test_the_legend_names_what_the_picture_shows_and_nothing_else() -> None:
    drawn = {"write": "write", "read": "read", "renew": "renew", "release": "release", "lost": "lost"}
    shown = {"cross": "refused", "question": "unknown", "lease": "lease", "past-plain": "past", "band": "fault"}
    shown |= {"tear": "cut", "waiting": "waiting", "number": "number", "tail": "tail", "open": "open", "hold": "hold"}
    calm = from_rows(samples.facts(), samples.rows_of(samples.hold(1, 39, 60, 160, 3, NONE)))
    for history in (samples.stale_write("fence-writes"), samples.stale_write(), calm):
        reader = read(replace(samples.trial("t", history), lanes=(LaneRecord(history, ()),)))
        classes: set[str] = set()
        for part, attributes in reader.within("svg", "picture"):
            classes |= set((attributes.get("class") or "").split()) if part != "svg" else set()
        named = {str(span["data-symbol"]) for span in reader.all("span") if "data-symbol" in span}
        assert named - {"whisker"} == {name for class_, name in (drawn | shown).items() if class_ in classes}


def test_marks_come_in_the_order_of_time() -> None:
    history = samples.stale_write()
    reader = read(samples.trial("t", history))
    rows = [int(g["data-row"] or 0) for _, g in reader.within("svg", "picture") if "data-row" in g]
    c = history.columns
    ends = [int(c["ret"][row] or c["inv"][row]) for row in rows]
    assert len(rows) > 20
    assert ends == sorted(ends)
    numbered = [g["data-witness"] for _, g in reader.within("svg", "picture") if "data-witness" in g]
    assert numbered == ["1", "2", "3", "4"]


def test_every_violation_has_a_window_of_its_own() -> None:
    history = samples.stale_write()
    record = samples.trial("t", history)
    [more] = packed(record)
    shown = [div for div in read(record).all("div") if "data-window" in div]
    assert [(div["data-window"], div["data-property"], "hidden" in div) for div in shown] == [
        ("0", "fenced-store", False)
    ]
    hidden = [div for div in more.all("div") if "data-window" in div]
    assert [(div["data-window"], div["data-property"], "hidden" in div) for div in hidden] == [
        ("1", "holder-exclusion", True)
    ]
    ids = [str(attributes["id"]) for _, attributes in (*read(record).elements, *more.elements) if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_lanes_beyond_a_bound_are_packed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    record = samples.trial("t", samples.stale_write(lane="a"), samples.stale_write(lane="b"))
    monkeypatch.setattr(page, "_UNPACKED", 1)
    assert [div["data-window"] for div in read(record).all("div") if "data-window" in div] == ["0"]
    assert [[div["data-window"] for div in lane.all("div") if "data-window" in div] for lane in packed(record)] == [
        ["1"],
        ["0", "1"],
    ]


def test_headings_go_down_by_one() -> None:
    for record in (samples.trial(), samples.trial("t", samples.stale_write())):
        levels = [int(tag[1]) for tag, _ in read(record).elements if re.fullmatch(r"h\d", tag)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_counters_that_all_properties_share_are_said_once_and_explained() -> None:
    history = samples.stale_write()
    shared = {"grants": 6, "hand-overs": 5}
    judged = [
        judge(Verdict(name, True, (), {**shared, **own}), history)
        for name, own in (("server-exclusion", {}), ("token-order", {"tokens": 6}))
    ]
    text = read(replace(samples.trial(), lanes=(LaneRecord(history, tuple(judged)),))).text
    assert text.count("6 grants") == 1
    assert "5 hand-overs" in text
    assert "6 tokens" in text
    assert "hand-overs grants that followed on another client's" in text


def test_the_environment_is_told_as_far_as_it_is_known() -> None:
    nodes = {
        "redis1": {
            "image": "fencepost/redis:trixie",
            "digest": "sha256:980b",
            "command": ["redis-server", "--save", ""],
            "settings": {"A": "b c"},
        }
    }
    text = read(samples.trial(nodes=nodes, clock="CLOCK_MONOTONIC", versions={"redis1": "8.0.2"})).text
    assert "redis1 8.0.2 fencepost/redis:trixie sha256:980b 'A=b c' redis-server --save ''" in text
    assert "clocks CLOCK_MONOTONIC" in text
    assert "image configuration" not in read(samples.trial()).text


def test_a_lock_of_ones_own_is_run_again_as_it_was_spelled() -> None:
    locks = {"redis": "suites.locks.redis:RedisLock", "mine": "pkg.locks:Mine"}
    assert "suites/ --lock redis --lock pkg.locks:Mine --faults" in read(samples.trial(locks=locks)).text
    chosen = read(samples.trial(locks=locks, profile="default", column="none")).text
    assert "suites/ --profile default --backend redis -k none --seed 7" in chosen


def test_what_nobody_sees_is_spelled_out() -> None:
    text = page.render(samples.trial("\u202eevil\x07"), ["0.arrow", "1.arrow"], Path("t"))
    assert "\\u202eevil\\x07" in text
    assert "\u202e" not in text
    assert "\x07" not in text


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
            assert attributes.get("src") in (None, "../../assets/timeline.js")
            assert not [name for name in attributes if name.startswith("on")]
        [policy] = [m["content"] or "" for m in reader.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy


def test_hostile_strings_stay_text() -> None:
    scripts = len(list(read(samples.trial("t", samples.stale_write())).all("script")))
    for reader in (read(samples.hostile()), *packed(samples.hostile())):
        assert len([script for script in reader.all("script") if "data-packed" not in script]) in (0, scripts)
        assert not list(reader.all("img"))
        assert "49" not in re.findall(r"&(\d+)", reader.text)
        assert reader.text.count("<script>alert(1)</script>") > 5


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
    assert len(text.encode()) < 600_000


def test_a_page_of_twenty_lanes_with_1e5_operations_is_small() -> None:
    history = samples.long(5_000)
    broken = Verdict("server-exclusion", False, samples.stale_verdict(history).violations * 100)
    lanes = [
        LaneRecord(replace(history, facts=replace(history.facts, lane=f"lane/{n}")), (judge(broken, history),))
        for n in range(20)
    ]
    text = page.render(replace(samples.trial(), lanes=tuple(lanes)), ["x.arrow"] * 20, Path("t"))
    assert len(text.encode()) < 1_500_000


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

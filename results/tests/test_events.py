"""What the processes of a run say is read by others while they write, and when they died half-way."""

import errno
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from results.terminal import progress
from results.terminal.event_journal import NAME, Event, Journal, Tail, says, step, waits


class Clock:
    """Shows what it is set to."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


FACTS = {"backend": "redis", "column": "none", "part": 1, "attempt": 1, "seed": 1}
"""What names a trial."""


class TestJournal:
    def test_what_one_says_another_reads(self, tmp_path: Path) -> None:
        clock = Clock()
        tail = Tail(tmp_path)
        assert tail.read() == []
        mine, other = Journal(tmp_path, "gw0", clock), Journal(tmp_path, "gw1", clock)
        mine.tell(step("begun"))
        other.tell(waits("them", 3.04))
        read = [(event.by, event.name, event.text("text"), event.at) for event in tail.read()]
        assert read == [("gw0", "step", "begun", clock.now), ("gw1", "waits", "them", clock.now)]
        mine.tell(says("that was all"))
        assert [event.text("text") for event in tail.read()] == ["that was all"]
        assert tail.read() == []

    def test_a_line_that_is_cut_short_waits_for_its_end(self, tmp_path: Path) -> None:
        line = json.dumps({"at": 1, "by": "gw0", "event": "says", "text": "é"}).encode() + b"\n"
        tail = Tail(tmp_path)
        for cut in range(1, len(line)):
            (tmp_path / NAME).write_bytes(line[:cut])
            tail = Tail(tmp_path)
            assert tail.read() == []
            (tmp_path / NAME).write_bytes(line)
            assert [event.text("text") for event in tail.read()] == ["é"]

    @pytest.mark.parametrize("damaged", [b"{", b"[]", b"7", b'{"event": "says"}', b"\xff\xfe", b""], ids=repr)
    def test_a_damaged_line_is_passed_by(self, tmp_path: Path, damaged: bytes) -> None:
        journal = Journal(tmp_path, "gw0")
        journal.tell(says("before"))
        with (tmp_path / NAME).open("ab") as file:
            file.write(damaged + b"\n")
        journal.tell(says("after"))
        assert [event.text("text") for event in Tail(tmp_path).read()] == ["before", "after"]

    def test_many_write_at_the_same_time_and_no_line_is_broken(self, tmp_path: Path) -> None:
        def much(name: str) -> None:
            journal = Journal(tmp_path, name)
            for number in range(200):
                journal.tell(Event("says", {"text": name * 300, "number": number}))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(much, "abcd"))
        events = Tail(tmp_path).read()
        assert len(events) == 800
        assert all(event.text("text") == event.by * 300 for event in events)

    def test_a_text_is_cut_so_that_a_line_is_written_at_once(self, tmp_path: Path) -> None:
        Journal(tmp_path, "gw0").tell(says("\U0001f600" * 100_000))
        assert (tmp_path / NAME).stat().st_size < 8192

    def test_a_full_disk_breaks_no_trial(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        journal = Journal(tmp_path, "gw0")

        monkeypatch.setattr("os.write", Mock(side_effect=OSError(errno.ENOSPC, "full")))
        journal.tell(says("nothing"))

    def test_a_run_that_was_killed_says_what_it_was_at(self, tmp_path: Path) -> None:
        clock = Clock()
        journal = Journal(tmp_path, "gw0", clock)
        journal.tell(Event("trial", {**FACTS, "lanes": 3, "locks": ["redis"], "plan": []}))
        clock.now += 5
        journal.tell(Event("judges", {"lane": "redis/set/unfenced", "number": 2, "of": 3}))
        assert progress.unfinished(tmp_path) == ["redis none: judging redis/set/unfenced (2 of 3), 5 s"]
        journal.tell(Event("done", {**FACTS, "seconds": 5, "words": {}, "again": 0}))
        assert progress.unfinished(tmp_path) == []

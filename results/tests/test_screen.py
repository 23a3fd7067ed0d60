"""Events of a run's processes, as others read them at any time, and as people see them on terminals and in logs."""

import errno
import io
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from results.terminal.event_journal import NAME, Event, Journal, Tail, says, step, waits
from results.terminal.progress import Level, Progress, ScreenLine, unfinished
from results.terminal.screen import Display, Screen

FACTS = {"backend": "redis", "column": "none", "part": 1, "attempt": 1, "seed": 1}


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class TestJournal:
    def test_events_of_one_process_can_be_read_by_another(self, tmp_path: Path) -> None:
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

    def test_no_long_text_and_no_full_disk_break_a_trial(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        journal = Journal(tmp_path, "gw0")
        journal.tell(says("\U0001f600" * 100_000))
        assert (tmp_path / NAME).stat().st_size < 8192, "cut, so that a line is written at once"
        monkeypatch.setattr("os.write", Mock(side_effect=OSError(errno.ENOSPC, "full")))
        journal.tell(says("nothing"))

    def test_a_killed_run_says_which_trial_was_unfinished(self, tmp_path: Path) -> None:
        clock = Clock()
        journal = Journal(tmp_path, "gw0", clock)
        journal.tell(Event("trial", {**FACTS, "lanes": 3, "locks": ["redis"], "plan": []}))
        clock.now += 5
        journal.tell(Event("judges", {"lane": "redis/set/unfenced", "number": 2, "of": 3}))
        assert unfinished(tmp_path) == ["redis none: judging redis/set/unfenced (2 of 3), 5 s"]
        journal.tell(Event("done", {**FACTS, "seconds": 5, "words": {}, "again": 0}))
        assert unfinished(tmp_path) == []


class File(io.StringIO):
    """The output of a terminal with some encoding, and what a person sees of it."""

    encoding = "utf-8"

    def seen(self, width: int) -> list[str]:
        """The lines on the screen after all movements of the cursor, wrapped where the terminal wraps them."""
        rows, at, column = [""], 0, 0
        for part in re.split(r"(\x1b\[\d*[A-Za-z]|\r|\n)", self.getvalue()):
            if match := re.fullmatch(r"\x1b\[(\d*)([AJ])", part):
                if match[2] == "A":
                    at = max(at - int(match[1]), 0)
                else:
                    assert column == 0
                    del rows[at:]
                    rows.append("")
            elif part == "\r":
                column = 0
            elif part == "\n":
                at, column = at + 1, 0
                if at == len(rows):
                    rows.append("")
            else:
                assert "\x1b" not in part
                for letter in part:
                    if column == width:
                        at, column = at + 1, 0
                        rows += [""] * (at + 1 - len(rows))
                    rows[at] = rows[at][:column] + letter + rows[at][column + 1 :]
                    column += 1
        return rows


def lines(*texts: str) -> list[ScreenLine]:
    return [ScreenLine(text) for text in texts]


class TestScreen:
    @pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
    def test_output_of_others_comes_above_the_live_lines(self, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", str(width))
        screen = Screen(file := File(), live=True, colour=False)
        long = "x" * 300
        for number in range(3):
            screen.show(lines(f"done {number}"), lines(f"standing {number}", long))
            screen.write(f"pytest {number}\n")
        screen.show([], lines("standing", long))
        seen = file.seen(width)
        assert seen[:6] == [f"{who} {n}" for n in range(3) for who in ("done", "pytest")]
        assert seen[6:] == ["standing", f"{'x' * (width - 4)}...", ""]
        screen.show([])
        assert file.seen(width)[6:] == [""]

    def test_a_terminal_that_became_narrower_is_left_clean(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        screen = Screen(file := File(), live=True, colour=False)
        screen.show([], lines("a" * 79, "b" * 10))
        monkeypatch.setenv("COLUMNS", "40")
        rows = file.getvalue().count("\n")
        screen.show(lines("c"))
        assert rows == 2
        assert "\x1b[3A" in file.getvalue()  # the first line takes two rows by now

    def test_long_lines_are_wrapped_on_a_terminal_and_whole_in_a_log(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "40")
        text = "07:31:42 redis      freeze-holder          seed 1: 4.3 s, 11 known weakness shown, 49 upheld"
        log, terminal = File(), File()
        Screen(log, live=False, colour=False).show(lines(text), lines("of which a log has none: standing"))
        Screen(terminal, live=True, colour=False).show(lines(text))
        assert log.getvalue() == text + "\n"
        shown = terminal.getvalue().splitlines()
        assert " ".join(" ".join(shown).split()) == " ".join(text.split())
        assert max(map(len, shown)) <= 40
        assert {line[:9] for line in shown[1:]} == {" " * 9}

    def test_pytest_is_asked_for_a_new_line_if_its_line_is_not_ended(self) -> None:
        file, asked = File(), []

        def begin() -> None:
            asked.append(True)
            screen.write("\n")

        screen = Screen(file, live=False, colour=False, begin=begin)
        screen.write("suites/test_x.py ")
        screen.show([])
        assert asked == []
        screen.show(lines("mine"))
        screen.show(lines("mine too"))
        assert (asked, file.getvalue()) == ([True], "suites/test_x.py \nmine\nmine too\n")

    @pytest.mark.parametrize(("colour", "said"), [(False, "violated\n"), (True, "\x1b[1;31mviolated\x1b[0m\n")])
    def test_styles_are_written_only_with_colour(self, colour: bool, said: str) -> None:
        Screen(file := File(), live=False, colour=colour).show([ScreenLine("violated", Level.FAILING, "bold red")])
        assert file.getvalue() == said

    def test_a_letter_that_the_encoding_lacks_is_escaped(self) -> None:
        file = File()
        file.encoding = "ascii"
        Screen(file, live=True, colour=False).show(lines("rédis"), lines("é"))
        assert file.getvalue() == "r\\xe9dis\n\\xe9\n"

    def test_a_terminal_that_is_gone_breaks_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        screen = Screen(file := File(), live=True, colour=False)
        monkeypatch.setattr(file, "write", Mock(side_effect=OSError(errno.EIO, "gone")))
        screen.show(lines("a"), lines("b"))
        screen.write("c")
        monkeypatch.setattr(file, "write", Mock(side_effect=OSError(errno.EPIPE, "gone")))
        with pytest.raises(OSError, match="gone"):
            screen.write("d")


class TestWatch:
    def watch(self, folder: Path, *, live: bool, level: Level = Level.BEGUN, beat: float = 20) -> tuple[Display, File]:
        self.clock, file = Clock(), File()
        screen = Screen(file, live=live, colour=False)
        watch = Display(folder, screen, Progress(), level, None if live else beat, self.clock)
        self.journal = Journal(folder, "gw0", self.clock)
        return watch, file

    def trial(self) -> None:
        self.journal.tell(Event("trial", {**FACTS, "lanes": 3, "locks": ["redis"], "plan": ["no fault"]}))

    def test_a_log_gets_a_line_when_nothing_was_said_for_a_while(self, tmp_path: Path) -> None:
        watch, file = self.watch(tmp_path, live=False)
        self.trial()
        watch.look()
        said = file.getvalue()
        self.clock.now += 19
        watch.look()
        assert file.getvalue() == said
        self.journal.tell(waits("a lane to be granted again", 40))
        self.clock.now += 1
        watch.look()
        assert file.getvalue() == said + file.getvalue().splitlines()[-1] + "\n"
        waiting = "still at it: redis none: waiting 1 s of 40 s for a lane to be granted again [0 of 1 trials"
        assert waiting in file.getvalue()
        watch.look()
        assert file.getvalue().count("still at it") == 1

    def test_a_terminal_is_drawn_again_as_time_goes_by(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        watch, file = self.watch(tmp_path, live=True)
        self.trial()
        watch.look()
        before = file.getvalue()
        watch.look()
        assert file.getvalue() == before
        self.clock.now += 1
        watch.look()
        assert "redis none: starting its workers, 1 s (3 lanes of redis)" in file.seen(80)
        watch.close()
        assert [line for line in file.seen(80) if "starting" in line] == []

    @pytest.mark.parametrize("level", Level, ids=lambda level: level.name.lower())
    def test_only_lines_up_to_the_chosen_level_are_shown(self, tmp_path: Path, level: Level) -> None:
        watch, file = self.watch(tmp_path, live=False, level=level)
        self.trial()
        self.journal.tell(step("freeze-holder: healing"))
        self.journal.tell(Event("verdict", {"lane": "l", "property": "p", "fault": "none", "word": "violated"}))
        self.journal.tell(Event("done", {**FACTS, "seconds": 5, "words": {"violated": 1}, "again": 0}))
        watch.look()
        there = [text in file.getvalue() for text in ("violated: p in l", "5.0 s, 1 violated", "no fault", "healing")]
        assert there == [True, level >= Level.DONE, level >= Level.BEGUN, level >= Level.STEP]

    def test_the_watching_thread_shows_the_rest_when_the_watch_is_closed(self, tmp_path: Path) -> None:
        watch, file = self.watch(tmp_path, live=False)
        watch.start()
        self.trial()
        watch.close()
        assert file.getvalue().count("3 lanes of redis") == 1

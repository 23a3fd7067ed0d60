"""What a terminal, a log and JUnit's XML get from a run of pytest whose trials are made up."""

import contextlib
import os
import pty
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, Popen
from typing import Final

import pytest

from checkers.tests.build import cases
from suites.terminal import NOT_CLOSED
from suites.tests.bench import ENDS
from suites.worker.pool import ROOT

CONFTEST: Final = """
import os
from pathlib import Path

import pytest

from checkers.claims import Verdict
from checkers.judging.judgement import Judgement
from checkers.properties.check_result import Violation
from results.terminal.event_journal import Event, Journal, step
from results.run import Run
from results.tests import samples
from suites.selection.options import add_options
from suites.trial.case_answer import CaseAnswer
from suites.terminal import NOT_JUDGED, Terminal, verdict_of
from suites.tests.selections import asked

EVIL = "\\x1b[2J \\ud800 \\x07 <script>&"


def pytest_addoption(parser):
    add_options(parser)


def pytest_sessionstart(session):
    worker = getattr(session.config, "workerinput", None)
    if worker is None:
        session.config.run = Run.create(Path(os.environ["MINI"]), {})
        if "NOTHING" not in os.environ:
            session.config.run.save_trial(samples.trial())
        session.config.pluginmanager.register(Terminal(session.config, asked(lock=["redis"]), session.config.run))
    else:
        session.config.run = Run.open(next(Path(os.environ["MINI"]).iterdir()))
    session.config.journal = Journal(session.config.run.path, worker["workerid"] if worker else "main")


@pytest.fixture
def answer(request):
    word, config = request.param, request.config
    if word == "trial broke":
        request.node.user_properties.append((NOT_JUDGED, "True"))
        pytest.fail("told elsewhere", pytrace=False)
    facts = {"backend": "redis", "column": "none", "part": 1, "attempt": 1, "seed": 1}
    config.journal.tell(Event("trial", {**facts, "lanes": 3, "locks": ["redis"], "plan": ["no fault"]}))
    config.journal.tell(step(f"a step {EVIL}"))
    if Verdict(word).fails:
        place = {"lane": "redis/set/unfenced", "property": "recovery", "fault": "none"}
        config.journal.tell(Event("verdict", {**place, "word": word, "because": EVIL}))
    config.journal.tell(Event("done", {**facts, "seconds": 4.0, "words": {word: 1}, "again": 0}))
    violation = Violation("overlap", 0, (), (), (f"first {EVIL}", "second"))
    page = config.run.path / "trials" / "redis-none-1" / "index.html"
    given = CaseAnswer(Judgement("recovery", Verdict(word), EVIL, None, violation), page, 1, 7, "7.2")
    request.node.user_properties += verdict_of(given, config.run.path)
    return given
"""
TESTS: Final = """
import pytest

WORDS = {words}


@pytest.mark.parametrize("answer", WORDS, indirect=True)
def test_it(answer):
    answer.must_hold()


def test_that_is_skipped():
    pytest.skip("not applicable: so it is")
"""
BUG: Final = "\n@pytest.fixture\ndef bug():\n    raise RuntimeError('a bug of ours')\n\ndef test_bug(bug):\n    pass\n"
GOOD: Final = ("upheld", "known weakness shown", "not promised: held")
ONE_OF_EACH: Final = (*GOOD, "violated")


class Project:
    """A folder with tests that answer as their names say."""

    def __init__(self, folder: Path, words: tuple[str, ...], more: str = "") -> None:
        self.folder, self.results = folder / "project", folder / "runs"
        self.folder.mkdir()
        self.results.mkdir()
        (self.folder / "conftest.py").write_text(CONFTEST)
        (self.folder / "test_mini.py").write_text(TESTS.format(words=repr(words)) + more)
        (self.folder / "pytest.ini").write_text("[pytest]\naddopts = -rfE\n")

    def begin(self, argv: Sequence[str], environment: Mapping[str, str], stdin: int, stdout: int) -> Popen[bytes]:
        plugins = ["-p", "xdist"] if "-n" in argv else []  # and no other that is installed
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugins, *argv, str(self.folder)]
        ours = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "MINI": str(self.results), "PYTHONPATH": str(ROOT)}
        kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
        given = {**kept, **ours, "TERM": "xterm", **environment}
        return Popen(command, cwd=self.folder, env=given, stdin=stdin, stdout=stdout, stderr=STDOUT)

    def log(self, *argv: str, **environment: str) -> tuple[int, str]:
        with self.begin(argv, environment, DEVNULL, PIPE) as process:
            text, _ = process.communicate(timeout=ENDS)
        return process.returncode, text.decode("utf-8", "strict")

    def terminal(self, *argv: str, **environment: str) -> tuple[int, str]:
        """Exit status, and every byte that a terminal gets."""
        ours, theirs = pty.openpty()
        with self.begin(argv, environment, theirs, theirs) as process:
            os.close(theirs)
            got = bytearray()
            with contextlib.suppress(OSError):  # Linux: the writer has gone
                while data := os.read(ours, 1 << 16):
                    got += data
        os.close(ours)
        return process.returncode, got.decode().replace("\r\n", "\n")


@pytest.fixture(scope="module", params=[(), ("-n", "2")], ids=["n0", "n2"])
def logged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The log of a run with one verdict of each kind, and the path of JUnit's XML."""
    folder = tmp_path_factory.mktemp("logged")
    status, text = Project(folder, ONE_OF_EACH).log(*request.param, "--junitxml", str(folder / "junit.xml"))
    assert status == 1
    return text, folder / "junit.xml"


class TestLog:
    def test_a_log_lists_trials_and_not_tests(self, logged: tuple[str, Path]) -> None:
        text, _ = logged
        assert "\x1b" not in text
        lines = text.splitlines()
        assert not [line for line in lines if re.fullmatch(r"[.sFE]+.*%\]|\s*\[100%\]", line)]
        begun = [at for at, line in enumerate(lines) if line.endswith("seed 1: 3 lanes of redis")]
        assert len(begun) == len(ONE_OF_EACH)
        assert {lines[at + 1].strip() for at in begun} == {"no fault"}
        assert sum("4.0 s, 1 " in line for line in lines) == len(ONE_OF_EACH)
        assert "= result =" in text
        assert re.fullmatch(r"=+ 1 failed, 3 passed, 1 skipped in .* =+", lines[-3])
        assert re.fullmatch(r"report: .*/index\.html", lines[-1])

    def test_a_log_ends_with_the_result_in_few_lines(self, logged: tuple[str, Path]) -> None:
        lines = logged[0].splitlines()
        (at,) = [at for at, line in enumerate(lines) if line.strip("=") == " result "]
        assert lines[at + 1] == "PASSED: 5 of 5 promises upheld; 3 known weaknesses shown, as expected"
        assert len(lines) - at <= 25
        assert [line for line in lines[at:] if line.startswith(f"all verdicts: {ROOT}/.venv/bin/python ")]

    def test_a_log_names_a_failing_verdict_at_once_and_does_not_repeat_its_test(self, logged: tuple[str, Path]) -> None:
        text, _ = logged
        (line,) = [line for line in text.splitlines() if "violated: recovery in redis/set/unfenced under none" in line]
        assert line.isprintable()
        assert not re.search("= FAILURES =|FAILED ", text)

    def test_junit_xml_has_the_properties_and_the_story(self, logged: tuple[str, Path]) -> None:
        cases = {case.attrib["name"]: case for case in ET.parse(logged[1]).getroot().iter("testcase")}
        assert len(cases) == 5
        (result,) = ET.parse(logged[1]).getroot().findall("./testsuite/properties/property[@name='result']")
        assert result.attrib["value"] == "PASSED: 5 of 5 promises upheld; 3 known weaknesses shown, as expected"
        for word in ONE_OF_EACH:
            case = cases[f"test_it[{word}]"]
            told = {each.attrib["name"]: each.attrib["value"] for each in case.iter("property")}
            assert told["verdict"] == word
            assert (told["seed"], told["version"], told["page"]) == ("7", "7.2", "trials/redis-none-1/index.html")
            first, second = told["story"].split("\n")
            assert first == r"first \x1b[2J \ud800 \x07 <script>&"
            failure = case.find("failure")
            assert (failure is None) == (word != "violated")
            if failure is not None:
                assert f"  {first}\n  {second}\n  see " in (failure.text or "")

    def test_a_log_shows_a_bug_in_full_and_only_counts_tests_that_were_not_judged(self, tmp_path: Path) -> None:
        status, text = Project(tmp_path, ("upheld", *["trial broke"] * 20), BUG).log()
        assert (status, "told elsewhere" in text) == (1, False)
        assert "raise RuntimeError('a bug of ours')" in text
        assert "1 passed, 1 skipped, 1 error, 20 not judged" in text

    def test_a_run_in_which_nothing_was_judged_ends_like_one_without_tests(self, tmp_path: Path) -> None:
        status, text = Project(tmp_path, ()).log("-k", "skipped", NOTHING="1")
        assert (status, "NOT CLEAN: nothing was judged" in text) == (pytest.ExitCode.NO_TESTS_COLLECTED, True)

    def test_a_verbose_log_names_every_test_and_works_without_unicode(self, tmp_path: Path) -> None:
        status, text = Project(tmp_path, ONE_OF_EACH).log("-v", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
        assert (status, text.isascii()) == (1, True)
        for says in ("test_it[upheld] PASSED", "= FAILURES =", "a step"):
            assert says in text

    def test_a_quiet_log_shows_only_failures_and_the_result(self, tmp_path: Path) -> None:
        _, text = Project(tmp_path, ONE_OF_EACH).log("-q")
        assert not re.search("lanes of redis|4[.]0 s, 1 upheld", text)
        assert "violated: recovery" in text
        assert "= result =" in text

    def test_a_log_says_in_one_line_that_a_page_cannot_be_written(self, tmp_path: Path) -> None:
        in_the_way = "\n\ndef test_in_the_way(request):\n    (request.config.run.path / 'index.html').mkdir()\n"
        status, text = Project(tmp_path, GOOD, in_the_way).log()
        assert status == NOT_CLOSED
        assert re.search(r"^the run could not be closed, its trials are stored: .*index\.html", text, re.MULTILINE)
        assert re.search(r"^to go on: .* --resume ", text, re.MULTILINE)
        assert not re.search("Traceback|INTERNALERROR", text)


class TestTerminal:
    def test_a_terminal_gets_colours_and_is_left_in_order(self, tmp_path: Path) -> None:
        status, text = Project(tmp_path, ONE_OF_EACH).terminal()
        assert status == 1
        assert text.endswith("index.html\n")
        assert not re.search(r"\x1b\[(\?25l|2J)", text), "the cursor is never hidden, nor what was there"
        assert "\x1b[1;31m" in text
        assert "3 passed" in text

    @cases("argv, environment", ("option", ["--color=no"], {}), ("dumb", [], {"TERM": "dumb"}))
    def test_colours_can_be_turned_off(self, tmp_path: Path, argv: list[str], environment: dict[str, str]) -> None:
        _, text = Project(tmp_path, ONE_OF_EACH).terminal(*argv, **environment)
        assert re.findall(r"\x1b\[[0-9;]*m", text) == []
        if "TERM" in environment:
            assert "\x1b" not in text

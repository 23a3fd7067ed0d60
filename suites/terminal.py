"""What `pytest suites/` prints during and after a run: a plugin of the process that owns the terminal.

A few hundred trials answer thousands of tests, so it reports trials and not tests (`-v` reports both). Every process
writes events about its trials to the run folder (`results.terminal.event_journal`); this one reads them there.
"""

import io
import os
import time
from collections.abc import Generator, Iterable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, Final, TextIO, cast

import pytest
from _pytest.junitxml import xml_key
from rich.console import Console

from checkers.claims import NO_FAULT, Verdict
from results.certificate import certificate_files
from results.certificate.certify import STATUS, sentence
from results.pages.trial_page import load_words
from results.record import Cell
from results.report.sentences import run_sentence
from results.run import Run
from results.stages import TOGETHER
from results.storage import resumable, summary
from results.storage.files import BadFile
from results.storage.reading import RunContents
from results.storage.run_folder import now
from results.terminal import matrix
from results.terminal.event_journal import Event
from results.terminal.progress import Level, Progress, lock_names
from results.terminal.screen import Display, Screen
from results.text import command_line, count, plain, roughly, typed
from suites.selection.parse_options import load
from suites.selection.selection import Case, Selection
from suites.selection.trial import Trial, column_in
from suites.selection.upgrade_stages import ONLY
from suites.trial.case_answer import CaseAnswer

BEAT: Final = 20.0  # seconds without output after which a log gets a line; three times as many with -q
JUDGED: Final = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)  # of a run that came to its end
NOT_CLOSED: Final = 4  # exit status where the run could not be closed: the same as where no environment could be made

VERDICT: Final = "verdict"
NOT_JUDGED: Final = "not judged"
"""User properties of a test: its verdict; or that its trial came to no verdict (another test gives the reason)."""


class Terminal:
    """Registered when the run folder exists; from then on pytest writes through its screen."""

    def __init__(self, config: pytest.Config, selection: Selection, run: Run) -> None:
        self._config, self._selection, self._run = config, selection, run
        self._reporter: Any = config.pluginmanager.getplugin("terminalreporter")
        self._verbosity = config.get_verbosity()
        writer = self._reporter._tw
        file = _own(writer._file)
        nothing_writes_past_pytest = config.option.capture != "no" and not config.option.usepdb
        live = file.isatty() and os.environ.get("TERM") != "dumb" and nothing_writes_past_pytest
        self._screen = Screen(file, live=live, colour=writer.hasmarkup, begin=self._reporter.ensure_newline)
        writer._file = self._screen
        beat = None if live else BEAT * (3 if self._verbosity < 0 else 1)
        self._watch = Display(run.path, self._screen, Progress(processes(config)), self._level(live=live), beat)
        self._watch.start()
        self._reporter.showfspath = self._verbosity > 0

    def _level(self, *, live: bool) -> Level:
        if self._verbosity:
            return Level.FAILING if self._verbosity < 0 else Level.STEP
        return Level.DONE if live else Level.BEGUN

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self, report: Any) -> Generator[None, Any, Any]:
        """No dot for each test without `-v`: a trial answers dozens at once. Why a trial broke is printed once."""
        category, letter, word = yield
        if self._verbosity > 0:
            return category, letter, word
        return (NOT_JUDGED if report.failed and _has(report, NOT_JUDGED) else category), "", ""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        """Runs around all others: first decides what pytest prints of failures, at the end prints the last lines."""
        stats = self._reporter.stats
        only_verdicts = all(_has(report, VERDICT) for report in stats.get("failed", ())) and not stats.get("error")
        if self._verbosity <= 0 and only_verdicts:
            self._config.option.tbstyle = "no"  # the matrix shows them, each story once
            self._reporter.reportchars = self._reporter.reportchars.replace("f", "")
        if (junit := self._config.stash.get(xml_key, None)) is not None:
            contents = self._contents
            junit.add_global_property("result", plain(run_sentence(contents.cells, len(contents.problems))))
        yield
        self._watch.close()
        about: dict[str, Any] = {"finished": now(), "exit status": int(session.exitstatus)}
        if session.exitstatus == pytest.ExitCode.INTERRUPTED:
            about |= {"interrupted": True, "broken off": self._broken_off()}
        try:
            if self._selection.stages is ONLY:
                nothing_judged = all(cell.word is Verdict.NOT_APPLICABLE for cell in self._contents.cells)
                if session.exitstatus == pytest.ExitCode.OK and nothing_judged:
                    session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
                    about["exit status"] = int(session.exitstatus)
                self._close(about)
            else:
                session.exitstatus = self._close_certified(about)
        except (BadFile, OSError) as error:
            session.exitstatus = NOT_CLOSED
            self._reporter.write_line(plain(f"the run could not be closed, its trials are stored: {error}"), red=True)
        if session.exitstatus not in resumable.ENDED:
            self._reporter.write_line(f"to go on: {plain(resumable.command(self._run))}")

    def _close(self, about: Mapping[str, Any]) -> None:
        """about: exit status and times, stored with the run."""
        page = self._run.close(about, lambda line: self._reporter.write_line(plain(line)))
        self._reporter.write_line(f"all verdicts: {plain(command_line('results', 'show', self._run.path.name))}")
        self._reporter.write_line(f"report: {plain(str(typed(page)))}")

    def _close_certified(self, about: Mapping[str, Any]) -> int:
        """The same, with a certificate. Returns the exit status: the certificate's if all trials ended."""
        self._run.restore()
        self._run.complete_trials()
        certificate, document = certificate_files.made(self._run, about)
        status: int = about["exit status"]
        if status in JUDGED:
            status = STATUS[certificate.decision]
        self._close({**about, "exit status": status, summary.CERTIFICATE: sentence(certificate)})
        page = certificate_files.write(self._run, certificate, document)
        self._reporter.write_line(f"certificate: {plain(str(typed(page)))}")
        self._reporter.write_line(plain(sentence(certificate)), bold=True)
        for words in certificate.warnings:
            self._reporter.write_line(plain(f"  {words}"))
        return status

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int) -> None:
        self._watch.close()
        if exitstatus == pytest.ExitCode.INTERRUPTED:
            terminalreporter.section("interrupted: what follows is only a part", red=True)
            for doing in self._broken_off():
                terminalreporter.write_line(f"broken off: {doing}")
        if self._verbosity < -1:
            return
        terminalreporter.section("result" if self._selection.stages is ONLY else "trials")
        contents = self._contents
        file, colour = cast(IO[str], self._screen), terminalreporter._tw.hasmarkup
        console = Console(file=file, width=self._screen.width, force_terminal=colour, no_color=not colour)
        command = partial(again, selection=self._selection, config=self._config)
        shown = matrix.render if self._verbosity > 0 else matrix.brief
        shown(contents.cells, console, contents.problems, command)

    @cached_property
    def _contents(self) -> RunContents:
        return self._run.read()

    def _broken_off(self) -> list[str]:
        return self._watch.progress.doing(time.time())


def plans(selection: Selection, items: Iterable[pytest.Item]) -> list[Event]:
    """An event for each backend: the trials that these tests need, and about how long each takes."""
    wanted = {
        (case.lane, case.fault, case.stage)
        for item in items
        if (case := case_of(item)) is not None and case.because is None
    }
    trials = selection.trials()
    return _plans(selection, (each for each in trials if any((*at, each.stage) in wanted for at in each.places)))


def _plans(selection: Selection, trials: Iterable[Trial]) -> list[Event]:
    of_backend: dict[str, list[tuple[str, int, float]]] = {}
    for trial in trials:
        planned = column_in(trial.column, trial.stage), trial.part, round(trial.seconds, 1)
        of_backend.setdefault(trial.backend, []).append(planned)
    shared = shared_backends(selection)
    return [Event("plan", {"backend": each, "trials": of, "shared": each in shared}) for each, of in of_backend.items()]


def to_come(selection: Selection, processes: int) -> str:
    """What a run is going to try, and about how long that takes, in one line."""
    trials = [each for each in selection.trials() if not selection.elsewhere.issuperset(each.places)]
    progress = Progress(processes)
    for plan in _plans(selection, trials):
        progress.take(plan)
    places = {(lane, fault) for trial in trials for lane in trial.lanes for fault in trial.faults}
    lanes, faults = {lane for lane, _ in places}, {fault for _, fault in places} - {NO_FAULT}
    locks = lock_names(dict.fromkeys(lane.lock_name for trial in trials for lane in trial.lanes))
    under = f"under {count(len(faults), 'fault')}" if faults else "without a fault"
    tried = f"{count(len(lanes), 'lane')} of {locks} {under} in {count(len(trials), 'trial')}"
    if trials:
        return f"to come: {tried}, {roughly(progress.left(0.0) or 0.0)}"
    reasons = [*(each.because for each in selection.not_run()), "no lane of these locks is tried under these faults"]
    return "to come: nothing in this shard" if selection.shard else f"to come: nothing: {reasons[0]}"


def processes(config: pytest.Config) -> int:
    """How many processes run trials."""
    return len(getattr(config.option, "tx", None) or ()) or 1


def shared_backends(selection: Selection) -> list[str]:
    """The backends whose trials any idle process may run: the last one, unless it is a target (there is only one)."""
    return [backend for backend in selection.booted[-1:] if backend not in selection.targets]


def case_of(item: pytest.Item) -> Case | None:
    """None for the placeholder that pytest collects for a property without a case in this run."""
    spec = getattr(item, "callspec", None)
    case = spec.params.get("answer") if spec is not None else None
    return case if isinstance(case, Case) else None


def place_of(case: Case) -> list[tuple[str, str]]:
    """User properties of a test (in JUnit's XML): which case it is."""
    lane = case.lane
    properties = {"property": case.property_id, "lock": lane.lock_name, "backend": lane.backend, "fault": case.fault}
    properties |= {"workload": lane.workload.name, "store": lane.store} | ({"stage": case.stage} if case.stage else {})
    return [(name, plain(value)) for name, value in properties.items()]


def verdict_of(answer: CaseAnswer, run: Path) -> list[tuple[str, str]]:
    """User properties of a test: the judgement of its case, and the story if something broke, even as documented."""
    page = answer.page.relative_to(run).as_posix() if answer.page.is_relative_to(run) else str(answer.page)
    properties = {VERDICT: str(answer.judgement.word), "because": answer.judgement.because, "version": answer.version}
    properties |= {"seed": str(answer.seed), "trials": str(answer.attempts), "page": page}
    story = [("story", "\n".join(answer.story))] if answer.story else []
    return [(name, plain(value)) for name, value in properties.items()] + story


def again(cell: Cell, selection: Selection, config: pytest.Config) -> str:
    """The command that repeats the trial of a cell, with its lock alone."""
    words = ["suites/", "--lock", cell.lock]
    option = config.option
    if cell.fault in selection.plans:
        words += [word for file in option.plan for word in ("--plan", file)]
    else:
        words += ["--faults", cell.fault]
    # The third trial of a control comes after the first two.
    words += ["--seed", str(cell.seed - max(cell.attempt - 1, 0))]
    if cell.stage in TOGETHER:
        upgrade = (("--from", option.from_), ("--to", option.to))
        words += [word for name, values in upgrade for value in values for word in (name, value)]
    elif selection.stages is not ONLY and not option.version_of:
        words += ["--version-of", f"{cell.backend}={cell.version}"]
    words += load_words(load(option).to_json())
    pythons = [option.python] if cell.stage in ("", *TOGETHER) else selection.pythons(cell.stage)
    words += [word for python in filter(None, pythons) for word in ("--python", python)]
    for name in ("version_of", "shape", "target", "hook"):
        words += [word for value in getattr(option, name) for word in (f"--{name.replace('_', '-')}", value)]
    return command_line("pytest", *words)


def _has(report: Any, name: str) -> bool:
    return any(known == name for known, _ in report.user_properties)


def _own(file: TextIO) -> TextIO:
    """A second handle on the same terminal or log: pytest captures what tests write to the first."""
    try:
        number = os.dup(file.fileno())
    except (OSError, io.UnsupportedOperation):
        return file
    file.flush()
    return os.fdopen(number, "w", encoding=file.encoding, errors=file.errors, newline="")

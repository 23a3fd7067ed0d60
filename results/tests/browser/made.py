"""Run folders with every kind of page: from samples, and from lanes that were recorded."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from checkers.claims import Verdict
from checkers.history.history import History
from checkers.judging.judgement import Judgement, judge
from checkers.properties.check_result import Violation
from checkers.tests.build import there
from results.certificate.certificate_files import issue
from results.commands import digest, redraw
from results.pages import scorecard
from results.record import LaneRecord, NotRun, TrialRecord, decisive
from results.report import sentences
from results.run import Run
from results.stages import COLUMNS, MIXED
from results.storage.reading import load_trial
from results.tests import hostile, samples, upgrades

RECORDED: Final = Path(__file__).parent / "recorded"
"""Three lanes of a trial of the single-node Redis lock under late-write, as a run stored them."""

TRIALS: Final = ("recorded", "violated", "stale", "passing", "quiet", "nothing", "aborted", "other", "hostile")
RUNS: Final = ("run", "later-run", "empty-run", "hostile-run", "runs", "scorecard", "hostile-scorecard")
ODD: Final = ("hostile", "hostile-run", "hostile-scorecard", "empty-run")
SENT: Final = ("sent-trial", "sent-hostile", "sent-run", "sent-scorecard", "comparison")
CERTIFICATES: Final = ("certificate", "hostile-certificate")
PAGES: Final = (*TRIALS, *RUNS, *SENT, *CERTIFICATES)


class Made:
    """The pages named in PAGES. Each group of pages is made when a test first asks for a page of it, so a group that
    cannot be made fails only the tests that need it. root: the folder of runs.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.records = _records()  # trials by the names of TRIALS

    def page(self, name: str) -> Path:
        if name == "runs":
            return self._all
        if name in CERTIFICATES:
            return self._certificates[name]
        return (self._sent if name in SENT else self._odd if name in ODD else self._runs)[name]

    def every_page(self) -> set[Path]:
        """All of PAGES, and more of these kinds: other scorecards, and all pages of the runs with certificates."""
        runs = (self.page(name).parent for name in CERTIFICATES)
        cards = self.root.glob(f"*/{scorecard.FOLDER}/*/index.html")
        return {self.page(name) for name in PAGES}.union(cards, *(run.rglob("*.html") for run in runs))

    @cached_property
    def _runs(self) -> Mapping[str, Path]:
        asked = {"command": ["pytest", "suites/"], "profile": "default", "seed": 1}
        first, later = ("recorded", "stale", "quiet", "nothing", "aborted"), ("violated", "passing", "other")
        pages: dict[str, Path] = {}
        for run, names in (("run", first), ("later-run", later)):
            made = Run.create(self.root, asked)
            pages |= {name: made.save_trial(self.records[name]) for name in names}
            made.save_not_run([NotRun("etcd", "etcd", "slow-disk", "no disk of etcd can be made slow here")])
            pages[run] = made.close({})
        return {**pages, "scorecard": pages["run"].parent / scorecard.FOLDER / "redis" / "index.html"}

    @cached_property
    def _odd(self) -> Mapping[str, Path]:
        faults = {hostile.attack("fault"): {"group": hostile.attack("group"), "text": hostile.attack("text")}}
        described = {"faults": faults, "locks": {hostile.attack("lock"): hostile.attack("text")}}
        asked: dict[str, Any] = {"command": [hostile.attack("command")], "described": described}
        asked[hostile.attack("key")] = hostile.attack("value")
        run = Run.create(self.root, asked)
        page = run.save_trial(self.records["hostile"])
        run.save_not_run([hostile.not_run()])
        closed = run.close({})
        [mine] = closed.parent.glob(f"{scorecard.FOLDER}/*/index.html")
        empty = Run.create(self.root, {}).close({})
        return {"hostile": page, "hostile-run": closed, "hostile-scorecard": mine, "empty-run": empty}

    @cached_property
    def _all(self) -> Path:
        for made in (self._runs, self._odd):
            assert made  # every run writes the page of all runs when it is closed
        return self.root / "index.html"

    @cached_property
    def _certificates(self) -> Mapping[str, Path]:
        lost = violated(upgrades.record(MIXED, COLUMNS[MIXED][0], seed=8))
        runs = upgrades.closed(self.root, lost), hostile.upgrade(self.root)
        return {name: issue(run)[1] for name, run in zip(CERTIFICATES, runs, strict=True)}

    @cached_property
    def _sent(self) -> Mapping[str, Path]:
        folder = self.root / "sent"
        folder.mkdir(exist_ok=True)
        pages = {name: folder / f"{name}.html" for name in SENT}
        for name, what in (("sent-trial", "recorded"), ("sent-hostile", "hostile"), ("sent-run", "run")):
            assert redraw.export(self.root, str(self.page(what).parent), pages[name]) == 0
        both = [str(self.page(name).parent) for name in ("run", "later-run")]
        assert digest.compare_(self.root, both[0], both[1], None, pages["comparison"], all=False) == 1
        assert redraw.scorecard_(self.root, "redis", both, "etcd", pages["sent-scorecard"], without_links=False) == 0
        return pages


def violated(record: TrialRecord) -> TrialRecord:
    """The same trial as if the lock had promised what it broke: known weaknesses that showed become violations."""

    def promised(one: Judgement) -> Judgement:
        broke = one.word is Verdict.WEAKNESS_SHOWN
        return replace(one, word=Verdict.VIOLATED, because="claimed under every fault") if broke else one

    lanes = (replace(lane, judgements=tuple(map(promised, lane.judgements))) for lane in record.lanes)
    return replace(record, name="violated", lanes=tuple(lanes))


def told(lane: LaneRecord) -> Violation:
    """The violation that the lane's part of the page begins with."""
    return there(decisive(there(sentences.leading(lane))))


def _records() -> dict[str, TrialRecord]:
    recorded = load_trial(RECORDED)
    return {
        "recorded": recorded,
        "violated": violated(recorded),
        "stale": samples.trial("stale"),
        "passing": _passing("passing", samples.long(2000)),
        "quiet": _passing("quiet", replace(samples.long(200), faults=())),
        "nothing": samples.one_lane(replace(samples.long(0), faults=()), name="nothing"),
        "aborted": replace(samples.trial("aborted", error="worker 2 broke"), lanes=()),
        "other": _of_another_backend(),
        "hostile": hostile.trial(),
    }


def _passing(name: str, history: History) -> TrialRecord:
    result = samples.upheld("server-exclusion", **{"contended acquires": 25})
    return samples.one_lane(history, judge(result, history), name=name)


def _of_another_backend() -> TrialRecord:
    of: dict[str, Any] = {"backend": "etcd", "versions": {"etcd1": "3.5.16"}}
    stores = ("unfenced", "fence-writes")
    lanes = (samples.stale_write(store, lane=f"etcd/register/{store}", lock="etcd", **of) for store in stores)
    return samples.trial("other", *lanes, **of)

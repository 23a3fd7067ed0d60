"""`python -m suites track-record`: what a certificate says of releases that are known to be bad.

track_record.toml has the bugs. An upgrade to a release with the bug must be a REGRESSION, because a property that the
bug concerns broke by its mechanism; an upgrade to the release that mended it must be none. All have the options of a
default certification. results/track-record/tries.json keeps what came of each, and the command goes on where it
stopped. Bugs of the same releases share their runs.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cache
from math import inf
from pathlib import Path
from typing import Final

import msgspec

from infra.errors import UnknownName
from infra.suggestions import instead
from results.certificate.certify import Decision
from results.storage import files, reading
from results.storage.files import RUNS
from results.storage.run_folder import RunFolder
from suites.rounds import run_in
from suites.trial.metadata import suite_version
from suites.worker.pool import ROOT

TRIES: Final = ROOT / "results" / "track-record" / "tries.json"


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug of a released server or client library. what: its name in `--from`.

    releases: (without the bug, with it, mended). found_by: the properties that must break, by one of `mechanisms` (or
    kinds of violation) if there are any. cannot: why it is not tried, or "".
    """

    name: str
    what: str
    releases: tuple[tuple[str, str, str], ...]
    bug: str
    source: str
    found_by: tuple[str, ...]
    mechanisms: tuple[str, ...] = ()
    cannot: str = ""

    def upgrades(self) -> Iterator[tuple[str, str]]:
        """(old release, new release) of each upgrade that is tried."""
        for good, bad, mended in () if self.cannot else self.releases:
            yield good, bad
            yield bad, mended


@dataclass(frozen=True, slots=True)
class Try:
    """What a certificate said of one upgrade. hits: the losses that the bug explains; seconds: until the first of them,
    or of the whole run if there is none; suite: the version of this suite.
    """

    bug: str
    old: str
    new: str
    seed: int
    decision: str
    hits: tuple[str, ...]
    seconds: int
    began: str
    suite: str = field(default_factory=suite_version)

    @property
    def to_bad(self) -> bool:
        return any(self.new == bad for _, bad, _ in bugs()[self.bug].releases)

    @property
    def right(self) -> bool:
        if self.to_bad:
            return self.decision == Decision.REGRESSION and bool(self.hits)
        return self.decision != Decision.REGRESSION

    def __str__(self) -> str:
        why = f": {'; '.join(self.hits)}" if self.hits else ""
        mark = "right" if self.right else "WRONG"
        upgrade = f"{bugs()[self.bug].what} {self.old} → {self.new}"
        return f"{mark}  {self.bug}, {upgrade}, seed {self.seed}: {self.decision} after {self.seconds} s{why}"


@cache
def bugs() -> Mapping[str, Bug]:
    """The bugs of track_record.toml, by name."""
    text = Path(__file__).with_name("track_record.toml").read_text(encoding="utf-8")
    return {name: msgspec.convert(entry | {"name": name}, Bug) for name, entry in tomllib.loads(text).items()}


def main(names: Sequence[str] = (), seeds: int = 1) -> int:
    """Exit status: 0 every certificate was right, 1 one was not. Raises Unfinished (status 2)."""
    if unknown := [name for name in names if name not in bugs()]:
        raise UnknownName(f"no bug {unknown[0]!r}; {instead(unknown[0], bugs())}")
    tries = {(each.bug, each.old, each.new, each.seed): each for each in stored()}
    status = 0
    for seed in range(1, seeds + 1):
        for bug in map(bugs().__getitem__, names or bugs()):
            for old, new in bug.upgrades():
                key = bug.name, old, new, seed
                if key not in tries:
                    words = [f"--from={bug.what}={old}", f"--to={bug.what}={new}", f"--seed={seed}"]
                    run = run_in(RUNS / "track-record" / f"{bug.what}-{old}-{new}-{seed}", words)
                    tries[key] = _tried(bug, old, new, seed, run)
                    TRIES.parent.mkdir(exist_ok=True)
                    TRIES.write_text(json.dumps([asdict(each) for each in tries.values()], indent=1) + "\n")
                print(tries[key], flush=True)
                status |= not tries[key].right
    return status


def stored() -> list[Try]:
    return msgspec.json.decode(TRIES.read_bytes(), type=list[Try]) if TRIES.exists() else []


def _tried(bug: Bug, old: str, new: str, seed: int, run: RunFolder) -> Try:
    certificate = json.loads(files.read_bytes(run.path / files.CERTIFICATE))
    began = str(run.about()["started"])
    hits: dict[str, float] = {}
    for loss in certificate["regressed"]:
        because = loss["seen"]["because"]
        if loss["property"] in bug.found_by and (not bug.mechanisms or any(each in because for each in bug.mechanisms)):
            words = f"{loss['property']} of {loss['lock']} under {loss['fault']} ({because})"
            about = reading.about_trial((run.path / loss["seen"]["page"]).parent)
            hits[words] = min(_instant(about["started"]) + float(about["seconds"]), hits.get(words, inf))
    ended = min(hits.values(), default=_instant(certificate["conditions"]["ended"] or began))
    return Try(bug.name, old, new, seed, certificate["verdict"], tuple(hits), round(ended - _instant(began)), began)


def _instant(written: str) -> float:
    return datetime.fromisoformat(written).timestamp()

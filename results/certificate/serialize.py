"""certificate.json: canonical, so that its digest is the same everywhere, and with digests of its evidence.

Canonical JSON: UTF-8, sorted keys, no spaces, finite numbers. `digest` is the SHA-256 of all keys but itself.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from results.certificate.certify import Certificate, sentence
from results.certificate.conditions import NEVER, conditions, uncovered
from results.certificate.promise_losses import Loss, Promise, Weakness
from results.certificate.trials import UpgradeTrial
from results.comparison import presentation
from results.comparison.compare import Seen
from results.comparison.speeds import Speed
from results.storage import files
from results.storage.codec import encoded
from results.storage.files import BadFile
from results.storage.reading import RunContents

FORMAT: Final = 4
"""A certificate of another format can be verified only by the version that wrote it."""
_OF_A_SPEED: Final = ("backend", "lock", "measure", "unit", "before", "after", "ratio", "interval", "trials")
_ASKED: Final = ("command", "seed", "profile", "interruptions")
"""Keys of what was asked for that the file has."""


def to_json(
    certificate: Certificate,
    contents: RunContents,
    trials: Sequence[UpgradeTrial],
    root: Path,
    about: Mapping[str, Any],
) -> dict[str, Any]:
    """The whole file. root: of the run; about: what was asked for. Raises BadFile where evidence cannot be read."""
    fields = {
        "format": FORMAT,
        "run": root.name,
        "verdict": str(certificate.decision),
        "sentence": sentence(certificate),
        "upgrades": {name: list(versions) for name, versions in certificate.upgrades.items()},
        "parts": list(certificate.parts),
        "promises": [_promise(promise, root) for promise in certificate.promises],
        "absent": [
            {"backend": backend, "stage": stage, "because": why} for (backend, stage), why in certificate.absent.items()
        ],
        "regressed": [_loss(loss, root) for loss in certificate.regressed],
        "slower": [_speed(speed) for speed in certificate.slower],
        "turned": [list(promise.name()) for promise in certificate.turned],
        "one_version": dict(certificate.one_version),
        "known": [_loss(loss, root) for loss in certificate.known],
        "weaknesses": [_weakness(weakness) for weakness in certificate.weaknesses],
        "cleared": [list(promise.name()) for promise in certificate.cleared],
        "steps": [asdict(step) for step in certificate.steps],
        "no_way_there": list(certificate.no_way_there),
        "no_way_back": list(certificate.no_way_back),
        "speeds": [_speed(speed) for speed in certificate.comparison.speeds],
        "beside": [asdict(gap) for gap in certificate.handover_gaps],
        "errors": [{**asdict(error), "turn": str(error.turn)} for error in certificate.errors],
        "bites": [asdict(exposure) for exposure in certificate.exposures],
        "calibration": encoded(certificate.calibration, root),
        "doubts": list(certificate.doubts),
        "conditions": conditions(about, trials),
        "uncovered": uncovered(contents.cells),
        "never": list(NEVER),
        "asked": {name: about[name] for name in _ASKED if name in about},
        "evidence": evidence(root),
    }
    # As it will be read: lists for tuples, so that the written and the read value are equal.
    plain: dict[str, Any] = json.loads(canonical(fields))
    return {**plain, "digest": digest(plain)}


def canonical(data: Mapping[str, Any]) -> bytes:
    """Raises ValueError where it is not plain JSON."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace")


def digest(data: Mapping[str, Any]) -> str:
    """SHA-256 of all keys but `digest`."""
    return hashlib.sha256(canonical({name: value for name, value in data.items() if name != "digest"})).hexdigest()


def evidence(root: Path) -> dict[str, str]:
    """Path in the run folder → SHA-256, of all evidence: what was asked for, what was not tried, and of each trial the
    histories, the plan and what was done. All else follows from these. Raises BadFile.
    """
    problems: list[str] = []
    paths = [root / "run.json", *files.entries(root / "not-run", problems)]
    for folder in files.entries(root / "trials", problems):
        if folder.is_dir():  # `results.storage.reading` reports anything else
            inside = files.entries(folder, problems)
            paths += [file for file in inside if file.suffix == ".arrow" or file.name in ("plan.json", "trial.json")]
    if problems:
        raise BadFile(problems[0])
    return {file.relative_to(root).as_posix(): hashlib.sha256(files.read_bytes(file)).hexdigest() for file in paths}


def _promise(promise: Promise, root: Path) -> dict[str, Any]:
    stages = {stage: _seen(seen, root) for stage, seen in promise.stages.items()}
    return {**_without("blind", promise, root), "stages": stages}


def _seen(seen: Seen, root: Path) -> dict[str, Any]:
    return {**_without("trials", seen, root), "judgements": seen.trials}


def _loss(loss: Loss, root: Path) -> dict[str, Any]:
    return {**_without("why", loss, root), "worse": loss.why, "seen": _seen(loss.seen, root)}


def _weakness(weakness: Weakness) -> dict[str, Any]:
    names = ("backend", "fault", "mechanism", "shown", "trials", "chance")
    return {name: getattr(weakness, name) for name in names}


def _speed(speed: Speed) -> dict[str, Any]:
    return {**{name: getattr(speed, name) for name in _OF_A_SPEED}, "word": presentation.speed_word(speed)}


def _without(name: str, value: object, root: Path) -> dict[str, Any]:
    return {key: item for key, item in encoded(value, root).items() if key != name}

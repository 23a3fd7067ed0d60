"""certificate.json: canonical, so that its digest is the same wherever it is written; with digests of its evidence.

Canonical JSON here: UTF-8, keys in order, no space between, no number that is not finite. `digest` is the SHA-256 of
the object without it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from results import files
from results.certificate.certificate import Certificate, Promise, sentence
from results.comparison import compared
from results.comparison.comparison import Change, Seen
from results.comparison.speeds import Speed
from results.files import BadFile

NAME: Final = "certificate.json"
FORMAT: Final = 1


def to_json(certificate: Certificate, root: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The whole file. root: of the run; asked: what was asked for. Raises BadFile where evidence cannot be read."""
    told = {
        "format": FORMAT,
        "run": root.name,
        "verdict": str(certificate.verdict),
        "sentence": sentence(certificate),
        "upgrades": {name: list(versions) for name, versions in certificate.upgrades.items()},
        "promises": [_promise(one, root) for one in certificate.promises],
        "regressed": [_change(one) for one in certificate.regressed],
        "slower": [_speed(one) for one in certificate.slower],
        "known": [_change(one) for one in certificate.known],
        "cleared": [[one.backend, one.lock, one.property] for one in certificate.cleared],
        "speeds": [_speed(one) for one in certificate.comparison.speeds],
        "bites": certificate.bites,
        "doubts": list(certificate.doubts),
        "asked": {name: asked[name] for name in ("command", "seed", "profile") if name in asked},
        "evidence": evidence(root),
    }
    return {**told, "digest": digest(told)}


def canonical(data: Mapping[str, Any]) -> bytes:
    """Raises ValueError where it is not plain JSON."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace")


def digest(data: Mapping[str, Any]) -> str:
    """Of everything but the digest itself."""
    return hashlib.sha256(canonical({name: value for name, value in data.items() if name != "digest"})).hexdigest()


def evidence(root: Path) -> dict[str, str]:
    """Histories and plans of all trials, as paths in the run folder → SHA-256. Raises BadFile."""
    problems: list[str] = []
    found = {}
    for folder in files.entries(root / "trials", problems):
        for file in files.entries(folder, problems):
            if file.suffix == ".arrow" or file.name == "plan.json":
                data = files.read_bytes(file)
                found[file.relative_to(root).as_posix()] = hashlib.sha256(data).hexdigest()
    if problems:
        raise BadFile(problems[0])
    return found


def _promise(promise: Promise, root: Path) -> dict[str, Any]:
    stages = {stage: _seen(seen, root) for stage, seen in promise.stages.items()}
    return {"backend": promise.backend, "lock": promise.lock, "property": promise.property, "stages": stages}


def _seen(seen: Seen, root: Path) -> dict[str, Any]:
    page = None if seen.page is None else seen.page.relative_to(root).as_posix()
    return {
        "word": str(seen.word),
        "times": seen.times,
        "judgements": seen.trials,
        "because": seen.because,
        "story": list(seen.story),
        "page": page,
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "backend": change.backend,
        "lock": change.lock,
        "lane": change.lane,
        "fault": change.fault,
        "property": change.property,
        "worse": change.worse,
    }


def _speed(speed: Speed) -> dict[str, Any]:
    return {
        "backend": speed.backend,
        "lock": speed.lock,
        "measure": speed.measure,
        "unit": speed.unit,
        "before": speed.before,
        "after": speed.after,
        "ratio": speed.ratio,
        "interval": speed.interval,
        "trials": speed.trials,
        "word": compared.speed_word(speed),
    }

"""Makes a certificate's files from what a run stored, and writes them into the run's folder: certificate.json with its
own digest and those of its evidence, the page, and the derived files. The same certificate gives the same bytes.

junit.xml has a test for each promise in each stage, for each time and rate, and for each doubt. A promise, time or rate
that makes the certificate a regression is a failure. A doubt is an error. A test is skipped if it is not applicable, if
a time or rate is undecided, or if it failed but the upgrade did not lose the promise. The XML is canonical (C14N 2.0).

attestation.json is the certificate as an in-toto test-result statement, to be kept with the images. The subjects are
the images of both versions, with the ids that the engine gives them. The configuration is the fault plans and the
certificate, which has all the rest. The statement is not signed: whoever vouches for it puts it into an envelope.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, TypedDict
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from checkers.claims import Verdict
from results.certificate import certificate_page, trials
from results.certificate.certify import Certificate, Decision, certify, sentence
from results.certificate.detection_power import seen_in
from results.certificate.promise_losses import Loss
from results.certificate.trials import NEVER, UpgradeTrial, conditions, uncovered
from results.comparison.compare import Seen
from results.comparison.speeds import Speed
from results.run import Run
from results.stages import ALONE, BASELINE, CANDIDATE, STAGES, TITLES
from results.storage import files, resumable, summary
from results.storage.codec import decoded, encoded
from results.storage.files import BadFile
from results.storage.reading import RunContents

FORMAT: Final = 5
"""A certificate of another format can be verified only by the version that wrote it."""
_ASKED: Final = ("command", "seed", "profile", "budget", "shapes", "interruptions")
"""What of `RunFolder.about` the file has."""


def to_json(
    certificate: Certificate,
    contents: RunContents,
    trials: Sequence[UpgradeTrial],
    root: Path,
    about: Mapping[str, Any],
) -> dict[str, Any]:
    """The file's content. root: the run's folder. about: what was asked for. Raises BadFile on unreadable evidence."""
    fields = {
        "format": FORMAT,
        "run": root.name,
        "verdict": str(certificate.decision),
        "sentence": sentence(certificate),
        "upgrades": {name: list(versions) for name, versions in certificate.upgrades.items()},
        "parts": list(certificate.parts),
        "promises": [
            _row(each, root, "blind", stages={stage: _seen(seen, root) for stage, seen in each.stages.items()})
            for each in certificate.promises
        ],
        "absent": [
            {"backend": backend, "stage": stage, "because": why} for (backend, stage), why in certificate.absent.items()
        ],
        "regressed": [_loss(loss, root) for loss in certificate.regressed],
        "slower": [_speed(speed, root) for speed in certificate.slower],
        "turned": [list(promise.name()) for promise in certificate.turned],
        "one_version": dict(certificate.one_version),
        "known": [_loss(loss, root) for loss in certificate.known],
        "weaknesses": [_row(each, root, "cells", chance=each.chance) for each in certificate.weaknesses],
        "cleared": [list(promise.name()) for promise in certificate.cleared],
        "steps": [asdict(step) for step in certificate.steps],
        "no_way_there": list(certificate.no_way_there),
        "no_way_back": list(certificate.no_way_back),
        "speeds": [_speed(speed, root) for speed in certificate.comparison.speeds],
        "beside": [asdict(gap) for gap in certificate.handover_gaps],
        "plan_for": list(certificate.plan_for),
        "gaps": [asdict(gap) for gap in certificate.gaps],
        "tries": [asdict(each) | {"seen": round(seen_in(each.trials), 3)} for each in certificate.tries],
        "boundaries": list(certificate.boundaries),
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
    # Tuples become lists, as when the file is read, so that the written and the read value are equal.
    plain: dict[str, Any] = json.loads(canonical(fields))
    return {**plain, "digest": digest(plain)}


def canonical(data: Mapping[str, Any]) -> bytes:
    """The bytes of canonical JSON (results/README.md). Raises ValueError if a number is not finite, or TypeError."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace")


def digest(data: Mapping[str, Any]) -> str:
    """SHA-256 of all keys but `digest`."""
    return hashlib.sha256(canonical({name: value for name, value in data.items() if name != "digest"})).hexdigest()


def evidence(root: Path) -> dict[str, str]:
    """Path in the run folder → SHA-256 of each file of evidence: what was asked for, what was not tried, and each
    trial's histories, plan and trial.json. All other files follow from these. Raises BadFile.
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


def _row(value: object, root: Path, *without: str, **more: object) -> dict[str, Any]:
    """A value as plain JSON, without some of its keys and with more."""
    return {key: item for key, item in encoded(value, root).items() if key not in without} | more


def _seen(seen: Seen, root: Path) -> dict[str, Any]:
    return _row(seen, root, "trials", judgements=seen.trials)


def _loss(loss: Loss, root: Path) -> dict[str, Any]:
    return _row(loss, root, "why", worse=loss.why, seen=_seen(loss.seen, root))


def _speed(speed: Speed, root: Path) -> dict[str, Any]:
    return _row(speed, root, "machine", "p", "p_better")


_ILLEGAL: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow."""
_RESULTS: Final = {Decision.NO_REGRESSION: "PASSED", Decision.INCONCLUSIVE: "WARNED", Decision.REGRESSION: "FAILED"}


@dataclass(frozen=True, slots=True)
class _Test:
    """One test. kind: `failure`, `error`, `skipped`, `known` (failed, but not by the upgrade), or empty: it passed."""

    group: str
    name: str
    kind: str = ""
    text: str = ""


def junit(stored: Mapping[str, Any]) -> bytes:
    """junit.xml. stored: the content of certificate.json."""
    tests = list(_tests(stored))
    root = Element("testsuites")
    suite = SubElement(root, "testsuite", name="certificate", tests=str(len(tests)))
    for kind, several in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(several, str(sum(_element(test) == kind for test in tests)))
    properties = SubElement(suite, "properties")
    for name in ("sentence", "run", "digest"):
        SubElement(properties, "property", name=name, value=_legal(stored[name]))
    for test in tests:
        case = SubElement(suite, "testcase", classname=_legal(test.group), name=_legal(test.name))
        if test.kind:
            SubElement(case, _element(test), message=_legal(test.text))
    return ElementTree.canonicalize(ElementTree.tostring(root, "unicode")).encode()


def _element(test: _Test) -> str:
    return "skipped" if test.kind == "known" else test.kind


def _tests(stored: Mapping[str, Any]) -> Iterator[_Test]:
    lost: dict[tuple[str, ...], str] = {}
    for row in stored["regressed"]:
        told_so = f"{row['worse']}: {row['seen']['because']} ({row['lane']} under {row['fault']})"
        lost.setdefault((row["backend"], row["lock"], row["property"], row["stage"]), told_so)
    for row in stored["promises"]:
        group = f"{row['backend']}.{row['lock']}"
        for stage, title in TITLES.items():
            name = f"{row['property']} [{title}]"
            why = lost.get((row["backend"], row["lock"], row["property"], stage))
            if why is not None:
                yield _Test(group, name, "failure", why)
            elif stage in row["stages"]:
                seen = row["stages"][stage]
                known = ("known", f"{seen['word']}: {seen['because']}") if Verdict(seen["word"]).fails else ()
                yield _Test(group, name, *known)
            elif stage in row["absent"]:
                yield _Test(group, name, "skipped", row["absent"][stage])
    for row in stored["speeds"]:
        times = f"{row['ratio']:.2f} times what it was"
        came_to = {
            "worse": ("failure", times),
            "unsure": ("skipped", f"{times}, and not certainly so"),
            "too few": ("skipped", "too few trials to tell"),
        }.get(row["word"], ())
        yield _Test(row["backend"], f"{row['measure']} of {row['lock'] or 'all locks'}", *came_to)
    for number, doubt in enumerate(stored["doubts"], 1):
        yield _Test("certificate", f"doubt {number}", "error", doubt)


def _legal(text: str) -> str:
    return _ILLEGAL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def attestation(stored: Mapping[str, Any]) -> bytes:
    """attestation.json. If no image is known (a cluster that is not ours) the certificate is its subject."""
    sha256 = hashlib.sha256(canonical(stored)).hexdigest()
    certificate = {"name": files.CERTIFICATE, "digest": {"sha256": sha256}}
    plans = [
        {"name": name, "digest": {"sha256": digest}}
        for name, digest in sorted(stored["evidence"].items())
        if name.endswith("/plan.json")
    ]
    images = [
        {
            "name": image["image"],
            "digest": {"sha256": digest[1]},
            "annotations": {name: image[name] for name in ("backend", "stage", "version")},
        }
        for image in stored["conditions"]["images"]
        if (digest := re.fullmatch(r"sha256:([0-9a-f]{64})", image["digest"]))
    ]
    tests = [(f"{test.group}: {test.name}", test.kind) for test in _tests(stored)]
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": images or [certificate],
        "predicateType": "https://in-toto.io/attestation/test-result/v0.1",
        "predicate": {
            "result": _RESULTS[Decision(stored["verdict"])],
            "configuration": [certificate, *plans],
            "passedTests": [name for name, kind in tests if not kind],
            "warnedTests": [name for name, kind in tests if kind in ("error", "known")],
            "failedTests": [name for name, kind in tests if kind == "failure"],
        },
    }
    return canonical(statement)


DERIVED: Final[dict[str, Callable[[Mapping[str, Any]], bytes]]] = {files.JUNIT: junit, files.ATTESTATION: attestation}
"""File → the function that renders it from the content of certificate.json."""


class _Requested(TypedDict, total=False):
    """What was asked for (from run.json). Runs that were stored before rolling upgrades existed have no `parts`."""

    stages: Mapping[str, Mapping[str, str]]
    libraries: Mapping[str, tuple[str, str]]
    parts: tuple[str, ...]
    interruptions: tuple[Mapping[str, Any], ...]


def issue(run: Run) -> tuple[Certificate, Path]:
    """Make and store a run's certificate, on the run's page too. Returns it and its own page's path. Raises BadFile."""
    run.complete_trials()
    certificate, stored = made(run)
    page = write(run, certificate, stored)
    run.add({summary.CERTIFICATE: sentence(certificate)})
    return certificate, page


def write(run: Run, certificate: Certificate, stored: Mapping[str, Any]) -> Path:
    """Write a certificate and the files that are derived from it. Returns the path of its page. Raises BadFile."""
    files.write_bytes(run.path / files.CERTIFICATE, canonical(stored))
    for name, render in DERIVED.items():
        files.write_bytes(run.path / name, render(stored))
    page = run.path / files.CERTIFICATE_PAGE
    files.write_text(page, certificate_page.render(certificate, stored, run.path))
    return page


def made(run: Run, came: Mapping[str, Any] | None = None) -> tuple[Certificate, dict[str, Any]]:
    """The certificate of a run, and the content of certificate.json. Raises BadFile, also if the run tried no upgrade.

    came: how the run ended, if the run is about to be closed. If it is None, the run's summary says how.
    """
    about = run.about()
    requested = decoded(about, _Requested, run.path / "run.json")
    try:
        old, new = requested["stages"][BASELINE], requested["stages"][CANDIDATE]
        upgrades = {backend: (version, new[backend]) for backend, version in old.items()}
    except KeyError as error:
        raise BadFile(f"{run.path}: no upgrade was tried (pytest suites/ --from ... --to ...)") from error
    problems: list[str] = []
    contents, tried = run.read(), trials.load(run.path, problems)
    # A judgement whose history cannot be read has no evidence.
    contents = replace(contents, problems=tuple(dict.fromkeys((*contents.problems, *problems))))
    if came is None and (run.path / summary.NAME).exists():
        came = summary.load_head(run.path).about
    parts = [stage for stage in STAGES if stage in requested.get("parts", ALONE)]
    libraries = requested.get("libraries", {})
    certificate = certify(contents, upgrades, _cut_short(came), libraries=libraries, parts=parts, trials=tried)
    return certificate, to_json(certificate, contents, tried, run.path, about)


def _cut_short(came: Mapping[str, Any] | None) -> str:
    """Why the run has less than was asked for, or empty. came: how the run ended; None if the run was not closed."""
    if came is None:
        return "the run did not come to its end"
    if came.get("interrupted"):
        return "the run was interrupted"
    if missing := came.get("missing shards"):
        return f"shards are missing: {', '.join(map(str, missing))}"
    return "" if came.get("exit status", 0) in resumable.ENDED else "the run did not come to its end"

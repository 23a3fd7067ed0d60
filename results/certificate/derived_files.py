"""Files that follow from certificate.json: the same certificate gives the same bytes.

junit.xml has a test for each promise of each stage, for each time and rate, and for each doubt. A promise or a time
that makes it a regression is a failure, a doubt is an error. What is not applicable is skipped, and so is what failed
but was not lost by the upgrade. The XML is canonical (C14N 2.0).

attestation.json is the certificate as an in-toto test-result statement, to be kept with the images. The subjects are
the images of both versions, by the ids of the engine. The configuration is the fault plans and the certificate, which
has all the rest. The statement is not signed: who vouches for it wraps it in an envelope.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from checkers.claims import Verdict
from results.certificate import serialize
from results.certificate.certify import Decision
from results.stages import TITLES
from results.storage import files

_ILLEGAL: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow."""
_STATEMENT: Final = "https://in-toto.io/Statement/v1"
_PREDICATE: Final = "https://in-toto.io/attestation/test-result/v0.1"
_RESULTS: Final = {Decision.NO_REGRESSION: "PASSED", Decision.INCONCLUSIVE: "WARNED", Decision.REGRESSION: "FAILED"}
_SHA256: Final = re.compile(r"sha256:([0-9a-f]{64})")


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
    sha256 = hashlib.sha256(serialize.canonical(stored)).hexdigest()
    certificate = {"name": files.CERTIFICATE, "digest": {"sha256": sha256}}
    plans = [
        {"name": name, "digest": {"sha256": digest}}
        for name, digest in sorted(stored["evidence"].items())
        if name.endswith("/plan.json")
    ]
    tests = [(f"{test.group}: {test.name}", test.kind) for test in _tests(stored)]
    statement = {
        "_type": _STATEMENT,
        "subject": _subjects(stored["conditions"]["images"]) or [certificate],
        "predicateType": _PREDICATE,
        "predicate": {
            "result": _RESULTS[Decision(stored["verdict"])],
            "configuration": [certificate, *plans],
            "passedTests": [name for name, kind in tests if not kind],
            "warnedTests": [name for name, kind in tests if kind in ("error", "known")],
            "failedTests": [name for name, kind in tests if kind == "failure"],
        },
    }
    return serialize.canonical(statement)


def _subjects(images: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "name": image["image"],
            "digest": {"sha256": digest[1]},
            "annotations": {name: image[name] for name in ("backend", "stage", "version")},
        }
        for image in images
        if (digest := _SHA256.fullmatch(image["digest"]))
    ]


DERIVED: Final[dict[str, Callable[[Mapping[str, Any]], bytes]]] = {files.JUNIT: junit, files.ATTESTATION: attestation}
"""File → what renders it from the content of certificate.json."""

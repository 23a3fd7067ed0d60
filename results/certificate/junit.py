"""junit.xml of a certificate: a test for each promise of each stage, for each time and rate, and for each doubt.

A promise or a time that makes it a regression is a failure, a doubt is an error. What is not applicable is skipped, and
so is what failed but was not lost by the upgrade. The XML is canonical (C14N 2.0) and has nothing but the content of
the certificate, so the same certificate gives the same bytes.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from checkers.claims import Verdict
from results.stages import TITLES

_ILLEGAL: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow."""


@dataclass(frozen=True, slots=True)
class Test:
    """One test.

    kind  `failure`, `error`, `skipped`, `known` (it failed, but not by the upgrade), or empty if it passed.
    text  the reason.
    """

    __test__ = False  # pytest looks for classes of this name

    group: str
    name: str
    kind: str = ""
    text: str = ""


def render(stored: Mapping[str, Any]) -> bytes:
    """The file. stored: the content of certificate.json."""
    tests = list(cases(stored))
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


def _element(test: Test) -> str:
    return "skipped" if test.kind == "known" else test.kind


def cases(stored: Mapping[str, Any]) -> Iterator[Test]:
    """All tests of a certificate."""
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
                yield Test(group, name, "failure", why)
            elif stage in row["stages"]:
                seen = row["stages"][stage]
                known = ("known", f"{seen['word']}: {seen['because']}") if Verdict(seen["word"]).fails else ()
                yield Test(group, name, *known)
            elif stage in row["absent"]:
                yield Test(group, name, "skipped", row["absent"][stage])
    for row in stored["speeds"]:
        name = f"{row['measure']} of {row['lock'] or 'all locks'}"
        if row["word"] == "worse":
            yield Test(row["backend"], name, "failure", f"{row['ratio']:.2f} times what it was")
        elif row["word"] == "unsure":
            yield Test(row["backend"], name, "skipped", f"{row['ratio']:.2f} times what it was, and not certainly so")
        elif row["word"] == "too few":
            yield Test(row["backend"], name, "skipped", "too few trials to tell")
        else:
            yield Test(row["backend"], name)
    for number, doubt in enumerate(stored["doubts"], 1):
        yield Test("certificate", f"doubt {number}", "error", doubt)


def _legal(text: str) -> str:
    return _ILLEGAL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)

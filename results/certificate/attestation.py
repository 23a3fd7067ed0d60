"""attestation.json: the certificate as an in-toto test-result statement, to be signed and kept with the images.

Statement https://in-toto.io/Statement/v1, predicate https://in-toto.io/attestation/test-result/v0.1. The subjects are
the images of both versions, by the ids that the engine gives them; what was configured are the fault plans, and the
certificate says all the rest. It is not signed: whoever vouches for it wraps it in an envelope of theirs.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from results.certificate import junit, serialize
from results.certificate.certify import Verdict
from results.storage import files

STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://in-toto.io/attestation/test-result/v0.1"

_RESULTS: Final = {
    Verdict.NO_REGRESSION: "PASSED",
    Verdict.INCONCLUSIVE: "WARNED",
    Verdict.REGRESSION: "FAILED",
}
_SHA256: Final = re.compile(r"sha256:([0-9a-f]{64})")


def render(told: Mapping[str, Any]) -> bytes:
    """told: what certificate.json says. Canonical, like that file."""
    return serialize.canonical(statement(told))


def statement(told: Mapping[str, Any]) -> dict[str, Any]:
    """The statement. Where no image was known (a cluster that is not ours) the certificate itself is its subject."""
    sha256 = hashlib.sha256(serialize.canonical(told)).hexdigest()
    certificate = {"name": files.CERTIFICATE, "digest": {"sha256": sha256}}
    plans = [
        {"name": name, "digest": {"sha256": digest}}
        for name, digest in sorted(told["evidence"].items())
        if name.endswith("/plan.json")
    ]
    tests = [(f"{one.group}: {one.name}", one.kind) for one in junit.cases(told)]
    return {
        "_type": STATEMENT,
        "subject": _subjects(told["conditions"]["images"]) or [certificate],
        "predicateType": PREDICATE,
        "predicate": {
            "result": _RESULTS[Verdict(told["verdict"])],
            "configuration": [certificate, *plans],
            "passedTests": [name for name, kind in tests if not kind],
            "warnedTests": [name for name, kind in tests if kind in ("error", "known")],
            "failedTests": [name for name, kind in tests if kind == "failure"],
        },
    }


def _subjects(images: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "name": image["image"],
            "digest": {"sha256": found[1]},
            "annotations": {name: image[name] for name in ("backend", "stage", "version")},
        }
        for image in images
        if (found := _SHA256.fullmatch(image["digest"]))
    ]

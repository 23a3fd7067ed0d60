"""attestation.json: the certificate as an in-toto test-result statement, to be signed and kept with the images.

Statement https://in-toto.io/Statement/v1, predicate https://in-toto.io/attestation/test-result/v0.1. The subjects are
the images of both versions, by the ids of the engine. The configuration is the fault plans and the certificate, which
has all the rest. The statement is not signed: who vouches for it wraps it in an envelope.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from results.certificate import junit, serialize
from results.certificate.certify import Decision
from results.storage import files

STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://in-toto.io/attestation/test-result/v0.1"

_RESULTS: Final = {
    Decision.NO_REGRESSION: "PASSED",
    Decision.INCONCLUSIVE: "WARNED",
    Decision.REGRESSION: "FAILED",
}
_SHA256: Final = re.compile(r"sha256:([0-9a-f]{64})")


def render(certificate: Mapping[str, Any]) -> bytes:
    """The file, canonical like certificate.json. certificate: the content of certificate.json."""
    return serialize.canonical(statement(certificate))


def statement(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The statement. If no image is known (a cluster that is not ours) the certificate is its subject."""
    sha256 = hashlib.sha256(serialize.canonical(stored)).hexdigest()
    certificate = {"name": files.CERTIFICATE, "digest": {"sha256": sha256}}
    plans = [
        {"name": name, "digest": {"sha256": digest}}
        for name, digest in sorted(stored["evidence"].items())
        if name.endswith("/plan.json")
    ]
    tests = [(f"{test.group}: {test.name}", test.kind) for test in junit.cases(stored)]
    return {
        "_type": STATEMENT,
        "subject": _subjects(stored["conditions"]["images"]) or [certificate],
        "predicateType": PREDICATE,
        "predicate": {
            "result": _RESULTS[Decision(stored["verdict"])],
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
            "digest": {"sha256": digest[1]},
            "annotations": {name: image[name] for name in ("backend", "stage", "version")},
        }
        for image in images
        if (digest := _SHA256.fullmatch(image["digest"]))
    ]

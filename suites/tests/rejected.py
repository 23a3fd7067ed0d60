"""What the verifier of proofs, which has no bug, has against what models with a bug say of a history."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final
from unittest import mock

from checkers.history.history import History
from checkers.models import all_models
from checkers.models.all_models import MODELS
from checkers.models.model import Settings
from checkers.proofs.verify_proof import verify_invalid, verify_valid
from suites.mutants.altered import AlteredModules

OF_LEASES: Final = ("lease", "fencing-tokens", "fenced-store")
OF_OTHERS: Final = ("mutex", "rwlock", "semaphore", "reentrant-mutex", "fencing-tokens", "fenced-store")
SECONDS: Final = 10.0
WAYS: Final = ((True, SECONDS), (False, SECONDS), (False, 0.0))
"""Whether a model's engine is asked, and for how many seconds: a search that has no time must not pretend to know."""


def rejected(history: History, modules: AlteredModules, correct: AlteredModules) -> Iterator[str]:
    """What is not rejected of the correct ones as well. modules, correct: whose models are asked."""
    for model in OF_OTHERS if history.facts.lease == "none" else OF_LEASES:
        for engine, seconds in WAYS if MODELS[model].certify is None else WAYS[:1]:
            wrong = _wrong(history, modules, model, seconds, engine=engine)
            if wrong and not _wrong(history, correct, model, seconds, engine=engine):
                yield f"{model}: {wrong}"


def _wrong(history: History, modules: AlteredModules, model: str, seconds: float, *, engine: bool) -> str | None:
    statement = MODELS[model] if engine else replace(MODELS[model], engine=None)
    settings = Settings(permits=history.facts.permits)
    with mock.patch.object(all_models, "import_module", modules.module):  # models name their engines by their modules
        try:
            theirs = modules.module("checkers.models.model").Settings(permits=settings.permits)
            answer = modules.module("checkers.linearizability").decide(history, statement, theirs, seconds)
            proof = answer.order().tolist() if answer.valid else answer.rows
        except modules.module("checkers.models.user_model").ModelError:
            return None
        except Exception as error:  # noqa: BLE001 - however it ends, it is told
            return repr(error)
    if answer.valid is None:
        return str(answer.reason) if seconds else None
    return (verify_valid if answer.valid else verify_invalid)(history, MODELS[model], settings, proof)

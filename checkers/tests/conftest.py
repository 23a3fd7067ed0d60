"""Limits on the time of a check are for people who wait. In tests, no answer depends on the speed of the machine."""

from functools import partial

import pytest

from checkers import linearizability
from checkers.engines import leases
from checkers.engines.search import search
from checkers.proofs import witness
from checkers.properties import fenced_store

HOUR = 3600.0  # seconds


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fenced_store, "search", partial(search, seconds=HOUR))
    monkeypatch.setattr(leases, "MINIMIZING", HOUR)
    monkeypatch.setattr(leases, "SECONDS", HOUR)
    monkeypatch.setattr(linearizability, "SHRINKING", HOUR)
    monkeypatch.setattr(witness, "_SECONDS", HOUR)

"""Tests on real servers."""

import pytest

from infra import commands
from infra.faults import link_proof
from infra.faults.servers import clocks, disks, failover, strikes
from infra.tests.environments import (
    COMES_WITHIN,
    environment,
    pytest_collection_finish,
    pytest_itemcollected,
    pytest_sessionfinish,
    target,
)

__all__ = ["environment", "pytest_collection_finish", "pytest_itemcollected", "pytest_sessionfinish", "target"]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the proof of a fault, or of its heal, wait longer: a server may stand still for seconds on a busy machine."""
    for module in (link_proof, clocks, disks, failover, strikes):
        monkeypatch.setattr(module, "PROVEN_WITHIN", COMES_WITHIN)
    monkeypatch.setattr(commands, "CLEAN_WITHIN", COMES_WITHIN)

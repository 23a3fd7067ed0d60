"""Tests on real servers."""

from infra.tests.environments import (
    environment,
    pytest_collection_finish,
    pytest_itemcollected,
    pytest_sessionfinish,
    target,
)

__all__ = ["environment", "pytest_collection_finish", "pytest_itemcollected", "pytest_sessionfinish", "target"]

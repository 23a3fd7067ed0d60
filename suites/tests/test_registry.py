"""The registry of locks: bad names get an answer that helps."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from checkers.claims import Claim, Hazard
from checkers.mechanisms import MECHANISMS
from suites import registry
from suites.lock import LockClient
from suites.registry import LOCKS, UnknownLock, lock

MINIMAL = """
class Mine:
    backend = "redis"
    def open(*_): ...
    def acquire(*_): ...
    def renew(*_): ...
    def release(*_): ...
    def close(*_): ...
class NoBackend(Mine):
    backend = None
class Half:
    backend = "redis"
    def open(*_): ...
VALUE = 1
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mylocks.py"
    path.write_text(MINIMAL)
    return path


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    assert all("suites.locks" in spelling for spelling in LOCKS.values())
    assert not any(hasattr(registry, name) for name in ("redis", "kazoo", "etcd3"))


@pytest.mark.parametrize("name", LOCKS)
def test_every_lock_declares_what_is_asked_of_it(name: str) -> None:
    cls = lock(name)
    assert cls.name == name
    assert cls.backend in ("redis", "zookeeper", "etcd", "postgres")
    assert cls.lease in ("grant", "touch", "session", "quorum", "none")
    assert 0 < cls.min_ttl <= 2
    assert 0 <= cls.drift < 0.1
    assert cls.grain < cls.min_ttl / 2
    assert cls.bounds.get("recovery", cls.min_ttl + 1) > cls.min_ttl, "a ghost lock may last a TTL"
    assert {type(promise) for promise in (*cls.claims, *cls.hazards)} <= {Claim, Hazard}
    assert {hazard.mechanism for hazard in cls.hazards} <= set(MECHANISMS)
    token_claims = {claim.property for claim in cls.claims} & {"token-order", "fenced-store"}
    assert bool(token_claims) == cls.tokens


@pytest.mark.parametrize("name", ["nope", "", "redis:", ":Mine"])
def test_an_unknown_name_lists_what_exists(name: str) -> None:
    with pytest.raises(UnknownLock) as caught:
        lock(name)
    assert all(known in str(caught.value) for known in LOCKS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("no.such.module:Mine", "no module no"),
        ("suites.nothing:Mine", "no module suites.nothing"),
        ("suites.lock:Missing", "suites.lock has no class Missing"),
        ("/no/such/file.py:Mine", "no file /no/such/file.py"),
    ],
)
def test_a_spelling_that_leads_nowhere_says_where_it_ends(name: str, text: str) -> None:
    with pytest.raises(UnknownLock, match=text):
        lock(name)


def test_a_file_is_a_module_and_its_silence_is_filled_in(file: Path) -> None:
    cls: type[LockClient] = lock(f"{file}:Mine")
    assert (cls.name, cls.backend, cls.claims, cls.tokens) == ("Mine", "redis", (), False)
    assert lock(f"{file}:Mine").__mro__[1] is cls.__mro__[1]


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        ("VALUE", "no class VALUE"),
        ("Half", "no acquire, renew, release, close"),
        ("NoBackend", "does not say which backend"),
    ],
)
def test_a_class_that_is_no_lock_is_told_what_it_lacks(file: Path, attribute: str, text: str) -> None:
    with pytest.raises(UnknownLock, match=text):
        lock(f"{file}:{attribute}")


def test_an_error_inside_the_module_is_not_hidden(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import fencepost_is_not_there\n")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="fencepost_is_not_there"):
            lock(f"{broken}:Mine")
    assert not any(getattr(module, "__file__", None) == str(broken) for module in list(sys.modules.values()))

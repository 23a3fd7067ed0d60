"""The registry of locks: bad names get an answer that helps."""

import subprocess
import sys
from pathlib import Path

import pytest

from checkers.claims import Claim, Hazard
from checkers.judging.excuses_by_fault import MECHANISMS
from infra.backends import BACKENDS
from infra.faults.plan import compile_plan
from suites.lanes.validate_declarations import lock
from suites.lock import LockClient
from suites.locks import registry
from suites.locks.registry import LOCKS, UnknownLock
from suites.tests.selections import LOCK
from suites.worker.pool import ROOT

MINIMAL = f"""
{LOCK}
class NoBackend(Mine):
    backend = None
class Half:
    backend = "redis"
    def open(*_): ...
class Wrong(Mine):
    min_ttl = -1.0
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


@pytest.mark.parametrize("name", ["nope", "", "xyz:", ":Mine"])
def test_an_unknown_name_lists_what_exists(name: str) -> None:
    with pytest.raises(UnknownLock) as caught:
        lock(name)
    assert all(known in str(caught.value) for known in LOCKS)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no.such.module:Mine", "no module no"),
        ("suites.nothing:Mine", "no module suites.nothing"),
        ("suites.lock:Missing", "suites.lock has no class Missing"),
        ("/no/such/file.py:Mine", "no file /no/such/file.py"),
        ("reddis", "no lock 'reddis', and no module:Class or file.py:Class; did you mean redis "),
        ("{file}:VALUE", "no class VALUE"),
        ("{file}:Half", "no acquire, renew, release, close"),
        ("{file}:NoBackend", "does not say which backend"),
        ("{file}", r"does not say which class.* locks in it: {file}:Mine, {file}:NoBackend, {file}:Wrong$"),
        ("{file}:Mien", r"has no class Mien.* locks in it: {file}:Mine, {file}:NoBackend, {file}:Wrong$"),
        ("{file}:Wrong", r"^{file}:Wrong: min_ttl = -1.0; "),
    ],
)
def test_what_is_no_lock_says_what_it_lacks_or_what_there_is(file: Path, name: str, says: str) -> None:
    with pytest.raises(UnknownLock, match=says.replace("{file}", str(file))):
        lock(name.replace("{file}", str(file)))


def test_a_file_is_a_module_and_its_silence_is_filled_in(file: Path) -> None:
    cls: type[LockClient] = lock(f"{file}:Mine")
    assert (cls.name, cls.backend, cls.claims, cls.tokens) == ("Mine", "redis", (), False)
    assert lock(f"{file}:Mine").__mro__[1] is cls.__mro__[1]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import json\nimport fencepost_is_not_there\n", "broken.py:2 imports fencepost_is_not_there, which is not"),
        ("x = 1\ndef (\n", "broken.py:2: invalid syntax: def ("),
        ("def f():\n    return nope\nf()\n", "broken.py:2: NameError: name 'nope' is not defined"),
        ("raise SystemExit(3)\n", "broken.py:1: SystemExit: 3"),
    ],
)
def test_an_error_inside_the_module_is_told_by_its_line(tmp_path: Path, text: str, told: str) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(text)
    for _ in range(2):
        with pytest.raises(UnknownLock) as caught:
            lock(f"{broken}:Mine")
        assert f"cannot be loaded: {broken.parent}/{told}" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert not any(getattr(module, "__file__", None) == str(broken) for module in list(sys.modules.values()))


def test_a_module_that_imports_what_is_missing_is_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fencepost_needy.py").write_text("\nimport fencepost_is_not_there\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UnknownLock, match=r"fencepost_needy\.py:2 imports fencepost_is_not_there"):
        lock("fencepost_needy:Mine")


def test_a_file_without_a_lock_says_what_its_classes_lack(tmp_path: Path) -> None:
    (path := tmp_path / "half.py").write_text("class Other: ...\nclass Half:\n    def open(*_): ...\n")
    with pytest.raises(UnknownLock, match=r"five verbs.*; Half has no acquire, renew, release, close$"):
        lock(str(path))


def test_the_fork_server_stays_light(file: Path) -> None:
    """It loads what the harness has judged, and forks: it needs no checkers."""
    command = [sys.executable, "-X", "importtime", "-m", "suites.worker.forkserver", f"{file}:Mine"]
    done = subprocess.run(command, cwd=ROOT, input="", capture_output=True, text=True, check=True, timeout=60)
    assert "suites.locks.registry" in done.stderr
    assert not any(heavy in done.stderr for heavy in ("suites.lanes.validate_declarations", "checkers.check"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_paused_server_is_silent_for_longer_than_a_call_may_take(backend: str) -> None:
    locks = [lock for lock in map(registry.load, LOCKS) if lock.backend == backend]
    bounds = [lock.bounds["fail-fast"] for lock in locks if "fail-fast" in lock.bounds]
    assert BACKENDS[backend].call == min(bounds)
    paused = {compile_plan(["pause-server"], seed, backend, ttl=0.5).steps[0].for_ for seed in range(30)}
    assert min(paused) > min(bounds)

"""The locks that need no server, by hand; the others are tried by the suite itself, which must find what is wrong."""

import os
import time
from pathlib import Path

import pytest

from checkers.row_format import Reason
from suites.locks.antipatterns import lockfile
from suites.locks.antipatterns.lockfile import LockFile
from suites.locks.without.no_lock import NoLock
from suites.tests.bench import granted, refusal


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lockfile, "FOLDER", tmp_path / "locks")
    return tmp_path / "locks"


class TestLockFile:
    def test_one_at_a_time(self, folder: Path) -> None:
        one, other = LockFile.open((), 0.6), LockFile.open((), 0.6)
        grant = granted(one.acquire("a/b", 1.0))
        assert len(list(folder.iterdir())) == 1
        assert refusal(lambda: other.acquire("a/b", 0)) is Reason.HELD
        assert other.acquire("a/b", 0.05) is None
        assert other.acquire("c", 0) is not None
        one.release(grant)
        assert other.acquire("a/b", 0) is not None

    def test_what_is_gone_cannot_be_released(self, folder: Path) -> None:
        lock = LockFile.open((), 0.6)
        grant = granted(lock.acquire("a", 0))
        next(folder.iterdir()).unlink()
        assert refusal(lambda: lock.release(grant)) is Reason.NOT_OWNER

    def test_only_what_was_left_behind_long_ago_is_cleared_away(self, folder: Path) -> None:
        lock = LockFile.open((), 0.6)
        assert lock.acquire("fresh", 0) is not None
        assert lock.acquire("stale", 0) is not None
        (stale,) = (file for file in folder.iterdir() if file.name == lockfile._file("stale").name)
        long_ago = time.time() - lockfile.FORGOTTEN - 1
        os.utime(stale, (long_ago, long_ago))
        LockFile.open((), 0.6)
        assert [file.name for file in folder.iterdir()] == [lockfile._file("fresh").name]


def test_without_a_lock_everybody_is_let_in() -> None:
    one, other = NoLock.open((), 0.6), NoLock.open((), 0.6)
    assert len({granted(client.acquire("a", 0)).owner for client in (one, other)}) == 2

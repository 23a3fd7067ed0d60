"""The locks that need no server, by hand; the others are tried by the suite itself, which must find what is wrong."""

import os
import time
from pathlib import Path

import pytest

from checkers.wire import Reason
from suites.lock import Refused
from suites.locks.antipatterns import lockfile
from suites.locks.antipatterns.lockfile import LockFile
from suites.locks.without.no_lock import NoLock


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lockfile, "FOLDER", tmp_path / "locks")
    return tmp_path / "locks"


class TestLockFile:
    def test_one_at_a_time(self, folder: Path) -> None:
        one, other = LockFile.open((), 0.6), LockFile.open((), 0.6)
        grant = one.acquire("a/b", 1.0)
        assert grant is not None
        assert len(list(folder.iterdir())) == 1
        with pytest.raises(Refused) as refusal:
            other.acquire("a/b", 0)
        assert refusal.value.reason is Reason.HELD
        assert other.acquire("a/b", 0.05) is None
        assert other.acquire("c", 0) is not None
        one.release(grant)
        assert other.acquire("a/b", 0) is not None

    def test_what_is_gone_cannot_be_released(self, folder: Path) -> None:
        lock = LockFile.open((), 0.6)
        grant = lock.acquire("a", 0)
        assert grant is not None
        next(folder.iterdir()).unlink()
        with pytest.raises(Refused) as refusal:
            lock.release(grant)
        assert refusal.value.reason is Reason.NOT_OWNER

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
    grants = [client.acquire("a", 0) for client in (one, other)]
    assert None not in grants
    assert len({grant.owner for grant in grants if grant is not None}) == 2

"""The sentinel notes what the machine did not run, until the last that is recorded, and moves the wall clock."""

import shutil
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import pytest

from checkers.row_format import F, Outcome
from suites.tests.bench import MS, SOON, Bench, Fake, FakeSession, await_
from suites.worker import lease_renewal, wall_clock
from suites.worker.lease_renewal import RunDelays


class TestTheSentinel:
    def test_it_notes_who_waited_long_for_a_cpu(self, bench: Bench[Fake], monkeypatch: pytest.MonkeyPatch) -> None:
        waits = [int(60e9)]  # for far longer than it takes until it looks
        monkeypatch.setattr(RunDelays, "longest", lambda _: waits.pop() if waits else 0)
        await_(lambda: any(row["ret"] - row["inv"] >= 60e9 for row in bench.rows(F.STALL)))

    def test_it_notes_a_stall_that_lasts_until_the_worker_ends(self, bench: Bench[Fake]) -> None:
        changed = bench.renewal._changed
        stalled, wait = threading.Event(), changed.wait

        def late(pause: float | None = None) -> bool:
            came = wait(pause)
            stalled.set()
            bench.renewal._closing.wait(SOON)
            time.sleep(0.5)
            return came

        with patch.object(changed, "wait", late):
            assert stalled.wait(SOON)
            before = len(bench.rows(F.STALL))
            bench.renewal.close()
        assert len(bench.rows(F.STALL)) > before

    def test_it_does_not_wait_for_a_client_that_hangs(self, in_session: Bench[FakeSession]) -> None:
        hangs = threading.Event()
        in_session.client.answer = lambda: hangs.wait(SOON)
        in_session.await_rows(F.KEEP_ALIVE, 1)
        with patch.object(lease_renewal, "_LAST_ANSWER", 0.01):
            in_session.renewal.close()
        assert in_session.rows(F.KEEP_ALIVE)["outcome"].tolist() == [Outcome.PENDING]
        assert not in_session.renewal._sentinel.is_alive()
        hangs.set()

    @pytest.mark.parametrize(("waited", "noted"), [(1_200 * MS, True), (400 * MS, False)])
    def test_it_notes_who_waited_long_for_a_cpu_just_before_the_end(
        self, bench: Bench[Fake], monkeypatch: pytest.MonkeyPatch, waited: int, noted: bool
    ) -> None:
        """What was just looked after cannot have waited for so long since then, but its wait has ended since then."""
        monkeypatch.setattr(lease_renewal, "_STALLED", SOON)  # nothing else is noted
        before = len(bench.rows(F.STALL))
        monkeypatch.setattr(RunDelays, "longest", lambda _: waited if bench.renewal._closing.is_set() else 0)
        bench.renewal.close()
        stalls = bench.rows(F.STALL)[before:]
        assert [row["ret"] - row["inv"] >= waited for row in stalls[-1:]] == [True] * noted

    def test_the_wall_clock_follows_the_control_page(self, bench: Bench[Fake]) -> None:
        real = time.time()
        for by in (-9000, 36000):
            wall_clock.move(bench.page, int(by * 1e9))
            await_(lambda: wall_clock.follows(bench.page))
            assert time.time() - real == pytest.approx(by, abs=SOON)
            assert datetime.now(UTC).timestamp() - real == pytest.approx(by, abs=SOON)
        wall_clock.move(bench.page, 0)
        await_(lambda: wall_clock.follows(bench.page))
        assert time.time() - real == pytest.approx(0, abs=SOON)


def test_how_long_threads_waited_is_told_since_the_last_look(tmp_path: Path) -> None:
    def told(**waited: int) -> None:
        for thread in tmp_path.iterdir():
            shutil.rmtree(thread)
        for thread_, ns in waited.items():
            (tmp_path / thread_).mkdir()
            (tmp_path / thread_ / "schedstat").write_text(f"17 {ns} 3\n")

    told(main=900, watch=50)
    (tmp_path / "ended").mkdir()
    delays = RunDelays(tmp_path)
    told(main=900, watch=80, new=20)
    assert delays.longest() == 30
    told(main=950)
    assert delays.longest() == 50
    assert delays.longest() == 0
    assert RunDelays(tmp_path / "no such system").longest() == 0

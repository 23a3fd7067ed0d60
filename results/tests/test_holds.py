"""Holds: where they begin, where they end, and when their leases may."""

from checkers.history import from_rows
from checkers.wire import F
from results.report.holds import holds
from results.tests import samples
from results.tests.samples import MS, START


def test_holds_end_where_they_end() -> None:
    history = samples.stale_write()
    found = holds(history)
    tokens = history.columns["token"][found.acquire].tolist()
    assert tokens == [39, 40, 41, 42, 43, 44]
    frozen = tokens.index(41)
    assert (found.begin[frozen], found.end[frozen]) == (START + 300 * MS, START + 1950 * MS)
    # The renewal at 620 ms counts from its invocation; a second of a server whose clock is 1 % fast, less its grain.
    assert found.lease[frozen] == START + 620 * MS + int(1000 * MS / 1.01) - MS
    assert not found.open.any()


def test_a_hold_without_release_is_open_and_lasts_until_its_last_operation() -> None:
    held = {"owner": 5, "token": 1}
    history = from_rows(
        samples.facts(lease="none"),
        samples.rows_of(
            [
                samples.row(F.ACQUIRE, 10, 20, 0, sent=10, **held),
                samples.row(F.WRITE, 50, 55, 0, value=1, **held),
                samples.row(F.ACQUIRE, 100, 110, 1, sent=101, owner=6, token=2),
                samples.row(F.LOST, 120, 120, 1, owner=6, token=2),
            ]
        ),
    )
    found = holds(history)
    assert found.open.tolist() == [True, False]
    assert ((found.end - START) / MS).tolist() == [55, 120]
    assert found.lease.tolist() == [0, 0]

"""All measures at once: each answers on any history, and can be written down; and what reached the store too late."""

import json
from dataclasses import asdict
from random import Random

import pytest

from checkers.history.history import History
from checkers.measures.all_measures import MEASURES, measures
from checkers.measures.stale import dirty_value, lost_update, needless_rejection, stale_write, unfenced_stale_write
from checkers.row_format import F, Reason
from checkers.tests import generate
from checkers.tests.build import FAIL, INFO, Book
from checkers.tests.compare import known


def answered(history: History) -> None:
    """Every measure answers, with numbers of its unit and rows of the history, or says why it cannot."""
    found = measures(history)
    assert len({measure.name for measure in found}) == len(found) == len(MEASURES)
    for measure in found:
        assert measure.values or measure.unexercised
        assert all(rows and all(0 <= row < len(history) for row in rows) for rows in measure.rows)
        assert len({(value.name, value.of) for value in measure.values}) == len(measure.values)
        for value in measure.values:
            assert value.number is None or type(value.number) is (float if value.unit == "ratio" else int)


# A bit of everything.
FULL = Book().acquire(1, 2, 1, token=1).renew(3, 4, 1).write(5, 6, 1, 1, token=1).release(7, 8, 1)
FULL.acquire(4, 9, 2, token=2).read(10, 11, 2, 1, token=2).write(12, 0, 2, 2, INFO, token=2).release(13, 0, 2, INFO)
FULL.acquire(14, 0, 0, process=3, outcome=INFO).add(F.TRY_ACQUIRE, 15, 16, FAIL, process=1, reason=Reason.HELD)
FULL.write(17, 18, 1, 3, FAIL, token=1).acquire(19, 30, 5, process=1, token=4).lost(40, 5, process=1)
FULL.fault("pause-server", 3, 16)


@pytest.mark.parametrize("trial", ["t", ""])
def test_every_measure_answers(trial: str) -> None:
    history = FULL.then(trial=trial, store="fence-writes").history()
    answered(history)
    assert all(len(measure.definition) > 40 for measure in measures(history))


def test_it_can_be_written_down() -> None:
    found = measures(FULL.history())
    text = json.dumps([asdict(measure) for measure in found], allow_nan=False)
    first = json.loads(text)[0]
    assert first["name"] == "definite-overlap"
    assert first["values"][0] == {"name": "pairs", "number": 0, "unit": "count", "of": ""}


@pytest.mark.parametrize("trial", ["t", ""])
def test_nothing_is_measured_of_nothing(trial: str) -> None:
    empty = Book(trial=trial).history()
    assert all(measure.unexercised for measure in measures(empty))
    unknown = Book(trial=trial).acquire(1, 0, 0 if trial else 1, outcome=INFO).history()
    assert all(measure.unexercised for measure in measures(unknown))


def test_any_history_has_an_answer() -> None:
    """Random leases, recorded and from elsewhere."""
    rng = Random(3)
    for _ in range(150):
        kind = rng.choice(("grant", "touch", "session", "quorum", "none"))
        leases = generate.leases(rng, "grant" if kind in ("none", "quorum") else kind)
        book = generate.lease_book(leases, kind, rng)
        answered(book.history())
        book.facts = Book(trial="", keys=("a",), ttl=0).facts
        answered(book.history())


def fenced(mode: str = "fence-writes") -> Book:
    """Token 2 is accepted at [3, 4]."""
    return Book(store=mode, keys=("a",)).write(3, 4, 2, 20, token=2)


def refused(mode: str) -> Book:
    return fenced(mode).write(5, 6, 2, 21, FAIL, token=2)


# Owner 1 holds from 2 on, owner 2, who certainly came later, from 12 on.
UNFENCED = Book(store="unfenced", keys=("a",), ttl=5).acquire(1, 2, 1).acquire(10, 12, 2)
# Sent at 8, answered at 20.
LATE = UNFENCED.then().write(3, 4, 1, 5).write(8, 20, 1, 7)
STALE = fenced().write(5, 6, 1, 10, token=1).write(7, 8, 1, 11, FAIL, token=1).read(9, 10, 1, 20, token=1)
READ = fenced("fence-reads-and-writes").read(9, 10, 1, 20, token=1)
NO_TOKENS = {"unexercised": "the store looks at no tokens"}
APART = Book(store="fence-writes").write(3, 4, 2, 20, token=2).write(5, 6, 1, 10, token=1, key=1)
# Refused at [1, 2], before anything larger was sent; and at [5, 6], after.
NEEDLESS = fenced().write(1, 2, 1, 10, FAIL, token=1).write(5, 6, 1, 11, FAIL, token=1)
REASON = Book(store="fence-writes", keys=("a",)).write(1, 0, 2, 20, INFO, token=2).write(5, 6, 1, 10, FAIL, token=1)
OVERWRITTEN = Book(workload="set", keys=("a",)).write(1, 2, 1, 10).write(3, 4, 2, 20).final(9, 10, 20, 1)
# The unknown write of 6 may have happened; 99 is nobody's.
DIRTY = Book(keys=("a",)).write(1, 2, 1, 5, FAIL).read(3, 4, 2, 5).write(5, 6, 1, 6, FAIL).write(7, 0, 1, 6, INFO)
DIRTY.read(8, 9, 2, 6).read(10, 11, 2, 99).write(12, 13, 1, 8, FAIL, reason=Reason.UNAVAILABLE)
SENT = UNFENCED.then().write(13, 14, 1, 7)
LANDED = LATE.then().read(13, 14, 2, 5)  # what was there before
NONE_LATE = {"accepted": 0, "unexercised": "nobody sent anything under a token that a larger one had overtaken"}
NONE_NEAR = {"unexercised": "no write came near the moment at which another was given the lock"}
ALERT, LATE_ALERT = {"alert": "a stale access was accepted"}, {"alert": "a stale write was accepted"}

test_stale_write = known(
    stale_write,
    ("stale", STALE, {"accepted": 1, "refused": 1, "rows": ((0, 1),), **ALERT}),
    ("reads count where they carry tokens", READ, {"accepted": 1}),
    ("a write at the same time is not stale", fenced().write(4, 6, 1, 10, token=1), NONE_LATE),
    ("keys are apart", APART, {"accepted": 0}),
    ("a store without tokens", Book().write(1, 2, 1, 1), NO_TOKENS),
)

test_needless_rejection = known(
    needless_rejection,
    ("a store without tokens refuses", Book().write(1, 2, 1, 1), NO_TOKENS),
    ("needless", NEEDLESS, {"needless": 1, "refused": 2, "rows": ((0,),)}),
    ("no refusal", fenced(), {"unexercised": "nothing was refused"}),
    ("an unknown write may be why", REASON, {"needless": 0}),
    ("the same token", refused("fence-writes"), {"needless": 1}),
    ("the same token in a strict store", refused("fence-writes-strict"), {"needless": 0}),
)

test_unfenced_stale_write = known(
    unfenced_stale_write,
    ("sent late", SENT, {"sent_late": 1, "landed_late": 0, "in_flight": 0}),
    ("the one sent late", SENT, {"rows": ((1, 2),), **LATE_ALERT}),
    ("in flight", LATE, {"in_flight": 1}),
    ("landed late", LANDED, {"sent_late": 0, "landed_late": 1, "in_flight": 0}),
    ("the one that landed late", LANDED, {"rows": ((3, 4, 2),)}),
    ("a read sent before proves nothing", LATE.then().read(11, 14, 2, 5), {"landed_late": 0}),
    ("the initial value is older than all", UNFENCED.then().write(8, 20, 1, 7).read(13, 14, 2, -1), {"landed_late": 1}),
    ("not read", UNFENCED.then().write(13, 0, 1, 7, INFO), {"sent_late": 0}),
    ("read", UNFENCED.then().write(13, 0, 1, 7, INFO).read(30, 31, 2, 7), {"sent_late": 1}),
    ("no write near the hand-over", UNFENCED.then().write(3, 4, 1, 7), NONE_NEAR),
    ("a fence", fenced(), {"unexercised": "the store is no store without a fence"}),
)

test_lost_update = known(
    lost_update,
    ("lost", OVERWRITTEN, {"lost": 1, "acknowledged": 2, "rows": ((0,),)}),
    ("no list", Book(), {"unexercised": "nobody keeps a list of updates"}),
)

test_dirty_value = known(
    dirty_value,
    ("dirty", DIRTY, {"reads": 1, "failed_writes": 3, "rows": ((0, 1),)}),
    ("no read", Book().write(1, 2, 1, 5, FAIL), {"unexercised": "nothing was read"}),
    ("no failed write", Book().read(1, 2, 1, 5), {"unexercised": "no write was refused or failed"}),
)

"""Measures of accesses that reach the store too late and of two holders at once; and all measures on any history."""

import json
from dataclasses import asdict
from random import Random
from typing import Any

import pytest

from checkers.history.history import History
from checkers.measures import holders
from checkers.measures.all_measures import MEASURES, measures
from checkers.measures.measured_history import MeasuredHistory
from checkers.measures.stale import dirty_value, lost_update, needless_rejection, stale_write, unfenced_stale_write
from checkers.measures.unanswered_grants import phantom_success, token_gap
from checkers.models.model import Settings
from checkers.row_format import SHARED, F, Reason
from checkers.tests import generate
from checkers.tests.build import FAIL, INFO, Book, known, measured


def answered(history: History) -> None:
    """Asserts that every measure answers with numbers of its unit and rows of the history, or says why it cannot."""
    found = measures(history)
    assert len({measure.name for measure in found}) == len(found) == len(MEASURES)
    for measure in found:
        assert measure.values or measure.unexercised
        assert all(rows and all(0 <= row < len(history) for row in rows) for rows in measure.rows)
        assert len({(value.name, value.of) for value in measure.values}) == len(measure.values)
        for value in measure.values:
            assert value.number is None or type(value.number) is (float if value.unit == "ratio" else int)


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


def test_measures_can_be_written_as_json() -> None:
    first = json.loads(json.dumps([asdict(measure) for measure in measures(FULL.history())], allow_nan=False))[0]
    assert first["name"] == "definite-overlap"
    assert first["values"][0] == {"name": "pairs", "number": 0, "unit": "count", "of": ""}


@pytest.mark.parametrize("trial", ["t", ""])
def test_no_measure_is_exercised_without_a_grant(trial: str) -> None:
    assert all(measure.unexercised for measure in measures(Book(trial=trial).history()))
    unknown = Book(trial=trial).acquire(1, 0, 0 if trial else 1, outcome=INFO).history()
    assert all(measure.unexercised for measure in measures(unknown))


def test_any_history_has_an_answer() -> None:
    rng = Random(3)
    for _ in range(150):
        kind = rng.choice(("grant", "touch", "session", "quorum", "none"))
        book = generate.lease_book(generate.leases(rng, "grant" if kind in ("none", "quorum") else kind), kind, rng)
        answered(book.history())
        book.facts = Book(trial="", keys=("a",), ttl=0).facts
        answered(book.history())


def fenced(mode: str = "fence-writes") -> Book:
    """A write with token 2 is accepted in [3, 4]."""
    return Book(store=mode, keys=("a",)).write(3, 4, 2, 20, token=2)


# Owner 1 holds from 2 on. Owner 2, which certainly came later, holds from 12 on.
UNFENCED = Book(store="unfenced", keys=("a",), ttl=5).acquire(1, 2, 1).acquire(10, 12, 2)
LATE = UNFENCED.then().write(3, 4, 1, 5).write(8, 20, 1, 7)
STALE = fenced().write(5, 6, 1, 10, token=1).write(7, 8, 1, 11, FAIL, token=1).read(9, 10, 1, 20, token=1)
READ = fenced("fence-reads-and-writes").read(9, 10, 1, 20, token=1)
SAME_TOKEN = fenced().write(5, 6, 2, 21, FAIL, token=2)
NO_TOKENS = {"unexercised": "the store looks at no tokens"}
APART = Book(store="fence-writes").write(3, 4, 2, 20, token=2).write(5, 6, 1, 10, token=1, key=1)
# Refused in [1, 2], before a larger token was sent, and in [5, 6], after that.
NEEDLESS = fenced().write(1, 2, 1, 10, FAIL, token=1).write(5, 6, 1, 11, FAIL, token=1)
REASON = Book(store="fence-writes", keys=("a",)).write(1, 0, 2, 20, INFO, token=2).write(5, 6, 1, 10, FAIL, token=1)
OVERWRITTEN = Book(workload="set", keys=("a",)).write(1, 2, 1, 10).write(3, 4, 2, 20).final(9, 10, 20, 1)
# The unknown write of 6 may have happened; nobody wrote 99.
DIRTY = Book(keys=("a",)).write(1, 2, 1, 5, FAIL).read(3, 4, 2, 5).write(5, 6, 1, 6, FAIL).write(7, 0, 1, 6, INFO)
DIRTY.read(8, 9, 2, 6).read(10, 11, 2, 99).write(12, 13, 1, 8, FAIL, reason=Reason.UNAVAILABLE)
SENT = UNFENCED.then().write(13, 14, 1, 7)
LANDED = LATE.then().read(13, 14, 2, 5)  # the read returns what was there before
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
    ("the same token", SAME_TOKEN, {"needless": 1}),
    ("the same token in a strict store", SAME_TOKEN.then(store="fence-writes-strict"), {"needless": 0}),
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


def struck(begun: int) -> Book:
    book = OVERLAPPING.then(fault_names=("clock-jump",))
    return book.fault("clock-jump", begun, begun + 2, kind="clock", target="redis1")


def kept(**settings: Any) -> MeasuredHistory:
    """Owner 1 never releases. The settings say what a foreign file does not."""
    return MeasuredHistory(FOREIGN.then().acquire(1, 3, 1).acquire(9, 10, 2).history(), Settings(**settings))


# Owner 1 holds key a in [3, 20], owner 2 in [12, 16]: 4 together. Then owner 3 holds key b, alone.
OVERLAPPING = Book(ttl=100).acquire(1, 3, 1).acquire(4, 12, 2).release(16, 17, 2).release(20, 21, 1)
OVERLAPPING.acquire(30, 31, 3, key=1).release(40, 41, 3, key=1)
FOREIGN = Book(trial="", lock="", store="", ttl=0, keys=("a",))
TWICE = FOREIGN.then().acquire(1, 2, 1).acquire(3, 4, 1).release(6, 7, 1).release(8, 9, 1)
# The first hold may have lasted until its release was answered, at 21.
ENDED = Book(ttl=5).acquire(1, 3, 1).acquire(4, 12, 2).release(16, 17, 2).release(20, 21, 1)
# Owner 2 asks at 4, before the release of 8 is answered at 9, and is granted the lock after that.
TOUCHING = Book(ttl=100).acquire(1, 3, 1).release(8, 9, 1).acquire(4, 10, 2).acquire(20, 21, 3, key=1)
READERS = Book(ttl=100).acquire(1, 3, 1, flags=SHARED).acquire(1, 4, 2, flags=SHARED).acquire(5, 6, 3)
# Owner 1 comes twice. Owner 2 comes between its holds, and again during the second.
AGAIN = FOREIGN.then().acquire(1, 2, 1).release(3, 4, 1).acquire(5, 6, 2).release(7, 8, 2).acquire(9, 10, 1)
AGAIN.acquire(12, 13, 2).release(14, 15, 2).release(16, 17, 1)
TWO_HELD = {"alert": "two held at once for certain", "unexercised": None, "property": "server-exclusion"}
SEVERAL = {"unexercised": "several may hold at once"}

test_definite_overlap = known(
    holders.definite_overlap,
    ("definite", OVERLAPPING, {"pairs": 1, "longest": 4, "rows": ((0, 1),), **TWO_HELD}),
    ("a lease that ended is no overlap", ENDED, {"pairs": 0}),
    ("a writer with each of two readers", READERS, {"pairs": 2}),
    ("nobody asked", Book().read(1, 2, 1, 5), {"unexercised": "nobody asked for a lock"}),
    ("refused", Book().acquire(1, 2, 1, outcome=FAIL), {"unexercised": "no lock was granted"}),
    ("permits", OVERLAPPING.then(permits=2), SEVERAL),
    ("alone", Book().acquire(1, 2, 1), {"pairs": 0, "unexercised": "1 grant, 2 needed"}),
    ("holders of a file come again", AGAIN, {"pairs": 1, "longest": 1, "rows": ((4, 5),)}),
    ("one that takes it twice", TWICE, {"pairs": 0}),
    ("one that takes it twice, and another", TWICE.then().acquire(10, 11, 2), {"pairs": 0}),
    ("held for ever", kept(), {"pairs": 1}),
    ("held for as long as settings say", kept(ttl=5), {"pairs": 0}),
    ("permits of settings", kept(permits=2), SEVERAL),
)

test_possible_overlap = known(
    holders.possible_overlap,
    ("it may have ended later", ENDED, {"pairs": 1}),
    ("what is definite is not possible", OVERLAPPING, {"pairs": 0}),
    ("hand-overs that touch are possible", TOUCHING, {"pairs": 1, "open": 2, "alert": None}),
    ("two readers are no pair", READERS, {"pairs": 0}),
)

test_clock_jump = known(
    holders.clock_jump,
    ("around a clock jump", struck(5), {"inside": 1, "outside": 0, "faults": 1, "rows": ((0, 3, 1),)}),
    ("which is an alert", struck(5), {"alert": "granted twice around a clock fault"}),
    ("away from it", struck(50), {"inside": 0, "outside": 1}),
    ("no clock was set", OVERLAPPING, {"unexercised": "no clock was set"}),
)


def test_the_definition_is_the_first_paragraph() -> None:
    found = holders.definite_overlap(measured(OVERLAPPING))
    assert found.definition.startswith("Pairs of grants of one key that were certainly in force together")
    assert "\n" not in found.definition
    assert "Source" not in found.definition


def counted(*unknown: int) -> Book:
    """Tokens 1, 2, 3 and 6: two were skipped before 42. unknown: when acquires without an answer were sent."""
    book = Book(keys=("a",)).acquire(1, 2, 1, token=1).acquire(11, 12, 2, token=2).acquire(21, 22, 3, token=3)
    for inv in unknown:
        book.acquire(inv, 0, 0, outcome=INFO)
    return book.acquire(41, 42, 6, token=6)


def refused(book: Book, inv: int, f: F = F.TRY_ACQUIRE, ret: int = 0, reason: Reason = Reason.HELD) -> Book:
    return book.add(f, inv, ret or inv + 1, FAIL, process=5, reason=reason)


def phantom(lease: str = "none") -> Book:
    """Released at 5. An acquire of 6 has no answer. Tries at 10 and at 20 find the lock held; owner 4 gets it at 30."""
    book = Book(keys=("a",), lease=lease).acquire(1, 2, 1).release(4, 5, 1)
    book.acquire(6, 0, 0, process=2, outcome=INFO)
    return refused(refused(book, 10), 20).acquire(25, 30, 4)


# Owner 2 is granted the lock at 12. Owner 1, whose lease ended at 11, stays until 20.
SUPERSEDED = Book(keys=("a",)).acquire(1, 2, 1).acquire(11, 12, 2).release(20, 21, 1).release(25, 26, 2)
NOTICED = Book(keys=("a",), bounds={"honest-belief": 3}).acquire(1, 2, 1).acquire(11, 12, 2).lost(11, 1)
# Owner 2 never asked; owner 1 releases once more than it acquired.
STRANGER = FOREIGN.then().acquire(1, 2, 1).release(3, 4, 2).release(5, 6, 1).release(7, 8, 1)
EARLY_RECORD = FOREIGN.then().acquire(1, 0, 1, outcome=INFO).release(3, 4, 1)
BY_TENS = Book(keys=("a",)).acquire(1, 2, 1, token=10).acquire(11, 12, 2, token=20)
# An acquire that timed out stood in the queue while the tries were refused.
IN_THE_WAY = refused(phantom(), 9, F.ACQUIRE, 24, Reason.TIMEOUT)
KNOWN = Book(keys=("a",), lease="none").acquire(1, 2, 1).release(4, 12, 1).acquire(6, 0, 0, outcome=INFO)
READER_GONE = Book(keys=("a",), ttl=5).acquire(1, 2, 1, flags=SHARED).acquire(3, 4, 2, flags=SHARED).release(5, 6, 2)
READER_GONE.acquire(7, 0, 0, outcome=INFO)
OWN = {"unexercised": "nobody released what another held by then"}
NOTHING_TELLS = "nothing recorded could tell: no refusals, no counted tokens, nothing done later"
NO_COUNTER = "the tokens are no counter of grants: at the median they differ by 10"
SKIPPED = "skipped tokens say that an acquire without an answer took effect"

test_belief_versus_truth = known(
    holders.belief_versus_truth,
    ("false belief", SUPERSEDED, {"false": 1, "longest": 8, "total": 8, "bound": None}),
    ("its witness", SUPERSEDED, {"rows": ((0, 1),)}),
    ("its alert", SUPERSEDED, {"alert": "a client believed what was no longer true"}),
    ("noticed in time", NOTICED, {"false": 0, "longest": 0, "bound": 3}),
    ("probed", SUPERSEDED.then().add(F.BELIEF, 15, 15, owner=1).add(F.BELIEF, 5, 5, owner=1), {"probed": 1}),
)

test_release_by_non_owner = known(
    holders.release_by_non_owner,
    ("released another's", SUPERSEDED, {"superseded": 1, "attempted": 1, "stranger": 0}),
    ("the release of another's", SUPERSEDED, {"rows": ((0, 1, 2),)}),
    ("no release", Book(), {"unexercised": "nobody released anything"}),
    ("one's own release", Book().acquire(1, 2, 1).release(3, 4, 1), OWN),
    ("strangers", STRANGER, {"stranger": 2, "rows": ((1,), (3,))}),
    ("an unknown acquire may be released", EARLY_RECORD, {"stranger": 0}),
)

test_token_gap = known(
    token_gap,
    ("skipped tokens", counted(), {"missing": 2, "unknown_acquires": 0, "unexplained": 2}),
    ("where they were skipped", counted(), {"rows": ((2, 3),)}),
    ("one is explained", counted(25), {"unexplained": 1}),
    ("not by one that asked after the next token", counted(25, 43), {"unexplained": 1}),
    ("both are", counted(25, 30), {"unexplained": 0}),
    ("tokens that are no counter", BY_TENS, {"unexercised": NO_COUNTER}),
    ("no tokens", SUPERSEDED, {"unexercised": "no two grants of a key carry different tokens"}),
)

test_phantom_success = known(
    phantom_success,
    ("phantom", phantom(), {"unknown_acquires": 1, "by_refusal": 1, "at_least": 1}),
    # After the refusal at 11, others asked in [20, 21] and [25, 30].
    ("it blocked others", phantom(), {"blocked_longest": 6, "blocked_total": 6}),
    ("its witnesses", phantom(), {"rows": ((3,), (4,))}),
    ("a known holder explains refusals", refused(KNOWN, 10), {"by_refusal": 0}),
    ("a majority needs no holder", phantom("quorum"), {"by_refusal": 0, "unexercised": NOTHING_TELLS}),
    ("a later record", EARLY_RECORD.acquire(5, 6, 2), {"by_record": 1, "at_least": 1}),
    ("somebody who waits may be in the way", IN_THE_WAY, {"by_refusal": 0}),
    ("readers that come later end no reader", refused(READER_GONE, 8), {"by_refusal": 0}),
    ("of two skipped tokens one is used up otherwise", counted(25), {"by_token_gap": 0}),
    ("skipped tokens", counted(25, 26), {"by_token_gap": 2, "at_least": 0, "alert": SKIPPED}),
    ("all known", SUPERSEDED, {"unexercised": "no acquire was left without an answer"}),
)

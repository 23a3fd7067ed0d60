"""The verdicts that results get, given claims and hazards."""

from collections.abc import Sequence
from typing import Any

import pytest

from checkers.check import broken, check, missing
from checkers.claims import Claim, Hazard, Verdict, heaviest
from checkers.judging.judgement import Judgement, judge, judge_all
from checkers.properties.check_result import CheckResult, Violation
from checkers.row_format import F
from checkers.tests.build import DOCUMENTED, FAIL, VIOLATED, Book, cases, known

HOLDERS, SERVER, FENCE = "holder-exclusion", "server-exclusion", "fenced-store"
HAZARD = Hazard(HOLDERS, ("freeze-holder",), "frozen-past-ttl")
FROZEN = ("freeze-holder",)


def overlap(*, lease_ends: int = 12, **facts: Any) -> Book:
    """Worker 1 holds from 2 to 50, its lease ends at 12; worker 2 holds from 20 to 30."""
    facts = {"fault_names": FROZEN, "hazards": (HAZARD,), **facts}
    book = Book(keys=("a",), **facts).acquire(1, 2, 1, sent=2, ttl=lease_ends - 2).release(50, 51, 1)
    return book.acquire(3, 20, 2, sent=19, ttl=50).release(30, 31, 2)


def judged(book: Book, name: str = HOLDERS) -> Judgement:
    history = book.history()
    return judge(check(history, [name])[0], history)


def freeze(book: Book, applied: int, healed: int, owner: int = 1) -> Book:
    return book.fault("freeze-holder", applied, healed, kind="freeze", owner=owner)


def late_write(applied: int, healed: int) -> Book:
    """A fault that no hazard names freezes worker 1. Its belief ended at 12, and it notices at 25."""
    book = overlap(fault_names=("late-write",)).lost(25, 1, sent=12)
    return book.fault("late-write", applied, healed, kind="freeze", owner=1)


def stalled(believed: int = 12, **facts: Any) -> Book:
    """Worker 1's belief ended at `believed`, but it notices at 25, after worker 2 came in at 20. No fault froze it."""
    return overlap(fault_names=("none",), claims=(EVERYWHERE,), **facts).lost(25, 1, sent=believed)


def asked(sure: int, **facts: Any) -> Book:
    """As `stalled`, for a client that last said at `sure` that it holds. By what it said before, it held until 24."""
    return overlap(fault_names=("none",), claims=(EVERYWHERE,), **facts).lost(25, 1, sent=24, base=sure)


# Three are inside, with two permits. A freeze of the last to come excuses nothing.
CROWD = overlap(permits=2).acquire(1, 22, 3, sent=21, ttl=50).release(30, 31, 3)
EVERYWHERE = Claim(HOLDERS)
OVER_ALREADY = overlap(fault_names=("none",), hazards=()).acquire(21, 28, 3, sent=10, ttl=5).lost(29, 3, sent=15)
# A freeze by a fault that the hazard does not name.
BY_ANOTHER = overlap(fault_names=("freeze-holder", "late-write")).fault("freeze-holder", 3, 4)
BY_ANOTHER.fault("late-write", 5, 40, kind="freeze", owner=1)
QUIET = Hazard(HOLDERS, FROZEN, "frozen-past-ttl", certain=False)
FENCED = Hazard(HOLDERS, FROZEN, "frozen-past-ttl", stores=("fence-*",))
STORE = Hazard("fenced-store", FROZEN, "frozen-past-ttl")
BROKEN, NOT_SHOWN = {"word": Verdict.NOT_PROMISED_BROKEN}, {"word": Verdict.WEAKNESS_NOT_SHOWN}
HELD, UPHELD = {"word": Verdict.NOT_PROMISED_HELD}, {"word": Verdict.UPHELD}
NOT_STRESSED, NOT_APPLICABLE = {"word": Verdict.NOT_STRESSED}, {"word": Verdict.NOT_APPLICABLE}
# The client looks at the clock in another thread, so the machine, not the fault, caused the late notice.
STALL_HOLDER = overlap(fault_names=("stall-holder",), claims=(Claim(HOLDERS, under=("stall-holder",)),))
STALL_HOLDER.lost(25, 1, sent=12)
STALL_HOLDER.fault("stall-holder", 5, 40, kind="stall", owner=1)
# The token counter was lost: worker 1, which was stalled, came first but has the larger token.
WENT_BACKWARDS = Book(keys=("a",), fault_names=("none",), claims=(EVERYWHERE,), hazards=(HAZARD,))
WENT_BACKWARDS.acquire(1, 8, 1, sent=2, ttl=10, token=4).lost(25, 1, sent=12)
WENT_BACKWARDS.acquire(3, 20, 2, sent=5, ttl=50, token=3).release(30, 31, 2)

test_a_hazard_excuses_only_violations_that_its_mechanism_explains = known(
    HOLDERS,
    ("frozen while the lease ended", freeze(overlap(), 5, 40), DOCUMENTED),
    ("frozen only when the lease had ended", freeze(overlap(), 13, 40), VIOLATED),
    ("thawed before the lease ended", freeze(overlap(), 5, 11), VIOLATED),
    ("the later holder was frozen", freeze(overlap(), 5, 40, 2), VIOLATED),
    ("the violation came first", freeze(overlap(), 21, 40), VIOLATED),
    ("frozen when it was to notice, by a late answer", freeze(overlap().lost(40, 1, sent=15), 13, 40), DOCUMENTED),
    ("it would have been inside in any case", freeze(overlap().lost(40, 1, sent=21), 13, 40), VIOLATED),
    ("a frozen holder of a permit is one too many when it wakes up", freeze(CROWD.then(), 5, 40), DOCUMENTED),
    ("the last to come", freeze(CROWD.then(), 5, 40, 3), VIOLATED),
    ("a fault that never came", overlap().fault("freeze-holder", 5, 40, applied=0, kind="freeze", owner=1), VIOLATED),
    # The stalled holder's renewal goes on, so its lease does not end.
    ("a hung thread", overlap().fault("freeze-holder", 5, 40, kind="stall", owner=1), VIOLATED),
    ("a freeze that was never healed", freeze(overlap(), 5, 0), DOCUMENTED),
    ("a freeze by another fault", BY_ANOTHER, BROKEN),
    ("a freeze by another fault, claimed", BY_ANOTHER.then(claims=(Claim(HOLDERS, under=("late-write",)),)), VIOLATED),
    ("renewed at 9 it runs until 19", freeze(overlap().renew(9, 10, 1), 15, 40), DOCUMENTED),
    ("a hazard that does not show", freeze(overlap().lost(15, 1), 5, 40), NOT_SHOWN),
    ("one that need not show", freeze(overlap(hazards=(QUIET,)).lost(15, 1), 5, 40), HELD),
    ("it goes before a wider claim", freeze(overlap(claims=(EVERYWHERE,)), 5, 40), DOCUMENTED),
    ("without the fault", overlap(claims=(EVERYWHERE,), fault_names=("none",)), VIOLATED),
    ("of other store modes", freeze(overlap(hazards=(FENCED,), claims=(EVERYWHERE,)), 5, 40), VIOLATED),
    ("of this store mode", freeze(overlap(hazards=(FENCED,), store="fence-writes"), 5, 40), DOCUMENTED),
    ("a stall of the machine is told by a late notice", stalled(), DOCUMENTED),
    ("it still believed when worker 2 came in", stalled(21), VIOLATED),
    # The client may trust its lease for less than the TTL, so its belief may have ended when the lease could have.
    ("a client that is asked may have stopped before", asked(19), DOCUMENTED),
    ("if it did not say since that it holds", asked(21), VIOLATED),
    ("and if its lease may have ended", asked(11, lease_ends=22), VIOLATED),
    ("one that a fault had frozen when its lease may have ended", freeze(asked(11), 11, 26), VIOLATED),
    ("nothing documents that a freeze breaks it", stalled(hazards=()), VIOLATED),
    ("something documents that it breaks another", stalled(store="unfenced", hazards=(STORE,)), VIOLATED),
    ("a stall where tokens went backwards", WENT_BACKWARDS, DOCUMENTED),
    ("a late notice by a fault that no hazard names", late_write(5, 40), BROKEN),
    ("a fault that came and went before the machine stalled", late_write(4, 6), DOCUMENTED),
    ("a fault that came after the machine stalled", late_write(15, 40), DOCUMENTED),
    ("a thread that a fault stalled is not the one that notices", STALL_HOLDER, DOCUMENTED),
    ("a grant that was over when it arrived is no hold", OVER_ALREADY, {"owners": (1, 2)}),
)


def test_one_unexplained_violation_outweighs_all_explained_ones() -> None:
    book = freeze(overlap(), 5, 40).acquire(21, 22, 3, ttl=50).release(23, 24, 3)
    found = judged(book)
    assert found.word is Verdict.VIOLATED
    assert found.violation is not None
    assert book.history().columns["owner"][list(found.violation.holders)].tolist() == [2, 3]


def test_unknown_is_never_hidden_by_something_lighter() -> None:
    history = freeze(overlap(), 5, 40).history()
    (result,) = check(history, [HOLDERS])
    partly = CheckResult(result.property, False, result.violations, reason="another key: too long")
    assert judge(partly, history).word is Verdict.UNKNOWN
    assert judge(CheckResult(HOLDERS, None, reason="too long"), history).word is Verdict.UNKNOWN
    unexplained = (*result.violations, Violation("overlap", 1, (0,), (0,), ()))
    assert judge(CheckResult(result.property, False, unexplained, reason="x"), history).word is Verdict.VIOLATED


@cases(
    "words, expected",
    ((Verdict.UPHELD, Verdict.UNKNOWN), Verdict.UNKNOWN),
    ((Verdict.WEAKNESS_SHOWN, Verdict.VIOLATED, Verdict.UPHELD), Verdict.VIOLATED),
    ((), Verdict.NOT_APPLICABLE),
)
def test_heaviest(words: Sequence[Verdict], expected: Verdict) -> None:
    assert heaviest(words) is expected


LATE = Hazard(HOLDERS, ("late-write",), "frozen-past-ttl")
UNCERTAIN = Hazard("fenced-store", FROZEN, "frozen-past-ttl", certain=False)


def claimed(*under: str) -> Book:
    """Two faults, and a claim under the faults `under`."""
    claim = Claim(HOLDERS, under=under)
    book = overlap(fault_names=("cut-client-drop", "pause-server"), hazards=(), claims=(claim,)).lost(15, 1)
    return book.fault("cut-client-drop", 4, 8).fault("pause-server", 10, 12)


def undeclared(fault: str = "none", **facts: Any) -> Book:
    book = overlap(fault_names=(fault,), hazards=(), **facts)
    return book if fault == "none" else book.fault(fault, 4, 8)


def masked(applied: int = 5, kind: str = "cut", **facts: Any) -> Book:
    """Two faults strike. One of them freezes the holder."""
    book = overlap(fault_names=(*FROZEN, "cut-client-drop"), **facts)
    return freeze(book.fault("cut-client-drop", 5, 40, kind=kind, owner=kind == "freeze"), applied, 40)


def alone(*faults: str) -> Book:
    return Book(claims=(Claim(SERVER),), fault_names=faults).acquire(1, 2, 1)


TWO_HAZARDS = overlap(fault_names=(*FROZEN, "late-write"), hazards=(HAZARD, LATE))
freeze(TWO_HAZARDS.fault("late-write", 13, 14, kind="freeze", owner=1), 5, 40)
LIES = freeze(overlap(store="fence-writes", hazards=(STORE,)), 5, 40)
LIES.write(21, 22, 2, 20, token=2).read(23, 24, 1, 99)
CONTROL = freeze(overlap(hazards=(STORE,), store="unfenced"), 5, 40)
QUIET_CONTROL = freeze(overlap(hazards=(UNCERTAIN,), store="unfenced"), 5, 40)
NO_FAULT = Book(claims=(Claim("recovery"),), bounds={"recovery": 5}).acquire(1, 2, 1)

test_claims_and_hazards_decide_the_verdict_on_a_store = known(
    FENCE,
    ("a store that lies is not explained by a freeze", LIES, VIOLATED),
    ("no fence, on which nobody counts", undeclared(store="unfenced"), NOT_APPLICABLE),
    ("no fence, as a control", CONTROL, NOT_SHOWN),
    ("no fence, as an uncertain control", QUIET_CONTROL, NOT_APPLICABLE),
    ("no fence, and a stale write", undeclared(store="unfenced").write(40, 41, 1, 10), BROKEN),
)

test_claims_and_hazards_decide_the_verdict_under_several_faults = known(
    HOLDERS,
    ("a claim under one of two faults", claimed("cut-*"), HELD),
    ("a claim under both", claimed("cut-*", "pause-server"), UPHELD),
    ("a claim under all", claimed("*"), UPHELD),
    ("without declarations, another property", undeclared(), BROKEN),
    # Whatever other faults do, the mechanism must explain the violation.
    ("the hazard of one of two faults excuses", masked(), DOCUMENTED),
    ("the other froze the holder in time", masked(13, "freeze"), BROKEN),
    ("any hazard of two excuses", TWO_HAZARDS, DOCUMENTED),
    ("in any order", TWO_HAZARDS.then(hazards=(LATE, HAZARD)), DOCUMENTED),
    # The holder noticed in time, since it was cut off as well.
    ("another fault may mask it", masked().lost(15, 1), HELD),
    ("no fault masks nothing", freeze(overlap(fault_names=("none", *FROZEN)).lost(15, 1), 5, 40), NOT_SHOWN),
    ("unexplained, the other fault claimed", masked(13, claims=(Claim(HOLDERS, under=("cut-*",)),)), VIOLATED),
    ("unexplained, the other fault not claimed", masked(13, claims=(Claim(HOLDERS, under=()),)), BROKEN),
)

test_claims_decide_the_verdict_on_server_exclusion = known(
    SERVER,
    ("without declarations", undeclared(), UPHELD),
    ("without declarations, broken", undeclared(lease_ends=45), VIOLATED),
    ("without declarations, under a fault", undeclared("pause-server"), HELD),
    ("not stressed is never upheld", alone("none"), NOT_STRESSED),
    ("unexercised under several faults, of which one may mask another", alone("a", "b"), NOT_APPLICABLE),
    ("unexercised in a rolling upgrade", alone("roll-version", "b"), NOT_STRESSED),
)

test_recovery_without_a_fault = known("recovery", ("does not apply", NO_FAULT, NOT_APPLICABLE))


def test_a_trial_without_a_fence_waits_for_a_stale_write_only_as_a_certain_control() -> None:
    assert missing(undeclared(store="unfenced").history(), [FENCE]) == {}
    assert FENCE in missing(CONTROL.history(), [FENCE])
    assert FENCE not in missing(QUIET_CONTROL.history(), [FENCE])


def test_a_trial_waits_for_a_certain_hazard_and_ends_when_a_promise_is_broken() -> None:
    silent, shown = freeze(overlap().lost(15, 1), 5, 40), freeze(overlap(), 5, 40)
    expected = {HOLDERS: ("no violation by frozen-past-ttl yet", True)}
    assert missing(silent.history(), [HOLDERS]) == expected
    assert missing(shown.history(), [HOLDERS]) == {}
    quiet = freeze(overlap(hazards=(QUIET,)).lost(15, 1), 5, 40)
    assert missing(quiet.history(), [HOLDERS]) == {}
    assert missing(quiet.history(), [HOLDERS], wanted=["revoked-early"]) == {}
    assert missing(quiet.history(), [HOLDERS], wanted=["frozen-past-ttl"]) == expected
    assert not broken(shown.history())
    assert not broken(silent.history())
    assert broken(undeclared(lease_ends=45).history())


@pytest.mark.parametrize("kind", ["clock", "wipe", "failover"])
def test_a_fault_on_a_server_stresses_exclusion_only_if_it_meets_a_lease(kind: str) -> None:
    """Worker 1's lease is in force until 12, worker 2's from 19 to 31."""

    def struck(*moments: int) -> Book:
        book = overlap(fault_names=("f",), hazards=(), claims=(Claim(SERVER),))
        for begun in moments:
            book.fault("f", begun, 45, applied=begun + 1, kind=kind, target="redis1")
        return book

    for begun in (10, 25, 14, 40):
        assert judged(struck(begun), SERVER).word is (Verdict.UPHELD if begun in (10, 25) else Verdict.NOT_STRESSED)
    assert judged(struck(40, 25), SERVER).word is Verdict.UPHELD


def test_exclusion_does_not_apply_if_nobody_gets_the_lock_after_a_fault() -> None:
    def words(*hazards: Hazard) -> dict[str, Verdict]:
        claims = tuple(Claim(name, under=("cut-*",)) for name in (SERVER, "recovery"))
        bounds = {"recovery": 5}
        book = Book(keys=("a",), claims=claims, hazards=hazards, bounds=bounds, fault_names=("cut-client-drop",))
        book.acquire(1, 2, 1).release(3, 4, 1).fault("cut-client-drop", 5, 10)
        history = book.add(F.ACQUIRE, 6, 60, FAIL, process=2).history()
        judged = judge_all(check(history, [SERVER, "recovery"]), history)
        return {judgement.property: judgement.word for judgement in judged}

    documented = Hazard("recovery", ("cut-*",), "left-behind", certain=False)
    assert words() == {SERVER: Verdict.NOT_APPLICABLE, "recovery": Verdict.VIOLATED}
    assert words(documented) == {SERVER: Verdict.NOT_APPLICABLE, "recovery": Verdict.WEAKNESS_SHOWN}

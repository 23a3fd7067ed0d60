"""What each mechanism explains, and what not: violations before the fault, or of another key, holder, node or kind."""

from dataclasses import replace
from typing import Any

import pytest

from checkers.check import check
from checkers.claims import ANY, Hazard
from checkers.history.history import Contents, Entry, FaultInterval
from checkers.history.view import View
from checkers.judging.excuse_parts import Incident
from checkers.judging.excuses_by_fault import MECHANISMS, nodes_of
from checkers.properties.check_result import Violation
from checkers.row_format import NESTED, F, Outcome, Reason
from checkers.tests.build import DOCUMENTED, FAIL, INFO, OK, VIOLATED, Book, answers, known

SERVER, HOLDER, TOKENS, UPDATES = "server-exclusion", "holder-exclusion", "token-order", "no-lost-update"


def facts(mechanism: str, name: str = SERVER, nodes: tuple[str, ...] = (ANY,), **more: Any) -> dict[str, Any]:
    hazard = Hazard(name, ("f",), mechanism, nodes=nodes)
    return {"keys": ("a",), "fault_names": ("f",), "hazards": (hazard,), "workers": 8, **more}


def given_away(why: str, name: str = SERVER, *tokens: int, answered: int = 10, until: int = 50, **more: Any) -> Book:
    """Worker 1 is granted at 10 a lease until 50; its release at 40 is refused. Worker 2 is granted the lock at 30."""
    first, second = tokens or (-1, -1)
    book = Book(**facts(why, name, **more)).acquire(9, answered, 1, sent=9, ttl=until - 9, token=first)
    book.release(40, 41, 1, FAIL, reason=Reason.NOT_OWNER)
    return book.acquire(11, 30, 2, sent=29, ttl=50, token=second).release(60, 61, 2)


def clock(book: Book, begun: int, applied: int, healing: int = 80, healed: int = 81, **more: Any) -> Book:
    more = {"kind": "clock", "target": "redis1: 61 s forward", **more}
    return book.fault("f", begun, healed, applied=applied, healing=healing, **more)


STORE: Any = {"store": "unfenced", "workload": "set"}


def struck(mechanism: str, *times: int, name: str = SERVER, **more: Any) -> Book:
    return clock(given_away(f"expired-by-{mechanism}", name), *times, **more)


def stays(jumped: int) -> Book:
    """Worker 1's lease ends at 25 even without a fault. Worker 1 is still inside when worker 2 comes at 30."""
    return clock(given_away("expired-by-jump", HOLDER, until=25), jumped, jumped + (jumped == 20))


def stale_write(at: int) -> Book:
    return clock(given_away("expired-by-jump", "fenced-store", store="unfenced"), 20, 21).write(at, at + 1, 1, 7)


EXCUSED = struck("jump", 20, 21)
# Worker 3 is granted the lock beside worker 2, which came after the jump.
NOT_ALL_EXCUSED = struck("jump", 20, 21).acquire(32, 35, 3, sent=34, ttl=50).release(62, 63, 3)
BY_TOKEN, LAST_BY_TOKEN = (
    clock(given_away("expired-by-jump", SERVER, *tokens, answered=35, until=60), 20, 21) for tokens in ((4, 5), (8, 7))
)
# Two acquires at once, without tokens.
CONCURRENT, BEFORE = (clock(given_away("expired-by-jump", answered=35, until=60), at, at + 1) for at in (20, 5))
# A lock that rests on redis1 alone.
ITS_NODE, ANOTHER_NODE = (
    clock(given_away("expired-by-jump", nodes=("redis1",)), 20, 21, target=target)
    for target in ("redis1: 61 s forward", "redis12: x")
)
# The jump meets a lease of key b. Key a is granted twice, both times after the jump.
OF_ANOTHER_KEY = Book(**facts("expired-by-jump", keys=("a", "b")))
OF_ANOTHER_KEY.acquire(9, 10, 5, sent=9, ttl=60, key=1).release(75, 76, 5, key=1)
OF_ANOTHER_KEY.acquire(24, 25, 1, sent=24, ttl=40).release(45, 46, 1, FAIL, reason=Reason.NOT_OWNER)
clock(OF_ANOTHER_KEY.acquire(26, 30, 2, sent=29, ttl=50).release(60, 61, 2), 20, 21)
# Worker 1's lease ends at 30. Worker 1 writes at 28, and worker 2 at 35, both onto the empty list.
UPDATE = Book(**facts("expired-by-jump", UPDATES, **STORE))
UPDATE.acquire(9, 10, 1, sent=9, ttl=21).read(11, 12, 1, -1)
UPDATE.acquire(11, 25, 2, sent=24, ttl=50).read(26, 27, 2, -1)
UPDATE.write(28, 29, 1, 5, base=-1).write(35, 36, 2, 6, base=-1).final(90, 91, 6, 1)
clock(UPDATE, 20, 20)

test_a_clock_fault_explains_only_the_end_of_a_lease_in_force = known(
    SERVER,
    ("while the lease was in force", EXCUSED, DOCUMENTED),
    ("the grant came before the proof", struck("jump", 29, 33), DOCUMENTED),
    ("the lease was taken when the clock had been set already", struck("jump", 5, 8), VIOLATED),
    ("a jump, by its heal", struck("jump", 5, 6, 20, 21), VIOLATED),
    ("a clock that is set right is a jump as well", struck("return", 5, 6, 20, 21), DOCUMENTED),
    ("set right later", struck("return", 5, 6, 31, 32), VIOLATED),
    ("never set right", struck("return", 5, 6, 0, 0), VIOLATED),
    ("a clock that is set back ends no lease", struck("return", 20, 21), VIOLATED),
    ("a drift all the time", struck("drift", 5, 6, 70, 70), DOCUMENTED),
    ("a drift to the grant", struck("drift", 5, 6, 11, 11), DOCUMENTED),
    ("a drift after the loss", struck("drift", 31, 32, 70, 70), VIOLATED),
    ("a pause is no jump", struck("jump", 20, 21, 20, 21, kind="pause"), VIOLATED),
    ("a pause sets nothing right", struck("return", 20, 21, 20, 21, kind="pause"), VIOLATED),
    ("a pause is no drift", struck("drift", 20, 21, 20, 21, kind="pause"), VIOLATED),
    ("the earlier holder may be the one whose answer came later", BY_TOKEN, DOCUMENTED),
    ("but not where its token is the later one as well: no jump takes tokens back", LAST_BY_TOKEN, VIOLATED),
    ("between two acquires", CONCURRENT, DOCUMENTED),
    ("before either asked", BEFORE, VIOLATED),
    ("a node that the lock rests on", ITS_NODE, DOCUMENTED),
    ("another node", ANOTHER_NODE, VIOLATED),
    ("another key", OF_ANOTHER_KEY, VIOLATED),
    ("excuses no other", NOT_ALL_EXCUSED, VIOLATED),
)

test_holders_and_clocks = known(
    HOLDER,
    ("while the lease was in force", struck("jump", 20, 21, name=HOLDER), DOCUMENTED),
    ("the grant came before the proof", struck("jump", 29, 33, name=HOLDER), DOCUMENTED),
    ("the lease was taken when the clock had been set already", struck("jump", 5, 8, name=HOLDER), VIOLATED),
    ("who stays past its own lease has nobody to blame", stays(20), VIOLATED),
    ("the later holder's lease is not the one that was lost", stays(29), VIOLATED),
)

test_stores_and_clocks = known(
    "fenced-store",
    ("a stale write in time", stale_write(35), DOCUMENTED),
    ("a stale write too late", stale_write(55), VIOLATED),
)


def test_a_jump_explains_only_consequences_of_a_lost_lease() -> None:
    assert answers(SERVER, stays(20), VIOLATED) != VIOLATED
    history = EXCUSED.history()
    violation, *_ = check(history, [SERVER])[0].violations
    explains = MECHANISMS["expired-by-jump"]
    assert explains(Incident(violation, View(history), history.faults))
    for kind in ("needless-refusal", "token-repeated", "value-never-written", "not-recovered"):
        assert not explains(Incident(replace(violation, kind=kind), View(history), history.faults))


def lost(book: Book, begun: int, applied: int, kind: str = "wipe") -> Book:
    return book.fault("f", begun, 80, applied=applied, kind=kind, target="redis1")


def went_back(begun: int, applied: int, token: int) -> Book:
    """Worker 1 had token 7 and released long ago. Worker 2 gets a smaller token, or the same."""
    book = Book(**facts("state-lost", TOKENS)).acquire(9, 10, 1, token=7, ttl=50).release(14, 15, 1)
    return lost(book.acquire(12, 40, 2, sent=39, token=token, ttl=50).release(60, 61, 2), begun, applied)


@pytest.mark.parametrize("kind", ["wipe", "failover"])
@pytest.mark.parametrize("name", [SERVER, HOLDER])
def test_a_lease_in_force_is_lost(kind: str, name: str) -> None:
    for begun, applied, expected in ((20, 25, DOCUMENTED), (5, 8, VIOLATED)):  # in time; before the grant
        assert answers(name, lost(given_away("state-lost", name), begun, applied, kind), expected) == expected


test_tokens_and_answers_give_no_order_across_a_loss_of_data = known(
    SERVER,
    ("a restart with its data", lost(given_away("state-lost"), 20, 25, "restart"), VIOLATED),
    ("tokens that went back tell no order", lost(given_away("state-lost", SERVER, 7, 3), 20, 25), DOCUMENTED),
    ("nor do answers", lost(given_away("state-lost", SERVER, 8, 7, answered=35), 20, 25), DOCUMENTED),
    ("but not of a loss before them", lost(given_away("state-lost", SERVER, 8, 7, answered=35), 5, 8), VIOLATED),
)

test_tokens_and_a_loss_of_data = known(
    TOKENS,
    ("the counter goes back", went_back(20, 25, 1), DOCUMENTED),
    ("the same again", went_back(20, 25, 7), DOCUMENTED),
    ("a loss before both", went_back(5, 8, 1), VIOLATED),
    ("a loss before both, the same again", went_back(3, 5, 7), VIOLATED),
)


# Two sessions, each prolonged once.
KEPT_ALIVE = Book(**facts("revoked-early", lease="session", ttl=50))
for session in (1, 2):
    KEPT_ALIVE.add(F.KEEP_ALIVE, 11 + session, 12 + session, session=session, process=session)


def revoked(told: int = 40, outcome: Outcome = FAIL, answered: int = 0) -> Book:
    """Session 1's lease was prolonged at 12, to 62 at least. Then the service says that the lease is gone."""
    book = KEPT_ALIVE.then().acquire(9, 10, 1, sent=9, ttl=50, session=1)
    if answered:
        book.add(F.KEEP_ALIVE, answered - 1, answered, session=1, process=1)
    book.release(told, told + 1, 1, outcome, reason=Reason.NOT_OWNER if outcome == FAIL else Reason.NONE, session=1)
    return book.acquire(11, 30, 2, sent=29, ttl=50, session=2).release(60, 61, 2, session=2)


def revoked_unnoticed(outcome: Outcome = FAIL) -> Book:
    """As `revoked`, by a service that acknowledges every release. Then the former holder asks for the lock again."""
    return revoked(outcome=OK).add(F.ACQUIRE, 44, 45, outcome, process=1, session=1, reason=Reason.NOT_OWNER)


def granted_side_by_side(first: int = 11) -> Book:
    """Session 2 asks at `first` and is answered last, at 30. At 40 it is told that its lease is gone."""
    book = KEPT_ALIVE.then().acquire(9, 29, 1, sent=9, ttl=50, session=1).release(60, 61, 1, session=1)
    book.acquire(first, 30, 2, sent=first, ttl=50, session=2)
    return book.release(40, 41, 2, FAIL, reason=Reason.NOT_OWNER, session=2)


def came_back(book: Book, kind: str = "pause", healing: int = 25) -> Book:
    return book.fault("f", 5, healing + 1, healing=healing, kind=kind, target="etcd1 (leader)")


test_a_lease_that_was_revoked = known(
    SERVER,
    ("it stood still and came back", came_back(revoked()), DOCUMENTED),
    ("it came back only after the second grant", came_back(revoked(), healing=35), VIOLATED),
    ("a disk lets it go on now and then", came_back(revoked(), "disk", healing=35), DOCUMENTED),
    ("a kill", came_back(revoked(), "kill"), VIOLATED),
    # The lease lasts until 70 or longer. The server comes back at 25, and the next answer comes at 81.
    ("who asked for nothing is told late", came_back(revoked(80, answered=20)), DOCUMENTED),
    ("who asked meanwhile is not", came_back(revoked(80, answered=27)), VIOLATED),
    ("the service must have said so", came_back(revoked(outcome=OK)), VIOLATED),
    ("it says so when it is asked for the lock again", came_back(revoked_unnoticed()), DOCUMENTED),
    ("it must say that it is gone", came_back(revoked_unnoticed(INFO)), VIOLATED),
    ("who was first is not known", came_back(granted_side_by_side()), DOCUMENTED),
    ("who asked later was not first", came_back(granted_side_by_side(30)), VIOLATED),
)


def passed_in_the_queue(loses: int, told: int = 40) -> Book:
    """Session 1 queues at 10, session 2 at 16. Their answers come at 30 and 29. One is told that its lease is gone."""
    book = KEPT_ALIVE.then(**facts("revoked-early", "fifo", lease="session", ttl=50))
    book.acquire(9, 30, 1, sent=9, ttl=50, session=1, base=10).acquire(15, 29, 2, sent=15, ttl=50, session=2, base=16)
    for owner in (1, 2):
        outcome, reason = (FAIL, Reason.NOT_OWNER) if owner == loses else (OK, Reason.NONE)
        book.release(told, told + 1, owner, outcome, reason=reason, session=owner)
    return book


test_a_revoked_lease_explains_that_its_session_was_passed_in_the_queue = known(
    "fifo",
    ("it was the one that was passed", came_back(passed_in_the_queue(1)), DOCUMENTED),
    ("it was the other", came_back(passed_in_the_queue(2)), VIOLATED),
    ("no server stood still", passed_in_the_queue(1), VIOLATED),
)


def lacked_by_members(*told: int) -> Book:
    """At 45, members lack changes 5 and 6: the grants of sessions 1 and 2, in force until 62. Some were told."""
    held = tuple(Contents(who, 45, 45, 9, 9, (Entry("k", 7, 7, 0, ""),), "") for who in "xyx")
    book = KEPT_ALIVE.then(**facts("revoked-early", "members-agree", lease="session", ttl=50), looks=(held,))
    for owner in (1, 2):
        book.acquire(9, 10, owner, sent=9, ttl=50, session=owner, token=4 + owner)
        if owner in told:
            book.release(40, 41, owner, FAIL, reason=Reason.NOT_OWNER, session=owner)
    return book.acquire(13, 14, 3, sent=13, ttl=50, token=7)


test_members_may_lack_only_grants_that_are_known_to_be_revoked = known(
    "members-agree",
    ("both were told", came_back(lacked_by_members(1, 2)), DOCUMENTED),
    ("one was told", came_back(lacked_by_members(1)), VIOLATED),
    ("no server stood still", lacked_by_members(1, 2), VIOLATED),
)


def test_a_revocation_explains_a_violation_only_of_the_revoked_holder() -> None:
    view = View(came_back(revoked()).history())
    first, second = (view.holds.by_owner[owner].row for owner in (1, 2))
    for row, expected in ((first, True), (second, False)):
        violation = Violation("nested-refused", 41, (row,), (row,), ())
        assert MECHANISMS["revoked-early"](Incident(violation, view, view.history.faults)) is expected


def revoked_in_silence(name: str = SERVER, told: int = 26, silent: int = 9, prolonged: int = 5) -> Book:
    """Session 1 lasts until 38, but is said to be gone at `told`. Session 2 gets no answer from `silent` on, for 3."""
    book = Book(**facts("revoked-early", name, lease="session", ttl=20))
    for sent in (1, prolonged, 18):
        book.add(F.KEEP_ALIVE, sent, sent + 1, session=1, process=1)
    if silent:
        book.add(F.KEEP_ALIVE, silent, outcome=INFO, given_up=silent + 3, session=2, process=2)
    book.add(F.KEEP_ALIVE, 23, 24, session=2, process=2)
    return book.add(F.KEEP_ALIVE, told, told + 1, FAIL, reason=Reason.NOT_OWNER, session=1, process=1)


def passed_on(**more: Any) -> Book:
    """Worker 1 holds the lock in session 1, and worker 2 is granted it at 30."""
    book = revoked_in_silence(**more).acquire(7, 8, 1, ttl=20, session=1)
    return book.acquire(8, 30, 2, sent=29, ttl=20, session=2).release(33, 34, 2, session=2)


test_a_stalled_leader_explains_a_revoked_lease = known(
    SERVER,
    ("when the old one thought that it was over", passed_on(), DOCUMENTED),
    ("when nobody can have thought so", passed_on(told=23), VIOLATED),
    ("every keep-alive was answered", passed_on(silent=0), VIOLATED),
    ("the old one had seen what prolonged it", passed_on(silent=20), VIOLATED),
    ("it had been prolonged just before", passed_on(prolonged=8), VIOLATED),
)

test_a_stalled_leader_explains_a_refused_keep_alive_of_a_waiter = known(
    "honest-renewal",
    ("after a silence", revoked_in_silence("honest-renewal"), DOCUMENTED),
    ("without any", revoked_in_silence("honest-renewal", silent=0), VIOLATED),
)


def overtaken(
    begun: int = 11, healed: int = 80, sent: int = 12, answered: int = 0, granted: int = 20, ttl: int = 50, **more: str
) -> Book:
    """Worker 1 writes 5 onto the empty list, answered late or never. Worker 2 writes 6 onto that list; 5 remains."""
    book = Book(**facts("late-delivery", UPDATES, **STORE)).acquire(9, 10, 1, ttl=ttl).read(11, 11, 1, -1)
    book.write(sent, answered or 14, 1, 5, OK if answered else INFO, base=-1).release(15, 16, 1)
    book.acquire(13, granted, 2, ttl=50).read(21, 22, 2, -1).write(23, 24, 2, 6, base=-1).release(25, 26, 2)
    return book.final(90, 91, 5, 1).fault("f", begun, healed, **more)


test_a_lost_update = known(
    UPDATES,
    ("by the jump of a clock", UPDATE, DOCUMENTED),
    ("held on its way", overtaken(granted=14), DOCUMENTED),
    ("sent before the fault", overtaken(13, granted=14), VIOLATED),
    ("sent after the fault", overtaken(5, 11, granted=14), VIOLATED),
    ("what was done to a worker meanwhile", overtaken(kind="stall", granted=14), VIOLATED),
    # Two are inside at once, and the second write is the one without an answer.
    ("a write sent after its successor's", overtaken(sent=24), VIOLATED),
    # The machine held it up.
    ("without an answer before it let go", overtaken(13), DOCUMENTED),
    ("with one after the next was granted the lock", overtaken(13, answered=21), DOCUMENTED),
    ("with one before", overtaken(13, answered=19), VIOLATED),
    ("beside another who was inside", overtaken(13, granted=14), VIOLATED),
    ("sent when its lease could be over", overtaken(13, ttl=2), VIOLATED),
)


def test_nodes_are_named_by_words() -> None:
    def named(target: str) -> frozenset[str]:
        return nodes_of(FaultInterval("f", "clock", target, 1, 2, 3, 4))

    assert named("redis1, redis4: 61 s forward") == {"redis1", "redis4"}
    assert named("etcd2 (leader) from etcd1, etcd3") == {"etcd1", "etcd2", "etcd3"}
    assert named("all links of redis") == frozenset()


def test_a_violation_without_holders_is_never_excused() -> None:
    history = EXCUSED.history()
    for kind in ("granted-while-held", "overlap", "lost-update", "token-repeated", "not-recovered"):
        for mechanism in MECHANISMS.values():
            assert not mechanism(Incident(Violation(kind, 60, (), (), ()), View(history), history.faults))


def test_a_lost_lease_explains_a_refused_nested_acquire() -> None:
    """Worker 1 holds until 20. Its nested acquire is refused at 8."""
    book = Book(**facts("state-lost", "reentrancy")).acquire(1, 2, 1, ttl=50).release(20, 21, 1)
    book.acquire(7, 8, 1, outcome=FAIL, flags=NESTED, reason=Reason.NOT_OWNER)
    assert answers("reentrancy", lost(book, 5, 6), DOCUMENTED) == DOCUMENTED

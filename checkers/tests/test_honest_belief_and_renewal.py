"""Known histories of the beliefs, renewals and releases of clients, and of holders that died."""

from typing import Any

from checkers.claims import Claim, Hazard, Verdict
from checkers.properties.honest_belief_and_renewal import LONGEST, NOTICED, REFUSED, RENEWED
from checkers.properties.releases import CRASHED, SLOWEST, STALE_RELEASES, WAITED_FOR
from checkers.row_format import LATE, SHARED, F, Outcome, Reason
from checkers.tests.build import DOCUMENTED, FAIL, GOOD, INFO, INVALID, VALID, VIOLATED, Book, cases, known, result_on

BELIEF = "honest-belief"


def queued(lease: str, *tokens: int) -> Book:
    """Two acquires, sent at nearly the same time and granted at 10 and 40."""
    book = Book(keys=("a",), bounds={BELIEF: 0}, lease=lease)
    for owner, inv, ret, left, token in zip((1, 2), (1, 2), (10, 40), (50, 60), tokens or (-1, -1), strict=True):
        book.acquire(inv, ret, owner, ttl=3, token=token).release(left, left + 1, owner, FAIL)
    return book


def under(fault: str) -> Book:
    book = Book(keys=("a",), bounds={BELIEF: 1}, fault_names=(fault,), claims=(Claim(BELIEF, under=("*",)),), ttl=90)
    return book.acquire(1, 2, 1).release(10, 11, 1).acquire(5, 12, 2).fault(fault, 6, 8)


def cut_short(mechanism: str, kind: str) -> Book:
    """While worker 1 holds, the server's clock is set ahead, or its data are lost."""
    hazards = (Hazard(BELIEF, ("f",), mechanism),)
    claims = (Claim("server-exclusion"),)
    book = Book(keys=("a",), bounds={BELIEF: 0}, fault_names=("f",), claims=claims, hazards=hazards)
    book.acquire(8, 10, 1, sent=9, ttl=10).acquire(14, 15, 2).release(19, 20, 1)
    return book.fault("f", 12, 60, kind=kind, healing=12)


# Worker 1 is granted at 10, worker 2 at 30; the bound is 5.
TWO = Book(keys=("a",), bounds={BELIEF: 5})
TWO.acquire(8, 10, 1, ttl=10).acquire(25, 30, 2, ttl=10)
# Nobody else asks. Worker 1's lease, asked for at 9, can end at 19; the bound is 5.
ALONE = Book(keys=("a",), bounds={BELIEF: 5}).acquire(8, 10, 1, sent=9, ttl=10)
# Worker 2 is granted the lock before worker 1's answer arrives.
OVERTAKEN = Book(keys=("a",), bounds={BELIEF: 0}).acquire(8, 60, 1, sent=9, token=1)
OVERTAKEN.acquire(25, 30, 2, token=2).release(70, 71, 1)
READING = Book(keys=("a",), bounds={BELIEF: 0}).acquire(8, 10, 1, flags=SHARED).acquire(25, 30, 2, flags=SHARED)
READING.release(40, 41, 1)
STALLED = TWO.then(lease="grant").release(37, 38, 1).add(F.STALL, 31, 33, process=1)
PAST_LEASE = {"kinds": ["believed-past-lease"]}
NO_BOUND = {"valid": True, "unexercised": "the lock declares no bound"}


@cases(
    "book, at",
    ("up to the bound", TWO.then().release(35, 36, 1), []),
    ("beyond the bound", TWO.then().release(36, 37, 1), [35]),
    ("simultaneous requests have no order", queued("grant"), []),
    ("but by tokens", queued("grant", 1, 2), [40]),
    ("readers lose to no readers", READING, []),
    ("who holds one of several permits loses to nobody", TWO.then(permits=2).release(60, 61, 1), []),
    ("without a lease a client that is stalled cannot ask", STALLED.then(lease="none"), []),
    ("stalled with a lease", STALLED, [35]),
)
def test_beliefs_beside_another(book: Book, at: list[int]) -> None:
    found = [violation for violation in result_on(book, BELIEF).violations if violation.kind == "believed-too-long"]
    assert [violation.at for violation in found] == at
    assert all(violation.holders == (0, 1) for violation in found)


test_honest_belief = known(
    BELIEF,
    ("released within the bound", ALONE.then().release(24, 25, 1), VALID),
    ("released beyond it", ALONE.then().release(25, 26, 1), {**PAST_LEASE, "moments": [24]}),
    ("nobody knows what a dead client believed", ALONE.then().write(30, 31, 1, 7), VALID),
    ("the server's clock may run fast", ALONE.then(drift=0.25).release(23, 24, 1), {**PAST_LEASE, "moments": [22]}),
    ("pings may keep a session alive", ALONE.then(lease="touch").release(90, 91, 1), VALID),
    ("no bound is declared", ALONE.then(bounds={}).release(90, 91, 1), NO_BOUND),
    # A late notice counts from when it was due, as its process did not run in between.
    ("noticed", TWO.then().add(F.LOST, 90, 91, owner=1, process=1, sent=35), {NOTICED: 1}),
    ("rounded up", OVERTAKEN, {LONGEST: 1}),
    ("one grant", Book(bounds={BELIEF: 1}).acquire(1, 2, 1), {"unexercised": "1 grant, 2 needed"}),
    ("the story names the first", TWO.then().release(37, 40, 1), {"told": ("worker 1 was granted",)}),
    ("a jump cuts a lease short", cut_short("expired-by-jump", "clock"), DOCUMENTED),
    ("lost data cut a lease short", cut_short("state-lost", "wipe"), DOCUMENTED),
    ("a frozen holder exercises it", under("freeze-holder"), {"word": Verdict.NOT_STRESSED}),
    ("slow links do not", under("slow-links"), {"word": Verdict.NOT_APPLICABLE}),
    ("nor does no fault", under("none"), {"word": Verdict.NOT_APPLICABLE}),
)

RENEWAL = "honest-renewal"
LOST: Any = {"outcome": FAIL, "reason": Reason.NOT_OWNER}


def session(lease: str = "session", **more: Any) -> Book:
    """Session 7 is asked for at 1, with a TTL of 10. Worker 1 is granted the lock in it at 5."""
    book = Book(keys=("a", "b"), lease=lease, ttl=10).add(F.SESSION_OPEN, 1, 2, session=7)
    return book.acquire(4, 5, 1, session=7, ttl=10, **more)


def session_refused(inv: int, ret: int, book: Book | None = None) -> Book:
    return (book or session()).add(F.KEEP_ALIVE, inv, ret, session=7, **LOST)


def grained(before: int) -> Book:
    """The keep-alive of 14 counts at most the grain (3) after `before`. The lease ends 20 - 3 later: at 24 or 31."""
    book = Book(lease="session", ttl=20, grain=3).add(F.SESSION_OPEN, 1, 2, session=7)
    book.add(F.KEEP_ALIVE, before, before + 1, session=7).add(F.KEEP_ALIVE, 14, 15, session=7)
    return session_refused(24, 25, book)


def called_over(asked: int, held: int, told: int, released: int) -> Book:
    """Worker 2's session 7 is created at 3, TTL 10. Worker 1 holds from `held` on, and keeps its session 8 alive."""
    book = Book(keys=("a",), lease="session", ttl=10)
    book.add(F.SESSION_OPEN, 1, 2, session=8).add(F.SESSION_OPEN, 3, 4, session=7)
    book.acquire(10, held, 1, session=8, ttl=10)
    for sent in (19, 28, 37, 46):
        book.add(F.KEEP_ALIVE, sent, sent + 1, session=8)
    session_refused(told - 1, told, book).release(released, released + 1, 1, session=8)
    return book.acquire(asked, 61, 2, session=7, ttl=10)


STALLED_IN_LINE = called_over(12, 11, 41, 50).fault("f", 15, 38, kind="stall", owner=7, process=6)


def excused(mechanism: str, kind: str, struck: int) -> Book:
    """A renewal is refused too early, at 16, beside the fault that a hazard names."""
    hazards = (Hazard(RENEWAL, ("f",), mechanism),)
    book = GRANTED.then(fault_names=("f",), claims=(Claim("server-exclusion"),), hazards=hazards)
    return book.renew(15, 16, 1, **LOST).fault("f", struck, struck + 1, kind=kind, healing=struck)


def prolonged(kind: str, over: int) -> Book:
    """The renewal of 31 to 32 is acknowledged after another grant at 30, while a server that was hit stands still."""
    book = GRANTED_TWICE.then(fault_names=("f",), hazards=(Hazard(RENEWAL, ("f",), "revoked-early"),))
    return book.renew(31, 32, 1).fault("f", 12, over, kind=kind, healing=over)


def unanswered(inv: int, ret: int, worker: int = 1, outcome: Outcome = Outcome.OK) -> Book:
    """A renewal of worker 1. From 11 to 13 no server could answer `worker`."""
    return GRANTED.then(workers=3, unreached=((worker, 11, 13),)).renew(inv, ret, 1, outcome)


def passed_on(book: Book, **more: Any) -> Book:
    return book.acquire(20, 21, 2, session=8, **more).add(F.KEEP_ALIVE, 22, 23, session=7)


GRANTED = Book(keys=("a",)).acquire(8, 10, 1, sent=9, ttl=10)
GRANTED_TWICE = GRANTED.then().acquire(20, 30, 2)
NO_GRANT = session_refused(9, 10, Book(lease="session", ttl=10).add(F.SESSION_OPEN, 1, 2, session=7))
GIVEN_BACK = GRANTED.then().release(11, 12, 1).acquire(13, 14, 2).renew(15, 16, 1)
UNREACHED = GRANTED.then().renew(11, 12, 1, FAIL, reason=Reason.UNAVAILABLE)
LIE = {"kind": "renewed-though-lost", "at": 31, "rows": (0, 1, 2), "told": ("was acknowledged although worker 2",)}
CUT, CUT_OFF = unanswered(11, 12).fault("f", 11, 13, target="clients c2 from x"), ("cut worker 1's client from x",)
EARLY = {"kind": "refused-though-held", "at": 18, "holders": (0,)}
NO_ANSWER = {"valid": True, "unexercised": "no renewal was answered, and no release refused"}
NO_LOCK = {"told": ("1 was granted the lock at", "'s keep-alive, sent")}
OVER, WAITING = {"kind": "granted-though-over"}, ("it waited for the lock then", "by then its lease could have")

test_renewals = known(
    RENEWAL,
    ("acknowledged although the lock was another's", GRANTED_TWICE.then().renew(31, 32, 1), LIE),
    ("acknowledged after the lease: expiry may come late", GRANTED.then().renew(40, 41, 1), {**GOOD, RENEWED: 1}),
    ("refused is no lie", GRANTED_TWICE.then().renew(31, 32, 1, **LOST), VALID),
    ("unanswered is no lie", GRANTED_TWICE.then().renew(31, 32, 1, INFO), VALID),
    ("acknowledged after its release and another's grant", GIVEN_BACK, INVALID),
    ("refused before the earliest end", GRANTED.then().renew(17, 18, 1, **LOST), EARLY),
    ("refused at the earliest end", GRANTED.then().renew(17, 19, 1, **LOST), {"valid": True, REFUSED: 1}),
    ("drift brings the end forward", GRANTED.then(drift=0.25).renew(16, 17, 1, **LOST), VALID),
    ("refused after the release was sent", GRANTED.then().release(16, 20, 1).renew(15, 17, 1, **LOST), VALID),
    ("a server that cannot be reached says nothing", UNREACHED, NO_ANSWER),
    ("no lease", GRANTED.then(lease="none").renew(11, 12, 1, **LOST), VALID),
    ("a release refused too early", GRANTED.then().release(16, 18, 1, **LOST), EARLY),
    ("a release while unavailable", GRANTED.then().release(16, 18, 1, FAIL, reason=Reason.UNAVAILABLE), NO_ANSWER),
    ("a release refused when its session was over", session().release(8, 11, 1, session=7, **LOST), VALID),
    ("a keep-alive refused too early", session_refused(9, 10), {"kind": "refused-though-held", "holders": (1,)}),
    ("a grant prolongs no session", session_refused(11, 13), VALID),
    ("but where requests touch it", session_refused(11, 13, session("touch")), INVALID),
    ("while no server could answer", CUT, {"kind": "renewed-by-nobody", "rows": (0, 1), "told": CUT_OFF}),
    ("sent before", unanswered(10, 12), VALID),
    ("answered afterwards", unanswered(12, 14), VALID),
    ("while none could answer another", unanswered(11, 12, worker=2), VALID),
    ("refused while none could answer", unanswered(11, 12, outcome=FAIL), NO_ANSWER),
    ("a keep-alive is told where nothing was granted", NO_GRANT, {"told": ("keep-alive",)}),
    ("with a grain a sign of life may be unknown", grained(4), VALID),
    ("two may not", grained(11), INVALID),
    ("a closed one", session_refused(9, 10, session().add(F.SESSION_CLOSE, 8, 0, INFO, session=7)), VALID),
    ("alive although its lock was another's", passed_on(session()), INVALID),
    ("a session has no lock of its own", passed_on(session(key=1), key=1), NO_LOCK),
    ("it outlives what was released", passed_on(session().release(15, 16, 1, session=7)), VALID),
    ("granted on a lease that was called over", STALLED_IN_LINE, {**OVER, "told": WAITING}),
    ("before it came the other: inside a hold", called_over(9, 11, 41, 50), OVER),
    ("or after it had ended by itself", called_over(9, 15, 41, 50), VALID),
    ("released as it was told", called_over(12, 11, 41, 41), VALID),
    ("what a jump excuses", excused("expired-by-jump", "clock", 12), DOCUMENTED),
    ("what lost data excuse", excused("state-lost", "wipe", 12), DOCUMENTED),
    ("a lease that was revoked", excused("revoked-early", "pause", 12), DOCUMENTED),
    ("a lease that was revoked later", excused("revoked-early", "pause", 17), VIOLATED),
    ("what an old leader prolongs while it stands still", prolonged("disk", 33), DOCUMENTED),
    ("what another prolongs later", prolonged("disk", 30), VIOLATED),
    ("a killed one prolongs nothing", prolonged("kill", 33), VIOLATED),
    ("lost data are no jump", excused("expired-by-jump", "wipe", 12), VIOLATED),
)


def followed(**more: Any) -> Book:
    """Worker 1 is granted the lock at 10, with a lease of 10, and worker 2 at 30."""
    return Book(keys=("a",)).acquire(8, 10, 1, ttl=10).acquire(25, 30, 2, **more)


FOREIGN_RELEASE = {"kind": "released-anothers", "at": 31, "rows": (0, 1, 2), "holders": (0, 1)}
ANOTHERS = {"told": ("So worker 1's release was acknowledged although worker", "held it by then")}
NOT_ITS_OWN = {"holders": (0, 1), "told": ("although worker 2 had been granted the lock after it.",)}
EXERCISED, IN_DOUBT = {**GOOD, STALE_RELEASES: 1}, {"unexercised": "nobody released what another held by then"}
LONG_LEASE = followed(ttl=90).acquire(40, 41, 3, ttl=2).release(50, 51, 1)
# Worker 2 has released by 32, and worker 3 holds the lock from 35 on.
THREE = followed().release(31, 32, 2).acquire(33, 35, 3).release(36, 37, 1)

test_owner_release = known(
    "owner-release",
    ("acknowledged though another has it", followed().release(31, 32, 1), FOREIGN_RELEASE),
    ("refused", followed().release(31, 32, 1, FAIL), EXERCISED),
    ("not answered", followed().release(31, 32, 1, INFO), EXERCISED),
    ("released once more, on purpose", followed().release(31, 32, 1, flags=LATE), IN_DOUBT),
    ("sent before the grant returned", followed().release(30, 32, 1), IN_DOUBT),
    ("who had it at that moment", THREE, {"rows": (0, 3, 4), "holders": (0, 3), **ANOTHERS}),
    ("when it could be over", followed().release(35, 36, 1), NOT_ITS_OWN),
    ("a long lease that began before others", LONG_LEASE, {"holders": (0, 1), **ANOTHERS}),
)


# Crashes: worker 1 is granted at 10 for 10, and killed at 12. The bound is 5, so others must get the lock by 27.
FACTS: dict[str, Any] = {"keys": ("a",), "bounds": {"crash-release": 5}, "fault_names": ("kill-holder",)}


def crash(kind: str = "kill", healed: int = 60, process: int = 1, **facts: Any) -> Book:
    book = Book(**{**FACTS, **facts}).acquire(9, 10, 1, ttl=10)
    book.fault("kill-holder", 11, healed, applied=12, kind=kind, owner=1, process=process)
    return book.read(11, 12, 1, -1)


def hung(healed: int = 60) -> Book:
    return crash("stall", healed)


def refused(inv: int, ret: int, reason: Reason = Reason.NONE, process: int = 2, book: Book | None = None) -> Book:
    return (book or crash()).add(F.ACQUIRE, inv, ret, FAIL, process=process, reason=reason)


# A writer asks from 13 to 35. The dead reader's lease ends at 22, the other reader's at 26.
BESIDE = Book(**FACTS).acquire(9, 10, 1, ttl=10, flags=SHARED).read(11, 12, 1, -1).acquire(13, 35, 9)
BESIDE.fault("kill-holder", 11, 60, applied=12, kind="kill", owner=1, process=1)
BESIDE.acquire(14, 16, 2, ttl=10, flags=SHARED)
SLOW = Book(**{**FACTS, "bounds": {"crash-release": 10**9}}, ttl=10**7).acquire(1, 2, 1)
SLOW.fault("kill-holder", 3, 10**9, kind="kill", owner=1, process=1).acquire(5, 3 * 10**7 + 3, 2)
NOBODY_WAITED = {"valid": True, WAITED_FOR: 0}
WAITED = ("worker 2 asked for the lock",)
AT_A_MESSAGE = Book(**{**FACTS, "fault_names": ("at-every-request-kill",)}).acquire(9, 10, 1, ttl=10)
AT_A_MESSAGE.fault("at-every-request-kill", 11, 60, kind="stall", owner=1, process=1).acquire(13, 70, 2)
NEVER = {"kind": "never-freed", "at": 28, "holders": (0,), "rows": (0, 3), "told": WAITED}  # row 3 waited at 28
NOT_LONG = {"valid": True, "unexercised": "nobody asked for long enough for what a dead or hung holder held"}
NO_CRASH = {"valid": True, "unexercised": "no holder died, or hung for longer than the TTL"}
HUNG, ALIVE = {"kind": "kept-by-a-hung-holder", "at": 27}, ("1 hung, while its client went on renewing. It kept",)
SESSION = Book(**FACTS, lease="session").acquire(9, 10, 1, ttl=10, session=7).add(F.KEEP_ALIVE, 13, 14, session=7)
SESSION.fault("kill-holder", 12, 60, kind="kill", owner=1, process=1).acquire(15, 29, 2, session=8)


def silent(answered: int, granted: int, **facts: Any) -> Book:
    """Worker 2 asks from 16 on to be kept alive, and has its first answer at `answered`. Session 7 can end at 24."""
    book = Book(**{**FACTS, "lease": "session", **facts}).acquire(9, 10, 1, ttl=10, session=7)
    book.add(F.KEEP_ALIVE, 13, 14, session=7, process=1).fault("kill-holder", 12, 60, kind="kill", owner=1, process=1)
    book.add(F.KEEP_ALIVE, 16, 0, INFO, session=8, process=2, given_up=min(answered, 19))
    if answered > 19:
        book.add(F.KEEP_ALIVE, 20, 20, FAIL, session=8, process=2, reason=Reason.UNAVAILABLE)
        book.add(F.KEEP_ALIVE, 21, answered, session=8, process=2)
    return book.acquire(15, granted, 2, session=8)


# Worker 2 held the lock when worker 1 was killed.
PASSED_ON_BEFORE = Book(**FACTS).acquire(1, 2, 1, ttl=3).acquire(7, 8, 2, ttl=30)
PASSED_ON_BEFORE.fault("kill-holder", 9, 60, kind="kill", owner=1, process=1).add(F.ACQUIRE, 9, 38, FAIL, process=3)
# Worker 1's lease could end at 20; its answer comes after that, at 25, or before, at 19. Worker 2 holds from 18 on.
ANSWERED_LATE, ANSWERED = (Book(**FACTS).acquire(9, ret, 1, sent=10, ttl=10) for ret in (25, 19))
for book in (ANSWERED_LATE, ANSWERED):
    book.acquire(11, 18, 2, ttl=90)
    book.fault("kill-holder", 26, 60, kind="kill", owner=1, process=1).add(F.ACQUIRE, 27, 70, FAIL, process=3)
BOTH_DIED = Book(**FACTS)
for owner, at in ((1, 9), (2, 13)):
    BOTH_DIED.acquire(at, at + 1, owner, ttl=10, flags=SHARED)
    BOTH_DIED.fault("kill-holder", at + 2, 60, kind="kill", owner=owner, process=owner)
BOTH_DIED.acquire(14, 60, 3)

test_crash_release = known(
    "crash-release",
    ("in time", crash().acquire(13, 27, 2), {**GOOD, CRASHED: 1, WAITED_FOR: 1}),
    ("too late", crash().acquire(13, 28, 2), {"kind": "freed-late", "at": 27, "rows": (0, 2)}),
    ("whom a walk stalls meanwhile does not hang", AT_A_MESSAGE, NO_CRASH),
    ("never", refused(26, 90, book=refused(13, 25, Reason.TIMEOUT)), NEVER),
    ("who was not in line did not wait", refused(13, 90, Reason.UNAVAILABLE), NOT_LONG),
    ("an unanswered acquire may have been granted", refused(13, 90).add(F.ACQUIRE, 26, 0, INFO, process=3), NOT_LONG),
    ("who gets it late after one", crash().add(F.ACQUIRE, 5, 0, INFO, process=3).acquire(13, 28, 2), NOBODY_WAITED),
    ("the TTL counts from the last keep-alive", SESSION, VALID),
    ("an election may have given it all of its time anew", silent(22, 37), VALID),
    ("not more than that", silent(22, 38), {"kind": "freed-late", "at": 37}),
    ("without an answer the election may have come within a TTL", silent(19, 44), VALID),
    ("of one that was killed nobody knows whether it had an answer", silent(0, 30), INVALID),
    ("where leases are the grants', the silence is all", silent(27, 32, lease="grant"), VALID),
    ("and nothing after it", silent(27, 33, lease="grant"), INVALID),
    ("late without a lease", crash(lease="none").acquire(13, 19, 2), INVALID),
    ("it took long to die", crash(lease="none").add(F.STALL, 12, 30, process=1).acquire(13, 35, 2), VALID),
    ("what had been passed on before", PASSED_ON_BEFORE, NO_CRASH),
    ("another reader's renewed lease, until 31", BESIDE.then().renew(20, 21, 2), VALID),
    ("another reader's early release", BESIDE.then().release(28, 29, 2, flags=SHARED), INVALID),
    ("who died with a late answer kept nobody out", ANSWERED_LATE, NO_CRASH),
    ("who died with one in time may have", ANSWERED, {"kinds": ["never-freed"]}),
    ("two readers that died", BOTH_DIED, {"kinds": ["freed-late", "freed-late"]}),
    ("a long call", crash("call").renew(16, 17, 1).acquire(13, 70, 2), HUNG),
    ("passed on in time though renewed", hung().renew(18, 19, 1).acquire(13, 24, 2), VALID),
    ("passed on too late", hung().renew(18, 19, 1).acquire(13, 28, 2), {**HUNG, "at": 22, "told": ALIVE}),
    ("renewed until the bound", hung(25).renew(17, 18, 1).acquire(13, 26, 2), VALID),
    ("a short stall is no crash", hung(22).acquire(13, 24, 2), NO_CRASH),
    ("nor is a hung renewal, of 4 workers", crash(process=1 + 4).acquire(13, 24, 2), NO_CRASH),
    ("no bound", crash(bounds={}), {"unexercised": "the lock declares no bound"}),
    ("permits", crash(permits=2), {"unexercised": "several may hold at once"}),
    ("the slowest", SLOW, {SLOWEST: 20}),
)


def test_each_dead_reader_is_reported() -> None:
    assert sorted(violation.holders[0] for violation in result_on(BOTH_DIED, "crash-release").violations) == [0, 1]

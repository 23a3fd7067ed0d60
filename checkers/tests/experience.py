"""What clients experience, judged moment by moment on random tiny histories, without the methods of the checkers."""

from dataclasses import replace
from itertools import product, takewhile
from random import Random
from typing import NamedTuple

from checkers.row_format import SHARED, F, Outcome, Reason
from checkers.tests import brute, generate
from checkers.tests.brute import FOREVER, Lease
from checkers.tests.build import FAIL, INFO, OK, Book, compare, counted, result_on


def belief(rng: Random) -> str:
    """Each moment of a belief: was another granted the lock, or could the lease end, more than the bound before it?"""
    bound = rng.randint(0, 3)
    grants, book = _grants(rng, {"honest-belief": bound})
    ends, told = [], []
    for owner, grant in enumerate(grants, 1):
        left = [grant.release[0]] if grant.release else []
        due = FOREVER
        if rng.random() < 0.5:
            at = grant.ret + rng.randint(0, 8)
            due = at - rng.randint(0, 5)
            book.add(F.LOST, at, at, owner=owner, sent=max(due, 1), process=owner)
            left.append(at)
        last = max(grant.ret, *(inv for inv, _ in grant.renewals), 0)
        over = max(due, 1) <= grant.ret
        ends.append(grant.ret if over else min(max(min(left, default=last), grant.ret), max(due, 1)))
        told.append(bool(left))
    truth = 0
    for grant, end, said in zip(grants, ends, told, strict=True):
        others = [later.ret for later in grants if brute.comes_after(later, grant, grants)]
        if said:  # else nobody knows how long the client believed
            others.append(max([grant.start, *(inv for inv, _ in grant.renewals)]) + grant.ttl)
        truth += any(moment - bound > least for moment in range(grant.ret + 1, end + 1) for least in others)
    return counted(result_on(book, "honest-belief"), truth, book.rows)


def owner_release(rng: Random) -> str:
    """Compares each acknowledged release with all grants that came later."""
    grants, book = _grants(rng, {})
    for place, grant in enumerate(grants):
        if not grant.release:
            at = max([grant.ret, *(ret for _, ret in grant.renewals)]) + rng.randint(0, 9)
            outcome = rng.choice((OK, OK, FAIL, INFO))
            book.release(at, at + 1, place + 1, outcome)
            if outcome != FAIL:
                grants[place] = replace(grant, release=(at, at + 1 if outcome == OK else FOREVER))
    truth = sum(
        any(grant.release[0] > later.ret for later in grants if brute.comes_after(later, grant, grants))
        for grant in grants
        if grant.release and grant.release[1] < FOREVER
    )
    return counted(result_on(book, "owner-release"), truth, book.rows)


def renewal(rng: Random) -> str:
    """Compares each acknowledged renewal with later grants and with the moments at which some server could answer, and
    each refusal with all instants of what came before.
    """
    made = [replace(lease, release=None) for lease in generate.leases(rng, "grant")]
    spans = [(rng.randint(0, len(made)), begin, begin + rng.randint(1, 9)) for begin in rng.choices(range(20), k=3)]
    book = generate.lease_book(made, "grant", Random(0.0)).then(workers=len(made) + 1, unreached=tuple(spans))
    asked = [(grant, inv) for grant in made for inv, _ in grant.renewals]
    truth = sum(any(inv > later.ret for later in made if brute.comes_after(later, grant, made)) for grant, inv in asked)
    for owner, grant in enumerate(made, 1):
        silent = [range(begin, end + 1) for worker, begin, end in spans if worker == owner]
        truth += sum(any({inv, ret} <= {*moments} for moments in silent) for inv, ret in grant.renewals)
        for _ in range(rng.choice((0, 1, 1, 2))):
            inv, ret = generate.call(rng, grant.ret, grant.ret + 9, 2)
            if any(span[0] < ret and inv < span[1] for span in grant.renewals):
                continue  # nobody can say which of two overlapping requests came first
            book.renew(inv, ret, owner, FAIL, reason=Reason.NOT_OWNER)
            truth += not _can_be_over(grant, inv, ret)
        if rng.random() < 0.3:
            inv, ret = generate.call(rng, grant.ret, grant.ret + 9, 2)
            book.release(inv, ret, owner, FAIL, reason=Reason.NOT_OWNER)
            truth += not _can_be_over(grant, inv, ret)
    return counted(result_on(book, "honest-renewal"), truth, book.rows)


def _can_be_over(grant: Lease, inv: int, ret: int) -> bool:
    """Whether the lease may be over at some instant of a refusal. Tries all instants of what came before it."""
    before = [span for span in grant.renewals if span[1] <= inv]
    instants = [range(grant.start, grant.ret + 1), *(range(span[0], span[1] + 1) for span in before)]
    return any(moment >= max(chosen) + grant.ttl for chosen in product(*instants) for moment in range(inv, ret + 1))


def crash_release(rng: Random) -> str:
    """Each tick since the lock should be free: did somebody wait, did readers hold beside the dead one, did all run?"""
    bound, ttl = rng.randint(1, 6), rng.randint(1, 6)
    bounds, lease = {"crash-release": bound, "recovery": 2}, rng.choice(("grant", "touch"))
    book = Book(keys=("a",), bounds=bounds, fault_names=("kill-holder",), ttl=ttl, lease=lease)
    hung = rng.random() < 0.3
    struck = rng.randint(4, 8)
    resumed = struck + rng.randint(1, 25) if hung else FOREVER
    reader = rng.random() < 0.4
    book.acquire(2, 3, 1, ttl=ttl, flags=SHARED * reader)
    book.fault("f", struck, resumed if hung else 60, kind="stall" if hung else "kill", owner=1, process=1)
    last = struck
    secured = 0
    if rng.random() < 0.5:
        at, outcome = struck + rng.randint(-1, 4), rng.choice((OK, OK, INFO))
        book.renew(at, at + 1, 1, outcome)
        if not hung:
            last = max(last, at if outcome == INFO else at + 1)
        elif outcome == OK and struck < at < resumed:
            secured = at + ttl
    free = last + ttl
    waits, beside, doubt, granted, finish = [], [], FOREVER, FOREVER, 0
    for owner in range(2, 2 + rng.randint(0, 4)):
        inv, ret = generate.call(rng, 4, 30, 15)
        outcome = rng.choice((OK, FAIL, FAIL, FAIL, INFO))
        refused = outcome == FAIL and rng.random() < 0.2
        reason = Reason.UNAVAILABLE if refused else Reason.TIMEOUT if outcome == FAIL else Reason.NONE
        shared = rng.random() < 0.4
        who = owner if outcome == OK else 0
        book.acquire(inv, ret, who, outcome=outcome, reason=reason, process=owner, flags=SHARED * shared)
        finish = max(finish, inv if outcome == INFO else ret)
        if outcome == INFO:
            doubt = min(doubt, inv)
        elif shared and reader:
            if outcome == OK:
                beside.append((inv, _left(book, rng, owner, ret, ttl)))
            continue
        elif not refused:
            waits.append((inv, ret))
        if outcome == OK:
            granted = min(granted, ret)
    exempt = [(row[0], row[1]) for row in book.rows if row[12] == F.RENEW and row[13] != INFO]
    asked = _keep_alives(book, rng)
    exempt += [(request.inv, request.ret) for request in asked]
    exempt += [(inv, ret + (ttl if lease == "touch" else 0)) for inv, ret in _lost(asked, ttl)]
    for _ in range(rng.choice((0, 0, 1, 2))):
        inv, ret = generate.call(rng, 4, 30, 5)
        if rng.random() < 0.7:
            book.add(F.STALL, inv, ret, process=9)
            finish = max(finish, ret)
            exempt.append((inv, ret))
        else:
            book.fault("pause-server", inv, ret)
            exempt.append((inv, ret + 2))
    stop = min(granted, resumed, max([finish, *(max(row[0], row[1]) for row in book.rows)]))
    waited = [
        tick
        for tick in range(free, stop)
        if any(inv <= tick < ret for inv, ret in waits)
        and not any(inv <= tick < ret for inv, ret in (*exempt, *beside))
    ]
    for_certain = sum(tick < doubt for tick in waited)
    passed_on = granted == stop and len(waited) <= bound
    over = ttl == 1 and not any(row[12] == F.RENEW and row[5] == 1 and row[13] == OK for row in book.rows)
    counts = granted > struck and not (hung and resumed <= free) and not over  # over: when its own answer came
    kept = for_certain > bound or (for_certain > 0 and secured > free + bound and not passed_on)
    return counted(result_on(book, "crash-release"), int(counts and kept), (book.rows, book.faults))


def hand_over(rng: Random) -> str:
    """Each tick since a release, or a grant of several permits: was there room, did somebody wait, and did all run?"""
    bound, ttl = rng.randint(1, 6), rng.randint(1, 4)
    struck = rng.random() < 0.4
    bounds, permits = {"hand-over": bound, "recovery": 2}, rng.choice((1, 1, 1, 2, 3))
    book = Book(keys=("a",), bounds=bounds, ttl=ttl, lease="grant", permits=permits)
    begun, healed = (rng.randint(10, 25), rng.randint(25, 30)) if struck else (FOREVER, 0)
    if struck:
        book.fault("f", begun, healed)
    waits: list[tuple[int, int]] = []
    taken: list[tuple[int, int]] = []
    holds: list[tuple[int, int, int]] = []
    readers: list[tuple[int, int]] = []
    writers: list[tuple[int, int]] = []
    unanswered: list[int] = []
    there: list[tuple[int, int]] = []
    failed: list[tuple[int, int, Reason]] = []
    doubt = FOREVER
    for owner in range(1, 2 + rng.randint(0, 6)):
        inv, ret = generate.call(rng, 1, 40, 15)
        outcome = rng.choice((OK, OK, OK, FAIL, FAIL, INFO))
        refused, tries = outcome == FAIL and rng.random() < 0.2, rng.random() < 0.4
        reason, ret = Reason.UNAVAILABLE if refused else Reason.HELD if tries else Reason.TIMEOUT, max(ret, inv + tries)
        reader = permits == 1 and outcome != FAIL and rng.random() < 0.3
        who, flags = owner if outcome == OK else 0, SHARED * reader
        kind, why = F.TRY_ACQUIRE if tries else F.ACQUIRE, reason if outcome == FAIL else Reason.NONE
        book.add(kind, inv, ret, outcome, owner=who, process=owner, ttl=ttl, flags=flags, reason=why)
        there.append((inv, FOREVER if outcome == INFO else ret))
        failed += [(inv, ret, reason)] if outcome == FAIL else []
        if outcome == INFO and reader:
            doubt = min(doubt, inv)
        elif outcome == INFO:
            unanswered.append(inv)
        else:
            (taken if refused else waits).append((inv, ret))
        if outcome == OK:
            over, freed = inv + ttl, FOREVER
            if rng.random() < 0.8:
                at, freed = generate.call(rng, ret, ret + 8, 1)
                answer = rng.choice((OK, OK, OK, INFO))
                book.release(at, freed, owner, answer)
                over = min(over, at)
                freed = FOREVER if answer == INFO else freed
            if reader and freed == FOREVER:
                readers.append((ret, len(holds)))
            elif not reader:
                writers.append((inv, ret))
            holds.append((ret, max(over, ret), freed))
            there[-1] = inv, freed
    for ret, place in readers:  # a reader may stay until a writer, which excludes it, is certainly inside
        holds[place] = ret, min((granted for sent, granted in writers if sent > ret), default=FOREVER), FOREVER
    stalled = [(inv, inv + rng.randint(0, 5)) for inv in rng.choice(((), (), (rng.randint(1, 40),)))]
    for inv, ret in stalled:
        book.add(F.STALL, inv, ret, process=9)
    asked = _keep_alives(book, rng)
    finish = max(max(row[0], row[1]) for row in book.rows)

    def idle(tick: int) -> bool:
        return _silent(asked, tick, ttl) or any(inv <= tick < ret for inv, ret in stalled)

    def waits_at(tick: int) -> bool:
        refused = any(inv <= tick < ret for inv, ret in taken)
        return not idle(tick) and not refused and any(inv <= tick < ret for inv, ret in waits)

    def wrong(inv: int, ret: int, reason: Reason) -> bool:
        """Whether a failed call should have been granted."""
        others = sum(sent <= ret and gone >= inv - bound for sent, gone in there) - 1
        silent = [span for span in (*stalled, *_lost(asked, ttl)) if span[0] < span[1]]
        calm = all(end <= inv - bound or start >= inv for start, end in silent) and not any(map(idle, range(inv, ret)))
        return reason == Reason.HELD and ret < begun and others < permits and calm

    late = []
    for freed in (moment for ret, _, gone in holds for moment in (gone, ret)[:permits]):
        end = min([finish, *(ret for ret, _, _ in holds if ret > freed)])
        end = min(end, doubt, begun if freed < begun else end)
        inside = sum(ret <= freed < (over if permits == 1 and gone == FOREVER else gone) for ret, over, gone in holds)
        inside += sum(inv < end for inv in unanswered) * (permits > 1)
        quiet = freed < begun or freed >= healed + 2 + ttl or not struck
        waited = sum(map(waits_at, range(min(freed, end), end)))
        if quiet and inside < permits and waited > bound:
            late.append((end, [tick for tick in range(freed, end) if waits_at(tick)][bound]))
    ends = sorted({end for end, _ in late})
    explained = any(
        all(any(end == by and sent < at for sent, by in zip(unanswered, chosen, strict=True)) for end, at in late)
        for chosen in product((*ends, FOREVER), repeat=len(unanswered))
    )
    result, refusals = result_on(book, "hand-over"), sum(wrong(*call) for call in failed)
    if not unanswered or permits > 1:
        return counted(result, len(late) + refusals, (book.rows, book.faults))
    return compare(result.valid, explained and not refusals, (book.rows, book.faults))


class KeepAlive(NamedTuple):
    """A request to prolong a lease (of a session if `session`), and whether it was answered."""

    inv: int
    ret: int
    session: bool
    answered: bool


def _keep_alives(book: Book, rng: Random) -> list[KeepAlive]:
    """Requests of one worker, one after another. A request during which the worker was killed is left out."""
    asked: list[KeepAlive] = []
    at = rng.randint(1, 30)
    for _ in range(rng.choice((0, 0, 1, 4))):
        inv, ret = generate.call(rng, at, at + 4, 3)
        f, outcome = rng.choice((F.KEEP_ALIVE, F.KEEP_ALIVE, F.RENEW)), rng.choice((OK, FAIL, FAIL, INFO))
        reason = rng.choice((Reason.UNAVAILABLE, Reason.NOT_OWNER)) if outcome == FAIL else Reason.NONE
        killed = outcome == INFO and rng.random() < 0.2
        book.add(f, inv, ret, outcome, reason=reason, given_up=0 if killed else ret, session=9, owner=99, process=9)
        if not killed:
            answered = outcome != INFO and reason != Reason.UNAVAILABLE
            asked.append(KeepAlive(inv, ret, f == F.KEEP_ALIVE, answered))
        at = ret
    return asked


def _silent(asked: list[KeepAlive], tick: int, ttl: int) -> bool:
    """Whether a request is under way, or a session's last requests had no answer: until one has, else for a TTL."""
    if any(request.inv <= tick < request.ret for request in asked):
        return True
    of_session = [request for request in asked if request.session]
    ended = [request for request in of_session if request.ret <= tick]
    lost = list(takewhile(lambda request: not request.answered, reversed(ended)))
    answered_later = any(request.answered for request in of_session[len(ended) :])
    return bool(lost) and (answered_later or tick < lost[-1].ret + ttl)


def _lost(asked: list[KeepAlive], ttl: int) -> list[tuple[int, int]]:
    """Spans from each first unanswered request of a session to the next answer, else for a TTL after its return."""
    of_session = [request for request in asked if request.session]
    lost = []
    for place, request in enumerate(of_session):
        if not request.answered and (place == 0 or of_session[place - 1].answered):
            answers = (later.ret for later in of_session[place:] if later.answered)
            lost.append((request.inv, next(answers, request.ret + ttl)))
    return lost


def _left(book: Book, rng: Random, owner: int, ret: int, ttl: int) -> int:
    """A reader renews, or releases, or does nothing more. Returns until when it may have held the lock."""
    at = ret + rng.randint(0, 6)
    deed, outcome = rng.choice((book.renew, book.release)), rng.choice((OK, FAIL, INFO))
    if rng.random() < 0.3:
        return ret + ttl
    deed(at, at + 1, owner, outcome)
    if deed == book.release and outcome == OK:
        return at + 1
    return (at if outcome == INFO else at + 1) + ttl


def calls(rng: Random) -> str:
    """Counts the ticks of each call in which its worker ran, until the last deed of any if the call never ended, and
    looks for what met an acquire that timed out.
    """
    margin, patience, workers = rng.randint(0, 8), rng.randint(1, 8), 2
    book = Book(keys=("a",), bounds={"fail-fast": margin}, patience=patience, workers=workers)
    for _ in range(rng.randint(0, 3)):
        inv, process = rng.randint(1, 20), rng.randint(0, 7)
        ret = inv + rng.randint(0, 8)
        if rng.random() < 0.5:
            book.add(F.STALL, inv, ret, process=process)
        else:
            book.fault("f", inv, ret, kind=rng.choice(("freeze", "stall", "call", "kill")), owner=99, process=process)
    for owner in range(1, 1 + rng.randint(1, 4)):
        f, inv = rng.choice((F.ACQUIRE, F.RENEW, F.RELEASE, F.KEEP_ALIVE)), rng.randint(1, 20)
        ret, outcome = rng.choice(((inv + rng.randint(0, 20), OK), (inv + rng.randint(0, 20), FAIL), (0, INFO)))
        reason = rng.choice((Reason.HELD, Reason.TIMEOUT)) if outcome == FAIL else Reason.NONE
        book.add(f, inv, ret, outcome, reason=reason, owner=owner, process=rng.randint(0, 7))
    rows = sorted(book.rows, key=lambda row: row[0])
    finish = max((max(row[:2]) for row in rows if row[12] != F.STALL), default=0)
    stalls = [(row[9] % workers, *row[:2]) for row in rows if row[12] == F.STALL]
    lapses = stalls + [(hit.process % workers, hit.begun, hit.healed) for hit in book.faults if hit.kind != "kill"]
    kills = [(hit.process % workers, hit.healed) for hit in book.faults if hit.kind == "kill"]
    truth = 0
    for place, (inv, ret, *row) in enumerate(rows):
        process, f, reason = row[7], row[10], row[12]
        worker = process % workers
        own = (other for other in rows[place + 1 :] if (other[9] - process) % (2 * workers) == 0)
        later = any(other[12] != F.STALL for other in own)
        killed = any(who == worker and at >= inv for who, at in kills)
        hangs = f in (F.ACQUIRE, F.RELEASE) and not later and not killed
        told, span = patience if f == F.ACQUIRE else 0, range(inv, ret or (finish if hangs else inv))
        ran = sum(not any(who == worker and begin <= t < end for who, begin, end in lapses) for t in span)
        truth += ran - told > margin and f != F.STALL
        met = [fault.begun <= ret and inv <= fault.over for fault in book.faults]
        met += [who == worker and begin <= ret and inv <= end for who, begin, end in stalls]
        truth += not any(met) and f == F.ACQUIRE and reason == Reason.TIMEOUT and ret - inv < told - margin
    return counted(result_on(book, "fail-fast"), truth, (book.rows, book.faults))


def _grants(rng: Random, bounds: dict[str, int]) -> tuple[list[Lease], Book]:
    grants = generate.leases(rng, "grant")
    book = generate.lease_book(grants, "grant", Random(0.0))  # without renewals strewn in
    book.facts = replace(book.facts, bounds=bounds)
    book.rows = [row for row in book.rows if row[12] != F.RENEW or row[13] == Outcome.OK]
    return grants, book

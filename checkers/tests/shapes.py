"""Random tiny histories of readers, permits, queues, circles and jobs, judged by trying out what is possible."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, permutations, product
from random import Random

from checkers.history.history import Contents, Entry
from checkers.row_format import NESTED, NONE, SHARED, F, Reason
from checkers.tests import generate
from checkers.tests.brute import FOREVER, Lease, ends, inside_together, tokens_ordered
from checkers.tests.build import FAIL, INFO, OK, Book, Disagreement, compare, counted, result_on, sound

SECOND = 10**9


def readers(rng: Random) -> str:
    """Readers and writers at the service. The comparison is exact with tokens or if no grant is movable, else sound."""
    leases = [lease for _ in range(rng.randint(1, 2)) for lease in generate.leases(rng, "grant")][:4]
    shared = [rng.random() < 0.6 for _ in leases]
    if len({lease.token for lease in leases}) < len(leases):
        leases = [replace(lease, token=NONE) for lease in leases]
    book = generate.lease_book(leases, "grant", rng)
    for n, reads in enumerate(shared, 1):
        book.rows = [(*row[:-1], SHARED) if reads and row[5] == n else row for row in book.rows]
    known = all(lease.token >= 0 for lease in leases) and tokens_ordered(leases)
    truth = _room(leases, shared, ordered=known)
    valid = result_on(book, "server-exclusion").valid
    if known or not any(ends(lease)[lease.start] <= max(ends(lease)) for lease in leases):
        return compare(valid, truth, (leases, shared))
    return sound(valid, truth, (leases, shared))


def _room(leases: list[Lease], shared: list[bool], *, ordered: bool) -> bool:
    """Whether some choice of instants keeps all holds apart, except readers from readers."""
    pairs = [(i, j) for i, j in combinations(range(len(leases)), 2) if not (shared[i] and shared[j])]
    choices = [[(a, end, lease.token * ordered) for a, end in ends(lease).items()] for lease in leases]
    return any(all(_before(at[i], at[j]) or _before(at[j], at[i]) for i, j in pairs) for at in product(*choices))


def _before(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    return one[1] <= other[0] and one[2] <= other[2]


def reading_holders(rng: Random) -> str:
    """Counts pairs that were inside together, except pairs of readers."""
    book = Book(keys=("a",))
    holds = []
    for owner in range(1, rng.randint(2, 6)):
        inv, flags = rng.randint(1, 12), SHARED * (rng.random() < 0.6)
        ret, left = generate.call(rng, inv, inv + 3, 6)
        book.acquire(inv, ret, owner, flags=flags).release(left, left + 1, owner, flags=flags)
        holds.append((ret, left, flags))
    readers = [(ret, left) for ret, left, flags in holds if flags]
    pairs = inside_together([hold[:2] for hold in holds]) - inside_together(readers)
    return counted(result_on(book, "holder-exclusion"), pairs, holds)


def capacity(rng: Random) -> str:
    """Permits at the service. The comparison is exact if each grant has one instant, else sound."""
    room = rng.randint(1, 3)
    leases = [lease for _ in range(3) for lease in generate.leases(rng, "grant")][:5]
    if rng.random() < 0.5:
        leases = [replace(lease, start=lease.ret, renewals=()) for lease in leases]
    book = generate.lease_book([replace(lease, token=NONE) for lease in leases], "grant", rng)
    book.facts = replace(book.facts, permits=room)
    choices = product(*(ends(lease).items() for lease in leases))
    truth = any(all(sum(a <= t < end for a, end in holds) <= room for t in range(60)) for holds in choices)
    valid = result_on(book, "permits").valid
    points = all(lease.start == lease.ret for lease in leases)
    return compare(valid, truth, (room, leases)) if points else sound(valid, truth, (room, leases))


def crowd(rng: Random) -> str:
    """Counts each arrival after which more were inside than there are permits."""
    room = rng.randint(2, 3)
    book = Book(keys=("a",), permits=room)
    holds = []
    for owner, ret in enumerate(rng.sample(range(1, 30), rng.randint(2, 7)), 1):
        left = ret + rng.randint(0, 12)
        book.acquire(max(ret - 2, 1), ret, owner).release(left, left + 1, owner)
        holds.append((ret, left))
    late = sum(left > ret and sum(one <= ret < other for one, other in holds) > room for ret, left in holds)
    return counted(result_on(book, "holder-exclusion"), late, (room, holds))


def queue(rng: Random) -> str:
    """A queue whose order may be disturbed. Counts pairs of which one certainly asked later and was granted earlier."""
    ttl = rng.randint(3, 30)
    book = Book(keys=("a",), ttl=ttl)
    entered, clock = [], 1
    grants: list[tuple[int, int, int, int, int, int]] = []
    for owner in range(1, rng.randint(3, 6)):
        clock += rng.randint(0, 3)
        entered.append((clock, owner))
    if rng.random() < 0.6:
        rng.shuffle(entered)
    free = 0
    for at, owner in entered:
        a = max(at, free) + rng.randint(0, 2)
        ret = a + rng.choice((0, 0, 1, 4))
        release = ret + rng.randint(1, 4)
        inv, queued = max(1, at - rng.randint(0, 1)), at + rng.randint(0, 1)
        start = rng.choice((inv, max(inv, a - 1)))
        told = rng.random() < 0.9
        grants.append((inv, queued if told else NONE, start, ret, min(release, FOREVER), owner))
        book.acquire(inv, ret, owner, sent=start, base=queued if told else NONE).release(release, release, owner)
        free = release if rng.random() < 0.9 else a + ttl
    passed = sum(_overtaken(early, late, ttl) for early, late in permutations(grants, 2))
    return counted(result_on(book, "fifo"), passed, grants)


def _overtaken(early: tuple[int, int, int, int, int, int], late: tuple[int, int, int, int, int, int], ttl: int) -> bool:
    """Whether in every course of events `early` was queued first, but `late` was granted and answered first."""
    inv, queued, start, ret, release, _ = early
    if queued == NONE or late[3] >= ret:
        return False
    courses = [
        (joins, other, a, b)
        for joins in range(inv, queued + 1)
        for other in range(late[0], max(late[0], late[3]) + 1)
        for a in range(max(start, joins), ret + 1)
        for b in range(max(late[2], other), late[3] + 1)
        if min(release, a + ttl) <= b or b < a
    ]
    return all(joins < other and b < a for joins, other, a, b in courses)


def herd(rng: Random) -> str:
    """Plays a queue. Each watches the one before, or all watch all; a client that gave up may still be woken."""
    all_at_once = rng.random() < 0.4
    book, clock = Book(keys=("a",)), 1
    wakes: Counter[int] = Counter()
    waiting: list[int] = []
    stale: list[tuple[int, int]] = []
    outcome: dict[int, str] = {}
    count = rng.randint(2, 9)
    coming = list(range(1, count + 1))
    while coming or waiting:
        clock += 1
        if coming and (not waiting or rng.random() < 0.6):
            waiting.append(coming.pop(0))
            continue
        place = 0 if len(waiting) == 1 or rng.random() < 0.7 else rng.randrange(1, len(waiting))
        gone = waiting.pop(place)
        outcome[gone] = "ok" if place == 0 else "gave up"
        wakes.update(waiting if all_at_once else waiting[place : place + 1])
        if place:
            stale.append((waiting[place - 1], gone))
        for watched, client in stale:
            if watched == gone and rng.random() < 0.9:
                wakes[client] += 1
    for owner in range(1, count + 1):
        book.acquire(owner, 100 + owner, owner, outcome=OK if outcome[owner] == "ok" else FAIL, value=wakes[owner])
    truth = sum(wakes.values()) <= count + sum(word != "ok" for word in outcome.values())
    if not all_at_once and not truth:
        raise Disagreement(f"a queue that wakes one at a time looks like a herd: {wakes}, {outcome}")
    return compare(result_on(book, "herd-free").valid, truth, (wakes, outcome))


def circles(rng: Random) -> str:
    """Counts circles of holders that wait for one another. Tries all circles of waits."""
    ttl, workers = rng.randint(2, 6), rng.randint(2, 4)
    keys = tuple("abc"[: rng.randint(2, 3)])
    book = Book(keys=keys, ttl=ttl, workers=workers)
    waits = []
    for worker in range(workers):
        clock, owner = rng.randint(1, 8), worker + 1
        for turn in range(rng.randint(1, 2)):
            mine, wanted = rng.sample(range(len(keys)), 2)
            ret, asked = generate.call(rng, clock, clock + 2, 2)
            answered = asked + rng.randint(0, 12)
            left = answered + rng.randint(-1, 2)
            reads = rng.random() < 0.2
            who, also = owner + 10 * turn, owner + 10 * turn + 100
            flags = SHARED * reads
            book.acquire(clock, ret, who, process=worker, key=mine, flags=flags)
            got = rng.random() < 0.3
            outcome = OK if got else FAIL
            patience = 0 if got else rng.choice((0, SECOND + rng.randint(0, 9)))  # 0: nobody knows, or as long as all
            book.acquire(asked, answered, also, process=worker, key=wanted, outcome=outcome, flags=flags, ttl=patience)
            if got:
                book.release(answered, answered, also, process=worker, key=wanted)
            left = max(left, asked)
            book.release(left, left + 1, who, process=worker, key=mine, flags=flags)
            waits.append((asked, min(answered, left), worker, wanted, mine, reads, ret, patience))
            clock = left + rng.randint(1, 3)
    expected = []
    for length in range(2, len(waits) + 1):
        for circle in permutations(waits, length):
            if circle[0] != min(circle) or len({wait[2] for wait in circle}) < length:
                continue
            pairs = zip(circle, (*circle[1:], circle[0]), strict=True)
            if all(wait[3] == after[4] and not (wait[5] and after[5]) for wait, after in pairs):
                limit = max(ttl, min([wait[7] for wait in circle if wait[7]], default=0) - SECOND)
                expected.append((min(wait[1] for wait in circle) - max(wait[0] for wait in circle), limit))
    result = result_on(book, "deadlock-free")
    found = (len(result.violations), result.counters["circles of waiting holders"])
    truth = (sum(time > limit for time, limit in expected), sum(time > 0 for time, _ in expected))
    if found != truth:
        raise Disagreement(f"(deadlocks, circles) are {found}, in truth {truth}:\n{waits}, ttl {ttl}")
    return compare(result.valid, not truth[0], waits)


def refused_readers(rng: Random) -> str:
    """Counts readers that were refused though nobody may have been writing at any instant of their request."""
    book = Book(keys=("a",), ttl=5, workers=9)
    writers: list[tuple[int, int]] = []
    reads: list[tuple[int, int, Reason]] = []
    seen: list[tuple[int, int, int, int]] = []
    for owner in range(1, rng.randint(2, 7)):
        inv, ret = generate.call(rng, 1, 30, 4)
        outcome, worker = rng.choice((OK, OK, FAIL, FAIL, INFO)), rng.randint(1, 4)
        if rng.random() < 0.4:
            released = ret + rng.randint(0, 6)
            book.acquire(inv, ret, owner, outcome=outcome, process=worker)
            if outcome == OK:
                writers.append((inv, released + 1))
                seen.append((inv, ret, len(writers) - 1, worker))
                if rng.random() < 0.7:
                    book.release(released, released + 1, owner, process=worker)
                else:
                    writers[-1] = (inv, FOREVER)
            else:
                writers.append((inv, FOREVER if outcome == INFO else ret))
        else:
            reason = rng.choice((Reason.HELD, Reason.TIMEOUT, Reason.UNAVAILABLE)) if outcome == FAIL else Reason.NONE
            book.acquire(inv, ret, owner, outcome=outcome, flags=SHARED, reason=reason, process=worker)
            if outcome == OK:
                seen.append((inv, ret, -1, worker))
            reads.append((inv, ret, reason))
    for _, ret, number, worker in seen:
        if number >= 0:  # a later grant of the key to another worker has ended this writer's hold
            later = min((other for start, other, _, who in seen if start > ret and who != worker), default=FOREVER)
            writers[number] = (writers[number][0], min(writers[number][1], later))
    refused = sum(
        reason in (Reason.HELD, Reason.TIMEOUT)
        and not any(first <= t <= last for first, last in writers for t in range(inv, ret + 1))
        for inv, ret, reason in reads
    )
    return counted(result_on(book, "sharing"), refused, (writers, reads))


def one_for_two(rng: Random) -> str:
    """Two locks that a service may take for one. Counts the time in which the key of an acquire was certainly free."""
    bound = 5
    book, asked = Book(bounds={"independence": bound}, ttl=100), []
    for owner in range(1, rng.randint(3, 6)):
        inv = rng.randint(1, 20)
        ret, key = inv + rng.randint(1, 12), rng.randrange(2)
        outcome = rng.choice((OK, OK, OK, FAIL, INFO))
        reason = rng.choice((Reason.HELD, Reason.TIMEOUT, Reason.DENIED)) if outcome == FAIL else Reason.NONE
        book.acquire(inv, ret, owner, outcome=outcome, reason=reason, key=key)
        over = ret if outcome == FAIL else FOREVER
        if outcome == OK and rng.random() < 0.8:
            sent = ret + rng.randint(1, 5)
            over = sent + rng.randint(1, 3)
            book.release(sent, over, owner, key=key)
        asked.append((key, inv, ret, over, outcome, reason))
    valid = True
    for n, (key, inv, ret, _, outcome, reason) in enumerate(asked):
        others = [one for m, one in enumerate(asked) if m != n and one[0] == key]
        free = sum(not any(o[1] <= at < o[3] for o in others) for at in range(inv, ret))
        if outcome != INFO and reason != Reason.DENIED:
            valid &= not (free > bound or (reason == Reason.HELD and free == ret - inv))
    return compare(result_on(book, "independence").valid, valid, asked)


def nested(rng: Random) -> str:
    """One holder acquires again and releases, and meanwhile others may be let in."""
    ttl = rng.randint(4, 20)
    book = Book(keys=("a",), ttl=ttl, workers=9)
    begun, ret = generate.call(rng, 1, 12, 3)
    left = ret + rng.randint(4, 18)
    mark = rng.choice((NONE, 50))
    outer = Lease(begun, ret, ttl, token=mark)
    book.acquire(begun, ret, 1, token=mark).release(left, left + 1, 1)
    until = min(left, begun + ttl)
    wrong = set()
    clock = ret
    releases = []
    for _ in range(rng.randint(0, 3)):
        asked, answered = generate.call(rng, clock, clock + 2, 1)
        outcome = rng.choice((OK, OK, OK, FAIL, INFO))
        token, reason = rng.choice((mark, mark, 99)), rng.choice((Reason.HELD, Reason.UNAVAILABLE))
        held = {"token": token} if outcome == OK else {"reason": reason}
        book.acquire(asked, answered, 1, outcome=outcome, flags=NESTED, **held)
        if answered < until and ((outcome == OK and token == 99) or (outcome == FAIL and reason == Reason.HELD)):
            wrong.add(("acquire", asked, answered, len(book.rows)))
        clock = answered + rng.randint(0, 2)
        if outcome == OK:
            book.release(clock, clock + 1, 1, flags=NESTED)
            releases.append(clock)
            clock += 1
    others = []
    for owner in range(2, rng.randint(2, 4)):
        asked, granted = generate.call(rng, 1, 24, rng.choice((3, 20)))
        others.append(Lease(asked, granted, ttl, token=rng.randint(40, 60) if mark > 0 else NONE))
        book.acquire(asked, granted, owner, token=others[-1].token)
    by_token = mark > 0 and tokens_ordered([outer, *others])
    for owner, other in enumerate(others):
        before = any(end <= moment for end in ends(other).values() for moment in range(begun, ret + 1))
        later = other.token > mark if by_token else not before
        if later and any(sent < other.ret for sent in releases) and other.ret < until:
            wrong.add(("freed", other.start, other.ret, owner))
    return counted(result_on(book, "reentrancy"), len(wrong), book.rows)


def jobs(rng: Random, *, sales: bool) -> str:
    book = Book(keys=("a", "b"), workload="inventory" if sales else "once")
    done: Counter[tuple[int, int]] = Counter()
    for clock in range(1, rng.randint(2, 8)):
        key, job, outcome = rng.randrange(2), rng.randint(0, 6), rng.choice((OK, OK, OK, FAIL, INFO))
        if sales:
            book.write(clock, clock, clock, 100 + clock, outcome, base=job, key=key)
        else:
            book.add(F.EFFECT, clock, clock, outcome, owner=clock, process=clock, value=job, key=key)
        done[key, job] += outcome == OK
    return counted(result_on(book, "no-duplicate"), sum(times - 1 for times in done.values() if times), book.rows)


def copies(rng: Random) -> str:
    """Four looks at members, each at a known number of changes. Tries whether any log of changes explains all looks."""
    log = [rng.choice(CHANGES) for _ in range(rng.randint(1, 3))]
    numbers = sorted(rng.randint(0, len(log)) for _ in range(4))
    held = [kept(log[:number]) for number in numbers]
    if rng.random() < 0.6:
        place, other = rng.randrange(4), [rng.choice(CHANGES) for _ in log]
        strange = kept(other[: rng.randint(0, numbers[place])])
        held[place] = strange if rng.random() < 0.3 else {key: strange.get(key, it) for key, it in held[place].items()}
        for name in [name for name in held[place] if rng.random() < 0.3]:
            del held[place][name]
    look = tuple(
        Contents(member, clock, clock, number, number, tuple(Entry(name, *it, 0, "") for name, it in there.items()))
        for clock, (member, number, there) in enumerate(zip("xyzx", numbers, held, strict=True), 1)
    )
    explained = any(
        all(kept(log[:number]) == there for number, there in zip(numbers, held, strict=True))
        for log in product(CHANGES, repeat=numbers[-1])
    )
    return compare(result_on(Book(looks=(look,)), "members-agree").valid, explained, (numbers, held))


CHANGES = tuple(product(("put", "delete", "anew", ""), repeat=2))  # what one change does to the names a and b


def kept(log: Sequence[tuple[str, ...]]) -> dict[str, tuple[int, int]]:
    """Name → the numbers of the change that created it and of the change that last set it."""
    there: dict[str, tuple[int, int]] = {}
    for number, change in enumerate(log, 1):
        for name, verb in zip("ab", change, strict=True):
            made, _ = there.pop(name, (number, 0)) if verb else (0, 0)
            if verb in ("put", "anew"):
                there[name] = (made if verb == "put" else number, number)
    return there


CHECKS: dict[str, Callable[[Random], str]] = {
    "server-readers": readers,
    "holder-readers": reading_holders,
    "permits": capacity,
    "holder-permits": crowd,
    "fifo": queue,
    "herd-free": herd,
    "deadlock-free": circles,
    "sharing": refused_readers,
    "independence": one_for_two,
    "reentrancy": nested,
    "members-agree": copies,
    "no-duplicate": partial(jobs, sales=False),
    "no-duplicate-sales": partial(jobs, sales=True),
}

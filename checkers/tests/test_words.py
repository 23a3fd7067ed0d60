"""Stories of violations name the faults behind them. Reasons for too few grants say how the acquires ended."""

from dataclasses import replace

from checkers.check import check, missing
from checkers.history.history import History
from checkers.history.view import View
from checkers.properties.shared_counters import MIXED, counters
from checkers.properties.story_sentences import Sentence
from checkers.row_format import NESTED, F, Outcome, Reason
from checkers.tests.build import FAIL, INFO, OK, Book, cases, there

SECOND = 1_000_000_000


def story(book: Book, name: str = "server-exclusion") -> list[str]:
    (result,) = check(book.history(), [name])
    return list(result.violations[0].story)


def jump(book: Book, begun: float, healing: float, kind: str = "clock", name: str = "jump") -> Book:
    times = [int(moment * SECOND) for moment in (begun, healing + 0.1, begun + 0.1, healing)]
    return book.fault(name, *times[:2], applied=times[2], healing=times[3], kind=kind, target="redis1: 61 s forward")


HIT, MET = "jump changed the clock of redis1 (61 s forward) between", ", while worker 1's lease was in force"
CUT = "jump began at {} s and was in force by {} s: it cut redis1 (61 s forward)"
HEALED = f"set the clock right again between 0.900 s and 1.000 s{MET}"
ONLY_HEALED = f"jump had changed the clock of redis1 (61 s forward), and {HEALED}"
FIRST, SECOND_GRANT = (f"worker {n} was granted the lock at {n - 0.5:.3f} s" for n in (1, 2))


@cases(
    "begun, healing, kind, expected",
    ("with the lease that it met", 0.8, 5, "clock", [FIRST, f"{HIT} 0.800 s and 0.900 s{MET}", SECOND_GRANT]),
    ("healed", 0.2, 0.9, "clock", [f"{HIT} 0.200 s and 0.300 s{MET}", FIRST, f"jump {HEALED}", SECOND_GRANT]),
    ("older than the lease", -2, 0.9, "clock", [FIRST, ONLY_HEALED, SECOND_GRANT]),
    ("one that strikes no leases", 0.8, 5, "cut", [FIRST, CUT.format("0.800", "0.900"), SECOND_GRANT]),
    ("still to come", 3, 4, "clock", [FIRST, SECOND_GRANT]),
    ("over by then", -2, -1, "clock", [FIRST, SECOND_GRANT]),
)
def test_a_story_names_a_server_fault_at_its_time(begun: float, healing: float, kind: str, expected: list[str]) -> None:
    lines = story(jump(GIVEN.then(), begun, healing, kind))
    known = [line for line in lines if line.startswith(("jump", FIRST, SECOND_GRANT))]
    assert [line if line.startswith("jump") else line[: len(FIRST)] for line in known] == expected


def test_no_fault_is_blamed_for_a_herd() -> None:
    book = Book(keys=("a",), fault_names=("jump",)).acquire(1, 2, 1, value=0).release(3 * SECOND, 3 * SECOND + 1, 1)
    *told, last = story(jump(book.acquire(3, 4 * SECOND, 2, value=5), 1, 2), "herd-free")
    assert ({sentence[:6] for sentence in told}, "jump had no part in it." in last) == ({"worker"}, True)


def test_a_story_names_only_the_latest_three_faults_and_counts_those_of_one_name_once() -> None:
    book = GIVEN.then()
    for tenth in range(4, 12):
        jump(book, tenth / 10, 5, name=f"jump-{tenth // 2}")
    assert [text[:6] for text in story(book) if text.startswith("jump")] == ["jump-3", "jump-4", "jump-5"]


def test_a_write_without_an_answer() -> None:
    book = Book(store="unfenced", keys=("a",)).acquire(1, 2, 1, ttl=5).acquire(3, 10, 2, sent=9, ttl=50)
    told = story(book.write(SECOND, 0, 1, 7, INFO).read(SECOND + 1, SECOND + 2, 2, 7), "fenced-store")
    assert "worker 1's write of 7, sent at 1.000 s, got no answer" in told


def test_the_story_of_a_missed_recovery_names_the_last_healed_fault() -> None:
    book = Book(keys=("a",), fault_names=("jump",), bounds={"recovery": SECOND}, ttl=SECOND)
    book.acquire(1, 2, 1, ttl=SECOND).add(F.ACQUIRE, 4 * SECOND, 7 * SECOND, FAIL, process=2)
    told = story(jump(jump(book, 1, 2), 2, 3, kind="cut"), "recovery")
    assert [told[0], told[1][:31]] == [CUT.format("2.000", "2.100"), "jump was undone between 3.000 s"]


def test_a_sentence_repeats_neither_subject_nor_token_of_those_before_it() -> None:
    granted = Sentence(1, "worker 1", "was granted token 41", granted=41)
    write = Sentence(2, "worker 1", "write of 7", owns=True, token=41, then="sent at 1 s", more=("late",))
    assert str(write) == "worker 1's write of 7 with token 41, sent at 1 s; late"
    assert write.after((granted,)) == "its write of 7, sent at 1 s; late"
    assert replace(write, token=42).after((granted,)) == "its write of 7 with token 42, sent at 1 s; late"
    assert write.after((granted, replace(granted, subject="worker 2"))) == str(write), "whose it is would not be clear"
    assert Sentence(3, "jump", "hit redis1").after((granted,)) == "jump hit redis1"


def why(book: Book, *errors: str) -> str | None:
    """Why exclusion was not exercised. errors: the texts of the acquires that were not granted, in their order."""
    (result,) = check(with_errors(book, errors), ["server-exclusion"])
    return result.unexercised


def with_errors(book: Book, errors: tuple[str, ...]) -> History:
    history = book.history()
    failed = (history.columns["outcome"] != OK).nonzero()[0]
    for number, row in enumerate(failed[: len(errors)], 1):
        history.columns["error"][row] = number
    return replace(history, errors=("", *errors))


def asked(
    count: int, outcome: Outcome = INFO, *, ret: int = 5, reason: Reason = Reason.NONE, book: Book | None = None
) -> Book:
    book = Book(keys=("a",)) if book is None else book
    for at in range(count):
        book.add(F.ACQUIRE, len(book.rows) + 1, ret and ret + at + len(book.rows), outcome, process=1, reason=reason)
    return book


def gave_up(book: Book, at: int) -> Book:
    """Adds an acquire without an answer, whose worker waited until `at`."""
    return book.add(F.ACQUIRE, at - 1, 0, INFO, process=2, given_up=at)


def test_a_service_that_always_errs() -> None:
    book = Book(keys=("a",))
    for at in (2, 4, 6):
        gave_up(book, at)
    text = "invalid expire time in 'set' command"
    assert why(book, text, text, text) == f'no grants, 2 needed: 3 acquires got no answer, mostly "{text}"'
    assert why(book, "one", "two", "three") == 'no grants, 2 needed: 3 acquires got no answer, most often "one"'


# Worker 1 is granted a lease of 2 s at 0.5 s, and worker 2 is granted the lock at 1.5 s.
GIVEN = Book(keys=("a",), ttl=2 * SECOND)
GIVEN.acquire(1, SECOND // 2, 1, sent=1, ttl=2 * SECOND)
GIVEN.release(SECOND * 9 // 5, SECOND * 19 // 10, 1, FAIL, reason=Reason.NOT_OWNER)
GIVEN.acquire(2, SECOND * 3 // 2, 2, sent=SECOND, ttl=2 * SECOND).release(3 * SECOND, 3 * SECOND + 1, 2)
NEVER_FREED = Book(keys=("a",)).acquire(1, 2, 1).release(3, 100_000_001, 1)
for n in range(14):
    NEVER_FREED.add(F.ACQUIRE, 10 + n, 200_000_000 + n, FAIL, process=2, reason=Reason.TIMEOUT)
SEVERAL = asked(2, FAIL, reason=Reason.UNAVAILABLE, book=asked(3))
ALONE = Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1).acquire(5, 6, 2, process=1).release(7, 8, 2, process=1)
HANGS_THEN = "no hand-overs, 1 needed: the last released at 0.000 s, 3 acquires never returned since"
BEFORE = Book(keys=("a",)).add(F.ACQUIRE, 1, 2, FAIL, process=2).acquire(3, 4, 1)
ITS_OWN = Book(keys=("a",)).acquire(1, 2, 1).add(F.ACQUIRE, 3, 4, FAIL, process=1, flags=NESTED)


@cases(
    "book, told",
    ("a service that hangs", asked(12), "no grants, 2 needed: 12 acquires never returned"),
    ("once", asked(1), "no grants, 2 needed: 1 acquire never returned"),
    ("never freed", NEVER_FREED, "1 grant, 2 needed: released at 0.100 s, 14 acquires timed out since"),
    ("several ends", SEVERAL, "no grants, 2 needed: 5 acquires, 3 never returned, 2 failed (unavailable)"),
    ("a lock that one alone gets before it hangs", asked(3, book=ALONE), HANGS_THEN),
    ("nobody else asked", Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1), "1 grant, 2 needed"),
    ("somebody was refused before", BEFORE, "1 grant, 2 needed"),
    ("nobody asked at all", Book(keys=("a",)).read(1, 2, 1, 1), "no grants, 2 needed"),
    ("the holder was refused a nested one", ITS_OWN, "1 grant, 2 needed"),
)
def test_the_reason_for_too_few_grants_says_how_the_acquires_ended(book: Book, told: str) -> None:
    assert why(book) == told


@cases(
    "book, parting",
    ("refused", Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1, FAIL), "release sent at 0.000 s was refused"),
    ("unanswered", Book(keys=("a",)).acquire(1, 2, 1).release(3, 0, 1, INFO), "release sent at 0.000 s got no answer"),
    ("lost", Book(keys=("a",)).acquire(1, 2, 1).lost(4, 1), "lost at 0.000 s"),
    ("never released", Book(keys=("a",)).acquire(1, 2, 1), "granted at 0.000 s and never released"),
)
def test_the_reason_for_a_single_grant_says_how_it_ended(book: Book, parting: str) -> None:
    told = why(asked(2, FAIL, reason=Reason.HELD, ret=9, book=book))
    assert told == f"1 grant, 2 needed: {parting}, 2 acquires failed (held) since"


def test_an_error_text_is_one_short_line() -> None:
    told = there(why(gave_up(Book(keys=("a",)), 3), "no\n\x1b[31mroom " + "x" * 200))
    assert told.isprintable()
    quoted = told.partition('"')[2].rstrip('"')
    assert quoted.startswith("no\\n\\x1b[31mroom xxx")
    assert quoted.endswith("...")
    assert len(quoted) == 80


def test_a_running_trial_gives_its_reason_without_error_texts() -> None:
    history = with_errors(gave_up(Book(keys=("a",)), 3), ("late",))
    assert missing(replace(history, errors=("",)), ["server-exclusion"]) == {
        "server-exclusion": ("no grants, 2 needed: 1 acquire got no answer", False)
    }


THERE = (("a", 10, 12), ("b", 20, 22))
BACK = (("b", 30, 32), ("a", 40, 42))


@cases(
    "servers, turns, met",
    ("ab", THERE, [15]),
    ("abc", THERE, [15, 25, 35, 45]),
    ("ab", (*THERE, *BACK), [15, 35]),
    ("abc", (*THERE, *BACK), [15, 25, 35]),
    ("a", (("a", 10, 12), ("a", 20, 22)), []),
    ("", THERE, [15, 25, 35, 45]),
)
def test_the_mixed_state_of_an_upgrade(servers: str, turns: tuple[tuple[str, int, int], ...], met: list[int]) -> None:
    book = Book(versions=dict.fromkeys(servers, "2"))
    for server, begun, applied in turns:
        target = f"{server} from 1 to 2"
        book.fault("roll-version", begun, applied, kind="version", target=target, applied=applied, healing=applied)
    for at in (5, 15, 25, 35, 45):
        book.acquire(at, at + 1, at)
    assert counters(View(book.history()))[MIXED] == len(met)


def test_a_replacement_that_is_undone_ends_the_mixed_state() -> None:
    book = Book(versions={"a": "1", "b": "1"}).fault("replace-version", 10, 22, kind="version", applied=12, healing=20)
    for at in (5, 15, 25):
        book.acquire(at, at + 1, at)
    assert counters(View(book.history()))[MIXED] == 1

"""Why too few grants: what the acquires came to."""

from dataclasses import replace

import pytest

from checkers.check import check, missing
from checkers.history.history import History
from checkers.history.view import View
from checkers.properties.shared_counters import MIXED, counters
from checkers.row_format import NESTED, F, Outcome, Reason
from checkers.tests.build import FAIL, INFO, OK, Book


def why(book: Book, *errors: str) -> str | None:
    """errors: the texts of the acquires that were not granted, in their order."""
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
    """An acquire without an answer, whose worker waited until then."""
    book.add(F.ACQUIRE, at - 1, at, OK, process=2)
    row = list(book.rows[-1])
    row[13] = INFO
    book.rows[-1] = tuple(row)
    return book


def test_a_service_that_always_errs() -> None:
    book = Book(keys=("a",))
    for at in (2, 4, 6):
        gave_up(book, at)
    text = "invalid expire time in 'set' command"
    assert why(book, text, text, text) == f'no grants, 2 needed: 3 acquires got no answer, mostly "{text}"'
    assert why(book, "one", "two", "three") == 'no grants, 2 needed: 3 acquires got no answer, most often "one"'


def test_a_service_that_hangs() -> None:
    assert why(asked(12)) == "no grants, 2 needed: 12 acquires never returned"
    assert why(asked(1)) == "no grants, 2 needed: 1 acquire never returned"


def test_a_service_that_never_frees() -> None:
    book = Book(keys=("a",)).acquire(1, 2, 1).release(3, 100_000_001, 1)
    for at in range(14):
        book.add(F.ACQUIRE, 10 + at, 200_000_000 + at, FAIL, process=2, reason=Reason.TIMEOUT)
    assert why(book) == "1 grant, 2 needed: released at 0.100 s, 14 acquires timed out since"


@pytest.mark.parametrize(
    ("book", "parting"),
    [
        (Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1, FAIL), "release sent at 0.000 s was refused"),
        (Book(keys=("a",)).acquire(1, 2, 1).release(3, 0, 1, INFO), "release sent at 0.000 s got no answer"),
        (Book(keys=("a",)).acquire(1, 2, 1).lost(4, 1), "lost at 0.000 s"),
        (Book(keys=("a",)).acquire(1, 2, 1), "granted at 0.000 s and never released"),
    ],
)
def test_what_became_of_the_one_grant(book: Book, parting: str) -> None:
    told = why(asked(2, FAIL, reason=Reason.HELD, ret=9, book=book))
    assert told == f"1 grant, 2 needed: {parting}, 2 acquires failed (held) since"


def test_several_ends_are_counted() -> None:
    book = asked(2, FAIL, reason=Reason.UNAVAILABLE, book=asked(3))
    assert why(book) == "no grants, 2 needed: 5 acquires, 3 never returned, 2 failed (unavailable)"


def test_a_lock_that_one_alone_gets_before_it_hangs() -> None:
    book = Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1).acquire(5, 6, 2, process=1).release(7, 8, 2, process=1)
    told = why(asked(3, book=book))
    assert told == "no hand-overs, 1 needed: the last released at 0.000 s, 3 acquires never returned since"


def test_nothing_is_added_where_it_does_not_help() -> None:
    alone = Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1)
    assert why(alone) == "1 grant, 2 needed"
    before = Book(keys=("a",)).add(F.ACQUIRE, 1, 2, FAIL, process=2).acquire(3, 4, 1)
    assert why(before) == "1 grant, 2 needed"
    assert why(Book(keys=("a",)).read(1, 2, 1, 1)) == "no grants, 2 needed"
    nested = Book(keys=("a",)).acquire(1, 2, 1).add(F.ACQUIRE, 3, 4, FAIL, process=1, flags=NESTED)
    assert why(nested) == "1 grant, 2 needed"


def test_an_error_text_is_one_short_line() -> None:
    told = why(gave_up(Book(keys=("a",)), 3), "no\n\x1b[31mroom " + "x" * 200)
    assert told is not None
    assert told.isprintable()
    quoted = told.partition('"')[2].rstrip('"')
    assert quoted.startswith("no\\n\\x1b[31mroom xxx")
    assert quoted.endswith("...")
    assert len(quoted) == 80


def test_while_a_trial_runs_nobody_has_collected_the_texts() -> None:
    history = with_errors(gave_up(Book(keys=("a",)), 3), ("late",))
    assert missing(replace(history, errors=("",)), ["server-exclusion"]) == {
        "server-exclusion": "no grants, 2 needed: 1 acquire got no answer"
    }


THERE = (("a", 10, 12), ("b", 20, 22))
BACK = (("b", 30, 32), ("a", 40, 42))


@pytest.mark.parametrize(
    ("servers", "turns", "met"),
    [
        ("ab", THERE, [15]),
        ("abc", THERE, [15, 25, 35, 45]),
        ("ab", (*THERE, *BACK), [15, 35]),
        ("abc", (*THERE, *BACK), [15, 25, 35]),
        ("a", (("a", 10, 12), ("a", 20, 22)), []),
        ("", THERE, [15, 25, 35, 45]),
    ],
)
def test_the_mixed_state_of_a_rolling_upgrade(
    servers: str, turns: tuple[tuple[str, int, int], ...], met: list[int]
) -> None:
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

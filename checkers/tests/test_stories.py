"""The words for what was found name the faults that it came of."""

from dataclasses import replace

from checkers.check import check
from checkers.properties.stories import Sentence
from checkers.row_format import F, Reason
from checkers.tests.build import FAIL, INFO, Book

SECOND = 1_000_000_000


def given_away() -> Book:
    """Worker 1 is granted at 0.5 s a lease of 2 s; worker 2 is granted the lock at 1.5 s."""
    book = Book(keys=("a",), ttl=2 * SECOND)
    book.acquire(1, SECOND // 2, 1, sent=1, ttl=2 * SECOND)
    book.release(SECOND * 9 // 5, SECOND * 19 // 10, 1, FAIL, reason=Reason.NOT_OWNER)
    return book.acquire(2, SECOND * 3 // 2, 2, sent=SECOND, ttl=2 * SECOND).release(3 * SECOND, 3 * SECOND + 1, 2)


def story(book: Book, name: str = "server-exclusion") -> list[str]:
    (result,) = check(book.history(), [name])
    return list(result.violations[0].story)


def jump(book: Book, begun: float, healing: float, kind: str = "clock") -> Book:
    times = {"applied": int((begun + 0.1) * SECOND), "healing": int(healing * SECOND), "kind": kind}
    return book.fault(
        "jump", int(begun * SECOND), int((healing + 0.1) * SECOND), target="redis1: 61 s forward", **times
    )


def test_a_fault_on_a_server_is_told_where_it_belongs_with_the_lease_that_it_met() -> None:
    told = story(jump(given_away(), 0.8, 5))
    assert told[0].startswith("worker 1 was granted the lock at 0.500 s")
    assert told[1] == ("jump hit redis1: 61 s forward, between 0.800 s and 0.900 s; worker 1's lease was in force then")
    assert told[2].startswith("worker 2 was granted the lock at 1.500 s")


def test_what_was_undone_by_then_says_so() -> None:
    told = story(jump(given_away(), 0.2, 0.9))
    assert told[0] == (
        "jump hit redis1: 61 s forward, between 0.200 s and 0.300 s; "
        "it was undone between 0.900 s and 1.000 s; worker 1's lease was in force then"
    )


def test_a_fault_that_does_not_strike_leases_meets_none() -> None:
    assert "lease" not in story(jump(given_away(), 0.8, 5, kind="cut"))[1]


def test_faults_that_were_over_or_still_to_come_are_not_told() -> None:
    for begun, healing in ((3, 4), (-2, -1)):
        assert not any(sentence.startswith("jump") for sentence in story(jump(given_away(), begun, healing)))


def test_faults_on_workers_are_told_with_their_grants() -> None:
    book = given_away().fault("stall-holder", SECOND, 2 * SECOND, kind="stall", owner=1, process=1, target="worker 1")
    assert not any(sentence.startswith("stall-holder") for sentence in story(book))


def test_no_more_than_the_latest_few() -> None:
    book = given_away()
    for tenth in range(6, 12):
        jump(book, tenth / 10, 5)
    told = [sentence for sentence in story(book) if sentence.startswith("jump")]
    assert [sentence.partition("between ")[2][:7] for sentence in told] == ["0.900 s", "1.000 s", "1.100 s"]


def test_a_write_without_an_answer() -> None:
    book = Book(store="unfenced", keys=("a",)).acquire(1, 2, 1, ttl=5).acquire(3, 10, 2, sent=9, ttl=50)
    told = story(book.write(SECOND, 0, 1, 7, INFO).read(SECOND + 1, SECOND + 2, 2, 7), "fenced-store")
    assert "worker 1's write of 7, sent at 1.000 s, got no answer" in told


def test_who_gets_nothing_is_told_what_had_been_healed() -> None:
    book = Book(keys=("a",), fault_names=("jump",), bounds={"recovery": SECOND}, ttl=SECOND)
    book.acquire(1, 2, 1, ttl=SECOND).add(F.ACQUIRE, 4 * SECOND, 7 * SECOND, FAIL, process=2)
    told = story(jump(jump(book, 1, 2), 2, 3, kind="cut"), "recovery")
    assert told[0].startswith(
        "jump hit redis1: 61 s forward, between 2.000 s and 2.100 s; it was undone between 3.000 s"
    )
    assert told[1].startswith("worker 2's acquire")


def test_a_sentence_after_others_says_again_neither_its_subject_nor_a_token_that_they_name() -> None:
    granted = Sentence(1, "worker 1", "was granted token 41", known=frozenset({41}))
    write = Sentence(2, "worker 1", "write of 7", owns=True, token=41, then="sent at 1 s", more=("late",))
    assert str(write) == "worker 1's write of 7 with token 41, sent at 1 s; late"
    assert write.after((granted,)) == "its write of 7, sent at 1 s; late"
    assert replace(write, token=42).after((granted,)) == "its write of 7 with token 42, sent at 1 s; late"
    other = replace(granted, subject="worker 2")
    assert write.after((granted, other)) == str(write), "whose it is would not be clear"
    fault = Sentence(3, "", "jump hit redis1")
    assert fault.after((fault,)) == str(fault) == "jump hit redis1"

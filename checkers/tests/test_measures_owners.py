"""Beliefs, releases by others, phantoms and token gaps."""

from checkers.measures.owners import belief_versus_truth, release_by_non_owner
from checkers.measures.tokens import phantom_success, token_gap
from checkers.tests.build import FAIL, INFO, Book
from checkers.tests.fuzz_measures import measured
from checkers.wire import SHARED, F, Reason


def foreign() -> Book:
    return Book(trial="", lock="", store="", ttl=0, keys=("a",))


def superseded() -> Book:
    """Owner 2 is given the lock at 12; owner 1, whose lease was over at 11, is there until 20."""
    return Book(keys=("a",)).acquire(1, 2, 1).acquire(11, 12, 2).release(20, 21, 1).release(25, 26, 2)


def test_belief_versus_truth() -> None:
    found = belief_versus_truth(measured(superseded()))
    assert (found["false"], found["longest"], found["total"], found["bound"]) == (1, 8, 8, None)
    assert found.rows == ((0, 1),)
    assert found.alert == "a client believed what was no longer true"


def test_who_noticed_in_time_believed_nothing_false() -> None:
    book = Book(keys=("a",), bounds={"honest-belief": 3}).acquire(1, 2, 1).acquire(11, 12, 2).lost(11, 1)
    found = belief_versus_truth(measured(book))
    assert (found["false"], found["longest"], found["bound"]) == (0, 0, 3)


def test_a_probe_of_a_false_belief() -> None:
    book = superseded().add(F.BELIEF, 15, 15, owner=1).add(F.BELIEF, 5, 5, owner=1)
    assert belief_versus_truth(measured(book))["probed"] == 1


def test_a_release_of_what_another_held() -> None:
    found = release_by_non_owner(measured(superseded()))
    assert (found["superseded"], found["attempted"], found["stranger"]) == (1, 1, 0)
    assert found.rows == ((0, 1, 2),)
    assert release_by_non_owner(measured(Book())).unexercised == "nobody released anything"
    alone = release_by_non_owner(measured(Book().acquire(1, 2, 1).release(3, 4, 1)))
    assert alone.unexercised == "nobody released what another held by then"


def test_a_stranger() -> None:
    """Owner 2 never asked; owner 1 releases once more than it acquired."""
    book = foreign().acquire(1, 2, 1).release(3, 4, 2).release(5, 6, 1).release(7, 8, 1)
    found = release_by_non_owner(measured(book))
    assert found["stranger"] == 2
    assert found.rows == ((1,), (3,))


def test_an_unknown_acquire_may_be_released() -> None:
    book = foreign().acquire(1, 0, 1, outcome=INFO).release(3, 4, 1)
    assert release_by_non_owner(measured(book))["stranger"] == 0


def counted() -> Book:
    """Tokens 1, 2, 3 and 6: two were skipped before 42."""
    book = Book(keys=("a",)).acquire(1, 2, 1, token=1).acquire(11, 12, 2, token=2).acquire(21, 22, 3, token=3)
    return book.acquire(41, 42, 6, token=6)


def test_token_gaps() -> None:
    found = token_gap(measured(counted()))
    assert (found["missing"], found["unknown_acquires"], found["unexplained"]) == (2, 0, 2)
    assert found.rows == ((2, 3),)
    assert found.alert
    one = counted().acquire(25, 0, 0, outcome=INFO)
    assert token_gap(measured(one))["unexplained"] == 1
    # One that was asked for after the next token had been given cannot have got a skipped one.
    assert token_gap(measured(one.acquire(43, 0, 0, outcome=INFO)))["unexplained"] == 1
    assert token_gap(measured(one.acquire(30, 0, 0, outcome=INFO)))["unexplained"] == 0


def test_tokens_that_are_no_counter() -> None:
    book = Book(keys=("a",)).acquire(1, 2, 1, token=10).acquire(11, 12, 2, token=20)
    assert (
        token_gap(measured(book)).unexercised == "the tokens are no counter of grants: at the median they differ by 10"
    )
    assert token_gap(measured(superseded())).unexercised == "no two grants of a key carry different tokens"


def phantom() -> Book:
    """Released at 5. An acquire at 6 has no answer; at 10 and at 20 the lock is held; at 30 somebody has it."""
    book = Book(keys=("a",), lease="none").acquire(1, 2, 1).release(4, 5, 1)
    book.acquire(6, 0, 0, process=2, outcome=INFO)
    for inv in (10, 20):
        book.add(F.TRY_ACQUIRE, inv, inv + 1, FAIL, process=3, reason=Reason.HELD)
    return book.acquire(25, 30, 4)


def test_a_phantom_success() -> None:
    found = phantom_success(measured(phantom()))
    assert (found["unknown_acquires"], found["by_refusal"], found["at_least"]) == (1, 1, 1)
    # From 11 others asked in [20, 21] and [25, 30].
    assert (found["blocked_longest"], found["blocked_total"]) == (6, 6)
    assert found.rows == ((3,), (4,))


def test_a_known_holder_explains_refusals() -> None:
    book = Book(keys=("a",), lease="none").acquire(1, 2, 1).release(4, 12, 1).acquire(6, 0, 0, outcome=INFO)
    book.add(F.TRY_ACQUIRE, 10, 11, FAIL, process=3, reason=Reason.HELD)
    assert phantom_success(measured(book))["by_refusal"] == 0


def test_a_majority_refuses_without_a_holder() -> None:
    book = phantom()
    book.facts = Book(keys=("a",), lease="quorum").facts
    found = phantom_success(measured(book))
    assert found["by_refusal"] == 0
    assert found.unexercised == "nothing recorded could tell: no refusals, no counted tokens, nothing done later"


def test_a_later_record_of_the_same_holder() -> None:
    book = foreign().acquire(1, 0, 1, outcome=INFO).release(3, 4, 1).acquire(5, 6, 2)
    found = phantom_success(measured(book))
    assert (found["by_record"], found["at_least"]) == (1, 1)


def test_somebody_who_waits_may_be_in_the_way() -> None:
    """One that timed out stood in the queue while the tries were refused."""
    book = phantom().add(F.ACQUIRE, 9, 24, FAIL, process=5, reason=Reason.TIMEOUT)
    assert phantom_success(measured(book))["by_refusal"] == 0


def test_readers_that_come_later_end_no_reader() -> None:
    book = Book(keys=("a",), ttl=5).acquire(1, 2, 1, flags=SHARED).acquire(3, 4, 2, flags=SHARED).release(5, 6, 2)
    book.acquire(7, 0, 0, outcome=INFO).add(F.TRY_ACQUIRE, 8, 9, FAIL, process=3, reason=Reason.HELD)
    assert phantom_success(measured(book))["by_refusal"] == 0


def test_skipped_tokens_point_to_phantoms() -> None:
    book = counted().acquire(25, 0, 0, outcome=INFO)
    assert phantom_success(measured(book))["by_token_gap"] == 0  # two were skipped: they are used up otherwise
    found = phantom_success(measured(book.acquire(26, 0, 0, outcome=INFO)))
    assert (found["by_token_gap"], found["at_least"]) == (2, 0)
    assert found.alert == "skipped tokens say that an acquire without an answer took effect"


def test_without_unknown_acquires() -> None:
    assert phantom_success(measured(superseded())).unexercised == "no acquire was left without an answer"

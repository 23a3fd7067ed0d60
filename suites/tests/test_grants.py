"""What an acquire returned is refused in one clear line when it cannot be a grant, and believed when it can."""

import math
from dataclasses import replace
from typing import Any

import pytest

from suites.lock import NEVER, Grant, new_owner, now
from suites.locks.grants import BadGrant, checked
from suites.locks.redis_node import validity
from suites.tests.bench import grant

LATE = 1 << 62  # ns; long after now


def good(**fields: Any) -> Grant:
    return replace(grant("k", 7), **fields)


def complaint(returned: object) -> str:
    with pytest.raises(BadGrant) as caught:
        checked(returned, "k", "MyLock.acquire")
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith("MyLock.acquire returned ")
    assert text.endswith(" is needed")
    assert len(text) < 300
    return text


def test_one_with_a_token_of_text_says_what_is_needed() -> None:
    assert complaint(good(token="tok-1")) == (
        "MyLock.acquire returned a Grant whose token is 'tok-1' (str): an int from 0 to 2**63 - 1, or None, is needed"
    )


@pytest.mark.parametrize("returned", [True, False, 0, "k", object(), ("k", 1), Grant, "line\nbreak", "x" * 1000])
def test_what_is_no_grant_at_all(returned: object) -> None:
    assert "a suites.lock.Grant, or None, is needed" in complaint(returned)


WRONG: dict[str, list[object]] = {
    "name": ["other", b"k"],
    "owner": ["me", 0, -1, 1 << 63, 1 << 128, True, None],
    "token": [-1, 1.0, True, 1 << 63],
    "sent": [0, 1.5, -1, LATE, None],
    "ttl": [2.0, -1, 1 << 63, math.inf, None],
    "expires": [math.inf, None, 0, 1, 1 << 63],
    "session": ["s", 1 << 63, None],
    "queued": [1.0, -1, LATE],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in WRONG.items() for value in values])
def test_a_field_that_cannot_be_is_named(field: str, value: object) -> None:
    text = complaint(good(**{field: value}))
    assert f"a Grant whose {field} is {value!r} ({type(value).__name__}): " in text


def test_a_belief_that_ends_when_the_request_was_sent() -> None:
    sent = now()
    assert "expires" in complaint(good(sent=sent, expires=sent))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"token": None},
        {"token": 0},
        {"owner": 1},
        {"owner": new_owner()},
        {"owner": (1 << 63) - 1, "token": (1 << 63) - 1},
        {"expires": NEVER},
        {"ttl": 0},
        {"ttl": NEVER},
        {"session": -(1 << 63)},
        {"session": 5, "expires": 1},  # frozen for longer than its session lasts, before it asked
        {"queued": now()},
    ],
)
def test_what_can_be_is_believed(fields: dict[str, Any]) -> None:
    one = good(**fields)
    assert checked(one, "k", "MyLock.acquire") is one


def test_neither_the_time_that_passed_nor_the_present_is_wrong() -> None:
    assert checked(None, "k", "MyLock.acquire") is None
    sent = now()
    assert checked(Grant("k", 1, None, sent, 1, sent + validity(0.1), 0, now()), "k", "MyLock.acquire")

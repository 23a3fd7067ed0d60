"""What a lock service keeps for store mode `guarded`: a value and a list, as one line of JSON."""

import json
from collections.abc import Sequence


def encoded(value: int, elements: Sequence[int]) -> bytes:
    return json.dumps([value, *elements], separators=(",", ":")).encode()


def decoded(data: bytes) -> tuple[int, Sequence[int]]:
    """(value, elements); for empty data, the value -1 and no elements."""
    if not data:
        return -1, ()
    value, *elements = json.loads(data)
    return value, elements

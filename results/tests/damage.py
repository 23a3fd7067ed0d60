"""Run folders as disks, other programs and attackers leave them: every value of another type, every file cut off."""

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

VALUES: Final[dict[str, Any]] = {
    "nothing": None,
    "true": True,
    "a fraction": 0.5,
    "minus one": -1,
    "huge": 10**400,
    "infinite": float("inf"),
    "no number": float("nan"),
    "a text": "\ud800<script>\x1b[2J",
    "a path": "../../../../etc/passwd",
    "a list": [[]],
    "an object": {"": {}},
}
TEXTS: Final[dict[str, bytes]] = {
    "empty": b"",
    "cut": b'{"format": 2, "name": "x',
    "a list": b"[]",
    "no format": b"{}",
    "a future format": b'{"format": 3}',
    "true": b'{"format": true}',
    "a fraction": b'{"format": 2.0}',
    "a deep format": b'{"format": ' + b"[" * 900 + b"]" * 900 + b"}",
    "deep": b'{"format": 2, "about": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
    "not a text": b'{"format": 2, "name": "\xff\xfe"}',
    "another text": '{"format": 2}'.encode("utf-16"),
    "too long a number": b'{"format": 2, "about": ' + b"9" * 5000 + b"}",
    "zeros": bytes(4096),
}


def places(data: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value in some JSON, itself included."""
    yield way
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from places(value, (*way, key))


MISSING: Final = object()


def mutated(data: Any, way: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value there; MISSING: with none."""
    if not way:
        return value
    made = holder = copy.deepcopy(data)
    for key in way[:-1]:
        holder = holder[key]
    if value is MISSING:
        del holder[way[-1]]
    else:
        holder[way[-1]] = value
    return made


def variants(path: Path) -> Iterator[tuple[str, bytes]]:
    """Every damaged version of a JSON file, with what is damaged in it."""
    data = json.loads(path.read_bytes())
    for way in places(data):
        name = "/".join(map(str, way))
        for kind, value in {**VALUES, **({"missing": MISSING} if way else {})}.items():
            yield f"{path.name} {name}: {kind}", json.dumps(mutated(data, way, value)).encode()
    for kind, text in TEXTS.items():
        yield f"{path.name}: {kind}", text
    whole = path.read_bytes()
    for size in (1, len(whole) // 2, len(whole) - 3):
        yield f"{path.name}: {size} bytes", whole[:size]


def some(path: Path, most: int = 40) -> list[tuple[str, bytes]]:
    """Of thousands of variants."""
    found = list(variants(path))
    return random.Random(7).sample(found, min(most, len(found)))

"""Checks the declarations of a lock: a claim or hazard with a mistake in it would never be judged.

Only a lock that declares neither claims nor hazards gets the usual claim, server-exclusion without a fault. So a lock
whose only claim is misspelled would have nothing that could fail.
"""

import difflib
import inspect
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Final

from checkers.claims import NO_FAULT, Claim, Hazard, matches
from checkers.judging.excuses_by_fault import MECHANISMS
from checkers.properties.all_properties import BOUNDED, PROPERTIES
from checkers.properties.property import Need, Property
from infra.backends import BACKENDS
from infra.faults.all_faults import FAULTS
from infra.suggestions import instead
from suites.lanes.lane import STRUCK_ALONE, WORKLOADS, features, lanes_of
from suites.lock import Declarations, LockClient, admitted, number, texts, validators
from suites.locks import registry

_FIELDS: Final = tuple(Declarations.__annotations__)
_LANES: Final = tuple(f"{workload.name}/{store}" for workload in WORKLOADS.values() for store in workload.stores)
_PATTERNS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "under": ("fault", (NO_FAULT, *FAULTS)),
    "stores": ("store mode", tuple(dict.fromkeys(store for each in WORKLOADS.values() for store in each.stores))),
    "workloads": ("workload", tuple(WORKLOADS)),
}
"""Field of a claim or hazard → what its patterns name, and all names that there are."""

_CALLS: Final[Mapping[str, tuple[str, ...]]] = {
    "open": ("endpoints", "ttl"),
    "acquire": ("name", "timeout"),
    "acquire_shared": ("name", "timeout"),
    "renew": ("grant",),
    "release": ("grant",),
    "downgrade": ("grant",),
    "cancel": (),
    "belief": ("grant",),
    "close": (),
}
"""Method → the arguments that the suite passes, by position."""


def lock(name: str) -> type[LockClient]:
    """A lock whose declarations make sense. Raises `registry.UnknownLock`."""
    loaded = registry.load(name)
    if mistake := wrong(loaded):
        raise registry.UnknownLock(f"{name}: {mistake}")
    return loaded


@cache
def wrong(lock: type[LockClient]) -> str | None:
    """The first mistake in the declarations of a lock, in one line, or None. Cached, since classes do not change."""
    questions = (_misspelled, _values, _calls, _bounds, _promises, _lanes)
    return next((mistake for question in questions for mistake in question(lock)), None)


def _misspelled(lock: type[LockClient]) -> Iterator[str]:
    """Attributes that look like a declaration with a typing error: `claim`, `min_tll`."""
    for name in dir(lock):
        if name.startswith("_") or name in _FIELDS:
            continue
        (close, *_) = difflib.get_close_matches(name, _FIELDS, 1, cutoff=0.8) or [""]
        if close and _kind(inspect.getattr_static(lock, name)) == _kind(getattr(Declarations, close)):
            yield f"{name} is no declaration; did you mean {close}? (suites/your-own-lock.md)"


def _kind(value: object) -> type:
    return float if number(value) else type(value)


def _values(lock: type[LockClient]) -> Iterator[str]:
    if lock.backend not in BACKENDS:
        yield f"backend = {lock.backend!r}; there are: {', '.join(BACKENDS)}"
    for field, (fits, answer) in validators(Declarations).items():
        if not fits(value := getattr(lock, field)):
            yield f"{field} = {value!r}; {answer}"
    beside = [auxiliary.name for auxiliary in BACKENDS[lock.backend].auxiliaries]
    if lock.via not in ("", *beside):
        yield f"via = {lock.via!r}; nodes beside those of {lock.backend}: {', '.join(beside) or 'none'}"


def _calls(lock: type[LockClient]) -> Iterator[str]:
    for verb, passed in _CALLS.items():
        if not callable(getattr(lock, verb, None)):
            continue
        yield from _called(lock, verb, passed)
        if verb == "open" and admitted(lock):
            yield from _called(lock, verb, (*passed, "access"))


def _called(lock: type[LockClient], verb: str, passed: tuple[str, ...]) -> Iterator[str]:
    static, method = inspect.getattr_static(lock, verb), getattr(lock, verb)
    if inspect.iscoroutinefunction(method):
        yield f"{verb} is async; the suite calls it without await: run your event loop inside of it"
        return
    # `open` is called on the class, the others on what it returned.
    bare = verb == "open" or isinstance(static, staticmethod | classmethod) or not hasattr(type(static), "__get__")
    try:
        signature = inspect.signature(method)
    except ValueError:  # it is written in C and has no signature to show
        return
    try:
        signature.bind(*(() if bare else ("self",)), *passed)
    except TypeError as error:
        hint = "; is its @classmethod missing?" if verb == "open" and inspect.isfunction(static) else ""
        yield f"{verb} is called as {verb}({', '.join(passed)}), and takes {signature}: {error}{hint}"


def _bounds(lock: type[LockClient]) -> Iterator[str]:
    for name, bound in lock.bounds.items():
        if name not in BOUNDED:
            yield f"bounds: nothing is judged by a bound for {name!r}; {instead(name, BOUNDED)}"
        elif not number(bound) or bound < 0 or (name == "recovery" and bound == 0):
            least = "above 0" if name == "recovery" else "0 or more"
            yield f"bounds: {name!r}: {bound!r}; it must be a number of seconds, {least}"


def _promises(lock: type[LockClient]) -> Iterator[str]:
    for field, kind in (("claims", Claim), ("hazards", Hazard)):
        promises = getattr(lock, field)
        if not isinstance(promises, tuple | list):
            yield f"{field} = {promises!r}; it must be a tuple of them: {field} = ({kind.__name__}(...),)"
            continue
        for promise in promises:
            if not isinstance(promise, kind):
                yield f"{field} has {promise!r}, which is no {kind.__name__} (checkers/claims.py)"
                continue
            yield from (f"{kind.__name__}({promise.property!r}): {mistake}" for mistake in _promise(lock, promise))


def _promise(lock: type[LockClient], promise: Claim | Hazard) -> Iterator[str]:
    if promise.property not in tuple(PROPERTIES):
        kept = "" if isinstance(promise, Hazard) else " (a lock with claims keeps exactly those)"
        yield f"no such property{kept}; {instead(promise.property, PROPERTIES)}"
    for field, (what, known) in _PATTERNS.items():
        yield from _patterns(field, getattr(promise, field), what, known)
    if isinstance(promise, Hazard):
        if promise.mechanism not in tuple(MECHANISMS):
            yield f"no mechanism {promise.mechanism!r}; {instead(promise.mechanism, MECHANISMS)}"
        if not promise.under:
            yield "under is empty, so it excuses nothing; name the faults, or 'none' for what needs no fault"
    elif promise.property in PROPERTIES and (needed := _needed(lock, PROPERTIES[promise.property])):
        yield f"it would never be judged: it needs {needed}"


def _needed(lock: type[LockClient], property: Property) -> str:
    """What the lock lacks for a claim of the property to be judged, "" for nothing."""
    if property.bounded and property.id not in lock.bounds:
        return f"a bound, for example bounds = {{{property.id!r}: 2.0}} (seconds)"
    there = features(lock)
    return next((need.value for need in Need if need in property.needs and need not in there), "")


def _patterns(field: str, patterns: object, what: str, known: Collection[str]) -> Iterator[str]:
    if not isinstance(patterns, tuple | list) or not texts(patterns):
        yield f"{field} = {patterns!r}; it must be a tuple of patterns, for example ({next(iter(known))!r},)"
        return
    for pattern in patterns:
        if pattern not in known and not any(matches(name, (pattern,)) for name in known):
            yield f"{field}: {pattern!r} matches no {what}; {instead(pattern, known)}"


def _lanes(lock: type[LockClient]) -> Iterator[str]:
    yield from _patterns("lanes", lock.lanes, "lane", _LANES)
    if all(lane.not_applicable or lane.workload.name in STRUCK_ALONE for lane in lanes_of(lock.__name__, lock)):
        yield f"lanes = {lock.lanes!r}: this lock can run in none of them; ('register/*',) suits every lock"

"""What a checker says of one property of one history: valid or not, its violations, and what exercised it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where a property broke, with its witness."""

    kind: str  # what happened, a short term such as ``overlap`` or ``stale-write-accepted``
    at: int  # ns; the instant from which the property is certainly broken
    rows: tuple[int, ...]  # the few operations that prove it, as row numbers of the history, in the order of the story
    holders: tuple[int, ...]  # acquire rows of the grants involved, the earliest grant first: what mechanisms look at
    story: tuple[str, ...]  # sentences for people: who held which token when, what was read, what should have been


@dataclass(frozen=True, slots=True)
class Proof:
    """What an independent verifier needs to accept an answer."""

    form: str  # ``order`` (valid: an order of linearization points) or ``rows`` (invalid: a minimal sub-history)
    rows: tuple[int, ...]  # row numbers; for ``order`` in that order


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The answer of one checker on one history."""

    property: str
    valid: bool | None  # True, False, or None: unknown, because a budget ran out (``reason`` says which)
    violations: tuple[Violation, ...] = ()  # all that were found, in order of time; empty unless ``valid`` is False
    counters: Mapping[str, int] = field(default_factory=dict)  # what exercised it (``contended acquires``: 41)
    unexercised: str | None = None  # why a pass would mean nothing, or None when the history did stress the property
    reason: str | None = None
    proof: Proof | None = None

"""What a checker says of one property of one history: valid or not, its violations, and what exercised it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where a property broke, with its witness.

    kind     what happened, a short term such as ``overlap`` or ``stale-write-accepted``.
    at       ns; the instant from which the property is certainly broken.
    rows     the few operations that prove it, as row numbers of the history, in the order of the story.
    holders  the acquire rows of the grants involved, the earliest grant first: what mechanisms look at.
    story    sentences for people: who held which token when, what was read, what should have been.
    """

    kind: str
    at: int
    rows: tuple[int, ...]
    holders: tuple[int, ...]
    story: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """What an independent verifier needs to accept an answer.

    form     ``order`` (valid: an order of linearization points) or ``rows`` (invalid: a minimal sub-history).
    rows     row numbers; for ``order`` in that order.
    """

    form: str
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The answer of one checker on one history.

    valid        True, False, or None: unknown, because a budget ran out (``reason`` says which).
    violations   all that were found, in order of time; empty unless ``valid`` is False.
    counters     what exercised the property (``contended acquires``: 41, ...).
    unexercised  why a pass would mean nothing, or None when the history did stress the property.
    """

    property: str
    valid: bool | None
    violations: tuple[Violation, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    unexercised: str | None = None
    reason: str | None = None
    proof: Proof | None = None

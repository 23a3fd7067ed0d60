"""The words of histories from elsewhere: what `f`, `type` and an error mean."""

import re
from typing import Any, Final, NamedTuple

from checkers.row_format import ACQUIRES, SHARED, F, Outcome, Reason


class Verb(NamedTuple):
    """What one spelling of `f` means. sign: the sign of a counter's step, 0 if the value includes it."""

    f: F
    flags: int = 0
    sign: int = 0


def _verbs() -> dict[str, Verb]:
    verbs = {f.name.lower().replace("_", "-"): Verb(f) for f in F}
    verbs["unlock"] = Verb(F.RELEASE)
    for prefix, f in (("", F.ACQUIRE), ("try-", F.TRY_ACQUIRE)):
        verbs |= dict.fromkeys((prefix + "acquire", prefix + "lock"), Verb(f))
        for word, flags in (("read", SHARED), ("shared", SHARED), ("write", 0), ("exclusive", 0)):
            spellings = (f"acquire-{word}", f"lock-{word}", f"{word}-lock")
            verbs |= dict.fromkeys((prefix + spelling for spelling in spellings), Verb(f, flags))
            verbs |= dict.fromkeys((f"release-{word}", f"unlock-{word}", f"{word}-unlock"), Verb(F.RELEASE))
    verbs |= {"get": Verb(F.READ), "put": Verb(F.WRITE), "compare-and-set": Verb(F.CAS), "txn": Verb(F.TRANSACT)}
    verbs |= dict.fromkeys(("increment", "inc"), Verb(F.ADD, 0, 1))
    verbs |= dict.fromkeys(("decrement", "dec"), Verb(F.ADD, 0, -1))
    return verbs


VERBS: Final = _verbs()
KINDS: Final = tuple(dict.fromkeys(VERBS.values()))  # the meanings of all verbs, each once

INVOKE: Final = 0
TYPES: Final = {"invoke": INVOKE, "ok": Outcome.OK, "fail": Outcome.FAIL, "info": Outcome.INFO}

REASONS: Final = {reason.name.lower().replace("_", "-"): reason for reason in Reason}

SHARED_WORDS: Final = frozenset({"read", "shared", "reader"})  # values of an acquire that make it a reader's
MICRO: Final = {"r": "r", "read": "r", "w": "w", "write": "w", "append": "append"}
"""Spelling of an operation within a transaction → its name here."""

NEMESIS: Final = "nemesis"


def word(value: Any) -> str | None:
    """A name in one spelling: without a keyword's colon, in lower case, with hyphens. None if it is no name."""
    return value.removeprefix(":").lower().replace("_", "-") if isinstance(value, str) else None


_NOT_OWNER: Final = frozenset({"owner", "holder", "held", "locked", "owned", "mine", "yours"})
_HELD: Final = frozenset({"held", "busy", "locked", "taken", "owned", "contended"})
_TIMEOUT: Final = frozenset({"timeout", "timedout", "deadline"})
_UNAVAILABLE: Final = frozenset(
    {"unavailable", "connection", "connect", "conn", "conns", "unreachable", "network", "socket", "leader", "quorum"}
)
_STALE: Final = frozenset({"stale", "fence", "fenced", "fencing", "token"})
_DENIED: Final = frozenset({"forbidden", "unauthorized", "unauthenticated", "permission", "permissions"})
_WORD: Final = re.compile(r"[a-z0-9]+")


def reason_of(f: F, text: str | None, *, token: bool) -> Reason:
    """Why an operation failed, as far as its error says.

    Only HELD of an acquire and the refusal of an access with a token are ever evidence, so a doubtful text is read as
    no reason. The exception is a fence's refusal, because `fail` of an access with a token is how files write that
    down. text: None if the file gives no error. token: whether the operation carried one.
    """
    words = frozenset(_WORD.findall(text.lower())) if text is not None else frozenset()
    if words & _TIMEOUT or ("timed" in words and "out" in words):
        return Reason.TIMEOUT
    if words & _UNAVAILABLE:
        return Reason.UNAVAILABLE
    if words & _DENIED and not words & _STALE:
        return Reason.DENIED
    negated = bool(words & {"not", "no", "wrong", "another", "other"})
    if f in ACQUIRES:
        if text is None:
            return Reason.HELD if f == F.TRY_ACQUIRE else Reason.NONE
        return Reason.HELD if words & _HELD and "not" not in words else Reason.NONE
    if f in (F.RELEASE, F.RENEW):
        return Reason.NOT_OWNER if negated and words & _NOT_OWNER else Reason.NONE
    if f in (F.READ, F.WRITE):
        if negated and words & _NOT_OWNER:
            return Reason.NOT_OWNER
        return Reason.STALE_TOKEN if token or words & _STALE else Reason.NONE
    return Reason.NONE

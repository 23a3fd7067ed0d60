"""Checks what an acquire returned before that is recorded, so that a mistake of an adapter is reported as such."""

from typing import Final

from suites.lock import NEVER, Grant, now

_MOST: Final = (1 << 63) - 1
"""The largest number that a column of a recording can hold (`checkers.row_format`)."""


class BadGrant(Exception):
    """An acquire returned something that is no valid grant. The message says in one line what is wrong and needed."""


def checked(grant: object, name: str, who: str) -> Grant | None:
    """The grant, if an acquire of this lock may return it. who: for example ``MyLock.acquire``. Raises BadGrant.

    Whether the grant tells the truth is for the checkers to find out. A lock without a TTL has the TTL 0.
    """
    if grant is None:
        return None
    if not isinstance(grant, Grant):
        raise BadGrant(f"{who} returned {_shown(grant)}: a suites.lock.Grant, or None, is needed")
    wrong = _wrong(grant, name)
    if wrong is not None:
        field, needed = wrong
        raise BadGrant(f"{who} returned a Grant whose {field} is {_shown(getattr(grant, field))}: {needed} is needed")
    return grant


def _wrong(grant: Grant, name: str) -> tuple[str, str] | None:
    """(field, what it must be) of the first field with an impossible value; None if there is none."""
    sent, here = grant.sent, now()
    if grant.name != name:
        return "name", f"the name that was asked for, {name!r},"
    if not _int(grant.owner, 1, _MOST):
        return "owner", "an int from 1 to 2**63 - 1 (suites.lock.new_owner())"
    if grant.token is not None and not _int(grant.token, 0, _MOST):
        return "token", "an int from 0 to 2**63 - 1, or None,"
    if not _int(sent, 1, here):
        return "sent", f"an int from 1 to the present, {here}, in ns (suites.lock.now() before the request)"
    if not _int(grant.ttl, 0, NEVER):
        return "ttl", "an int from 0 to 2**62, in ns,"
    # In a session `expires` counts from the last keep-alive, so it may lie before the request was sent.
    if not _int(grant.expires, 1 if grant.session else sent + 1, _MOST):
        return "expires", f"an int later than its sent, {sent}, in ns (suites.lock.NEVER for no end)"
    if not _int(grant.session, -_MOST - 1, _MOST):
        return "session", "an int of 64 bits, 0 for none,"
    if not _int(grant.queued, 0, here):
        return "queued", f"an int from 0 (no queue) to the present, {here}, in ns"
    return None


def _int(value: object, least: int, most: int) -> bool:
    """Whether the value is an int from `least` to `most`. A bool is an int in Python, but a mistake here."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _shown(value: object) -> str:
    """The value and its type, as in ``'tok-1' (str)``, in one line; a value of more than 80 characters is cut."""
    text = repr(value).replace("\n", " ")
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"

"""Histories written by hand, a line an operation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from checkers.history.history import DTYPE, Facts, FaultInterval, History, from_rows
from checkers.row_format import FINAL, NONE, F, Outcome, Reason

OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO

FACTS = Facts(
    trial="t",
    lane="redis/register/unfenced",
    lock="redis",
    backend="redis",
    workload="register",
    store="unfenced",
    fault_names=("none",),
    seed=1,
    keys=("a", "b"),
    lease="grant",
    ttl=10,
    workers=4,
)


def cases(names: str, *rows: tuple[Any, ...]) -> pytest.MarkDecorator:
    """A test for each row, which may begin with the name of the case."""
    asked = names.split(", ")
    ids = [row[0] if len(row) > len(asked) else None for row in rows]
    return pytest.mark.parametrize(asked, [row[-len(asked) :] for row in rows], ids=ids)


class Book:
    """Collects operations; times are small positive integers."""

    def __init__(self, **facts: Any) -> None:
        self.facts = replace(FACTS, **facts)
        self.rows: list[tuple[Any, ...]] = []
        self.faults: list[FaultInterval] = []

    def add(
        self,
        f: F,
        inv: int,
        ret: int = 0,
        outcome: Outcome = OK,
        *,
        sent: int = 0,
        ttl: int = 0,
        token: int = NONE,
        owner: int = 0,
        value: int = NONE,
        base: int = NONE,
        session: int = 0,
        process: int = 0,
        key: int = 0,
        reason: Reason = Reason.NONE,
        flags: int = 0,
        given_up: int = 0,
    ) -> Book:
        """given_up: when it was, where there was no answer."""
        done = given_up if outcome == INFO else ret
        row = (inv, done, sent, ttl, token, owner, value, base, session, process, 0, key, f, outcome, reason, flags)
        self.rows.append(row)
        return self

    def acquire(self, inv: int, ret: int, owner: int, **more: Any) -> Book:
        return self.add(F.ACQUIRE, inv, ret, owner=owner, process=more.pop("process", owner), **more)

    def release(self, inv: int, ret: int, owner: int, outcome: Outcome = OK, **more: Any) -> Book:
        return self.add(F.RELEASE, inv, ret, outcome, owner=owner, process=more.pop("process", owner), **more)

    def renew(self, inv: int, ret: int, owner: int, outcome: Outcome = OK, **more: Any) -> Book:
        return self.add(F.RENEW, inv, ret, outcome, owner=owner, process=more.pop("process", owner), **more)

    def lost(self, at: int, owner: int, **more: Any) -> Book:
        return self.add(F.LOST, at, at, owner=owner, process=more.pop("process", owner), **more)

    def read(self, inv: int, ret: int, owner: int, value: int, outcome: Outcome = OK, **more: Any) -> Book:
        more = {"process": owner, "reason": Reason.STALE_TOKEN if outcome == FAIL else Reason.NONE, **more}
        return self.add(F.READ, inv, ret, outcome, owner=owner, value=value, **more)

    def write(self, inv: int, ret: int, owner: int, value: int, outcome: Outcome = OK, **more: Any) -> Book:
        more = {"process": owner, "reason": Reason.STALE_TOKEN if outcome == FAIL else Reason.NONE, **more}
        return self.add(F.WRITE, inv, ret, outcome, owner=owner, value=value, **more)

    def final(self, inv: int, ret: int, value: int, length: int = 0, key: int = 0) -> Book:
        return self.add(F.READ, inv, ret, value=value, base=length, process=-1, key=key, flags=FINAL)

    def fault(self, name: str, begun: int, healed: int, **more: Any) -> Book:
        more = {"kind": "cut", "target": "", "applied": begun, "healing": healed, **more}
        self.faults.append(FaultInterval(name=name, begun=begun, healed=healed, **more))
        return self

    def then(self, **facts: Any) -> Book:
        """A copy with other facts, to go on with."""
        book = Book()
        book.facts, book.rows, book.faults = replace(self.facts, **facts), [*self.rows], [*self.faults]
        return book

    def history(self) -> History:
        return from_rows(self.facts, np.array(self.rows, DTYPE), self.faults)

"""What the rows of a history say to the verifier of leases, `lease_proof`. Shares no code with the engine."""

from typing import Final

from checkers.history.history import History
from checkers.models.model import Settings
from checkers.row_format import ACQUIRES, INFINITY, NESTED, OF_SESSIONS, F, Outcome, Reason

GIVES: Final = (F.RENEW, F.RELEASE)


class LeaseEvents:
    """Operations by their rows, attempts by the rows of their acquires (-1: none), sessions by numbers (0: none).

    granted  attempts that certainly succeeded: the acquire or its release was acknowledged.
    given_up attempt → when its session asked for the same key again, and so had given it up.
    opened   session → when it was created at the earliest, and when its client knew.
    length   of each row: the shortest that a lease prolonged by the row can last.
    ordered  keys whose grants come in the order of their tokens: all have one, and no two contradict real time.
    holding  sessions that hold anything: it does not matter how long the others lived.
    """

    def __init__(self, history: History, settings: Settings) -> None:
        facts, c = history.facts, {name: column.tolist() for name, column in history.columns.items()}
        self.columns: dict[str, list[int]] = c
        self.f, self.key, self.inv = (self.columns[name] for name in ("f", "key", "inv"))
        in_sessions = any(z and f in OF_SESSIONS for f, z in zip(c["f"], c["session"], strict=True))
        self.kind = "session" if facts.lease == "grant" and in_sessions else facts.lease
        numbers = {0: 0, **{z: n for n, z in enumerate(sorted(set(c["session"]) - {0}), 1)}}
        self.session = [numbers[z] if self.kind != "grant" else 0 for z in c["session"]]
        self.attempt, self.granted = [-1] * len(history), set[int]()
        self.given_up, self.opened, ttls = dict[int, int](), dict[int, tuple[int, int]](), dict[int, int]()
        latest, asking = dict[tuple[int, int], int](), dict[tuple[int, int], int]()
        for row, (f, z) in enumerate(zip(self.f, self.session, strict=True)):
            mine, ok = (c["owner"][row], self.key[row]), self.ok(row)
            if f in ACQUIRES and not c["flags"][row] & NESTED:
                if not self.refused(row):
                    latest[mine] = row
                if z:
                    self.given_up[asking.get((z, self.key[row]), -1)] = self.inv[row]
                    asking[z, self.key[row]] = row
            if f in ACQUIRES + GIVES and mine[0]:
                self.attempt[row] = latest.get(mine, -1)
            if ok and f in (*ACQUIRES, F.RELEASE) and self.attempt[row] >= 0 and not c["flags"][row] & NESTED:
                self.granted.add(self.attempt[row])
            if ok and c["ttl"][row] and f in (*ACQUIRES, F.SESSION_OPEN):
                ttls[z] = min(ttls.get(z, INFINITY), c["ttl"][row])
            self.opened |= {z: (self.inv[row], c["ret"][row])} if ok and f == F.SESSION_OPEN else {}
        drift, default, self.length = settings.drift or facts.drift, settings.ttl or facts.ttl, list[int]()
        for z, mine_row in zip(self.session, self.attempt, strict=True):
            ttl = (ttls.get(z) if z else c["ttl"][mine_row] if mine_row >= 0 else 0) or default
            self.length.append(max((int(ttl / (1 + drift)) if drift else ttl) - facts.grain, 0))
        self.holding = {self.session[row] for row in self.granted} - {0}
        self.ordered = self._ordered()

    def start(self, row: int) -> int:
        """ns; the earliest time at which the operation can have happened."""
        if self.f[row] not in ACQUIRES:
            return self.inv[row]
        return max(self.columns["sent"][row] or self.inv[row], self.opened.get(self.session[row], (0, 0))[0])

    def end(self, row: int) -> int:
        """ns; the latest time at which the operation can have happened."""
        return INFINITY if self.columns["outcome"][row] == Outcome.INFO else self.columns["ret"][row]

    def ok(self, row: int) -> bool:
        return self.columns["outcome"][row] == Outcome.OK

    def refused(self, row: int) -> bool:
        return self.columns["outcome"][row] == Outcome.FAIL

    def must_happen(self, row: int) -> bool:
        """Whether an operation must be explained: of unanswered ones granted acquires only, of failures refusals."""
        f, mine = self.f[row], self.attempt[row]
        if self.columns["flags"][row] & NESTED or (f in ACQUIRES + GIVES and not self.columns["owner"][row]):
            return False
        if f in OF_SESSIONS and self.session[row] not in self.holding:
            return False
        if self.refused(row):
            refused = self.columns["reason"][row] < Reason.UNAVAILABLE
            known = self.inv[row] >= self.opened.get(self.session[row], (0, 0))[1]  # else there may be no session yet
            return refused and ((f == F.KEEP_ALIVE and known) or (f in GIVES and mine >= 0 and self.ok(mine)))
        return f in (*ACQUIRES, *GIVES, *OF_SESSIONS) and (self.ok(row) or row in self.granted)

    def _ordered(self) -> set[int]:
        token, latest, highest = self.columns["token"], dict[int, int](), dict[int, int]()
        orphans = (row for row, mine in enumerate(self.attempt) if mine < 0 and self.f[row] in GIVES)
        strange = {self.key[row] for row in orphans if self.must_happen(row)}
        for row in sorted(self.granted, key=lambda row: token[row]):
            key = self.key[row]
            known = token[row] >= 0 and self.ok(row) and latest.get(key) != token[row]
            if not known or self.end(row) < highest.get(key, 0):
                strange.add(key)
            latest[key], highest[key] = token[row], max(highest.get(key, 0), self.start(row))
        return set(latest) - strange

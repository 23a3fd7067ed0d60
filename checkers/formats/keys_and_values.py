"""The keys that operations name and the values that they carry."""

from typing import Any, Final

import numpy as np

from checkers.formats.event_columns import ABSENT, different
from checkers.formats.pairing import PairedOperations
from checkers.formats.vocabulary import MICRO, word
from checkers.history.counting import Flags, Ints
from checkers.history.foreign_values import Atoms, FrozenMap, plain, shown, spelled
from checkers.row_format import ACQUIRES, NONE, F, Outcome

_CARRYING: Final = (F.WRITE, F.APPEND, F.ADD, F.CAS, F.TRANSACT, F.EFFECT)
"""Verbs whose value is given when they are invoked."""
_RETURNING: Final = (F.READ, F.GENERATE)  # verbs whose value is their answer
_ASKING: Final = (*ACQUIRES, F.READ, F.GENERATE, F.RELEASE, F.RENEW)
"""Verbs that are invoked without a value of their own, so that a pair can only be an independent key."""
_NOT_PAIRED: Final = (F.SESSION_OPEN, F.SESSION_CLOSE, F.KEEP_ALIVE, F.BELIEF, F.LOST, F.STALL)
"""Verbs that may stand without a pair among others that have one."""


class KeysAndValues:
    """Keys and values of operations, with Jepsen's independent keys (``:value [k v]``) taken apart.

    begun, ended  index into `atoms` of the value that the invocation and the completion give, `ABSENT` for none.
    """

    def __init__(self, ops: PairedOperations) -> None:
        self._ops = ops
        self.atoms: Atoms = ops.events.atoms["value"]
        self._keys: Atoms = ops.events.atoms["key"]
        self._key = ops.either("key")
        self.begun, self.ended = ops.at_invocation("value"), ops.at_end("value")
        self._part(self._pairs())

    def keys(self) -> tuple[Ints, list[Any]]:
        """Index of each operation's key, and the keys in order of their first operation; "" where none is named."""
        if not len(self._key):
            return self._key, [""]
        values = [*self._keys.values, ""]  # ABSENT is the last
        first = np.full(len(values), len(self._key))
        first[self._key[::-1]] = np.arange(len(self._key))[::-1]
        order = np.argsort(first, kind="stable")[: int((first < len(self._key)).sum())]
        place = np.empty(len(values), np.int64)
        place[order] = np.arange(len(order))
        return place[self._key], [values[atom] for atom in order.tolist()]

    def values(self) -> tuple[Ints, Ints]:
        """Columns `value` and `base`, indexes into `atoms`. Raises BadHistory."""
        ops = self._ops
        value = np.full(len(ops), NONE, np.int64)
        base = value.copy()
        ok = ops.outcome == Outcome.OK
        read = np.isin(ops.f, _RETURNING) & ok
        ops.refuse(read & (self.ended == ABSENT), lambda row: f"{self._verb(row)} that returned no value", ended=True)
        value[read] = self.ended[read]
        carried = np.isin(ops.f, _CARRYING) & (ops.f != F.TRANSACT)
        value[carried] = self._carried(carried & ok)[carried]
        self._step(value)
        ops.refuse(carried & (value == NONE), lambda row: f"{self._verb(row)} without a value")
        self._swap(value, base)
        self._transact(value)
        self._unmistakable(value, base)
        return value, base

    # Independent keys

    def _pairs(self) -> dict[int, tuple[Any, Any]]:
        """Atom → key and value, of the values that are such pairs. Without a tag either all are pairs or none."""
        values, ops = self.atoms.values, self._ops
        tagged = {atom: value[1] for atom, value in enumerate(values) if _tagged(value)}
        if tagged or (self._key != ABSENT).any():
            return tagged
        pairs = np.array([*map(_pair, values), False], bool)  # ABSENT is the last
        asking = np.isin(ops.f, _ASKING) & pairs[self.begun]
        if not asking.any() and not (np.isin(ops.f, (F.CAS, F.TRANSACT)) & pairs[self.begun]).any():
            return {}
        fits = pairs[self.begun]
        for f, suits in ((F.CAS, _pair), (F.TRANSACT, _micros)):
            rows = (ops.f == f) & fits
            if rows.any():
                suited = np.zeros(len(values), bool)
                for atom in different(self.begun[rows]):
                    suited[atom] = suits(values[atom][1]) and not _micro(values[atom][0])
                fits[rows] = suited[self.begun[rows]]
        fits |= np.isin(ops.f, _NOT_PAIRED)
        if asking.any():
            example = ops.line(int(np.argmax(asking))) + 1
            ops.refuse(~fits, lambda row: f"{self._verb(row)} without [key value], which others have (line {example})")
        return {atom: values[atom] for atom in np.flatnonzero(pairs[:-1]).tolist()} if fits.all() else {}

    def _part(self, pairs: dict[int, tuple[Any, Any]]) -> None:
        """Move the keys of pairs to the keys; the values remain."""
        if not pairs:
            return
        ops, atoms = self._ops, list(pairs)
        keys, rests = np.full(len(self.atoms.values), ABSENT, np.int64), np.arange(len(self.atoms.values))
        keys[atoms] = self._keys.intern_all(key for key, _ in pairs.values())
        rests[atoms] = self.atoms.intern_all(rest for _, rest in pairs.values())
        begun, ended = np.append(keys, ABSENT)[self.begun], np.append(keys, ABSENT)[self.ended]
        ops.refuse_another("key", (ops.outcome == Outcome.OK) & (self.ended != ABSENT) & (ended != begun))
        self._key = np.where(begun != ABSENT, begun, self._key)
        # A completion without a key of its own does not tell whether it gives a value.
        self.ended = np.where((begun != ABSENT) & (ended == ABSENT), ABSENT, np.append(rests, ABSENT)[self.ended])
        self.begun = np.append(rests, ABSENT)[self.begun]

    # Values

    def _carried(self, ok: Flags) -> Ints:
        """The values written: those of the invocations, or of the completions if the invocations leave them open."""
        nil = self.atoms.find(None)
        begun = (self.begun != ABSENT) & (self.begun != nil)
        ended = ok & (self.ended != ABSENT) & (self.ended != nil)

        def contradiction(row: int) -> str:
            invoked = f"line {self._ops.line(row) + 1} invoked one of {self._shown(self.begun[row])}"
            return f"{self._verb(row)} of {self._shown(self.ended[row])} ended, but {invoked}"

        self._ops.refuse(begun & ended & (self.begun != self.ended), contradiction, ended=True)
        return np.where(begun | ~ended, np.where(self.begun != ABSENT, self.begun, NONE), self.ended)

    def _step(self, value: Ints) -> None:
        """``increment`` and ``decrement`` add and take away the number that they name, or one."""
        ops = self._ops
        nil = self.atoms.find(None)
        for sign in (1, -1):
            rows = ops.sign == sign
            for atom in {*value[rows].tolist()}:
                step = 1 if atom in (NONE, nil) else self.atoms.values[atom]
                if type(step) not in (int, float):
                    ops.refuse(rows & (value == atom), lambda row: f"{self._verb(row)} by something that is no number")
                # Marked as negative, since the new atom may also be that of another step, still to come.
                value[rows & (value == atom)] = -2 - self.atoms.intern(sign * step)
            value[rows] = -2 - value[rows]

    def _swap(self, value: Ints, base: Ints) -> None:
        """Takes a compare-and-set's ``[old new]`` apart."""
        rows = self._ops.f == F.CAS
        if not rows.any():
            return
        olds, news = np.full((2, len(self.atoms.values)), NONE, np.int64)
        for atom in different(value[rows]):
            if not _pair(self.atoms.values[atom]):
                self._ops.refuse(rows & (value == atom), lambda row: f"{self._verb(row)} needs a value [old new]")
            olds[atom], news[atom] = self.atoms.intern_all(self.atoms.values[atom])
        base[rows], value[rows] = olds[value[rows]], news[value[rows]]

    def _transact(self, value: Ints) -> None:
        """A transaction's reads and writes, as its completion gives them. They must be those that were invoked."""
        ops = self._ops
        rows = np.flatnonzero(ops.f == F.TRANSACT)
        known: dict[tuple[int, int], int] = {}
        for row in rows.tolist():
            ended = int(self.ended[row]) if ops.outcome[row] == Outcome.OK else ABSENT
            pair = (int(self.begun[row]), ended)
            if pair not in known:
                try:
                    known[pair] = self._transaction_of(*pair)
                except ValueError as error:
                    line = ops.line(row, ended=ended != ABSENT)
                    raise ops.events.source.bad(line, f"{self._verb(row)}: {error}") from error
            value[row] = known[pair]

    def _transaction_of(self, begun: int, ended: int) -> int:
        nil = self.atoms.find(None)
        begun_as = None if begun in (ABSENT, nil) else _transaction(self.atoms.values[begun])
        ended_as = None if ended in (ABSENT, nil) else _transaction(self.atoms.values[ended])
        if begun_as is None and ended_as is None:
            raise ValueError("it has no value")
        if begun_as is not None and ended_as is not None:
            same = len(begun_as) == len(ended_as) and all(
                a[:2] == b[:2] and (a[0] == "r" or a[2] == b[2]) for a, b in zip(begun_as, ended_as, strict=True)
            )
            if not same:
                raise ValueError("it ended as another than it was invoked")
        return self.atoms.intern(begun_as if ended_as is None else ended_as)

    def _unmistakable(self, value: Ints, base: Ints) -> None:
        """Refuses histories in which ``1`` and ``true``, or ``1`` and ``1.0``, would be taken for one another."""
        confusion = self.atoms.confusion(different(np.concatenate((value, base)))) if self.atoms.odd else None
        if confusion is not None:
            atom, message = confusion
            self._ops.refuse((value == atom) | (base == atom), lambda _: message)

    def _verb(self, row: int) -> str:
        events = self._ops.events
        verb = events.atoms["f"].values[events.column("f")[self._ops.invoked[row]]]
        name = shown(plain(verb).removeprefix(":"))
        return f"an {name}" if name[:1] in "aeiou" else f"a {name}"

    def _shown(self, atom: int) -> str:
        return shown(spelled(self.atoms.values[atom]))


def _pair(value: Any) -> bool:
    return type(value) is tuple and len(value) == 2


def _tagged(value: Any) -> bool:
    """Whether it is an independent tuple with its tag, as some versions print it."""
    if not _pair(value) or not isinstance(value[0], str) or not value[0].startswith("#"):
        return False
    return ("independent" in value[0] or value[0].endswith("MapEntry")) and _pair(value[1])


def _micro(value: Any) -> bool:
    return type(value) is tuple and len(value) in (2, 3) and word(value[0]) in MICRO


def _micros(value: Any) -> bool:
    return type(value) is tuple and all(_micro(item) for item in value)


def _transaction(value: Any) -> tuple[tuple[str, Any, Any], ...]:
    """The operations of a transaction as ``(f, key, value)``, f one of "r", "w", "append". Raises ValueError."""
    if type(value) is not tuple or isinstance(value, FrozenMap):
        raise ValueError("a list of operations is wanted")
    for item in value:
        if not _micro(item) or (len(item) == 2 and MICRO[str(word(item[0]))] != "r"):
            raise ValueError(f"{shown(spelled(item))} is not [f key value]; f is one of {', '.join(MICRO)}")
    return tuple((MICRO[str(word(item[0]))], item[1], item[2] if len(item) == 3 else None) for item in value)

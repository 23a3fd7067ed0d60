"""Tiny histories of data: exhaustive search by a specification of the check, and what an engine must answer."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, NamedTuple

from checkers.history.history import History
from checkers.linearizability import ModelResult, decide
from checkers.models.all_models import MODELS, Specification
from checkers.models.model import UNSET, Settings
from checkers.proofs.verify_proof import verify_invalid, verify_valid
from checkers.row_format import NONE, F, Reason
from checkers.tests.batches import Batched, ended, names, sorted_history
from checkers.tests.brute import Step, linearizable
from checkers.tests.build import FACTS, Disagreement, replayed, there

KEYS = ("a", "b")
_FACTS = replace(FACTS, keys=KEYS, lane="fuzz", store="", lock="")


class Act(NamedTuple):
    """One operation on one key. Values are as a file holds them, UNSET if it holds none."""

    f: F
    outcome: str
    value: Any
    inv: int
    ret: int
    base: Any = UNSET
    key: str = "a"


Drawn = tuple[list[Act], bool]  # a history of one key, and whether exhaustive search finds an order of it


def history_of(acts: Sequence[Act]) -> History:
    """The history that a loader of foreign files makes: in order of invocation, with values interned."""
    return _history([(act, KEYS.index(act.key)) for act in acts], KEYS)


def _history(acts: Sequence[tuple[Act, int]], keys: Sequence[str]) -> History:
    """The acts as a history. acts: each with the index of its key."""
    values: dict[tuple[type, Hashable], int] = {}

    def number(value: Any) -> int:
        return NONE if value is UNSET else values.setdefault((type(value), value), len(values))

    rows = []
    for place, (act, key) in enumerate(sorted(acts, key=lambda pair: pair[0].inv)):
        ret = 0 if act.outcome == "info" else act.ret
        who = NONE, place + 1, number(act.value), number(act.base), 0, place
        rows.append((act.inv, ret, 0, 0, *who, 0, key, act.f, *ended(act.outcome, Reason.NONE), 0))
    history, _ = sorted_history(replace(_FACTS, keys=tuple(keys)), rows)
    return replace(history, values=tuple(value for _, value in values))


def silent(read: Act, settings: Settings) -> bool:
    """Whether a read proves nothing."""
    return read.outcome == "info" or read.value is UNSET or (read.value is None and settings.nil_read == "unknown")


def drawn(acts: list[Act], initial: Hashable, step: Step) -> Drawn:
    """The acts, and whether exhaustive search finds an order of them. Failed operations prove nothing."""
    return acts, linearizable([act for act in acts if act.outcome != "fail"], initial, step)


class Kind(NamedTuple):
    """Histories of one kind. name: the name of their model."""

    name: str
    settings: Callable[[Random], Settings]
    draw: Callable[[Random, Settings], Drawn]


class Case(NamedTuple):
    """The settings to judge by, a history of one key, and whether exhaustive search finds an order of it."""

    settings: Settings
    acts: list[Act]
    truth: bool


def batched(kind: Kind) -> Batched[Case]:
    return Batched(partial(_case, kind=kind), lambda case: case.settings, partial(_cases, name=kind.name))


def _case(rng: Random, *, kind: Kind) -> Case:
    settings = kind.settings(rng)
    return Case(settings, *kind.draw(rng, settings))


def _cases(cases: Sequence[Case], *, name: str) -> list[str]:
    """The engine's word for each case, a key of one history. Those not valid are decided too. Raises Disagreement."""
    settings = cases[0].settings
    history = _history([(act, n) for n, case in enumerate(cases) for act in case.acts], names(len(cases)))
    words = judged(history, [(case.acts, case.truth) for case in cases], name, settings)
    for case, word in zip(cases, words, strict=True):
        if word != "valid":
            _at_last(history_of(case.acts), MODELS[name], case)
    return words


def _at_last(history: History, statement: Specification, case: Case) -> ModelResult:
    judgement = decide(history, statement, case.settings)
    if judgement.valid is not case.truth or not (case.truth or judgement.minimal):
        raise Disagreement(f"{judgement}, in truth {case.truth}, {case.settings}:\n{case.acts}")
    return judgement


def searched(rng: Random, *, kind: Kind) -> str:
    """Judges one history under a model without an engine, and verifies its proof. Raises Disagreement."""
    case = _case(rng, kind=kind)
    history, statement = history_of(case.acts), MODELS[kind.name]
    judgement = _at_last(history, statement, case)
    if case.truth:
        wrong = verify_valid(history, statement, case.settings, judgement.order().tolist())
    else:
        wrong = verify_invalid(history, statement, case.settings, judgement.rows)
    if wrong is not None:
        raise Disagreement(f"{judgement}: {wrong}, {case.settings}:\n{case.acts}")
    return "valid" if case.truth else "invalid"


def judged(history: History, drawn: Sequence[tuple[object, bool]], name: str, settings: Settings) -> list[str]:
    """A word for the engine's answer on each key. drawn: the key's operations, and the truth. Raises Disagreement."""
    statement = MODELS[name]
    answer = there(statement.engine)(history, settings)
    model = there(statement.make(history, settings))
    bad = {conflict.key for conflict in answer.conflicts}
    if any(not c.rows or not all(0 <= row < len(history) for row in c.rows) for c in answer.conflicts):
        raise Disagreement(f"rows that do not exist: {answer.conflicts}\n{drawn}")
    if len(bad) < len(answer.conflicts) or bad & answer.undecided.keys():
        raise Disagreement(f"decided twice, or not: {answer}\n{drawn}")
    words = []
    for n, (acts, truth) in enumerate(drawn):
        words.append(f"{'undecided, ' if n in answer.undecided else ''}{'valid' if truth else 'invalid'}")
        if n not in answer.undecided and (n in bad) is truth:
            conflicts = [conflict for conflict in answer.conflicts if conflict.key == n]
            raise Disagreement(f"the engine says {conflicts}, exhaustive search {truth}, {settings}:\n{acts}")
    replayed(history, answer, model)
    return words


class Call(NamedTuple):
    """How an operation is called. place: in the order of effects. happens: whether it takes effect."""

    place: int
    inv: int
    ret: int
    outcome: str
    happens: bool


def calls(rng: Random, most: int = 7) -> Iterator[Call]:
    """The calls of one to `most` operations, in the order of their effects. Calls of neighbours may be concurrent."""
    for place in range(rng.randint(1, most)):
        moment, spread = 3 * place + 4, rng.choice((0, 2, 4, 8))
        inv, ret = max(1, moment - rng.randint(0, spread)), moment + rng.randint(0, spread)
        outcome = rng.choices(("ok", "info", "fail"), (8, 2, 1))[0]
        yield Call(place, inv, ret, outcome, outcome == "ok" or (outcome == "info" and rng.random() < 0.5))


def disturbed(acts: list[Act], rng: Random) -> list[Act]:
    """The acts shuffled; mostly one of them is moved by up to 5, and sometimes one is left out."""
    if rng.random() < 0.7:
        n = rng.randrange(len(acts))
        inv = max(1, acts[n].inv + rng.randint(-5, 5))
        acts[n] = acts[n]._replace(inv=inv, ret=max(inv, acts[n].ret + rng.randint(-5, 5)))
    if rng.random() < 0.1 and len(acts) > 1:
        acts.pop(rng.randrange(len(acts)))
    rng.shuffle(acts)
    return acts

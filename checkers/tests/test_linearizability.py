"""From a history and a model to a judgement: engine, search, the least contradiction, the proof, and the story."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from checkers.history.history import History
from checkers.linearizability import ModelResult, decide
from checkers.models.all_models import MODELS, Specification
from checkers.models.engine_answer import Conflict, EngineAnswer
from checkers.models.model import ILLEGAL, Illegal, Model, Operation, Settings, State
from checkers.models.operations import WHOLE
from checkers.models.user_model import ModelError, specification
from checkers.proofs.verify_proof import verify_invalid, verify_valid
from checkers.proofs.witness import tell
from checkers.row_format import NONE, F, Outcome, Reason
from checkers.tests.build import FAIL, INFO, OK, Book, cases, message_of

SETTINGS = Settings(initial=NONE)
REGISTER = replace(MODELS["register"], engine=None)  # all keys are left to the search


def good(keys: int = 1) -> Book:
    book = Book(keys=tuple("abcdefgh"[:keys]))
    for key in range(keys):
        book.write(1, 4, 1, 7, key=key).read(2, 3, 2, 7, key=key)
        book.write(3, 0, 3, 8, INFO, key=key).read(5, 6, 2, 8, key=key)
    return book


def bad(key: int = 0) -> Book:
    return good(key + 1).write(11, 12, 1, 9, key=key).read(13, 14, 2, 8, key=key)


def engine(answer: EngineAnswer) -> Specification:
    return replace(REGISTER, engine=lambda history, settings: answer)


def proven(history: History, statement: Specification | str, settings: Settings = SETTINGS) -> ModelResult:
    """The judgement of a history. Asserts that the verifier accepts its proof."""
    judged = decide(history, statement, settings)
    named = specification(statement) if isinstance(statement, str) else statement
    if judged.valid:
        assert verify_valid(history, named, settings, judged.order().tolist()) is None
    else:
        assert verify_invalid(history, named, settings, judged.rows) is None
    return judged


def nothing() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.empty(0, np.int64)


def test_valid_with_its_order() -> None:
    judged = proven(good(3).history(), REGISTER)
    assert (judged.valid, judged.model, judged.operations) == (True, "register", 12)


def test_invalid_with_its_rows() -> None:
    judged = proven(bad(1).history(), REGISTER)
    assert (judged.valid, judged.kind, judged.key, judged.minimal) == (False, "no-order", 1, True)
    assert judged.story[-1] == "Worker 2's read fits nowhere: when it returned, there can only have been 9."


def test_the_orders_of_engine_and_search_are_joined() -> None:
    """The engine decides key 0 and leaves key 1 to the search."""
    history = good(2).history()
    rows = np.flatnonzero(history.columns["key"] == 0)
    assert proven(history, engine(EngineAnswer((), {1: "it cannot tell"}, lambda: rows))).valid


def test_invalid_beats_unknown() -> None:
    book = bad(1)
    for n in range(30):
        book.write(100, 1000 + n, n + 10, n + 100)
    history = book.read(1100, 1101, 5, 9).history()
    rows = tuple(np.flatnonzero(history.columns["key"] == 1).tolist())
    statement = engine(EngineAnswer((Conflict("stale-read", 1, rows),), {0: "it cannot tell"}, nothing))
    judged = decide(history, statement, replace(SETTINGS, budget=5.0))
    assert (judged.valid, judged.key, judged.kind) == (False, 1, "stale-read")
    assert verify_invalid(history, statement, SETTINGS, judged.rows) is None


def test_the_earliest_of_several_contradictions_is_reported() -> None:
    book = bad(0).write(1, 2, 1, 7, key=1).read(3, 4, 1, 8, key=1)
    book.facts = replace(book.facts, keys=("a", "b"))
    history = book.history()
    keys = history.columns["key"]
    conflicts = tuple(Conflict("x", key, tuple(np.flatnonzero(keys == key).tolist())) for key in (0, 1))
    assert decide(history, engine(EngineAnswer(conflicts, {}, nothing)), SETTINGS).key == 1


def test_a_contradiction_that_the_search_does_not_confirm_is_not_believed() -> None:
    judged = decide(good().history(), engine(EngineAnswer((Conflict("stale-read", 0, (0, 1)),), {}, nothing)), SETTINGS)
    assert (judged.valid, "which the search does not confirm" in judged.reason) == (None, True)


def test_a_budget_that_is_spent_is_unknown_and_names_the_keys() -> None:
    book = Book(keys=("a", "b\x1b[2J", "c", "d"))
    for key in range(4):
        book.write(1, 2, 1, 7, key=key).read(3, 4, 1, 7, key=key)
    judged = decide(book.history(), REGISTER, replace(SETTINGS, budget=0.0))
    assert judged.valid is None
    assert judged.reason == (
        "key a: the budget was spent with 2 operations; key b\\x1b[2J: the budget was spent with 2 operations; "
        "key c: the budget was spent with 2 operations; and 1 more keys"
    )


def test_models_without_keys_have_one_state() -> None:
    whole = replace(REGISTER, keyed=False)
    history = Book(keys=("a", "b")).write(1, 2, 1, 7).read(3, 4, 1, 7, key=1).history()
    assert proven(history, whole).valid
    history = Book(keys=("a", "b")).write(1, 2, 1, 7).read(3, 4, 1, 8, key=1).history()
    assert decide(history, whole, SETTINGS).key == WHOLE


@pytest.mark.parametrize("name", list(MODELS))
def test_a_history_without_operations_of_the_model_is_valid(name: str) -> None:
    other = Book(keys=("a",)).add(next(kind for kind in F if kind not in MODELS[name].kinds), 1, 2, owner=1)
    for book in (Book(keys=("a",)), other):
        judged = decide(book.history(), name, Settings(ttl=1))
        assert (judged.valid, judged.order().tolist()) == (True, [])


def test_models_that_need_times() -> None:
    history = good().history()
    places = replace(history, clock=np.zeros((len(history), 2), np.int64))
    with pytest.raises(ModelError, match="needs times"):
        decide(places, replace(REGISTER, needs_times=True), SETTINGS)


OWN = """
    from checkers.models.model import ILLEGAL
    from checkers.row_format import F

    class Cell:
        initial = -1

        def step(self, state, operation):
            if operation.f == F.WRITE:
                return operation.value
            return state if operation.value == state else ILLEGAL
"""


@pytest.fixture
def own(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "own_model.py"
        path.write_text(dedent(text))
        return str(path)

    return write


def test_a_model_of_the_user_judges_with_proofs(own: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"{own(OWN)}:Cell"
    assert proven(good().history(), name, Settings()).valid
    judged = proven(bad().history(), name, Settings())
    assert (judged.valid, judged.minimal) == (False, True)
    monkeypatch.syspath_prepend(str(Path(own(OWN)).parent))
    assert decide(good().history(), "own_model:Cell").valid


def test_a_model_of_the_user_may_take_the_settings_and_let_keys_share_a_state(own: Callable[[str], str]) -> None:
    name = own(OWN + "\n        def __init__(self, settings):\n            self.initial = settings.initial\n")
    history = Book(keys=("a",)).read(1, 2, 1, 7).history()
    assert decide(history, f"{name}:Cell", Settings(initial=7)).valid
    assert decide(history, f"{name}:Cell", Settings(initial=8)).valid is False
    name = own(OWN + "\n        keyed = False\n        kinds = {F.READ, F.WRITE}\n")
    history = Book(keys=("a", "b")).write(1, 2, 1, 7).acquire(1, 2, 3).read(3, 4, 1, 7, key=1).history()
    judged = decide(history, f"{name}:Cell")
    assert (judged.valid, judged.operations) == (True, 2)


FIXED = "class Cell:\n  initial = 1\n  def step"


@cases(
    "wrong, text",
    ("cannot be loaded: SyntaxError", "class"),
    ("cannot be loaded: SystemExit", "raise SystemExit(3)"),
    ("cannot be loaded: RecursionError", "def f(): f()\nf()"),
    ("cannot be loaded: AttributeError", OWN.replace("Cell", "Other")),
    ("has no step", "class Cell: initial = 1"),
    ("has no initial", "class Cell:\n  def step(self, s, o): return s"),
    ("is no class", "import types\nCell = types.SimpleNamespace(initial=1, step=2)"),
    ("cannot be made: TypeError", OWN + "\n        def __init__(self, a, b): pass"),
    ("initial: TypeError: unhashable", "class Cell:\n  initial = []\n  def step(self, s, o): return s"),
    ("step (on row 1, read 7): TypeError: unhashable type: 'dict'", FIXED + "(self, s, o): return {}"),
    ("step (on row 1, read 7): ZeroDivisionError: integer division", FIXED + "(self, s, o): return 1 // 0"),
    ("step (on row 1, read 7): TypeError: Cell.step() takes", FIXED + "(self): return 1"),
    ("changes (on row 0, write 7): KeyError: 'x'", OWN + "\n        def changes(self, o): return {}['x']"),
    ("sees are not fields", OWN + "\n        sees = ('colour',)"),
    ("kinds are not a set of row_format.F", OWN + "\n        kinds = {99}"),
)
def test_a_mistake_in_a_users_model_is_reported_in_one_line(wrong: str, text: str, own: Callable[[str], str]) -> None:
    message = message_of(ModelError, decide, good().history(), f"{own(text)}:Cell")
    assert wrong in message
    assert "\n" not in message


@cases(
    "name, wrong",
    ("none.py:Cell", "no such file"),
    ("no_such_module:Cell", "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
    ("mutexx", r"no model mutexx: expected mutex, .*, file.py:Model or package.module:Model"),
)
def test_a_model_that_is_not_there(name: str, wrong: str) -> None:
    with pytest.raises(ModelError, match=wrong):
        decide(good().history(), name)


def test_a_story_names_workers_tokens_values_and_times() -> None:
    book = Book(keys=("a",)).write(1_000_000_000, 1_250_000_000, 1, 7, token=33)
    judged = decide(book.read(2_000_000_000, 2_000_000_000, 2, 9).history(), REGISTER, SETTINGS)
    assert judged.story == (
        "Worker 2 read 9 at 1.000000 s.",
        "So no order of these operations explains all their answers.",
        "Worker 2's read fits nowhere: when it returned, there can only have been the initial value.",
    )


def test_hostile_values_are_escaped_and_cut() -> None:
    history = Book(keys=("a",), backend="").write(1, 2, 1, 0).read(3, 4, 2, 1).history()
    judged = decide(replace(history, values=("x" * 500, "\x1b[31m\u202e\n")), REGISTER, Settings())
    assert judged.valid is False
    story = "\n".join(judged.story)
    assert all(c.isprintable() or c == "\n" for c in story)
    assert "Process 2 read" in story
    assert len(story) < 600


def test_lines_of_the_file_are_named() -> None:
    history: History = Book(keys=("a",), backend="", ttl=0).read(1, 2, 2, 0).history()
    history = replace(history, values=("x",), lines=np.array([[3, 9]]), clock=np.array([[5, 250_000_005]]))
    for clock, when in ((history.clock, " between 0 s and 0.25 s"), (None, "")):
        told = decide(replace(history, clock=clock), REGISTER, Settings())
        assert told.story[0] == f'Process 2 read "x"{when} (lines 3 and 9).'


class Never(Model):
    initial = 0

    def step(self, state: State, operation: Operation) -> State | Illegal:
        return ILLEGAL

    def evidence(self, operation: Operation) -> bool:
        return True


@pytest.mark.parametrize("outcome", [OK, FAIL, INFO])
def test_every_kind_of_operation_has_a_sentence(outcome: Outcome) -> None:
    statement = Specification("never", frozenset(F), lambda history, settings: Never())
    for kind in F:
        book = Book(keys=("a",)).add(kind, 1, 2, outcome, owner=1, value=3, base=4, token=5, reason=Reason.HELD)
        (sentence, *_) = tell(book.history(), statement, Never(), "no-order", [0])
        assert sentence.startswith("Worker 0 ")
        assert sentence.endswith(", and never got an answer." if outcome == INFO else " s.")

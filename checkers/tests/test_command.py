"""`python -m checkers` on recordings and files of every format: its output, its exit status, one line for an error."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkers import __main__ as command
from checkers.bench.generate import GENERATORS, HistoryShape
from checkers.command import judge_file
from checkers.engines import kernel
from checkers.history.history import save
from checkers.models.all_models import MODELS
from checkers.properties.all_properties import PROPERTIES
from checkers.tests.build import Book, cases
from checkers.tests.files import edn, event, jsonl, told
from checkers.tests.fuzz_formats import WRITERS

Run = Callable[..., tuple[int, str, str]]
"""Takes the arguments; returns the exit status, and what was printed to stdout and to stderr."""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def called(*arguments: object) -> tuple[int, str, str]:
        try:
            status = command.main([*map(str, arguments)])
        except SystemExit as ended:
            status = int(str(ended.code))
        return status, *capsys.readouterr()

    return called


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("histories")
    good = Book(keys=("a",), lane="good").acquire(1, 2, 1).release(6, 7, 1).acquire(3, 8, 2).release(9, 10, 2)
    save(good.history(), path / "good.arrow")
    bad = Book(keys=("a",), lane="bad").acquire(1, 2, 1).release(50, 51, 1).acquire(3, 4, 2).release(9, 10, 2)
    save(bad.acquire(4, 5, 3).release(9, 10, 3).history(), path / "bad.arrow")
    save(Book(keys=("a",), store="of-tomorrow").acquire(1, 2, 1).write(3, 4, 1, 5).history(), path / "unknown.arrow")
    (path / "damaged.arrow").write_bytes((path / "good.arrow").read_bytes()[:-20])
    save(Book(properties=("of-tomorrow",)).acquire(1, 2, 1).history(), path / "later.arrow")
    (path / "empty").mkdir()
    (path / "run" / "trial").mkdir(parents=True)
    save(bad.history(), path / "run" / "trial" / "lane.arrow")
    return path


EXITS = {"good": 0, "bad": 1, "unknown": 3, "good unknown": 3, "unknown damaged": 2, "damaged unknown bad good": 1}


@cases("files, status", *EXITS.items())
def test_exit_status(folder: Path, run: Run, files: str, status: int) -> None:
    assert run(*(folder / f"{name}.arrow" for name in files.split()))[0] == status


@pytest.mark.parametrize("name", ["damaged.arrow", "missing.arrow", "empty", "later.arrow"])
def test_one_clear_line_for_bad_input(folder: Path, run: Run, name: str) -> None:
    status, out, err = run(folder / name)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert str(folder / name) in err


def test_output_and_explanation(folder: Path, run: Run) -> None:
    before = (folder / "bad.arrow").read_bytes()
    _, out, _ = run(folder / "bad.arrow")
    parts = ("holder-exclusion   invalid (3)", "violated: granted-while-held", "not promised: broken: overlap")
    assert [part for part in (*parts, "and 2 more (--explain)") if part not in out] == []
    _, explained, _ = run(folder / "bad.arrow", "--explain")
    assert "--explain" not in explained
    assert len(explained.splitlines()) > len(out.splitlines())
    assert (folder / "bad.arrow").read_bytes() == before, "the files are not changed"
    status, out, _ = run(folder / "run")
    assert (status, "lane.arrow" in out) == (1, True), "a folder is all its histories"


def test_json(folder: Path, run: Run) -> None:
    (line,) = run(folder / "bad.arrow", "--json", "--property", "holder-exclusion")[1].splitlines()
    answer = json.loads(line)
    assert (answer["valid"], answer["model"], answer["operations"]) == (False, None, 6)
    assert answer["witness"]["kind"] == "overlap"
    (result,) = answer["verdicts"]
    assert (result["property"], result["valid"]) == ("holder-exclusion", False)
    assert (result["word"], result["violations"][0]["kind"]) == ("not promised: broken", "overlap")


def test_every_property_can_be_asked_for(folder: Path, run: Run) -> None:
    status, out, _ = run(folder / "good.arrow", *(word for name in PROPERTIES for word in ("--property", name)))
    assert status == 0
    assert all(name in out for name in PROPERTIES)


ROOT = Path(__file__).parents[2]

WRITTEN = "0 invoke write 1; 0 ok write 1; 1 invoke write 2; 1 ok write 2; 0 invoke read; 0 ok read "
STALE, FRESH = (edn(told(WRITTEN + read)) for read in "12")
LOG = WRITERS["log"](told("0 invoke cas [1,2]; 0 fail cas [1,2]"))


def calls(text: str) -> str:
    """The events of a text (`files.told`) as JSONL, each behind its invocation."""
    pairs = (({**op, "type": "invoke", "value": None if op["f"] == "read" else op["value"]}, op) for op in told(text))
    return jsonl(one for pair in pairs for one in pair)


TWO_HOLD = calls("0 ok acquire; 1 ok acquire")
FENCED = calls("0 ok write 1 token=2; 1 ok write 2 token=1; 1 ok read 2")
FENCED_WELL = FENCED.replace('"token": 1', '"token": 2')
LEASES = calls("0 ok acquire time=1; 1 ok acquire time=2000")
NIL, WORD = calls("0 ok read"), calls("0 ok read x")
REFUSED = calls("0 fail try-acquire error=held")


def judge(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit status and the JSON for one file."""
    file = tmp_path / "history"
    file.write_text(text)
    status = command.main([str(file), "--json", *options])
    out, err = capsys.readouterr()
    (line,) = out.splitlines()
    answer = json.loads(line)
    assert answer["file"] == str(file)
    assert {"file", "valid", "model", "operations", "seconds", "witness", "reason"} <= answer.keys()
    assert err.splitlines() == ([answer["reason"]] if status == 2 else [])
    return status, answer


@cases(
    "text, options, valid",
    (FRESH, "register", True), (STALE, "register", False),
    (TWO_HOLD, "mutex", False), (REFUSED, "mutex", True), (REFUSED, "mutex --strict-try", False),
    (TWO_HOLD, "semaphore", False), (TWO_HOLD, "semaphore --permits 2", True),
    (calls("0 ok acquire token=5; 1 ok acquire token=4"), "fencing-tokens", False),
    (FENCED, "fenced-store", False), (FENCED_WELL, "fenced-store", True),
    (FENCED_WELL, "fenced-store --store fence-writes-strict", False),
    (LEASES, "lease --ttl 1", False), (LEASES, "lease --ttl 0.000000001", True),
    (LOG, "cas-register --initial 1", False), (LOG, "cas-register", True),
    (LOG, "cas-register --initial 1 --failed-cas ignored", True),
    (NIL, "register --initial 3", False), (NIL, "register --initial 3 --nil-read unknown", True),
    (WORD, "register --initial x", True), (calls("0 ok generate 4; 1 ok generate 4"), "unique-ids", False),
    (calls("0 ok add 4; 1 ok read []"), "set", False),
)  # fmt: skip
def test_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, options: str, valid: bool) -> None:
    status, answer = judge(tmp_path, capsys, text, "--model", *options.split())
    assert (status, answer["valid"]) == (0 if valid else 1, valid)
    assert answer["model"] == options.partition(" ")[0]
    assert answer["operations"] == text.count('"invoke"') + text.count(":invoke")
    assert answer["seconds"] > 0
    if valid:
        assert answer["witness"] is answer["reason"] is None
    else:
        assert answer["reason"] == answer["witness"]["kind"]
        assert re.findall(r"\{[a-z]", "".join(answer["witness"]["story"])) == []  # nothing is left to be filled in
        assert all(operation["lines"] for operation in answer["witness"]["operations"])


def test_a_witness_names_operations_and_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, answer = judge(tmp_path, capsys, STALE, "--model", "register")
    read = answer["witness"]["operations"][-1]
    assert (read["f"], read["value"], read["lines"], read["type"]) == ("read", 1, [5, 6], "ok")
    assert len(answer["witness"]["operations"]) == 3


def test_verdicts_are_printed_in_words(tmp_path: Path, run: Run) -> None:
    for name, text in (("stale", STALE), ("fresh", FRESH)):
        (tmp_path / name).write_text(text)
    status, out, err = run(tmp_path / "stale", tmp_path / "fresh", "--model", "register")
    assert (status, err) == (1, "")
    assert f"{tmp_path / 'stale'}: invalid (register, 3 operations): " in out
    assert "read 1" in out
    assert out.splitlines()[-1] == f"{tmp_path / 'fresh'}: valid (register, 3 operations)"


@pytest.mark.parametrize("text", [STALE, FRESH, TWO_HOLD, LEASES])
def test_explain_adds_a_proof_and_measures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    model = "lease" if text == LEASES else "mutex" if text == TWO_HOLD else "register"
    _, answer = judge(tmp_path, capsys, text, "--model", model, "--explain", "--ttl", "1")
    assert answer["proof"] == "verified"
    assert answer["measures"]
    for most, words in ((5, "The proof was verified"), (1, "The proof was not verified: it is too long")):
        monkeypatch.setattr(judge_file, "VERIFIED", most)
        command.main([str(tmp_path / "history"), "--model", model, "--explain", "--ttl", "1"])
        assert words in capsys.readouterr().out


def test_a_budget_that_is_spent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun, ended = (jsonl(event(n, kind, "write", n % 3) for n in range(40)) for kind in ("invoke", "ok"))
    text = begun + calls("; ".join(f"{100 + n} ok read {n % 2}" for n in range(30))) + ended
    status, answer = judge(tmp_path, capsys, text, "--model", "multi-register", "--budget", "0.001")
    assert (status, answer["valid"]) in {(3, "unknown"), (0, True)}
    if status == 3:
        assert answer["reason"]
        assert answer["witness"] is None


@cases(
    "text, options, said",
    (STALE, "", f"--model is missing, one of {', '.join(MODELS)}"),
    ("", "--model mutex", "history"),
    ("nonsense\n", "--model mutex", "history:1"),
    (TWO_HOLD, "--model lease --ttl 1", "needs times"),
    (TWO_HOLD, "--model fencing-tokens", "no grant has a token"),
    (calls("0 ok add 1"), "--model counter --initial x", 'model counter: the initial value "x" is not a number'),
    (WORD.replace('"x"', "1"), "--model register --initial true", "--initial: 1 and true are both values here"),
    (calls("0 ok add 1"), "--model set-full --initial 5", "model set-full: the initial value 5 is not a collection"),
    (calls('0 ok txn [["append","x",1]]'), "--model multi-register", "history: line 1: a transaction reads and writes"),
    ("[" * 100_000, "--model register", "history"),
)
def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, options: str, said: str) -> None:
    status, answer = judge(tmp_path, capsys, text, *options.split())
    assert status == 2
    assert answer["valid"] is answer["operations"] is answer["seconds"] is answer["witness"] is None
    assert said in answer["reason"]
    assert "\n" not in answer["reason"]


NO_MODEL = "nonsense; no.such.module:Model; mutex --permits 0; mutex --budget nan; lease --ttl 0; lease --drift 1; "
NO_MODEL += "register --failed-cas maybe; register --property fifo"


@pytest.mark.parametrize(
    "options", [*(f"--model {words}" for words in NO_MODEL.split("; ")), "--property nonsense", "--mod mutex"]
)
def test_usage(tmp_path: Path, run: Run, options: str) -> None:
    status, out, err = run(tmp_path / "history", *options.split())
    assert (status, out, err.startswith("Usage: python -m checkers "), "invalid _" in err) == (2, "", True, False)
    assert run()[0] == 2
    assert ("server-exclusion" in err) == ("nonsense" in err and "--property" in options)


def test_folders_and_several_files(tmp_path: Path, run: Run) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.edn").write_text(FRESH)
    (tmp_path / "b.jsonl").write_text(calls("0 ok write 1"))
    (tmp_path / "c.txt").write_text("0\t:invoke\t:read\tnil\n0\t:ok\t:read\tnil\n")
    (tmp_path / "notes.md").write_text("no history")
    save(Book(keys=("a",)).write(1, 2, 1, 5).read(3, 4, 1, 5).history(), tmp_path / "d.arrow")
    status, out, _ = run(tmp_path, "--model", "register", "--json")
    names = [Path(json.loads(line)["file"]).name for line in out.splitlines()]
    assert (status, names) == (0, ["b.jsonl", "c.txt", "d.arrow", "a.edn"])
    for name, text, expected in (("z.edn", "{", 2), ("y.edn", STALE, 1)):
        (tmp_path / name).write_text(text)
        assert run(tmp_path, "--model", "register")[0] == expected
    (tmp_path / "empty").mkdir()
    status, _, err = run(tmp_path / "empty", "--model", "register")
    assert (status, "no history" in err) == (2, True)


def test_a_recording_may_be_judged_under_a_model(tmp_path: Path, run: Run) -> None:
    save(Book(keys=("a",)).acquire(1, 2, 1).acquire(3, 4, 2).history(), tmp_path / "r.arrow")
    status, out, _ = run(tmp_path / "r.arrow", "--model", "mutex")
    assert (status, "invalid (mutex, 2 operations)" in out) == (1, True)
    status, _, err = run(tmp_path / "r.arrow", "--model", "register")
    assert (status, "model register speaks of read, write; there is only acquire" in err) == (2, True)


def as_a_process(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False)


def test_file_names_that_are_no_text_are_accepted(tmp_path: Path) -> None:
    odd = os.fsdecode(bytes(tmp_path / "a") + b"\xff\nb")
    Path(odd).write_text(STALE)
    done = as_a_process("-m", "checkers", odd, "--model", "register")
    assert (done.returncode, done.stderr) == (1, "")
    assert "invalid (register, 3 operations)" in done.stdout
    done = as_a_process("-m", "checkers", odd)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "Traceback" not in done.stderr


def test_a_judgement_under_a_model_imports_no_unneeded_modules(tmp_path: Path) -> None:
    (tmp_path / "history.edn").write_text(FRESH)
    program = (
        "import sys; from checkers.__main__ import main; "
        f"status = main([{str(tmp_path / 'history.edn')!r}, '--model', 'register']); "
        "print(*(name for name in ('numba', 'rich', 'jinja2', 'checkers.check', 'checkers.judging.judgement', "
        "'checkers.proofs.verify_proof', 'checkers.measures.all_measures') if name in sys.modules)); sys.exit(status)"
    )
    done = as_a_process("-c", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == ""


WITHOUT = "import sys; sys.modules['numba'] = None; from checkers.__main__ import main; sys.exit(main())"
"""A process in which numba cannot be imported."""


def test_large_histories_without_numba(tmp_path: Path) -> None:
    for bad in (False, True):
        save(GENERATORS["mutex"](HistoryShape(kernel.LARGE + 100, 10, 100, bad=bad)), tmp_path / f"{bad}.arrow")
    done = as_a_process("-c", WITHOUT, str(tmp_path), "--model", "mutex")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith(f"{tmp_path}/False.arrow: valid")
    assert f"{tmp_path}/True.arrow: invalid" in done.stdout
    assert done.stderr.splitlines() == [command.FASTER]


def test_recorded_runs_without_numba(capsys: pytest.CaptureFixture[str]) -> None:
    recorded = ROOT / "results/tests/formats/2"
    done = as_a_process("-c", WITHOUT, str(recorded))
    assert done.returncode == command.main([str(recorded)]) == 1
    assert done.stdout == capsys.readouterr().out
    assert "fenced-store       invalid (1)" in done.stdout
    assert done.stderr == ""  # small ones are checked in plain Python anyway


def test_the_compiled_form_without_numba_says_that_numba_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "compiler", lambda: None)
    with (
        pytest.raises(RuntimeError, match=r"numba, which is missing: pip install 'fencepost\[fast\]'"),
        kernel.always(compiled=True),
    ):
        pass
    with kernel.always(compiled=False):
        pass

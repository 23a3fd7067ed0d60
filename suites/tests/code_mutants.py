"""Mutants of the project's own code, and which of them its tests catch (``make mutate``).

python -m suites.tests.code_mutants record             which test executes which line, and how long each test takes
python -m suites.tests.code_mutants run                stored mutants whose code exists, each in the tests of its line
python -m suites.tests.code_mutants sample --seed 1    a new list of mutants, to be stored

A mutant is one small change of one line. Each module outside tests gives at least one mutant, and more in proportion to
the places that can be changed in it. A mutant is caught when a test fails or does not end. `run` goes on where it was
interrupted. It ends with 1 if a mutant survives that `mutants.json` says was caught; ``--store`` writes that file anew.

A line that runs at the import of its module belongs to all tests that execute any line of the module. A line that no
test executes itself belongs to the tests in files that start other processes.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final

from infra.docker import engine
from suites.tests.recorded_tests import PLUGIN, RECORDED, ROOMS, ROOT, Tests, record

STORED: Final = Path(__file__).with_name("mutants.json")
ANSWERS: Final = RECORDED / "answers.jsonl"
SLACK: Final = 60.0  # seconds; tests that exceed three times their recorded time by this much count as not ending

COMPARED: Final = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "in": "not in", "is": "is not"}
COMPARED_BACK: Final = {"not in": "in", "is not": "is"}
COMPUTED: Final = {"+": "-", "-": "+", "*": "+", "/": "*", "//": "*", "%": "+", "|": "&", "&": "|", "<<": ">>"}
CALLED: Final = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed line. Its function, its text and the change in it identify the mutant, wherever the line stands."""

    file: str
    function: str
    line: str
    column: int  # bytes into the stripped line
    before: str
    after: str
    caught: str | None = None  # the test that failed; "no end": the tests did not end; "": all passed; None: not tried
    docker: bool = False  # whether only tests that need Docker execute the line

    @property
    def place(self) -> tuple[str, str, int, str, str]:
        """What identifies the mutant. It stays the same when lines are added above, or the file is renamed."""
        return self.function, self.line, self.column, self.before, self.after

    @property
    def words(self) -> str:
        return f"{self.file}: {self.function}: {self.line}: {self.before} -> {self.after}"


class Module:
    """A module's text and what can be changed in it. file: relative to the project."""

    def __init__(self, file: str) -> None:
        text = (ROOT / file).read_bytes()
        self.file, self.lines = file, text.splitlines(keepends=True)
        self.mutants: dict[Mutant, int] = {}  # mutant → the number of its line, from 1 on
        self._search(ast.parse(text), "")

    def changed(self, mutant: Mutant) -> bytes:
        """The whole text with that one change."""
        number, before = self.mutants[mutant] - 1, mutant.before.encode()
        line = self.lines[number]
        start = len(line) - len(line.lstrip()) + mutant.column
        assert line[start:].startswith(before)
        line = line[:start] + mutant.after.encode() + line[start + len(before) :]
        return b"".join([*self.lines[:number], line, *self.lines[number + 1 :]])

    def _search(self, node: ast.AST, function: str) -> None:
        """Collect all changes below a node, but none in annotations, docstrings and assertions."""
        for number, column, before, after in _changes(node, self.lines):
            line = self.lines[number - 1]
            indent = len(line) - len(line.lstrip())
            mutant = Mutant(self.file, function, line.decode().strip(), column - indent, before, after)
            self.mutants.setdefault(mutant, number)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "type_params") or isinstance(node, (ast.Assert, ast.JoinedStr)):
                continue
            for child in value if isinstance(value, list) else [value]:
                if not isinstance(child, ast.AST):
                    continue
                inner = function
                if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    inner = f"{function}.{child.name}".lstrip(".")
                self._search(child, inner)


def _changes(node: ast.AST, lines: Sequence[bytes]) -> Iterator[tuple[int, int, str, str]]:
    """(line, column in bytes, text before, text after) of each change of this node itself."""

    def between(left: ast.expr, right: ast.expr, table: Mapping[str, str]) -> Iterator[tuple[int, int, str, str]]:
        if left.end_lineno == right.lineno:
            start = left.end_col_offset or 0
            gap = lines[right.lineno - 1][start : right.col_offset].decode()
            operator = gap.strip(" ()")
            if operator in table:
                yield right.lineno, start + gap.index(operator), operator, table[operator]

    def whole(part: ast.AST, after: str) -> Iterator[tuple[int, int, str, str]]:
        number, start, end = part.lineno, part.col_offset, part.end_col_offset  # type: ignore[attr-defined]
        if part.end_lineno == number:  # type: ignore[attr-defined]
            before = lines[number - 1][start:end].decode()
            yield number, start, before, after.replace("{}", before)

    match node:
        case ast.Compare(left, _, comparators):
            for a, b in zip([left, *comparators], comparators, strict=False):
                yield from between(a, b, {**COMPARED, **COMPARED_BACK})
        case ast.BinOp(left, _, right) if not isinstance(right, ast.Constant) or isinstance(right.value, (int, float)):
            yield from between(left, right, COMPUTED)
        case ast.BoolOp(_, values):
            for a, b in pairwise(values):
                yield from between(a, b, {"and": "or", "or": "and"})
        case ast.UnaryOp(ast.Not()):
            yield from ((n, c, before, before.removeprefix("not").strip()) for n, c, before, _ in whole(node, ""))
        case ast.Constant(bool(value)):
            yield from whole(node, str(not value))
        case ast.Constant(int(value)):
            yield from whole(node, str(value + 1))
        case ast.Call(ast.Name(name)) if name in CALLED:
            yield from whole(node.func, CALLED[name])
        case ast.If(ast.Name("TYPE_CHECKING")):
            return
        case ast.If(test) | ast.IfExp(test) if not isinstance(test, (ast.Constant, ast.NamedExpr)):
            yield from whole(test, "(not ({}))")
        case ast.Return(ast.expr() as value) if not isinstance(value, ast.Constant):
            yield from whole(value, "None")
        case ast.Expr(ast.Call()) | ast.Raise() | ast.AugAssign() | ast.Delete():
            yield from whole(node, "pass")
        case ast.Break() | ast.Continue():
            yield from whole(node, "pass")


def sample(seed: int, count: int, docker: int) -> list[Mutant]:
    """Draw `count` mutants, from modules in proportion to what can be changed in them. At most `docker` need Docker."""
    dice, tests = Random(seed), Tests()
    modules = [each for file in _files() if (each := Module(file)).mutants]
    whole = sum(len(each.mutants) for each in modules)
    shares = {each.file: max(1.0, count * len(each.mutants) / whole) for each in modules}
    excess = count / sum(shares.values())
    chosen: list[Mutant] = []
    for each in dice.sample(modules, len(modules)):
        share = shares[each.file] * excess if shares[each.file] > 1 else 1
        wanted = int(share) + (dice.random() < share % 1)
        for mutant in dice.sample(list(each.mutants), len(each.mutants)):
            if wanted == 0 or len(chosen) == count:
                break
            names = tests.of(each.file, each.mutants[mutant])
            needs = bool(names) and tests.docker.issuperset(names)
            if needs and docker == 0:
                continue
            docker -= needs
            wanted -= 1
            chosen.append(replace(mutant, docker=needs))
    return sorted(chosen, key=lambda mutant: (mutant.file, mutant.place))


def _listed(*words: str) -> list[str]:
    return subprocess.check_output(["git", "ls-files", *words], cwd=ROOT, text=True).splitlines()


def _files() -> list[str]:
    return [file for file in _listed("*.py") if file.startswith(ROOMS) and "/tests/" not in file]


class Workspace:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run(["git", "clone", "--quiet", "--local", ROOT, folder], check=True)
        for file in _listed("-mo", "--exclude-standard"):
            if (ROOT / file).is_file():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, folder / file)
        (folder / ".venv").symlink_to(sys.prefix)

    def failing(self, module: Module, mutant: Mutant, tests: Sequence[str], seconds: float) -> str:
        """The first of these tests that fails on the mutant; "no end" if they do not end, "" if all pass."""
        file = self.folder / module.file
        names, report = self.folder / ".tests", self.folder / ".failed"
        names.write_text("\n".join(tests))
        report.unlink(missing_ok=True)
        before = file.read_bytes()
        file.write_bytes(module.changed(mutant))
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "FENCEPOST_FAILED": str(report)}
        self._forget(file)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", PLUGIN, f"@{names}"]
        null = subprocess.DEVNULL
        process = subprocess.Popen(
            command, cwd=self.folder, env=environment, stdin=null, stdout=null, stderr=null, start_new_session=True
        )
        try:
            status = process.wait(3 * seconds + SLACK)
        except subprocess.TimeoutExpired:
            return "no end"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            file.write_bytes(before)
            self._forget(file)
        return report.read_text() if report.exists() else "" if status == 0 else f"pytest ended with {status}"

    @staticmethod
    def _forget(file: Path) -> None:
        """Remove compiled files. Python compares only their second and size, which mutant and original may share."""
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink()


def run(mutants: Sequence[Mutant], processes: int) -> list[Mutant]:
    """Try each mutant that was not tried yet, and print how each ended. Mutants whose code is gone are left out."""
    tests, modules = Tests(), {file: Module(file) for file in _files()}
    standing = {each: place for each in mutants if (place := _standing(each, modules))}
    told = ANSWERS.read_text().splitlines() if ANSWERS.exists() else []
    answers: dict[tuple[object, ...], str] = {tuple(place): caught for place, caught in map(json.loads, told)}
    lock = threading.Lock()
    spare = [Workspace(Path(tempfile.mkdtemp(prefix="fencepost-mutants-")) / "clone") for _ in range(processes)]
    left = [each for each in standing if each.place not in answers]
    print(f"{len(mutants)} mutants, the code of {len(standing)} still stands, {len(left)} to try")

    def attempt(mutant: Mutant) -> None:
        module, changed = standing[mutant]
        with lock:
            names = tests.of(module.file, module.mutants[changed])
            selected, seconds = tests.chosen(names, docker=mutant.docker)
            workspace = spare.pop()
        caught = workspace.failing(module, changed, selected, seconds) if selected else ""
        with lock:
            spare.append(workspace)
            answers[mutant.place] = caught
            with ANSWERS.open("a") as file:
                file.write(json.dumps([mutant.place, caught]) + "\n")
            print(f"{mutant.words}: {caught or 'SURVIVES'} ({len(selected)} of {len(names)} tests)", flush=True)

    try:
        with ThreadPoolExecutor(processes) as pool:
            list(pool.map(attempt, left))
    finally:
        for workspace in spare:
            shutil.rmtree(workspace.folder.parent)
    return [replace(each, caught=answers[each.place]) for each in standing]


def _standing(mutant: Mutant, modules: Mapping[str, Module]) -> tuple[Module, Mutant] | None:
    places = sorted(modules.values(), key=lambda each: each.file != mutant.file)
    return next(((each, other) for each in places for other in each.mutants if other.place == mutant.place), None)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m suites.tests.code_mutants", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("command", choices=("record", "sample", "run"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--part", default="1/1", help="every N-th of the stored ones, from the I-th on")
    parser.add_argument("--store", action="store_true", help="put the answers into the list")
    options, rest = parser.parse_known_args(argv)
    if options.command == "record":
        return record(rest)
    if options.command == "sample":
        _store(sample(options.seed, count=400, docker=60))
        return 0
    if (found := engine.find()).state != "running":
        parser.error(f"every test on real servers would fail, whatever the mutant: Docker Engine is {found.state}")
    stored = [Mutant(**each) for each in json.loads(STORED.read_text())]
    part, parts = map(int, options.part.split("/"))
    tried = run(stored[part - 1 :: parts], options.processes)
    before = {each.place: each for each in stored}
    lost = [each for each in tried if not each.caught and before[each.place].caught]
    print(f"{sum(bool(each.caught) for each in tried)} of {len(tried)} mutants are caught")
    for each in lost:
        print(f"caught before by {before[each.place].caught}, survives now: {each.words}")
    if options.store:
        _store(list({**before, **{each.place: each for each in tried}}.values()))
    return 1 if lost else 0


def _store(mutants: Sequence[Mutant]) -> None:
    lines = ",\n".join(json.dumps(asdict(each)) for each in mutants)
    STORED.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

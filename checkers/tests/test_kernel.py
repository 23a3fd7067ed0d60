"""Kernels have one source and two forms, and a cache that gives out only what belongs to it, from trusted folders."""

import os
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from checkers.engines.kernel import LARGE, SMALL, always, kernel
from checkers.engines.kernel_cache import exposed

pytest.importorskip("numba", reason="kernels are compiled by numba, the extra [fast], which is not installed")

ROOT = Path(__file__).parents[2]
LIMIT = 1 << 62


@kernel
def _put(out: npt.NDArray[np.int64], place: int, value: int) -> bool:
    out[place] = value if value < LIMIT else -1
    return value < LIMIT


class Pair(NamedTuple):
    numbers: npt.NDArray[np.int64]
    few: npt.NDArray[np.uint8]


class Both(NamedTuple):
    """A named tuple within another, as kernels take and return them."""

    pair: Pair
    total: int


Walked = tuple[Both, npt.NDArray[np.bool_], npt.NDArray[np.int64], npt.NDArray[np.int32], bool]


@kernel
def _walk(both: Both, flag: bool) -> Walked:
    a, few = both.pair.numbers, both.pair.few
    sums = np.zeros(len(a), np.int64)
    large = np.zeros(len(a), np.bool_)
    room = np.empty(len(a) + 3, np.int64)
    last = np.full(2, -5, np.int32)
    total = both.total
    for i in range(len(a)):
        total += np.int64(few[i]) - a[i]
        large[i] = not _put(sums, i, total)
        room[i] = total
        last[i % 2] = few[i]
    return Both(Pair(numbers=sums, few=few), total), large, room[: len(a)], last, flag


def _input(count: int, total: int = 0) -> Both:
    rng = np.random.default_rng(count)
    return Both(Pair(rng.integers(-9, 9, count), rng.integers(0, 255, count).astype(np.uint8)), total)


@pytest.mark.parametrize("count", [0, 1, 50, 3000])
def test_both_forms_answer_the_same(count: int) -> None:
    answers = []
    for compiled in (False, True):
        with always(compiled=compiled):
            both, *others = _walk(_input(count, LIMIT - 40), True)
        assert isinstance(both, Both)
        assert isinstance(both.pair, Pair)
        np.testing.assert_array_equal(both.pair.few, _input(count).pair.few)
        answers.append((both.pair.numbers, both.total, *others))
    for plain, fast in zip(*answers, strict=True):
        np.testing.assert_array_equal(plain, fast)
        assert type(plain) is type(fast)
    if count >= 50:
        assert np.asarray(answers[1][2]).any()


def test_arguments_may_be_read_only_strided_or_lists() -> None:
    both = _input(20)
    a, few = both.pair
    frozen = a.copy()
    frozen.flags.writeable = False
    with always(compiled=True):
        expected = _walk(both, False)[0].total
        for numbers in (frozen, np.repeat(a, 2)[::2], a.tolist()):
            assert _walk(Both(Pair(numbers, few), np.int64(0)), False)[0].total == expected  # type: ignore[arg-type]
        assert len(_walk._compiled) == 1  # one compilation serves all of them


MODULE = """
    import numpy as np
    from checkers.engines.kernel import kernel
    from {below} import FACTOR, inner

    @kernel
    def outer(a):
        out = np.zeros(len(a), np.int64)
        for i in range(len(a)):
            out[i] = inner(a[i]) * FACTOR
        return out
"""
BELOW = """
    from checkers.engines.kernel import kernel

    FACTOR = {factor}

    @kernel
    def innermost(x):
        return x + {added}

    @kernel
    def inner(x):
        return innermost(x)
"""

HANGS_AFTER = 1800  # seconds
NO_COMPILING = "import numba.core.compiler as c; c.compile_extra = None"


class Package:
    """A module with a kernel that calls a kernel of another module, and processes that use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write(added=1)
        (folder / "above.py").write_text(dedent(MODULE.format(below="below")))

    def write(self, *, added: int, factor: int = 1) -> None:
        (self.folder / "below.py").write_text(dedent(BELOW.format(added=added, factor=factor)))

    def start(
        self, *calls: int, kind: str = "int64", base: Path | str | None = None, cwd: Path | None = None, body: str = ""
    ) -> subprocess.Popen[str]:
        """base: NUMBA_CACHE_DIR. body: code that runs first."""
        lines = [body, "import sys, numpy as np", "from above import outer"]
        for count in calls:
            lines.append(f"first = outer(np.arange({count}, dtype=np.{kind}))[0]")
            lines.append("print(first, 'numba' in sys.modules, outer.fast)")
        environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
        environment |= {"PYTHONPATH": f"{self.folder}:{ROOT}", "XDG_CACHE_HOME": str(self.folder / "home")}
        if base is not None:
            environment["NUMBA_CACHE_DIR"] = str(base)
        command = [sys.executable, "-B", "-c", "\n".join(lines)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, cwd=cwd, stdout=pipe, stderr=pipe, text=True)

    def run(self, *calls: int, complaint: str = "", **more: Any) -> list[str]:
        """What is printed. complaint: a part of the only line on stderr."""
        process = self.start(*calls, **more)
        output, errors = process.communicate(timeout=HANGS_AFTER)
        assert process.returncode == 0, errors
        assert complaint in errors
        assert len(errors.splitlines()) == bool(complaint), errors
        return output.splitlines()

    def files(self, place: str = ".") -> list[Path]:
        """The indexes of functions; each has a file with code beside it."""
        return sorted((self.folder / place).rglob("*.nbi"))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Package, Path]:
    """A package that has been compiled, and a copy of its files."""
    package = Package(tmp_path_factory.mktemp("package"))
    assert package.run(LARGE) == ["1 True True"]
    assert len(package.files("home/fencepost/kernels")) == 1
    return package, shutil.copytree(package.folder, tmp_path_factory.mktemp("copy"), dirs_exist_ok=True)


@pytest.fixture
def package(compiled: tuple[Package, Path]) -> Package:
    """The compiled package, always in the same folder: the cache belongs to the path and the time of its source."""
    package, copy = compiled
    shutil.rmtree(package.folder)
    shutil.copytree(copy, package.folder)
    return package


def test_small_inputs_import_no_numba_and_compiling_waits_for_a_large_one(package: Package) -> None:
    assert package.run(LARGE, SMALL, 10, body=NO_COMPILING) == ["1 True True"] * 3
    shutil.rmtree(package.folder / "home")
    assert package.run(10, SMALL, LARGE - 1, LARGE - 1) == ["1 False False"] * 4
    assert not package.files()


def test_a_change_in_a_called_kernel_or_a_constant_is_noticed(package: Package) -> None:
    package.write(added=2)
    assert package.run(LARGE) == ["2 True True"]
    package.write(added=2, factor=3)
    assert package.run(LARGE) == ["6 True True"]
    assert len(package.files()) == 1  # what was compiled from older sources is gone


def test_a_change_in_the_fields_of_a_named_tuple_is_noticed(package: Package) -> None:
    lines = "from typing import NamedTuple", "class Pair(NamedTuple):", "  {}: object", "  {}: object", "FACTOR = 1"
    used = "from checkers.engines.kernel import kernel", "@kernel", "def inner(pair): return pair.a[0] + 2 * pair.b[0]"
    taken = "inner.sized(200_000, Pair(a=np.array([1]), b=np.array([10])))"
    for names in ("ab", "ba"):
        (package.folder / "below.py").write_text("\n".join([*lines, *used]).format(*names))
        assert package.run(body=f"import numpy as np; from below import Pair, inner; print({taken})") == ["21"]


@pytest.mark.parametrize(("pattern", "kept"), [("*.nbi", 0), ("*.nbi", 100), ("*.nbc", -1)])
def test_a_damaged_file_means_compiling_again(package: Package, pattern: str, kept: int) -> None:
    (file,) = package.folder.rglob(pattern)
    file.write_bytes(file.read_bytes()[:kept])
    assert package.run(LARGE) == ["1 True True"]
    assert not [*package.folder.rglob("*.nb?")], "what is gone is written anew the next time"


def test_a_kernel_works_where_its_cache_cannot_be_written(package: Package) -> None:
    shutil.rmtree(package.folder / "home")
    (package.folder / "home").write_text("")  # a file where a folder should be: nobody may write there, root included
    assert package.run(LARGE, complaint="not kept for the next time: ") == ["1 True True"]
    assert not package.files()


def test_numbas_own_setting_is_honoured(package: Package) -> None:
    (package.folder / "home").rename(package.folder / "elsewhere")
    assert package.run(LARGE, base=package.folder / "elsewhere", body=NO_COMPILING) == ["1 True True"]


def test_processes_may_compile_a_kernel_at_once_for_other_types_under_a_generous_umask(package: Package) -> None:
    kinds = ["int64", "uint8"] * 2
    shutil.rmtree(package.folder / "home")
    processes = [package.start(LARGE, kind=kind, body="import os; os.umask(0o002)") for kind in kinds]
    assert [process.communicate(timeout=HANGS_AFTER)[0] for process in processes] == ["1 True True\n"] * len(kinds)
    assert len(package.files()) == 2  # an index never names code for two types
    for kind in kinds[:2]:
        assert package.run(LARGE, kind=kind, body=NO_COMPILING) == ["1 True True"]


class Planted:
    """A pickle that leaves a mark when it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.mark,)


@pytest.fixture
def mark(package: Package) -> Path:
    """A file that exists once a planted file was read. The planted files have the names of the cache's files."""
    mark = package.folder / "mark"
    for file in (package.folder / "home").rglob("*.nb?"):
        file.write_bytes(pickle.dumps(Planted(mark)))
    assert not mark.exists()
    return mark


def test_a_planted_file_is_read_from_a_folder_that_only_its_owner_can_write_to(package: Package, mark: Path) -> None:
    package.run(LARGE)
    assert mark.exists()


@pytest.mark.parametrize(
    ("place", "mode", "why"),
    [("home", 0o777, "can be written to by other users"), ("home/fencepost/kernels", 0o770, "is open to other users")],
)
def test_nothing_is_loaded_if_others_can_write(package: Package, mark: Path, place: str, mode: int, why: str) -> None:
    (package.folder / place).chmod(mode)
    assert package.run(LARGE, complaint=f"{place} {why}") == ["1 True True"]
    assert not mark.exists()


def test_nothing_is_loaded_from_another_folder_where_ours_takes_no_files(package: Package, mark: Path) -> None:
    (planted,) = (package.folder / "home/fencepost/kernels").iterdir()
    planted.rename(package.folder / "__pycache__")  # which numba would take
    planted.write_text("")
    assert package.run(LARGE, complaint="takes no files") == ["1 True True"]
    assert not mark.exists()


def test_nothing_is_loaded_from_a_run_folder(package: Package, mark: Path) -> None:
    """Wherever in the run folder the files stand. It is also the working directory, and once the base of the cache."""
    run = package.folder / "run"
    shutil.copytree(ROOT / "results/tests/formats/2", run)
    (planted,) = (package.folder / "home/fencepost/kernels").iterdir()
    kept = f"fencepost/kernels/{planted.name}"
    for place in ("", "__pycache__", "fencepost/kernels", kept, f".cache/{planted.name}"):
        shutil.copytree(planted, run / place, dirs_exist_ok=True)
    shutil.rmtree(package.folder / "home")
    judged = f"from checkers.__main__ import main; assert main([{str(run)!r}]) == 1"
    for more in ({}, {"base": ".", "complaint": "not an absolute path"}):
        assert package.run(LARGE, body=judged, cwd=run, **more)[-1] == "1 True True"
        assert not mark.exists()


def test_a_folder_that_others_can_enter_or_replace_is_exposed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    outer.mkdir()
    inner.mkdir(mode=0o700)
    for mode in (0o700, 0o755, 0o1777):  # the last as /tmp has it: nobody else can remove or rename what is in it
        outer.chmod(mode)
        assert exposed(inner) == ""
    assert exposed(outer) == f"{outer} is open to other users (its mode has to be 0700)"
    for mode in (0o775, 0o707):
        outer.chmod(mode)
        assert exposed(inner) == f"{outer} can be written to by other users"
    outer.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(outer, 4321, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert "belongs to another user" in exposed(inner)


def test_threads_may_use_one_kernel_at_once() -> None:
    with always(compiled=True), ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(lambda _: _walk(_input(2000), True)[0].total, range(20)))) == 1

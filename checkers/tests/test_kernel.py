"""Kernels: one source, two forms, and a cache that never hands out what belongs to another source."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import numpy as np
import numpy.typing as npt
import pytest

from checkers.engines import kernel_cache
from checkers.engines.kernel import LARGE, SMALL, WORTH, always, kernel

ROOT = Path(__file__).parents[2]
LIMIT = 1 << 62


@kernel
def _put(out: npt.NDArray[np.int64], place: int, value: int) -> bool:
    out[place] = value if value < LIMIT else -1
    return value < LIMIT


@kernel
def _walk(a: npt.NDArray[np.int64], few: npt.NDArray[np.uint8], start: int, flag: bool) -> tuple[object, ...]:
    sums = np.zeros(len(a), np.int64)
    large = np.zeros(len(a), np.bool_)
    room = np.empty(len(a) + 3, np.int64)
    last = np.full(2, -5, np.int32)
    total = start
    for i in range(len(a)):
        total += np.int64(few[i]) - a[i]
        large[i] = not _put(sums, i, total)
        room[i] = total
        last[i % 2] = few[i]
    return sums, large, room[: len(a)], last, total, flag


def _inputs(count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    rng = np.random.default_rng(count)
    return rng.integers(-9, 9, count), rng.integers(0, 255, count).astype(np.uint8)


@pytest.mark.parametrize("count", [0, 1, 50, 3000])
def test_both_forms_answer_the_same(count: int) -> None:
    a, few = _inputs(count)
    answers = []
    for compiled in (False, True):
        with always(compiled=compiled):
            answers.append(_walk(a, few, LIMIT - 40, True))
    for plain, fast in zip(*answers, strict=True):
        np.testing.assert_array_equal(plain, fast)
        assert type(plain) is type(fast)
    if count >= 50:
        assert np.asarray(answers[1][1]).any()


def test_what_is_passed_in_may_be_read_only_strided_or_a_list() -> None:
    a, few = _inputs(20)
    frozen = a.copy()
    frozen.flags.writeable = False
    with always(compiled=True):
        expected = _walk(a, few, 0, False)[4]
        assert _walk(frozen, few, 0, False)[4] == expected
        assert _walk(np.repeat(a, 2)[::2], few, np.int64(0), False)[4] == expected  # type: ignore[arg-type]
        assert _walk(a.tolist(), few, 0, False)[4] == expected
        assert len(_walk._compiled) == 1  # one compilation serves all of them


def test_a_called_kernel_can_be_called_by_itself() -> None:
    @kernel
    def double(a: npt.NDArray[np.int64]) -> int:
        return 2 * int(a[0])

    with always(compiled=True):
        assert double(np.array([21])) == 42
    assert double(np.array([21])) == 42


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


class Package:
    """A module with a kernel that calls one of another module, and processes that use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write(added=1)
        (folder / "above.py").write_text(dedent(MODULE.format(below="below")))

    def write(self, *, added: int, factor: int = 1) -> None:
        (self.folder / "below.py").write_text(dedent(BELOW.format(added=added, factor=factor)))

    def start(self, *calls: int, cache: Path | None = None, body: str = "") -> subprocess.Popen[str]:
        lines = ["import sys, numpy as np", "from above import outer", body]
        for count in calls:
            lines.append(f"first = outer(np.arange({count}))[0]")
            lines.append("print(first, 'numba' in sys.modules, outer.loaded)")
        environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
        environment |= {"PYTHONPATH": f"{self.folder}:{ROOT}", "XDG_CACHE_HOME": str(self.folder / "home")}
        if cache is not None:
            environment["NUMBA_CACHE_DIR"] = str(cache)
        command = [sys.executable, "-B", "-c", "\n".join(lines)]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    def run(self, *calls: int, cache: Path | None = None, body: str = "") -> list[str]:
        process = self.start(*calls, cache=cache, body=body)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        return output.splitlines()

    def files(self, place: str = ".") -> list[Path]:
        return sorted((self.folder / place).rglob("*.kernel"))


@pytest.fixture
def package(tmp_path: Path) -> Package:
    return Package(tmp_path)


def test_small_inputs_import_no_numba_and_compiling_waits_for_a_large_one(package: Package) -> None:
    cold = package.run(10, SMALL, LARGE - 1, LARGE - 1)
    assert cold == ["1 False False"] * 4
    assert not package.files()
    assert package.run(LARGE, SMALL, 10) == ["1 True True"] * 3
    (file,) = package.files()
    assert file.parent == package.folder / "__pycache__"


def test_what_is_on_disk_is_loaded_once_it_is_worth_it(package: Package) -> None:
    package.run(LARGE)
    assert package.run(SMALL - 1, SMALL, WORTH - SMALL - 1, SMALL) == ["1 False False"] * 3 + ["1 True True"]


def test_a_change_in_a_called_kernel_or_a_constant_is_noticed(package: Package) -> None:
    assert package.run(LARGE) == ["1 True True"]
    package.write(added=2)
    assert package.run(WORTH) == ["2 False False"]  # no stale code, and no compiling for so few
    assert package.run(LARGE) == ["2 True True"]
    package.write(added=2, factor=3)
    assert package.run(LARGE) == ["6 True True"]
    assert len(package.files()) == 1  # what was compiled from older sources is gone
    package.write(added=2)
    assert package.run(LARGE) == ["2 True True"]


def test_damaged_files_mean_compiling_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @kernel
    def first(a: npt.NDArray[np.int64]) -> int:
        return int(a[0])

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    signature, ones = "<i8", np.ones(3, np.int64)
    with always(compiled=True):
        assert first(ones) == 1
    (file,) = tmp_path.rglob("*.kernel")
    whole = file.read_bytes()
    assert kernel_cache.loaded(first, signature) is not None
    _, about, data = whole.split(b"\n", 2)
    unreadable = b"\n".join((kernel_cache._checksum(about, b"no pickle"), about, b"no pickle"))
    older = about.replace(b"0.", b"1.", 1)
    other_numba = b"\n".join((kernel_cache._checksum(older, data), older, data))
    for damaged in (b"", b"\n\n", whole[:100], whole[:-1] + b"?", unreadable, other_numba):
        file.write_bytes(damaged)
        assert kernel_cache.loaded(first, signature) is None
    ones.flags.writeable = False
    assert kernel_cache.compiled(first, signature)(ones) == 1
    assert file.read_bytes() != other_numba
    assert kernel_cache.loaded(first, signature) is not None


def test_where_nothing_can_be_written_it_works_all_the_same(package: Package, tmp_path: Path) -> None:
    for name in ("__pycache__", "home"):  # files where directories should be: nobody may write there, root included
        (package.folder / name).write_text("")
    assert package.run(LARGE) == ["1 True True"]
    assert not package.files()


def test_an_unwritable_module_directory_leaves_the_users_cache(package: Package) -> None:
    (package.folder / "__pycache__").write_text("")
    assert package.run(LARGE) == ["1 True True"]
    assert len(package.files("home")) == 1
    assert package.run(WORTH) == ["1 True True"]


def test_numbas_own_setting_is_honoured(package: Package, tmp_path: Path) -> None:
    package.run(LARGE, cache=tmp_path / "elsewhere")
    assert len(package.files("elsewhere")) == len(package.files()) == 1


def test_processes_may_compile_the_same_at_once(package: Package) -> None:
    processes = [package.start(LARGE) for _ in range(3)]
    assert [process.communicate(timeout=120)[0] for process in processes] == ["1 True True\n"] * 3
    assert len(package.files()) == 1
    assert not list(package.folder.rglob("*.kernel.*"))


def test_threads_may_use_one_kernel_at_once() -> None:
    a, few = _inputs(2000)
    with always(compiled=True), ThreadPoolExecutor(4) as pool:
        totals = list(pool.map(lambda _: _walk(a, few, 0, True)[4], range(20)))
    assert len(set(totals)) == 1

"""How long our side takes, and how much memory.

Times of checks are CPU times of one core: what a clock would show if nothing else ran. Only the cold command line is
measured by the clock as well, since starting a process is more than computing.
"""

import gc
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from checkers.engines.kernel import always, compiler
from checkers.history.history import History, load
from checkers.linearizability import decide
from checkers.models.model import Settings

RUNS: Final = 5


def check(model: str, histories: Sequence[History]) -> tuple[tuple[bool | None, ...], float]:
    """The results, one for each history, and the seconds from columns in memory to results and witnesses."""
    valid = judge(model, histories)
    return valid, median(lambda: judge(model, histories))


def judge(model: str, histories: Sequence[History]) -> tuple[bool | None, ...]:
    return tuple(decide(history, model, Settings()).valid for history in histories)


def compile_for(model: str, history: History) -> None:
    """Compiles the kernels that the model needs, or loads them if they were compiled before. history: a small one."""
    if compiler() is not None:
        with always(compiled=True):
            judge(model, [history])


def form() -> str:
    """In which form the kernels are measured."""
    numba = compiler()
    if numba is None:
        return "Checks in plain Python: numba, the extra [fast], is not there."
    return f"Checks compiled by numba {numba.__version__}."


def median(run: Callable[[], object]) -> float:
    """Seconds of CPU time."""
    taken = []
    for _ in range(RUNS):
        gc.collect()
        begun = time.process_time()
        run()
        taken.append(time.process_time() - begun)
    return statistics.median(taken)


def command(file: Path, model: str) -> tuple[float, float]:
    """A new process that judges one file: medians in seconds, by the clock and of CPU time."""
    clock, cpu = [], []
    for _ in range(RUNS):
        begun, used = time.monotonic(), _children()
        judging = [sys.executable, "-m", "checkers", str(file), "--model", model, "--json"]
        subprocess.run(judging, stdout=subprocess.DEVNULL, check=False)
        clock.append(time.monotonic() - begun)
        cpu.append(_children() - used)
    return statistics.median(clock), statistics.median(cpu)


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def memory(file: Path, model: str) -> int:
    """Bytes that a check needs beyond the columns at its peak, in a process of its own. Linux only."""
    measuring = [sys.executable, "-m", "checkers.bench.timing", str(file), model]
    done = subprocess.run(measuring, capture_output=True, text=True, check=True)
    return int(done.stdout)


def _peak(file: Path, model: str) -> int:
    """What `memory` starts: the columns are in memory, and the kernels loaded, before anything is counted."""
    history = load(file)
    judge(model, [history])
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _status("VmRSS")
    judge(model, [history])
    return _status("VmHWM") - before


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))


if __name__ == "__main__":
    print(_peak(Path(sys.argv[1]), sys.argv[2]))

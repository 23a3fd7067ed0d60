"""pytest-xdist: some processes run the tests that need Docker, which wait; the others run the rest, which compute.

    pytest -p infra.tests.pools -n 4 checkers/tests infra/tests ... [--store-durations]    (durations.json here)

A process collects only the tests of its pool: those in a folder `live`, or all others. A file goes to one process as a
whole; files that take longest go first. Processes that compute have a lower priority than processes that wait.
"""

import gc
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from xdist.scheduler import LoadFileScheduling

COMPUTE: Final = 2  # processes for tests without Docker; if there are not more processes, each of them runs all tests
TRIALS: Final = 2  # trials that all these processes together run at once: the product's pace depends on it
DURATIONS: Final = Path(__file__).with_name("durations.json")
"""File -> test, or "" for the whole file -> seconds. Tests and files that take less than a second are left out."""

_pools: pytest.StashKey[dict[str, str]] = pytest.StashKey()
"""In the controller: process -> its pool, "live" or "compute"."""
_durations: pytest.StashKey[dict[str, dict[str, float]]] = pytest.StashKey()
"""In the controller: file -> test -> seconds that it took in this run."""


def is_live(path: Path) -> bool:
    """path: relative to the root of the repository."""
    return "live" in path.parts


def pool_of(config: pytest.Config) -> str:
    """The pool of this process of xdist; "" if there are no pools."""
    pool: str = getattr(config, "workerinput", {}).get("pool", "")
    return pool


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store-durations", action="store_true", help=f"how long tests take, into {DURATIONS.name}")


def pytest_configure(config: pytest.Config) -> None:
    if pool_of(config):
        os.environ["PYTEST_XDIST_WORKER_COUNT"] = str(TRIALS)
    if pool_of(config) == "compute":
        os.nice(10)
    if not hasattr(config, "workerinput") and len(config.getoption("tx", [])) > COMPUTE:
        config.stash[_pools] = {}
        config.stash[_durations] = {}


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give each process a pool, also one that replaces a crashed process. Hooks of xdist run in the controller."""
    if _pools in node.config.stash:
        pools = node.config.stash[_pools]
        pool = "compute" if list(pools.values()).count("compute") < COMPUTE else "live"
        pools[node.gateway.id] = node.workerinput["pool"] = pool


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    if _pools in node.config.stash:
        node.config.stash[_pools].pop(node.gateway.id, None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return TwoPools(config, log) if _pools in config.stash else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore the files of the other pool, so that they are not even imported."""
    live = is_live(collection_path.relative_to(config.rootpath))
    of_another = {"": False, "live": not live and collection_path.is_file(), "compute": live}
    return of_another[pool_of(config)] or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of the other pool: a file that the command line names is collected in any case."""
    if pool := pool_of(config):
        items[:] = [item for item in items if is_live(item.path.relative_to(config.rootpath)) == (pool == "live")]
        gc.freeze()  # all objects of this moment stay to the end: none is garbage


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up durations. Only in the controller a report has the process (`node`) that it came from."""
    if (node := getattr(report, "node", None)) and _durations in node.config.stash:
        file, _, test = report.nodeid.partition("::")
        tests = node.config.stash[_durations].setdefault(file, {})
        tests[test] = tests.get(test, 0.0) + report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if _durations in config.stash and config.getoption("store_durations"):
        stored = {
            file: {test: round(took, 1) for test, took in {"": sum(tests.values()), **tests}.items() if took >= 1}
            for file, tests in config.stash[_durations].items()
        }
        DURATIONS.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")


class LongestFirst(LoadFileScheduling):  # type: ignore[misc]
    """The scheduler of one pool. took: file -> seconds; a file that is not in it is taken to be the longest."""

    def __init__(self, config: pytest.Config, log: Any, processes: int, took: Mapping[str, float]) -> None:
        super().__init__(config, log)
        self.numnodes = processes
        self._took = took

    def _assign_work_unit(self, node: Any) -> None:
        longest = max(self.workqueue, key=lambda file: (self._took.get(file, float("inf")), len(self.workqueue[file])))
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)


class TwoPools:
    """A scheduler for each pool, behind the one that xdist knows. A pool starts when its processes have collected."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        self._config = config
        took = {file: tests.get("", 0.0) for file, tests in json.loads(DURATIONS.read_text()).items()}
        pools = Counter(config.stash[_pools].values())
        self._schedulers = {pool: LongestFirst(config, log, count, took) for pool, count in pools.items()}

    def _of(self, node: Any) -> LongestFirst:
        return self._schedulers[node.workerinput["pool"]]

    @property
    def nodes(self) -> list[Any]:
        return [node for scheduler in self._schedulers.values() for node in scheduler.nodes]

    @property
    def collection_is_completed(self) -> bool:
        """Whether a pool has collected: xdist calls `schedule` whenever another process has collected."""
        return any(scheduler.collection_is_completed for scheduler in self._schedulers.values())

    @property
    def tests_finished(self) -> bool:
        return all(scheduler.tests_finished for scheduler in self._schedulers.values())

    @property
    def has_pending(self) -> bool:
        return any(scheduler.has_pending for scheduler in self._schedulers.values())

    def add_node(self, node: Any) -> None:
        self._of(node).add_node(node)

    def remove_node(self, node: Any) -> str | None:
        crashed: str | None = self._of(node).remove_node(node)
        return crashed

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        self._of(node).add_node_collection(node, collection)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        self._of(node).mark_test_complete(node, item_index, duration)

    def schedule(self) -> None:
        collections = [list(scheduler.registered_collections.values()) for scheduler in self._schedulers.values()]
        session = self._config.pluginmanager.getplugin("session")
        if isinstance(session, pytest.Session):  # until now it has the number of the last process only
            session.testscollected = sum(len(each[0]) for each in collections if each)
        for scheduler in self._schedulers.values():
            if scheduler.collection_is_completed:
                scheduler.schedule()

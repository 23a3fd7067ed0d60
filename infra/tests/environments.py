"""The environments of a process that tests on real servers, and the fixtures that hand them out.

The conftest of both folders `live` imports the hooks and fixtures from here. A test says what it needs:

    pytest.mark.needs("redis", "postgres")  # in their default versions
    pytest.mark.needs("etcd", etcd="3.4")  # or a shape: etcd="five"

All tests of a process that need the same versions share an environment, which is clean before and after each test.
From the first test on it has all backends that any of these tests needs: clusters that boot side by side are up sooner.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from infra.backends import SHAPES
from infra.environment import Environment
from infra.errors import Failed
from infra.faults.manual import OneProcess
from infra.faults.target import Target
from infra.own_environment import OwnEnvironment
from infra.waiting import comes_true

COMES_WITHIN = 120.0  # seconds to wait for anything, on any machine: a guard against an endless wait
_POOL: dict[frozenset[tuple[str, str]], OwnEnvironment] = {}  # versions of backends -> the environment that has them
_NEEDED: dict[frozenset[tuple[str, str]], set[str]] = {}  # versions of backends -> backends that tests here need


def taken(*backends: str, versions: Mapping[str, str] | None = None) -> OwnEnvironment:
    """The environment of these versions, with these backends. It is clean if the last test to use it left it clean."""
    key = frozenset((versions or {}).items())
    shapes = {backend: shape for backend, shape in key if f"{backend}={shape}" in SHAPES}
    if key not in _POOL:
        _POOL[key] = OwnEnvironment.start(shapes=shapes)
    environment, versions = _POOL[key], dict(key - shapes.items())
    if not set(backends) <= environment.clusters.keys():
        environment.boot({backend: versions.get(backend) for backend in {*backends, *_NEEDED.get(key, ())}})
        await_unclean(environment)
    return environment


def await_unclean(environment: Environment, *lines: str) -> None:
    """Wait until `unclean` lists just these lines. A standstill of a server, or an election, ends by itself."""
    seen: list[str] = []

    def so() -> bool:
        try:
            seen[:] = environment.unclean()
        except Failed as error:
            seen[:] = [str(error)]
        return seen == list(lines)

    assert comes_true(so, COMES_WITHIN), f"not as at the start: {seen}"


def target_of(environment: OwnEnvironment, backend: str) -> Target:
    return Target.of(environment, backend, OneProcess(None, 1.0))


@pytest.fixture
def environment(request: pytest.FixtureRequest) -> Iterator[OwnEnvironment]:
    """The environment that the test's nearest marker asks for. A test undoes what it does to the environment."""
    need = request.node.get_closest_marker("needs")
    environment = taken(*need.args, versions=need.kwargs) if need else taken()
    yield environment
    try:
        await_unclean(environment)
    except AssertionError:
        for key in [key for key, other in _POOL.items() if other is environment]:
            del _POOL[key]  # the tests that follow get a new one, as they are not to blame
        environment.close()
        raise


@pytest.fixture
def target(environment: OwnEnvironment, request: pytest.FixtureRequest) -> Target:
    return target_of(environment, request.param.partition("=")[0])


def on(*backends: str) -> pytest.MarkDecorator:
    """Run a test with the fixture `target` for each of these backends, which may have a shape: `etcd=five`."""
    cases = []
    for each in backends:
        name, _, shape = each.partition("=")
        cases.append(pytest.param(each, marks=pytest.mark.needs(name, **({name: shape} if shape else {}))))
    return pytest.mark.parametrize("target", cases, indirect=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker("docker")


def pytest_collection_finish(session: pytest.Session) -> None:
    for need in (item.get_closest_marker("needs") for item in session.items):
        if need:
            _NEEDED.setdefault(frozenset(need.kwargs.items()), set()).update(need.args)


def pytest_sessionfinish() -> None:
    environments = list(_POOL.values())
    _POOL.clear()
    if environments:
        with ThreadPoolExecutor(len(environments)) as pool:
            list(pool.map(OwnEnvironment.close, environments))

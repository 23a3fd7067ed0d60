"""Images against the real engine, and the engine itself."""

import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from infra.backends import BACKENDS
from infra.docker import base, engine, images, machine
from infra.docker.images import resolve
from infra.errors import Failed
from infra.tests.live.hurting import await_


def test_a_pull_from_a_silent_or_refusing_registry_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "REGISTRY_ANSWERS_WITHIN", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert not base.pull(f"127.0.0.1:{silent.getsockname()[1]}/nothing:1")
    assert not base.pull("127.0.0.1:9/nothing:1")


def test_an_image_that_exists_is_only_inspected(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [resolve(backend) for backend in (*BACKENDS, "pgbouncer", "toxiproxy")]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(images.ensure, wanted))
    run, ran = machine.run, set[str]()

    def noted(argv: Sequence[str], **options: Any) -> str:
        ran.add(" ".join(argv[:3]))
        return run(argv, **options)

    monkeypatch.setattr(machine, "run", noted)
    for image in wanted:
        images.ensure(image)
    assert ran <= {"docker image inspect", "docker image ls"}


def test_the_image_of_toxiproxy_runs_the_promised_version() -> None:
    images.ensure(image := resolve("toxiproxy"))
    assert images.TOXIPROXY in engine.docker("run", "--rm", image.name, "-version")


def test_postgres_will_not_start_without_a_password() -> None:
    images.ensure(image := resolve("postgres"))
    with pytest.raises(Failed, match="POSTGRES_PASSWORD is needed"):
        engine.docker("run", "--rm", image.name)


def test_the_daemon_of_this_machine_is_recognised() -> None:
    if not Path("/var/run/docker.pid").exists():
        pytest.skip("the engine is not on this machine")
    daemon = int(Path("/var/run/docker.pid").read_text())
    await_(lambda: engine._daemon() == daemon)  # another test's stand-in for the daemon may still be ending
    assert engine.find().state == "running"


def test_compose_is_unpacked_from_the_package_of_another_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not machine.debian_mirror():
        pytest.skip("this machine does not get packages from Debian")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    engine._unpack_compose()
    assert machine.run([str(tmp_path / "cli-plugins/docker-compose"), "version", "--short"]).startswith("2.")

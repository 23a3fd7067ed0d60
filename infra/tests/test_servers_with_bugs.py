"""Servers with a bug planted in them: their images, and how they are listed."""

import pytest

from infra.backends import BACKENDS
from infra.docker import images, servers_with_bugs
from infra.docker.images import resolve, spelled
from infra.docker.servers_with_bugs import PLANTS


def test_each_is_an_image_of_its_own_that_is_made_where_it_is_asked_for() -> None:
    assert len({images.digest(plant.image) for plant in PLANTS}) == len(PLANTS)
    for plant in PLANTS:
        backend, version = spelled(plant.spelling)
        assert resolve(backend, version) == plant.image
        assert backend in BACKENDS


def test_they_are_listed_with_what_to_ask_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert servers_with_bugs.main([]) == 0
    told = capsys.readouterr().out
    assert all(plant.bug in told and f"--to {plant.spelling}\n" in told for plant in PLANTS)


def test_what_is_named_is_built(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made: list[str] = []
    monkeypatch.setattr(images, "ensure", lambda image, say: made.append(image.name))
    assert servers_with_bugs.main(["--build", "redis:slow"]) == 0
    assert capsys.readouterr().out == "redis=image:fencepost/planted-redis:slow\n"
    assert servers_with_bugs.main(["--build"]) == 0
    assert made == ["fencepost/planted-redis:slow", *(plant.image.name for plant in PLANTS)]
    with pytest.raises(SystemExit):
        servers_with_bugs.main(["--build", "redis:fast"])

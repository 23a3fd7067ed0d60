"""`python -m infra versions`: the table, and what is said of sources that do not answer."""

import pytest

from infra import sources, versions
from infra.images import resolve, spelled
from infra.machine import Failed, NotPossible
from infra.tests.fakes import Said
from infra.versions import Offer, offers

HAD: dict[str, sources.Had] = {
    "trixie": {"redis": ["8.0.2"], "valkey": ["8.1.1"], "etcd": ["3.5.16"], "postgres": ["17.11"]},
    "bookworm": {"redis": ["7.0.15"], "etcd": ["3.4.23"], "postgres": ["15.18"]},
    "sid": {"redis": ["8.0.6"], "valkey": ["9.1.2"], "etcd": ["3.5.16"], "postgres": ["18.6"]},
    "modules": {"etcd": ["3.7.3", "3.7.2", "3.5.30", "3.5.16"]},
}


def answering(monkeypatch: pytest.MonkeyPatch, *silent: str) -> None:
    def ask(source: str, say: object = None) -> sources.Had:
        if source in silent:
            raise Failed(f"{source} is away")
        return HAD[source]

    monkeypatch.setattr(sources, "ask", ask)
    monkeypatch.setattr(sources, "ask_or_recall", ask)


def test_each_version_is_offered_once_where_it_is_looked_for_first() -> None:
    assert [offer for offer in offers(HAD) if offer.server in ("redis", "valkey", "etcd")] == [
        Offer("redis", "8.0.2", "trixie", "8.0"),
        Offer("redis", "7.0.15", "bookworm", "7.0"),
        Offer("redis", "8.0.6", "sid"),
        Offer("valkey", "8.1.1", "trixie", "8.1"),
        Offer("valkey", "9.1.2", "sid", "9.1"),
        Offer("etcd", "3.5.16", "trixie", "3.5"),
        Offer("etcd", "3.4.23", "bookworm", "3.4"),
        Offer("etcd", "3.7.3", "modules", "3.7"),
        Offer("etcd", "3.7.2", "modules"),
        Offer("etcd", "3.5.30", "modules"),
    ]


def test_what_is_offered_can_be_had_as_it_is_spelled(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch)
    for offer in offers(HAD):
        series, exact = (resolve(*spelled(spelling)) for spelling in (offer.spellings.split(", ") * 2)[:2])
        assert exact.name == f"fencepost/{offer.server}:{offer.version}"
        stable = offer.series and offer.source in ("trixie", "bookworm")
        assert series.name == (f"fencepost/{offer.server}:{offer.source}" if stable else exact.name)


def test_the_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answering(monkeypatch)
    assert versions.main([], Said()) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "backend version from --version-of"
    assert "redis 8.0.2 Debian trixie redis=8.0, redis=8.0.2 (the default)" in lines
    assert "redis valkey 9.1.2 Debian sid valkey=9.1, valkey=9.1.2" in lines
    assert "etcd 3.7.2 Go module proxy etcd=3.7.2" in lines
    assert sum("the default" in line for line in lines) == 3


def test_a_silent_source_is_told_and_the_rest_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, "trixie", "modules")
    said = Said()
    assert versions.main([], said) == 0
    assert said.lines == [
        "Debian trixie could not be asked: trixie is away",
        "Go module proxy could not be asked: modules is away",
    ]
    told = capsys.readouterr().out
    assert "18.6" in told
    assert "the default" not in told
    assert "redis=8.0," not in told  # that is trixie's, whatever it has


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answering(monkeypatch, *HAD)
    said = Said()
    with pytest.raises(NotPossible) as none:
        versions.main([], said)
    assert none.value.status == 3
    assert len(said.lines) == 4
    assert capsys.readouterr().out == ""

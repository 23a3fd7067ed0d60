"""Where versions come from: Debian's releases, and for some servers a registry. We ask a source what it has.

infra/README.md lists the sources. A source is asked only when its answer is needed, at most once a day and never twice
by one process, so that a run has one version from its beginning to its end.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.backends import BACKENDS
from infra.backends.backend import Package
from infra.docker import base, machine
from infra.docker.engine import docker
from infra.errors import Failed, NotPossible, Trouble

PACKAGES: Final[Mapping[str, Package]] = {
    package.server: package
    for backend in BACKENDS.values()
    for package in (*backend.packages, *(beside.package for beside in backend.auxiliaries if beside.package))
}
"""Server -> the package in which it can be had."""

STANDS_FOR: Final[Mapping[str, str]] = {
    package.server: name for name, backend in BACKENDS.items() for package in backend.packages[1:]
}
"""Server that stands for a backend -> that backend."""

SID: Final = "sid"
"""Debian's unstable release: what it carries changes from day to day."""
REGISTRIES: Final = {"modules": "Go module proxy", "maven": "Maven"}
"""Registry -> its name for people. The recipe `SERVER-REGISTRY` builds a server from it."""
WHERE: Final[Mapping[str, str]] = {suite: f"Debian {suite}" for suite in (*base.SUITES, SID)} | REGISTRIES
"""Source -> its name for people, in the order in which a version is looked for."""
VERSION: Final = re.compile(r"\d+(\.\d+)*")
"""What a version looks like. Betas of servers are left out: users give an image of their own for them."""
ASKED_EVERY: Final = 86400.0
"""Seconds for which an answer of a source is valid."""

SUITE_ANSWERS_WITHIN: Final = 300.0
PROXY_ANSWERS_WITHIN: Final = 10.0
MAVEN_ANSWERS_WITHIN: Final = 600.0

_POLICY: Final = """
[ "$MIRROR" != its-own ] || MIRROR=$(apt-get indextargets --format '$(REPO_URI)' | head -n 1)
echo "deb $MIRROR $SUITE main" >/tmp/list
[ -z "$MIRROR" ] || options='-o Dir::Etc::sourcelist=/tmp/list -o Dir::Etc::sourceparts=-'
apt-get update -qq $options >&2
apt-cache policy $options PACKAGES $(apt-cache depends $options VERSIONED | sed -n 's/^ *Depends: //p')
"""
"""MIRROR is empty where the suite is the container's own, or its-own for the mirror that it was made from."""

_MAVEN: Final = Path(__file__).parents[1] / "images" / "maven" / "maven.sh"
_METADATA: Final = """
for artifact in $ARTIFACTS; do
    mvn -B -q dependency:get -Dtransitive=false -Dartifact="$artifact:RELEASE:pom" >/tmp/log || true
    echo "$artifact"
    cat ~/.m2/repository/$(echo "$artifact" | tr .: //)/maven-metadata-*.xml || { grep ERROR /tmp/log >&2; exit 1; }
done
"""
"""If Maven is asked for the newest version, it keeps the registry's list, whether or not it got that version."""

Had = Mapping[str, Sequence[str]]  # server -> versions, the newest first

_known: dict[str, Had] = {}


def of(server: str) -> list[str]:
    """The sources that may have a server, in the order in which a version is looked for."""
    return [*PACKAGES[server].series, SID, *PACKAGES[server].elsewhere]


def ask(source: str) -> Had:
    """What a source has. Raises Failed or NotPossible when it cannot be asked and has no answer of the last day."""
    if source not in _known:
        kept = _kept(source)
        if not kept.exists() or time.time() - kept.stat().st_mtime > ASKED_EVERY:
            answer = _ask_registry(source) if source in REGISTRIES else _ask_suite(source)
            partial = kept.with_suffix(f".{os.getpid()}")
            partial.write_text(json.dumps(answer))
            partial.replace(kept)
        _known[source] = json.loads(kept.read_text())
    return _known[source]


def ask_or_recall(source: str) -> Had:
    """As `ask`, but takes the last answer, however old, if the source cannot be asked; raises if there is none."""
    try:
        return ask(source)
    except Trouble as trouble:
        kept = _kept(source)
        if not kept.exists():
            raise
        day = time.strftime("%Y-%m-%d", time.localtime(kept.stat().st_mtime))
        machine.say(f"{WHERE[source]} cannot be asked ({trouble}): taking what it had on {day}")
        return _known.setdefault(source, json.loads(kept.read_text()))


def forget(source: str) -> None:
    """Have a source asked again: it does not have a version that it listed."""
    _known.pop(source, None)
    _kept(source).unlink(missing_ok=True)


def settings(source: str) -> dict[str, str]:
    """The settings of this machine's client for a registry, as build arguments; empty where it has none."""
    clients = {"modules": machine.go_settings, "maven": machine.maven_settings, "index": machine.pip_settings}
    return clients[source]()


def upstream(version: str) -> str:
    """The server's own version in a Debian one: `5:8.0.2-3+deb13u1` is 8.0.2, `3.8.0+dfsg-2` is 3.8.0."""
    without_epoch = version.rpartition(":")[2]
    return (without_epoch.rpartition("-")[0] or without_epoch).partition("+")[0]


def _kept(source: str) -> Path:
    """The file that keeps a source's answer. It changes with the question, and with the settings of a registry."""
    names = [[package.debian, *package.elsewhere.items()] for package in PACKAGES.values()]
    question = [names, settings(source) if source in REGISTRIES else _POLICY]
    digest = hashlib.sha256(json.dumps(question).encode()).hexdigest()
    return machine.cache_dir() / f"versions-{source}-{digest[:12]}.json"


def _ask_suite(suite: str) -> dict[str, list[str]]:
    """What apt lists in the suite's own base image; for sid, whose base is made only on demand, in the default one."""
    asked_in = suite if suite in base.SUITES else base.SUITES[0]
    base.ensure(asked_in)
    mirror = "" if asked_in == suite else machine.debian_mirror() or "its-own"
    machine.say(f"asking apt what {WHERE[suite]} carries")
    policy = _POLICY.replace("PACKAGES", " ".join(package.debian for package in PACKAGES.values()))
    versioned = " ".join(package.debian for package in PACKAGES.values() if package.versioned)
    policy = policy.replace("VERSIONED", versioned)
    output = docker(
        "run", "--rm", *machine.network(), "--env", f"MIRROR={mirror}", "--env", f"SUITE={suite}", base.name(asked_in),
        "sh", "-ec", policy,
        timeout=SUITE_ANSWERS_WITHIN,
    )  # fmt: skip
    carried: dict[str, list[str]] = {}
    server: str | None = None
    for line in output.splitlines():
        if not line.startswith(" "):
            server = _server(line.rstrip(":"))
        elif server and line.strip().startswith("Candidate: "):
            version = upstream(line.partition(": ")[2])
            if VERSION.fullmatch(version):
                carried[server] = [version]
    if not carried:
        raise Failed(f"apt knows no server of {WHERE[suite]}")
    return carried


def _server(debian: str) -> str | None:
    """The server whose version this Debian package tells; None for other packages."""
    for server, package in PACKAGES.items():
        if re.fullmatch(rf"{package.debian}-\d+" if package.versioned else package.debian, debian):
            return server
    return None


def _ask_registry(registry: str) -> dict[str, list[str]]:
    names = {server: name for server, package in PACKAGES.items() if (name := package.elsewhere.get(registry))}
    if registry == "modules":
        listed = {server: _listed_by_go(server, module) for server, module in names.items()}
    else:
        listed = _listed_by_maven(names)
    return {server: _buildable(PACKAGES[server], versions) for server, versions in listed.items()}


def _buildable(package: Package, listed: Sequence[str]) -> list[str]:
    """The versions of a server, by its own numbers, in what a registry lists."""
    known = [version for version in listed if VERSION.fullmatch(version)]
    own = {version.rpartition(".")[0] for version in known} if package.rebuilt else set(known)
    buildable = [version for version in own if by_number(version) >= by_number(package.since)]
    return sorted(buildable, key=by_number, reverse=True)


def _listed_by_go(server: str, module: str) -> list[str]:
    """The versions that the module proxy lists. We speak its protocol ourselves: this machine needs no Go."""
    import requests  # not at the top: the doctor loads this module when nothing is installed yet

    ways = re.split(r"[,|]", machine.go_settings().get("GOPROXY", ""))
    trusted, why = base.certificate_file(), "GOPROXY, which names the module proxy, names none that could be asked"
    for way in ways:
        if way.startswith(("http://", "https://")):
            address = f"{way.rstrip('/')}/{module}/@v/list"
            try:
                answer = requests.get(address, timeout=PROXY_ANSWERS_WITHIN, verify=str(trusted) if trusted else True)
                answer.raise_for_status()
            except requests.RequestException as error:
                why = type(error).__name__  # not the error's text: an address in it may have a password
                continue
            return [line.strip().removeprefix("v") for line in answer.text.splitlines()]
    raise Failed(f"no list of {server}'s versions: {why}")


def _listed_by_maven(artifacts: Mapping[str, str]) -> dict[str, list[str]]:
    """Server -> the versions in the list of Maven's registry. artifacts: server -> its artifact.

    Maven runs in a container: this machine needs none.
    """
    base.ensure(base.SUITES[0])
    names = " ".join(artifacts.values())
    machine.say(f"asking Maven which versions of {' and '.join(artifacts)} there are (about a minute)")
    output = docker(
        "run", "--rm", *machine.network(), "--env", "MAVEN_SETTINGS", "--env", f"ARTIFACTS={names}",
        base.name(base.SUITES[0]), "sh", "-ec", f"{{ {_MAVEN.read_text()} }} >&2\n{_METADATA}",
        timeout=MAVEN_ANSWERS_WITHIN, env={"MAVEN_SETTINGS": "", **machine.maven_settings()},
    )  # fmt: skip
    lists = dict(zip(artifacts, re.split(r"^[\w.-]+:[\w.-]+$", output, flags=re.MULTILINE)[1:], strict=True))
    return {server: re.findall(r"<version>\s*([^<\s]+)\s*</version>", its) for server, its in lists.items()}


def by_number(version: str) -> list[int]:
    """A key that puts 3.5.9 before 3.5.10."""
    return [int(number) for number in version.split(".")]


# --- the command ---


@dataclass(frozen=True, slots=True)
class Offer:
    """A version that can be had here."""

    server: str  # a backend, or another server for one
    version: str
    source: str  # see `WHERE`
    series: str = ""  # the series, if asking for it gives this version as well; else empty

    @property
    def spellings(self) -> str:
        """What to write behind --version-of."""
        return ", ".join(f"{self.server}={version}" for version in (self.series, self.version) if version)


def offers(had: Mapping[str, Had]) -> Iterator[Offer]:
    """had: source -> what it has, if it could be asked. Offers come in the order of the search, the default first."""
    for server in (package.server for backend in BACKENDS.values() for package in backend.packages):
        offered: list[Offer] = []
        for source in of(server):
            for version in had.get(source, {}).get(server, ()):
                if version not in (offer.version for offer in offered):
                    offered.append(Offer(server, version, source, _shorthand(server, version, source, offered)))
        yield from offered


def _shorthand(server: str, version: str, source: str, before: Sequence[Offer]) -> str:
    """3.5 for 3.5.16; empty if 3.5 gives another version, that of a stable suite or of an offer before this one."""
    series = version.rpartition(".")[0]
    stable = [suite for suite, its in PACKAGES[server].series.items() if its == series]
    taken = stable != [source] if stable else any(f"{offer.version}.".startswith(f"{series}.") for offer in before)
    return "" if taken else series


def main() -> int:
    """`python -m infra versions`: what can be had here, where from, and how to ask for it, a line for each version.

    Makes the base images of Debian's stable releases, in which apt is asked. Raises NotPossible if no source answers.
    """
    had: dict[str, Had] = {}
    silent: dict[str, str] = {}
    for source in WHERE:
        try:
            had[source] = ask(source)
        except Trouble as trouble:
            silent[source] = str(trouble)
    if had:
        print(f"{'backend':<10} {'version':<14} {'from':<16} --version-of")
        for offer in offers(had):
            backend = STANDS_FOR.get(offer.server, offer.server)
            version = offer.version if backend == offer.server else f"{offer.server} {offer.version}"
            note = "  (the default)" if (offer.server, offer.source) == (backend, base.SUITES[0]) else ""
            print(f"{backend:<10} {version:<14} {WHERE[offer.source]:<16} {offer.spellings}{note}")
        print(f"{'any':<10} {'your own':<14} {'an image':<16} {next(iter(BACKENDS))}=image:NAME")
    for source, why in silent.items():
        machine.say(f"{WHERE[source]} could not be asked: {why}")
    if not had:
        raise NotPossible("no source of versions could be asked")
    return 0

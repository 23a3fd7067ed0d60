"""Where versions come from: Debian's releases, and for some a registry of modules. What they have is asked of them.

A stable release keeps its series for life, so a series (`3.5`) of one is known without asking. What exactly it has, and
what there is in sid and in the registries, changes: each is asked when somebody needs to know, at most once a day,
and never twice by one process, so that a run has one version from its beginning to its end.
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
from infra.docker.machine import Say
from infra.errors import Failed, NotPossible, Trouble

PACKAGES: Final[Mapping[str, Package]] = {
    package.server: package
    for backend in BACKENDS.values()
    for package in (*backend.packages, *(beside.package for beside in backend.auxiliaries if beside.package))
}
"""Server -> how it can be had."""

CARRIED: Final[Mapping[str, Mapping[str, str]]] = {server: package.series for server, package in PACKAGES.items()}
"""Server -> stable suite -> its series; the default suite stands first."""

STANDS_FOR: Final[Mapping[str, str]] = {
    package.server: name for name, backend in BACKENDS.items() for package in backend.packages[1:]
}
"""Another server for a backend -> that backend."""

SERVERS: Final = [server for server in CARRIED if STANDS_FOR.get(server, server) in BACKENDS]
"""Whose version can be chosen, who stands for a backend behind it."""

SID: Final = "sid"
"""Debian's unstable release: what it carries changes from day to day."""

REGISTRIES: Final = {"modules": "Go module proxy", "maven": "Maven"}
"""Registry -> what it is called. A server that it has is built by the recipe `SERVER-REGISTRY`."""

WHERE: Final[Mapping[str, str]] = {suite: f"Debian {suite}" for suite in (*base.SUITES, SID)} | REGISTRIES
"""Source -> what it is called, in the order in which a version is looked for."""

VERSION: Final = re.compile(r"\d+(\.\d+)*")
"""What a version looks like. Betas of servers are left out: they are asked for by an image of the user's own."""

ASKED_EVERY: Final = 86400.0
"""Seconds for which an answer is believed."""

SUITE_ANSWERS_WITHIN: Final = 300.0
PROXY_ANSWERS_WITHIN: Final = 10.0
MAVEN_ANSWERS_WITHIN: Final = 600.0

_VERSIONED: Final = [package.debian for package in PACKAGES.values() if package.versioned]

_ITS_OWN: Final = "its-own"
"""Stands for the mirror that the container itself was made from."""

_POLICY: Final = """
[ "$MIRROR" != its-own ] || MIRROR=$(apt-get indextargets --format '$(REPO_URI)' | head -n 1)
echo "deb $MIRROR $SUITE main" >/tmp/list
[ -z "$MIRROR" ] || options='-o Dir::Etc::sourcelist=/tmp/list -o Dir::Etc::sourceparts=-'
apt-get update -qq $options >&2
apt-cache policy $options PACKAGES $(apt-cache depends $options VERSIONED | sed -n 's/^ *Depends: //p')
"""
"""MIRROR is empty where the suite is the container's own."""

_MAVEN: Final = Path(__file__).parents[1] / "images" / "zookeeper-maven" / "maven.sh"
_METADATA: Final = """
mvn -B -q dependency:get -Dtransitive=false -Dartifact="$ARTIFACT:RELEASE" >/tmp/log || true
cat ~/.m2/repository/$(echo "$ARTIFACT" | tr .: //)/maven-metadata-*.xml || { grep ERROR /tmp/log >&2; exit 1; }
"""
"""Maven keeps a registry's list of versions once it was asked for the newest, whether or not it got that."""

Had = Mapping[str, Sequence[str]]
"""Server -> versions, the newest first."""

_known: dict[str, Had] = {}


def of(server: str) -> list[str]:
    """The sources that may have a server, in the order in which a version is looked for."""
    return [*CARRIED[server], SID, *PACKAGES[server].elsewhere]


def ask(source: str, say: Say = machine.say) -> Had:
    """What a source has. Raises Failed or NotPossible when it cannot be asked and was not within a day."""
    if source not in _known:
        kept = _kept(source)
        if not kept.exists() or time.time() - kept.stat().st_mtime > ASKED_EVERY:
            answer = _ask_registry(source, say) if source in REGISTRIES else _ask_suite(source, say)
            partial = kept.with_suffix(f".{os.getpid()}")
            partial.write_text(json.dumps(answer))
            partial.replace(kept)
        _known[source] = json.loads(kept.read_text())
    return _known[source]


def ask_or_recall(source: str, say: Say = machine.say) -> Had:
    """The same, but where a source cannot be asked its last answer is taken, however old; raises if it has none."""
    try:
        return ask(source, say)
    except Trouble as trouble:
        kept = _kept(source)
        if not kept.exists():
            raise
        day = time.strftime("%Y-%m-%d", time.localtime(kept.stat().st_mtime))
        say(f"{WHERE[source]} cannot be asked ({trouble}): taking what it had on {day}")
        _known[source] = json.loads(kept.read_text())
        return _known[source]


def forget(source: str) -> None:
    """Have it asked again: it turned out not to have what it said."""
    _known.pop(source, None)
    _kept(source).unlink(missing_ok=True)


def settings(source: str) -> dict[str, str]:
    """Where this machine's client of a registry gets modules from, as build arguments; empty where it does not say."""
    return machine.go_settings() if source == "modules" else machine.maven_settings()


def upstream(version: str) -> str:
    """The server's own version in a Debian one: `5:8.0.2-3+deb13u1` is 8.0.2, `3.8.0+dfsg-2` is 3.8.0."""
    without_epoch = version.rpartition(":")[2]
    return (without_epoch.rpartition("-")[0] or without_epoch).partition("+")[0]


def _kept(source: str) -> Path:
    """The file that an answer is kept in: another question, or one to somebody else, has another."""
    names = [[package.debian, *package.elsewhere.items()] for package in PACKAGES.values()]
    question = [names, settings(source) if source in REGISTRIES else _POLICY]
    digest = hashlib.sha256(json.dumps(question).encode()).hexdigest()
    return machine.cache_dir() / f"versions-{source}-{digest[:12]}.json"


def _ask_suite(suite: str, say: Say) -> dict[str, list[str]]:
    """As apt says in the suite's own base; for sid, whose base is only made for who wants it, in the default one."""
    asked_in = suite if suite in base.SUITES else base.SUITES[0]
    base.ensure(asked_in, say)
    mirror = "" if asked_in == suite else machine.debian_mirror() or _ITS_OWN
    say(f"asking apt what {WHERE[suite]} carries")
    policy = _POLICY.replace("PACKAGES", " ".join(package.debian for package in PACKAGES.values()))
    policy = policy.replace("VERSIONED", " ".join(_VERSIONED))
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
    """The server of a Debian package that tells its version."""
    for server, package in PACKAGES.items():
        if re.fullmatch(rf"{package.debian}-\d+" if package.versioned else package.debian, debian):
            return server
    return None


def _ask_registry(registry: str, say: Say) -> dict[str, list[str]]:
    has: dict[str, list[str]] = {}
    for server, package in PACKAGES.items():
        if name := package.elsewhere.get(registry):
            listed = _listed_by_go(server, name) if registry == "modules" else _listed_by_maven(server, name, say)
            known = [version for version in listed if VERSION.fullmatch(version)]
            buildable = [version for version in known if by_number(version) >= by_number(package.since)]
            has[server] = sorted(buildable, key=by_number, reverse=True)
    return has


def _listed_by_go(server: str, module: str) -> list[str]:
    """As the module proxy lists its versions, by its protocol: this machine needs no Go."""
    import requests  # not before: the doctor looks into this module when nothing is installed yet

    ways = re.split(r"[,|]", machine.go_settings().get("GOPROXY", ""))
    trusted, why = base.certificate_file(), "GOPROXY, which names the module proxy, names none that could be asked"
    for way in ways:
        if way.startswith(("http://", "https://")):
            address = f"{way.rstrip('/')}/{module}/@v/list"
            try:
                answer = requests.get(address, timeout=PROXY_ANSWERS_WITHIN, verify=str(trusted) if trusted else True)
                answer.raise_for_status()
            except requests.RequestException as error:
                why = type(error).__name__  # not its words: an address may have a password in it
                continue
            return [line.strip().removeprefix("v") for line in answer.text.splitlines()]
    raise Failed(f"no list of {server}'s versions: {why}")


def _listed_by_maven(server: str, artifact: str, say: Say) -> list[str]:
    """As Maven keeps its registry's list, in a container: this machine needs no Maven."""
    base.ensure(base.SUITES[0], say)
    say(f"asking Maven which versions of {server} there are (about a minute)")
    output = docker(
        "run", "--rm", *machine.network(), "--env", "MAVEN_SETTINGS", "--env", f"ARTIFACT={artifact}",
        base.name(base.SUITES[0]), "sh", "-ec", f"{{ {_MAVEN.read_text()} }} >&2\n{_METADATA}",
        timeout=MAVEN_ANSWERS_WITHIN, env={"MAVEN_SETTINGS": "", **machine.maven_settings()},
    )  # fmt: skip
    return re.findall(r"<version>\s*([^<\s]+)\s*</version>", output)


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
    series: str = ""  # what gives this version as well, empty where that gives another

    @property
    def spellings(self) -> str:
        """What to write behind --version-of."""
        return ", ".join(f"{self.server}={version}" for version in (self.series, self.version) if version)


def offers(had: Mapping[str, Had]) -> Iterator[Offer]:
    """had: what each source that could be asked has. What is looked for first stands first, the default at the top."""
    for server in SERVERS:
        offered: list[Offer] = []
        for source in of(server):
            for version in had.get(source, {}).get(server, ()):
                if version not in (offer.version for offer in offered):
                    offered.append(Offer(server, version, source, _shorthand(server, version, source, offered)))
        yield from offered


def _shorthand(server: str, version: str, source: str, before: Sequence[Offer]) -> str:
    """3.5 for 3.5.16, unless who asks for 3.5 gets another: a stable suite's, or one of those before it."""
    series = version.rpartition(".")[0]
    stable = [suite for suite, its in CARRIED[server].items() if its == series]
    taken = stable != [source] if stable else any(f"{offer.version}.".startswith(f"{series}.") for offer in before)
    return "" if taken else series


def main(say: Say = machine.say) -> int:
    """`python -m infra versions`: what can be had here, where from, and how to ask for it, a line for each version.

    Makes what is asked: the base images of Debian's stable releases. Raises NotPossible when nobody could be asked.
    """
    had: dict[str, Had] = {}
    silent: dict[str, str] = {}
    for source in WHERE:
        try:
            had[source] = ask(source, say)
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
        say(f"{WHERE[source]} could not be asked: {why}")
    if not had:
        raise NotPossible("no source of versions could be asked")
    return 0

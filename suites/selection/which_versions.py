"""Which versions of servers, and releases of client libraries, the options ask for."""

import sys
from collections.abc import Sequence
from typing import Any, Final

from infra.backends import BACKENDS
from infra.docker import images
from infra.docker.sources import STANDS_FOR
from suites.selection import upgrade_stages
from suites.selection.bad_option import BadOption, known, raised_as
from suites.selection.upgrade_stages import ONLY, Stage
from suites.worker import python_environment
from suites.worker.python_environment import Interpreter

_SERVERS: Final = dict.fromkeys((*BACKENDS, *STANDS_FOR))
_WHAT: Final = "backend, or client library that is installed here,"


def stages(
    option: Any, version_of: Sequence[str], python: Interpreter
) -> tuple[tuple[Stage, ...], dict[str, tuple[str, str]]]:
    """The stages of an upgrade, and the (old, new) release of each client library if client libraries are upgraded.

    version_of: what `--version-of` says. python: what runs the workers. Raises BadOption.
    """
    if not (option.from_ or option.to):
        return ONLY, {}
    for given, name in ((option.target, "--target"), (option.shard, "--shard")):
        if given:
            raise BadOption(f"{name} does not go with --from and --to")
    named = {pair.partition("=")[0] for pair in (*option.from_, *option.to)}
    here = python if python.path or named <= _SERVERS.keys() else python_environment.ask(sys.executable)
    if not any(map(here.has, named - _SERVERS.keys())):
        old, new = versions(option.from_, "--from"), versions(option.to, "--to")
        upgrade_stages.both_named(old, new)
        if version_of:
            raise BadOption("--version-of does not go with --from and --to of servers")
        return upgrade_stages.of_servers(old, new), {}
    if mixed := sorted(named & _SERVERS.keys()):
        raise BadOption(f"--from {mixed[0]}=...: servers or client libraries are upgraded, not both in one run")
    old, new = (_releases(pairs, name, here) for pairs, name in ((option.from_, "--from"), (option.to, "--to")))
    upgrade_stages.both_named(old, new)
    with raised_as(BadOption, "--from and --to: ", python_environment.BadInterpreter):
        before, after = (python_environment.with_libraries(here, wanted) for wanted in (old, new))
    return upgrade_stages.of_clients(before, after), {name: (before.release(name), after.release(name)) for name in old}


def versions(pairs: Sequence[str], name: str) -> dict[str, str]:
    """Backend, or another server for it → the version that this option asks for. Raises BadOption."""
    wanted: dict[str, str] = {}
    for pair in pairs:
        backend, version = images.spelled(pair)
        if not version.removeprefix("image:"):
            raise BadOption(f"{name} {pair}: expected BACKEND=VERSION, for example etcd=3.4")
        known(backend, _SERVERS, "backend" if name == "--version-of" else _WHAT)
        with raised_as(BadOption, f"{name} {pair}: ", images.UnknownVersion):
            images.resolve(backend, version)
        if wanted.setdefault(backend, version) != version:
            raise BadOption(f"{name} {pair}: {backend}={wanted[backend]} is asked for as well; one run has one")
    return wanted


def _releases(pairs: Sequence[str], name: str, python: Interpreter) -> dict[str, str]:
    """Client library → the release that is asked for."""
    releases: dict[str, str] = {}
    for pair in pairs:
        library, _, release = pair.partition("=")
        if not python.has(library):
            known(library, _SERVERS, _WHAT)
        if releases.setdefault(library, release) != release:
            raise BadOption(f"{name} {pair}: {library}={releases[library]} is asked for as well; one run has one")
    return releases

"""A backend that exists for one test: a single server that answers in words. It follows CONTRIBUTING.md, "A backend".

Run as a program, this module adds the backend to the list before anything reads the list, which otherwise
`infra/backends/__init__.py` does, and asserts what the rest of the project makes of the backend.
"""

import socketserver
import threading
from argparse import ArgumentParser
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from checkers.claims import Claim
from infra import backends
from infra.backends.answers import Health, ServerRefused
from infra.backends.backend import Backend, Package, Server, Trait
from infra.backends.conversation import converse, unexpected
from suites.tests.standin import Free


class Words(Backend):
    name = "words"
    prefix = "words"
    hosts = (90,)
    port = 7000
    packages = (Package("words", "words-server", {"trixie": "1.0"}),)
    traits = frozenset({Trait.FIRST_NODE})
    lacks: ClassVar[Mapping[Trait, str]] = dict.fromkeys(set(Trait) - traits, "a single server that has nothing")
    call = 1.0
    pace = 0.1
    fatal = b".*giving up: (.*)"
    question = b"who\n"

    def probe(self, server: Server) -> Health | None:
        answer = converse(server, self.question)
        return Health(answer.split()[1]) if answer.startswith("words ") else None

    def long_question(self, size: int) -> bytes:
        return b"who" + b" " * size + b"\n"

    def keep(self, server: Server, size: int, patience: float) -> None:
        with server.access.connect(server.endpoint, patience) as connection:
            connection.sendall(b"keep " + b"x" * size + b"\n")
            if (answer := connection.recv(200)) != b"kept\n":
                raise ServerRefused(answer.decode().strip() or "it closed the connection")

    def refusal(self, server: Server) -> str:
        return unexpected(converse(server, self.question), server.access)


class Answers(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.wfile.write({b"who": b"words 1.0\n", b"keep": b"kept\n"}[self.rfile.readline().split()[0]])


class WordsLock(Free):
    backend: ClassVar[str] = "words"
    claims: ClassVar[tuple[Claim, ...]] = (Claim("server-exclusion", under=("cut-client-*",)),)


def main() -> None:
    words = Words()
    backends.BACKENDS = MappingProxyType({**backends.BACKENDS, words.name: words})  # type: ignore[misc]
    from infra.docker import images
    from infra.faults.all_faults import FAULTS
    from infra.faults.plan import compile_plan
    from infra.network import topology
    from suites.selection.options import options
    from suites.selection.parse_options import parse

    parser = ArgumentParser()
    for spelling, settings in options().items():
        parser.add_argument(spelling, **settings)
    selection = parse(parser.parse_args(["--lock", "suites.tests.throwaway:WordsLock"]))
    not_applicable = {name: because for name, fault in FAULTS.items() if (because := fault.applies(words.name))}
    possible = [name for name, fault in FAULTS.items() if name not in not_applicable and not fault.planned]
    with socketserver.TCPServer(("127.0.0.1", 0), Answers) as answering:
        threading.Thread(target=answering.serve_forever, daemon=True).start()
        server = Server(words.member(1), f"127.0.0.1:{answering.server_address[1]}")
        health, written = words.probe(server), words.write(server)
        answering.shutdown()
    assert (health and health.version, written.outcome) == ("1.0", "kept")
    assert list(words.members) == ["words"]
    assert [proxy.name for proxy in topology.proxies() if proxy.target == "words"] == [f"c{n}-words" for n in range(4)]
    assert images.resolve(words.name).name == "fencepost/words:trixie"
    assert not_applicable["isolate-leader-drop"] == "a single server that has nothing"
    assert all(compile_plan([name], 1, words.name, 1.0).describe() for name in possible)
    cases = [case.id for case in selection.cases("server-exclusion") if case.because is None]
    assert "suites.tests.throwaway:WordsLock/register/unfenced-cut-client-drop" in cases
    assert {"none", "cut-client-drop", "kill-server"} <= {trial.column for trial in selection.trials()}


if __name__ == "__main__":
    main()

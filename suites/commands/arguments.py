"""The options that several commands of `python -m suites` take: each is spelled, and means, the same in all of them."""

import argparse
from collections.abc import Callable

from infra.backends import BACKENDS


class Arguments(argparse.ArgumentParser):
    """The parser of one command. main: its function, whose docstring is shown as help."""

    def __init__(self, command: str, main: Callable[..., int]) -> None:
        super().__init__(prog=f"python -m suites {command}", description=main.__doc__, allow_abbrev=False)

    def add_count(self, default: int, what: str) -> None:
        self.add_argument("--count", type=int, default=default, help=f"{what} ({default})")

    def add_seed(self, what: str) -> None:
        self.add_argument("--seed", type=int, default=1, help=f"{what} (1)")

    def add_backends(self) -> None:
        """`options.backend` is then a list of names, None where none was given."""
        self.add_argument("--backend", action="append", choices=BACKENDS, help="only these; repeatable")

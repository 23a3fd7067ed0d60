"""Whose an environment is, and whether he lives."""

import os
import subprocess
import sys

import pytest

from infra.docker import owner


class TestOwner:
    def test_we_live(self) -> None:
        assert not owner.is_dead(owner.this_process())
        assert owner.describe(owner.this_process()) == f"process {os.getpid()}"

    def test_a_child_that_ended_is_dead(self) -> None:
        code = "from infra.docker import owner; print(owner.this_process())"
        label = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
        assert owner.is_dead(label)
        assert owner.describe(label).endswith("which is gone")

    @pytest.mark.parametrize(
        ("part", "value", "dead"),
        [
            (4, "1", True),  # our number, but started at another time: it was given away again
            (1, "another-boot", True),
            (0, "another-machine", False),
            (2, "another-container", False),
        ],
    )
    def test_only_what_is_certainly_dead_is(self, part: int, value: str, dead: bool) -> None:
        label = owner.this_process().split("/")
        label[part] = value
        assert owner.is_dead("/".join(label)) is dead

    @pytest.mark.parametrize("label", [owner.KEPT, "", "by somebody", "a/b/c/d/e"])
    def test_what_we_do_not_understand_is_not_ours(self, label: str) -> None:
        assert not owner.is_dead(label)

"""Hooks are called without a shell, and believed only where they say that they are done."""

import re
import sys
from pathlib import Path

import pytest

from infra.errors import Failed
from infra.target import hooks
from infra.target.hooks import BadHook, Hooks
from infra.tests.fakes import running

PLACES = {"node": "db; rm -rf /", "port": "6379", "name": "redis1", "backend": "redis"}


def test_words_are_filled_in_one_by_one_and_no_shell_sees_them(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = f"import sys; open({str(out)!r}, 'w').write(chr(0).join(sys.argv[1:]))"
    told = hooks.parse([f'pause={sys.executable} -c "{code}" {{node}}:{{port}} "{{name}} of {{backend}}" $HOME'])
    told.run("pause", PLACES)
    assert out.read_text().split("\0") == ["db; rm -rf /:6379", "redis1 of redis", "$HOME"]


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        (["freeze=x"], "pause, resume, kill, start, stop, wipe"),
        (["pause"], "pause, resume"),
        (["pause="], "pause: no command"),
        (["pause=ssh 'x"], "pause: no closing quotation"),
        (["pause=ssh {host}"], r"pause: nothing stands for \{host\}; there are \{node\}"),
        (["pause=a", "pause=b"], "pause: there is one already"),
    ],
)
def test_a_hook_that_cannot_be_understood_says_what_can(pairs: list[str], says: str) -> None:
    with pytest.raises(BadHook, match=says):
        hooks.parse(pairs)


def test_the_same_command_again_and_braces_of_others_are_left_alone() -> None:
    assert hooks.parse(["pause=a {{.Id}}"] * 2).commands == {"pause": ("a", "{{.Id}}")}


SAYS_WHY = "import sys; print('no such', flush=True); sys.exit('unit {name}')"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ((sys.executable, "-c", SAYS_WHY), "status 1: no such | unit redis1"),
        ((sys.executable, "-c", "raise SystemExit(7)"), "status 7"),
        (("/nowhere/x",), "/nowhere/x: No such file or directory"),
    ],
)
def test_a_hook_that_fails_is_quoted(command: tuple[str, ...], says: str) -> None:
    with pytest.raises(Failed, match=f"^redis1: hook kill: {re.escape(says)}$"):
        Hooks({"kill": command}).run("kill", PLACES)


def test_a_hook_that_does_not_end_is_given_up() -> None:
    with pytest.raises(Failed, match="redis1: hook kill: no end after 0 s"):
        Hooks({"kill": ("sh", "-c", "sleep 600.625; true")}).run("kill", PLACES, within=0.2)
    assert not running("600.625"), "what it called is ended as well"


def test_what_cannot_be_undone_is_not_offered() -> None:
    told = hooks.parse(["pause=a", "kill=a", "start=a"])
    assert told.missing("pause") == ("resume",)
    assert told.missing("kill") == ()
    assert told.missing("stop") == ("stop",)
    assert told.missing("wipe") == ("wipe",)

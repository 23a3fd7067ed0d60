"""suites/your-own-lock.md: its lock is one, its diff fits, and what it shows of other backends can be called."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from suites.lanes.validate_declarations import lock
from suites.lock import LockClient

TEXT: Final = (Path(__file__).parent.parent / "your-own-lock.md").read_text()
FIRST, *OPENS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
(DIFF,) = re.findall(r"```diff\n(.*?)```", TEXT, re.DOTALL)


def loaded(source: str, folder: Path) -> type[LockClient]:
    file = folder / "mylock.py"
    file.write_text(source)
    return lock(f"{file}:MyLock")


def patched(source: str, diff: str) -> str:
    """Each hunk has to fit in exactly one place."""
    for hunk in re.split(r"^@@.*@@\n", diff, flags=re.MULTILINE)[1:]:
        lines = hunk.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] != "+")
        assert source.count(old) == 1, old
        source = source.replace(old, "".join(line[1:] for line in lines if line[0] != "-"))
    return source


def test_the_lock_is_one_and_promises_nothing(tmp_path: Path) -> None:
    lock = loaded(FIRST, tmp_path)
    assert (lock.backend, lock.claims, lock.bounds) == ("redis", (), {})


def test_what_is_mended_promises_what_the_text_says(tmp_path: Path) -> None:
    lock = loaded(patched(FIRST, DIFF), tmp_path)
    assert {claim.property for claim in lock.claims} == {"server-exclusion", "recovery"}
    for claim in lock.claims:
        for faults in (["none"], ["freeze-before-release"]):
            assert claim.covers(claim.property, faults, "unfenced", "set")


def test_every_other_backend_is_shown_and_postgres_with_its_password() -> None:
    takes = {}
    for shown in OPENS:
        (body,) = ast.parse(shown).body
        assert isinstance(body, ast.ClassDef)
        (opens,) = (one for one in body.body if isinstance(one, ast.FunctionDef) and one.name == "open")
        takes[shown.split('"')[1]] = [one.arg for one in opens.args.args[1:]]
    plain = ["endpoints", "ttl"]
    assert takes == {"postgres": [*plain, "access"], "zookeeper": plain, "etcd": plain}


@pytest.mark.parametrize("shown", OPENS)
def test_who_says_that_its_lease_is_a_session_s_shows_the_session(shown: str) -> None:
    assert ('lease = "session"' in shown or ', "session"\n' in shown) == ("def session(self)" in shown)

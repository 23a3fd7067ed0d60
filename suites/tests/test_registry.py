"""Locks by name: bad names get an answer that helps, and what a lock declares is checked before anything runs."""

import ast
import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, cast

import pytest

import suites.lock
from checkers.claims import Claim, Hazard
from checkers.tests.build import cases, message_of, there
from infra.backends import BACKENDS
from infra.faults.plan import compile_plan
from suites.lanes.lane import lanes_of
from suites.lanes.validate_declarations import lock, wrong
from suites.lock import Declarations, LockClient
from suites.locks import registry
from suites.mutants.catalogue import catalogue
from suites.tests import planted
from suites.tests.bench import ENDS, Fake
from suites.tests.selections import LOCK
from suites.worker.pool import ROOT

MINIMAL = f"""
{LOCK}
class NoBackend(Mine):
    backend = None
class Half:
    backend = "redis"
    def open(*_): ...
class Wrong(Mine):
    min_ttl = -1.0
VALUE = 1
"""
EXCLUSION = "server-exclusion"
NO_NUMBERS = ("min_ttl", float("inf")), ("min_ttl", True), ("drift", 1.5), ("grain", -0.1), ("pace", "fast")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mylocks.py"
    path.write_text(MINIMAL)
    (tmp_path / "half.py").write_text("class Other: ...\nclass Half:\n    def open(*_): ...\n")
    return path


@pytest.mark.parametrize("name", registry.LOCKS)
def test_every_lock_declares_what_is_asked_of_it(name: str) -> None:
    cls = lock(name)
    assert 0 < cls.min_ttl <= 2
    assert 0 <= cls.drift < 0.1
    assert cls.grain < cls.min_ttl / 2
    assert cls.bounds.get("recovery", cls.min_ttl + 1) > cls.min_ttl, "a ghost lock may last a TTL"
    assert bool({claim.property for claim in cls.claims} & {"token-order", "fenced-store"}) == cls.tokens


@pytest.mark.parametrize("name", ["nope", "", "xyz:", ":Mine"])
def test_an_unknown_name_lists_what_exists(name: str) -> None:
    message = message_of(registry.UnknownLock, lock, name)
    assert all(known in message for known in registry.LOCKS)


@cases(
    "name, says",
    ("no package", "no.such.module:Mine", "no module no"),
    ("no module", "suites.nothing:Mine", "no module suites.nothing"),
    ("no class in a module", "suites.lock:Missing", "suites.lock has no class Missing"),
    ("no file", "/no/such/file.py:Mine", "no file /no/such/file.py"),
    ("misspelled", "reddis", "no lock 'reddis', and no module:Class or file.py:Class; did you mean redis "),
    ("no class", "{file}:VALUE", "no class VALUE"),
    ("no verbs", "{file}:Half", "no acquire, renew, release, close"),
    ("no backend", "{file}:NoBackend", "does not say which backend"),
    ("a file", "{file}", r"does not say which class.* locks in it: {file}:Mine, {file}:NoBackend, {file}:Wrong$"),
    ("no such class", "{file}:Mien", r"has no class Mien.* locks in it: {file}:Mine, {file}:NoBackend, {file}:Wrong$"),
    ("no lock in it", "{folder}/half.py", r"five verbs.*; Half has no acquire, renew, release, close$"),
    ("a wrong declaration", "{file}:Wrong", r"^{file}:Wrong: min_ttl = -1.0; "),
)
def test_the_answer_to_a_bad_lock_says_what_is_missing_or_what_exists(file: Path, name: str, says: str) -> None:
    with pytest.raises(registry.UnknownLock, match=says.replace("{file}", str(file))):
        lock(name.format(file=file, folder=file.parent))


def test_a_lock_in_a_file_is_loaded_and_gets_defaults_for_what_it_does_not_declare(file: Path) -> None:
    cls: type[LockClient] = lock(f"{file}:Mine")
    assert (cls.backend, cls.claims, cls.tokens) == ("redis", (), False)
    assert lock(f"{file}:Mine").__mro__[1] is cls.__mro__[1]


@cases(
    "text, told",
    ("import", "import json\nimport fencepost_is_not_there\n", "2 imports fencepost_is_not_there, which is not"),
    ("syntax", "x = 1\ndef (\n", "2: invalid syntax: def ("),
    ("name", "def f():\n    return nope\nf()\n", "2: NameError: name 'nope' is not defined"),
    ("exit", "raise SystemExit(3)\n", "1: SystemExit: 3"),
)
def test_an_error_inside_names_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, told: str) -> None:
    broken = tmp_path / "fencepost_broken.py"
    broken.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in (broken, broken, "fencepost_broken"):
        message = message_of(registry.UnknownLock, lock, f"{name}:Mine")
        assert f"cannot be loaded: {broken}:{told}" in message
        assert "\n" not in message
    assert not any(getattr(module, "__file__", None) == str(broken) for module in list(sys.modules.values()))


def test_the_fork_server_stays_light(file: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "suites.worker.forkserver", f"{file}:Mine"]
    done = subprocess.run(command, cwd=ROOT, input="", capture_output=True, text=True, check=True, timeout=ENDS)
    assert "suites.locks.registry" in done.stderr
    assert not any(heavy in done.stderr for heavy in ("suites.lanes.validate_declarations", "checkers.check", " click"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_paused_server_is_silent_for_longer_than_a_call_may_take(backend: str) -> None:
    locks = [lock for lock in map(registry.load, registry.LOCKS) if lock.backend == backend]
    bounds = [lock.bounds["fail-fast"] for lock in locks if "fail-fast" in lock.bounds]
    assert BACKENDS[backend].call == min(bounds)
    paused = {compile_plan(["pause-server"], seed, backend, ttl=0.5).steps[0].for_ for seed in range(30)}
    assert min(paused) > min(bounds)


def mistake(**said: object) -> str | None:
    return wrong(cast(type[LockClient], type("Mine", (Declarations, Fake), {"backend": "redis", **said})))


@cases(
    "said",
    ("nothing", {}),
    ("patterns", {"claims": (Claim(EXCLUSION, under=("none", "freeze-*")),)}),
    ("lists", {"claims": [Claim(EXCLUSION, under=())], "lanes": ["register/*"]}),
    ("a whole number", {"claims": (Claim("recovery"),), "bounds": {"recovery": 2}}),
    ("a bound of nothing", {"bounds": {"honest-belief": 0.0}}),
    ("permits", {"claims": (Claim("permits"),), "permits": 3}),
    ("a hazard", {"hazards": (Hazard(EXCLUSION, ("none",), "frozen-past-ttl"),)}),
    ("other names", {"min_ttl": 1, "token": None, "BASE_CLAIMS": ()}),
    ("a default", {"acquire": staticmethod(lambda name, timeout, extra=1: None)}),
    ("access", {"open": classmethod(lambda cls, endpoints, ttl, access=None: None)}),
    ("no sharing", {"acquire_shared": None}),
)
def test_a_valid_declaration_is_accepted(said: dict[str, object]) -> None:
    assert mistake(**said) is None


@cases(
    "said, told",
    ({"claims": (Claim("server-exclusoin", under=("freez-*",)),)}, "did you mean server-exclusion"),
    ({"claims": (Claim("server-exclusoin"),)}, "keeps exactly those"),
    ({"claims": (Claim(EXCLUSION, under=("none", "freez-*")),)}, "under: 'freez-*' matches no fault; did you mean"),
    ({"claims": (Claim(EXCLUSION, under=cast(Any, "freeze-*")),)}, "under = 'freeze-*'; it must be a tuple"),
    ({"claims": (Claim(EXCLUSION, stores=("unfence",)),)}, "'unfence' matches no store mode; did you mean unf"),
    ({"claims": (Claim(EXCLUSION, workloads=("sets",)),)}, "'sets' matches no workload; did you mean set"),
    ({"claims": Claim(EXCLUSION)}, "claims = (Claim(...),)"),
    ({"claims": ("server-exclusion",)}, "'server-exclusion', which is no Claim"),
    ({"claims": (Claim("recovery"),), "bounds": {}}, "Claim('recovery'): it would never be judged: it needs a bound"),
    ({"claims": (Claim("token-order"),)}, "it needs tokens = True"),
    ({"claims": (Claim("permits"),)}, "it needs permits above 1"),
    ({"claims": (Claim(EXCLUSION),), "permits": 2}, "a semaphore is asked for `permits` instead"),
    ({"claims": (Claim("fifo"),)}, "it needs fair = True"),
    ({"claims": (Claim("sharing"),)}, "it needs a method acquire_shared"),
    ({"claims": (Claim(EXCLUSION),), "excludes": False}, "it needs excludes = True"),
    ({"hazards": (Hazard("recovry", ("none",), "state-lost"),)}, "no such property; did you mean recovery"),
    ({"hazards": (Hazard(EXCLUSION, ("none",), "state-lots"),)}, "did you mean state-lost"),
    ({"hazards": (Hazard(EXCLUSION, (), "state-lost"),)}, "under is empty"),
    ({"bounds": {"server-exclusion": 2.0}}, "nothing is judged by a bound for 'server-exclusion'"),
    ({"bounds": {"recovery": "2s"}}, "'2s'; it must be a number of seconds, above 0"),
    ({"bounds": {"recovery": 0}}, "above 0"),
    ({"bounds": {"fail-fast": -1.0}}, "0 or more"),
    ({"bounds": {"fail-fast": float("nan")}}, "0 or more"),
    ({"bounds": ("recovery", 2.0)}, "it must be a dict"),
    ({"min_ttl": 0}, "above 0"),
    *(({name: value}, f"{name} = {value!r}") for name, value in NO_NUMBERS),
    ({"permits": 1.5}, "permits = 1.5"),
    ({"tokens": "yes"}, "tokens = 'yes'; it must be True or False"),
    ({"lease": "forever"}, "lease = 'forever'; there are: grant"),
    ({"backend": "mysql"}, "backend = 'mysql'; there are: redis"),
    ({"via": "pgbouncer"}, "via = 'pgbouncer'; nodes beside those of redis: redis1-replica"),
    ({"lanes": ("registr/*",)}, "lanes: 'registr/*' matches no lane; did you mean register/"),
    ({"lanes": "register/*"}, "it must be a tuple of patterns"),
    ({"lanes": ()}, "this lock can run in none"),
    ({"lanes": ("set/guarded",)}, "this lock can run in none of them"),
    ({"claim": (Claim(EXCLUSION),)}, "claim is no declaration; did you mean claims?"),
    ({"min_tll": 1}, "did you mean min_ttl?"),
    ({"open": lambda self, endpoints, ttl: None}, "its @classmethod missing?"),
    ({"open": classmethod(lambda cls, endpoints, ttl, *, access=None: None)}, "open(endpoints, ttl, access)"),
    ({"acquire": lambda self, name: None}, "acquire is called as acquire(name, timeout), and takes (self, name)"),
    ({"acquire_shared": lambda self: None}, "acquire_shared is called as"),
    ({"release": lambda self, grant, why: None}, "missing a required argument: 'why'"),
    ({"renew": lambda: None}, "renew is called as renew(grant), and takes ()"),
    ({"renew": asyncio.sleep}, "renew is async"),
    ({"close": lambda self, now: None}, "close is called as close()"),
)
def test_a_wrong_declaration_is_reported_in_one_line(said: dict[str, object], told: str) -> None:
    answer = there(mistake(**said))
    assert (told in answer, "\n" in answer) == (True, False)


OURS = planted.__name__
PLANTED = [f"{OURS}:{name}" for name, it in vars(planted).items() if isinstance(it, type) and it.__module__ == OURS]
TEXT: Final = (Path(__file__).parent.parent / "your-own-lock.md").read_text()
FIRST, *OPENS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
(DIFF,) = re.findall(r"```diff\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("name", [*(mutant.lock_name for mutant in catalogue().values()), *PLANTED])
def test_every_lock_with_a_planted_bug_has_valid_declarations(name: str) -> None:
    assert wrong(registry.load(name)) is None


def patched(source: str, diff: str) -> str:
    for hunk in re.split(r"^@@.*@@\n", diff, flags=re.MULTILINE)[1:]:
        lines = hunk.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] != "+")
        assert source.count(old) == 1, old
        source = source.replace(old, "".join(line[1:] for line in lines if line[0] != "-"))
    return source


def test_the_lock_of_the_guide_promises_nothing_and_its_fix_promises_what_the_guide_says(tmp_path: Path) -> None:
    first, mended = tmp_path / "first.py", tmp_path / "mended.py"
    first.write_text(FIRST)
    mended.write_text(patched(FIRST, DIFF))
    plain, promises = lock(f"{first}:MyLock"), lock(f"{mended}:MyLock")
    assert (plain.backend, plain.claims, plain.bounds) == ("redis", (), Declarations.bounds)
    assert promises.bounds == {**Declarations.bounds, "recovery": 2.0}
    assert {"churn", "leader"}.isdisjoint(it.workload.name for it in lanes_of("MyLock", plain)), "nothing is renewed"
    assert {claim.property for claim in promises.claims} == {"server-exclusion", "recovery"}
    for claim in promises.claims:
        for faults in (["none"], ["freeze-before-release"]):
            assert claim.covers(claim.property, faults, "unfenced", "set")


def test_the_guide_shows_how_to_open_a_lock_on_every_other_backend_and_names_all_that_a_class_may_say() -> None:
    takes = {}
    for shown in OPENS:
        assert ('lease = "session"' in shown or ', "session"\n' in shown) == ("def session(self)" in shown), shown
        (body,) = ast.parse(shown).body
        assert isinstance(body, ast.ClassDef)
        (opens,) = (one for one in body.body if isinstance(one, ast.FunctionDef) and one.name == "open")
        takes[shown.split('"')[1]] = [one.arg for one in opens.args.args[1:]]
    plain = ["endpoints", "ttl"]
    assert takes == {"postgres": [*plain, "access"], "zookeeper": plain, "etcd": plain}
    protocols = [kind for kind in vars(suites.lock).values() if getattr(kind, "_is_protocol", False)]
    names = {name for kind in protocols for name in (*vars(kind), *kind.__annotations__) if not name.startswith("_")}
    rows = re.findall(r"^\| (`.*?) \|", TEXT, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"\w+", row)} == names

"""What a lock says of itself is asked before anything runs: a mistake would otherwise be a promise nobody judges."""

import asyncio
from typing import Any, cast

import pytest

from checkers.claims import Claim, Hazard
from suites.lanes.validate_declarations import lock, wrong
from suites.lock import Declarations, LockClient
from suites.locks import registry
from suites.mutants.catalogue import catalogue
from suites.tests import leaky, planted


class Sound(Declarations):
    backend = "redis"

    @classmethod
    def open(cls, endpoints: Any, ttl: Any) -> None: ...
    def acquire(self, name: Any, timeout: Any) -> None: ...
    def renew(self, grant: Any) -> None: ...
    def release(self, grant: Any) -> None: ...
    def close(self) -> None: ...


def mistake(**said: object) -> str | None:
    return wrong(cast(type[LockClient], type("Mine", (Sound,), said)))


EXCLUSION = "server-exclusion"


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"claims": (Claim(EXCLUSION, under=("none", "freeze-*")),)},
        {"claims": [Claim(EXCLUSION, under=())], "lanes": ["register/*"]},
        {"claims": (Claim("recovery"),), "bounds": {"recovery": 2}},
        {"bounds": {"honest-belief": 0.0}},
        {"claims": (Claim("permits"),), "permits": 3},
        {"hazards": (Hazard(EXCLUSION, ("none",), "frozen-past-ttl"),)},
        {"min_ttl": 1, "token": None, "BASE_CLAIMS": ()},
        {"acquire": staticmethod(lambda name, timeout, extra=1: None)},
        {"open": classmethod(lambda cls, endpoints, ttl, access=None: None)},
        {"acquire_shared": None},
    ],
)
def test_what_can_be_meant_is_taken(said: dict[str, object]) -> None:
    assert mistake(**said) is None


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"claims": (Claim("server-exclusoin", under=("freez-*",)),)}, "did you mean server-exclusion"),
        ({"claims": (Claim("server-exclusoin"),)}, "keeps exactly those"),
        ({"claims": (Claim(EXCLUSION, under=("none", "freez-*")),)}, "under: 'freez-*' matches no fault; did you mean"),
        ({"claims": (Claim(EXCLUSION, under=cast(Any, "freeze-*")),)}, "under = 'freeze-*'; it must be a tuple"),
        ({"claims": (Claim(EXCLUSION, stores=("unfence",)),)}, "'unfence' matches no store mode; did you mean unf"),
        ({"claims": (Claim(EXCLUSION, workloads=("sets",)),)}, "'sets' matches no workload; did you mean set"),
        ({"claims": Claim(EXCLUSION)}, "claims = (Claim(...),)"),
        ({"claims": ("server-exclusion",)}, "'server-exclusion', which is no Claim"),
        ({"claims": (Claim("recovery"),)}, "Claim('recovery'): it would never be judged: it needs a bound"),
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
        ({"min_ttl": float("inf")}, "min_ttl = inf"),
        ({"min_ttl": True}, "min_ttl = True"),
        ({"drift": 1.5}, "drift = 1.5"),
        ({"grain": -0.1}, "grain = -0.1"),
        ({"pace": "fast"}, "pace = 'fast'"),
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
    ],
)
def test_what_cannot_be_meant_is_told_in_one_line(said: dict[str, object], told: str) -> None:
    answer = mistake(**said)
    assert answer is not None
    assert told in answer
    assert "\n" not in answer


@pytest.mark.parametrize("name", [*registry.LOCKS, *(mutant.lock_name for mutant in catalogue().values())])
def test_every_lock_of_ours_can_be_meant(name: str) -> None:
    assert wrong(registry.load(name)) is None


@pytest.mark.parametrize("module", [leaky, planted])
def test_those_that_stand_in_for_a_users_pass(module: Any) -> None:
    own = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
    locks = [one.__name__ for one in own if hasattr(one, "acquire")]
    assert locks
    for name in locks:
        lock(f"{module.__name__}:{name}")

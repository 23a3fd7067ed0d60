"""Compares leases with exhaustive search: all modes, blame, shared sessions, and the proofs of both verdicts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, permutations
from random import Random
from typing import Any, Final

import numpy as np

from checkers.check import check
from checkers.engines.lease_attempts import gather
from checkers.engines.lease_modes import BLIND, FULL, TOLD, UNREFUSED, in_order_of_tokens, pose
from checkers.engines.leases import BLAME, lease, solve
from checkers.history.history import History
from checkers.models.engine_answer import Conflict, EngineAnswer
from checkers.models.model import Settings, Unusable
from checkers.proofs.lease_least import certify as minimal
from checkers.proofs.lease_proof import certify
from checkers.row_format import NONE, F, Reason
from checkers.tests.batches import Batched, ended, names, sorted_history
from checkers.tests.brute_leases import MODES as IN_ORDER
from checkers.tests.brute_leases import Act, Case, possible
from checkers.tests.build import FACTS, Book, Disagreement, compare, sound
from checkers.tests.generate import nudged

SETTINGS = Settings()
MODES: Final = {"blind": BLIND, "told": TOLD, "unrefused": UNREFUSED, "full": FULL}
KINDS: Final = {
    "acquire": int(F.ACQUIRE), "renew": int(F.RENEW), "release": int(F.RELEASE), "believe": int(F.BELIEF),
    "open": int(F.SESSION_OPEN), "keep": int(F.KEEP_ALIVE), "close": int(F.SESSION_CLOSE),
}  # fmt: skip
APART: Final = 128  # more attempts, and sessions, than a history has; attempt 99 never asked


def single(rng: Random) -> Case:
    """Holds of one key, one after another, with leases of their own."""
    length = rng.randint(2, 5)
    clock = rng.randint(1, 3)
    wide = rng.choice((0, 1, 1, 3, 6))
    tokens = rng.random() < 0.3
    acts: list[Act] = []
    for attempt in range(1, rng.randint(2, 4) + 1):
        if len(acts) > 6:
            break
        a = clock + rng.choice((0, 0, 1, 2))
        inv, ret = _around(a, rng, wide)
        token = attempt if tokens else -1
        lost = rng.random() < 0.12
        acts.append(Act("acquire", "info" if lost else "ok", inv, ret, attempt, token=-1 if lost else token))
        end = a + length
        now = ret
        for _ in range(0 if lost else rng.choice((0, 0, 1, 1, 2))):
            now = max(now, rng.randint(now, max(now, end + rng.choice((-1, 0, 0, 2)))))
            spread = _around(now, rng, rng.choice((0, 1)), ret)
            held = now <= end
            outcome = rng.choice(("ok",) * 4 + ("info",)) if held else rng.choice(("fail", "fail", "ok"))
            acts.append(Act("renew", outcome, *spread, attempt))
            if held and outcome != "fail":
                end = max(end, now + length)
        if rng.random() < 0.55 or lost:
            now = rng.randint(now, max(now, end + rng.choice((-2, 0, 1))))
            outcome = rng.choice(("ok", "ok", "ok", "info")) if now <= end else rng.choice(("fail", "ok"))
            acts.append(Act("release", outcome, *_around(now, rng, rng.choice((0, 1, 2)), 1 if lost else ret), attempt))
            if outcome != "fail":
                end = min(end, now)
            if rng.random() < 0.1:
                later = now + rng.randint(0, 3)
                acts.append(Act("release", rng.choice(("ok", "fail")), *_around(later, rng, 1, ret), attempt))
        elif rng.random() < 0.2:
            later = end + rng.randint(-1, 2)
            acts.append(Act(rng.choice(("renew", "release")), "fail", *_around(max(later, ret), rng, 1, ret), attempt))
        if rng.random() < 0.2:
            q = ret + rng.randint(0, 8)
            acts.append(Act("believe", "ok", q, q, attempt))
        clock = max(1, max(end, a) + (rng.choice((-3, -2, -1)) if rng.random() < 0.35 else 0))
    if rng.random() < 0.04:
        acts.append(Act(rng.choice(("renew", "release")), rng.choice(("ok", "fail")), *_around(clock, rng, 1), 99))
    return _case(_nudged(acts, rng), "grant", length)


def shared(rng: Random, kind: str) -> Case:
    """Sessions that hold several keys, and end all that they hold at once."""
    length = rng.randint(1, 4)
    acts: list[Act] = []
    sessions = rng.randint(1, 3)
    keys = rng.randint(1, 2) if sessions > 1 else 2
    attempt = 0
    free = [0] * keys
    for session in range(1, sessions + 1):
        clock = rng.randint(1, 6)
        end = clock + length
        if rng.random() < 0.6:
            acts.append(Act("open", "ok", *_around(clock, rng, rng.choice((0, 1))), session=session))
        for _ in range(rng.randint(1, 3)):
            if len(acts) > 6:
                break
            deed = rng.random()
            if deed < 0.6:
                key = rng.randrange(keys)
                attempt += 1
                clock = max(clock, free[key] + (rng.choice((-2, -1)) if rng.random() < 0.3 else 0))
                inv, ret = _around(clock, rng, rng.choice((0, 1, 3)))
                acts.append(Act("acquire", rng.choice(("ok",) * 9 + ("info",)), inv, ret, attempt, key, session))
                end = max(end, clock + length) if kind == "touch" else max(end, clock)
                held = end
                clock = max(clock, ret)
                if rng.random() < 0.5:
                    clock += rng.randint(0, 3)
                    outcome = rng.choice(("ok", "ok", "info", "info", "fail"))
                    acts.append(
                        Act("release", outcome, *_around(clock, rng, rng.choice((0, 1)), ret), attempt, key, session)
                    )
                    held = min(held, clock) if outcome != "fail" else held
                free[key] = max(free[key], held)
            elif deed < 0.9:
                clock += rng.randint(0, 3)
                outcome = rng.choice(("ok", "ok", "info")) if clock <= end else rng.choice(("fail", "ok"))
                acts.append(Act("keep", outcome, *_around(clock, rng, rng.choice((0, 1))), session=session))
                end = max(end, clock + length)
            else:
                clock += rng.randint(0, 2)
                acts.append(Act("close", rng.choice(("ok", "info")), *_around(clock, rng, 1), session=session))
                end = min(end, clock)
            clock += rng.choice((0, 1, 3))
    if not any(act.f == "acquire" for act in acts):
        acts.append(Act("acquire", "ok", 3, 4, 1, 0, 1))
    return _case(_nudged(acts, rng), kind, length)


def _around(moment: int, rng: Random, width: int, least: int = 1) -> tuple[int, int]:
    inv = max(moment - rng.randint(0, width), least, 1)
    return inv, max(moment + rng.randint(0, width), inv)


def _nudged(acts: list[Act], rng: Random) -> list[Act]:
    if rng.random() < 0.4 and acts:
        n = rng.randrange(len(acts))
        acts[n] = nudged(acts[n], rng)
    return [act._replace(ret=act.inv) if act.outcome == "info" else act for act in acts]


def _case(acts: list[Act], kind: str, length: int) -> Case:
    """The acts as a case. Acts for which a client waits for an answer are moved behind it; some do not wait."""
    acquired = {act.attempt: act for act in acts if act.f == "acquire"}
    opened = {act.session: act for act in acts if act.f == "open"}
    fine = []
    for act in acts:
        first = acquired.get(act.attempt) if act.f in ("renew", "release") else opened.get(act.session)
        if act.f == "acquire" or first is None or first is act:
            fine.append(act)
            continue
        early = first.outcome == "info" or (act.f in ("keep", "close") and act.inv % 2)  # some do not wait
        inv = max(act.inv, first.inv if early else first.ret)
        fine.append(act._replace(inv=inv, ret=max(act.ret, inv)))
    fine.sort(key=lambda act: act.inv)
    case = Case(tuple(fine), kind, length)
    return replace(case, ordered=_by_token(case))


def _by_token(case: Case) -> bool:
    """Whether the tokens of all grants give their order."""
    released = {act.attempt for act in case.acts if act.f == "release" and act.outcome == "ok"}
    grants = [a for a in case.acts if a.f == "acquire" and (a.outcome == "ok" or a.attempt in released)]
    known = {act.attempt for act in grants}
    strange = [a for a in case.acts if a.f in ("renew", "release") and a.outcome == "ok" and a.attempt not in known]
    if strange or any(act.token < 0 or act.outcome != "ok" for act in grants):
        return False
    return not any(a.token == b.token or (a.token > b.token and a.ret < b.inv) for a, b in permutations(grants, 2))


def history_of(case: Case, owners: dict[int, int] | None = None) -> History:
    """The case as a history, with rows in the order of its acts."""
    keys = max((act.key for act in case.acts), default=0) + 1
    book = Book(keys=tuple("abcdef"[:keys]), lease=case.kind, ttl=case.length)
    book.rows += rows_of(case, 0, 0, owners)
    return book.history()


def rows_of(case: Case, key: int, apart: int, owners: dict[int, int] | None = None) -> Iterator[tuple[Any, ...]]:
    """The rows in the form of `history.DTYPE`. key: the first key; apart: a number added to all owners and sessions."""
    for act in case.acts:
        owner = 0 if act.f in ("open", "keep", "close") else (owners or {}).get(act.attempt, act.attempt) + apart
        session = act.session + apart if act.session else 0
        ret = 0 if act.outcome == "info" else act.ret
        who = act.token, owner, NONE, NONE, session, owner
        yield act.inv, ret, 0, 0, *who, 0, key + act.key, KINDS[act.f], *ended(act.outcome, Reason.NOT_OWNER), 0


def asked(rng: Random, *, kind: str) -> Case:
    return single(rng) if kind == "grant" else shared(rng, kind)


def in_mode(history: History, mode: str) -> EngineAnswer:
    attempts = gather(history, SETTINGS)
    problem, who = pose(attempts, MODES[mode], ordered=in_order_of_tokens(attempts))
    solution = solve(problem)
    conflicts = tuple(
        Conflict(BLAME[MODES[mode]], key, tuple(attempts.rows[who[list(grants)]].tolist()))
        for key, grants in solution.conflicts.items()
    )
    return EngineAnswer(conflicts, dict(solution.undecided), lambda: np.zeros(0, np.int64))


def in_one_mode(some: Sequence[Case], *, name: str) -> list[str]:
    """Judges the cases in one mode, as one history in which each case has its own keys, owners and sessions."""
    rows: list[tuple[Any, ...]] = []
    mine: list[int] = []  # key → the number of its case
    for n, case in enumerate(some):
        rows += rows_of(case, len(mine), APART * n)
        mine += [n] * (max((act.key for act in case.acts), default=0) + 1)
    facts = replace(FACTS, keys=names(len(mine)), lease=some[0].kind, ttl=some[0].length)
    answer = in_mode(sorted_history(facts, rows)[0], name)
    undecided = {mine[key] for key in answer.undecided}
    bad = {mine[conflict.key] for conflict in answer.conflicts}
    return [
        "undecided" if n in undecided else compare(n not in bad, possible(case, name), (name, case))
        for n, case in enumerate(some)
    ]


def _one_mode(kind: str, name: str) -> Batched[Case]:
    most = 1_000 if kind == "grant" else 60  # a key in doubt is judged together with the sessions of all keys
    judge = partial(in_one_mode, name=name)
    return Batched(partial(asked, kind=kind), lambda case: (case.kind, case.length), judge, most)


def blame(rng: Random, *, kind: str) -> str:
    """Compares the verdict, its blame and its proof. The first impossible mode is to blame."""
    case = asked(rng, kind=kind)
    history = history_of(case)
    answer = lease(history, SETTINGS)
    if answer.undecided:
        return "undecided"
    truth = {name: possible(case, name) for name in IN_ORDER}
    for weaker, stronger in pairwise(IN_ORDER):
        if truth[stronger] and not truth[weaker]:
            raise Disagreement(f"{stronger} is possible and {weaker} is not:\n{case}")
    if not answer.conflicts:
        compare(True, truth["full"], case)
        wrong = certify(history, SETTINGS, True, answer.order().tolist())
        if wrong is not None:
            raise Disagreement(f"the proof of validity fails, {wrong}: {answer.order()}\n{case}")
        return "valid"
    compare(False, truth["full"], case)
    first = next(name for name in IN_ORDER if not truth[name])
    kinds = {conflict.kind for conflict in answer.conflicts}
    if kind == "grant" and kinds != {BLAME[MODES[first]]}:
        raise Disagreement(f"{kinds} are blamed, {first} is the first that is impossible:\n{case}")
    for conflict in answer.conflicts:
        wrong = certify(history, SETTINGS, False, conflict.rows)
        if wrong is not None:
            raise Disagreement(f"the proof of invalidity fails, {wrong}: {conflict}\n{case}")
        acts = tuple(case.acts[row] for row in conflict.rows)
        if kind == "grant" and possible(replace(case, acts=acts), first):
            raise Disagreement(f"{conflict} is possible under {first}:\n{case}")
        if minimal(history, SETTINGS, False, conflict.rows) is None:
            _none_to_spare(case, acts)
    return f"invalid, {first}"


def _none_to_spare(case: Case, acts: tuple[Act, ...]) -> None:
    """Raises Disagreement if an attempt with its acts, or an act that can have ended nothing, can be spared."""
    for act in acts:
        if act.f == "acquire":
            rest = tuple(other for other in acts if other.attempt != act.attempt)
        elif act.f in ("release", "close") and act.outcome != "fail":
            continue
        else:
            rest = tuple(other for other in acts if other is not act)
        if not possible(replace(case, acts=rest), "full"):
            raise Disagreement(f"{act} can be spared of {acts}:\n{case}")


def across_keys(rng: Random, *, kind: str) -> str:
    """The property that clients rely on, on shared sessions. It must never raise a false alarm."""
    case = shared(rng, kind)
    (result,) = check(history_of(case), ["server-exclusion"])
    return sound(result.valid, possible(case, "told"), case)


def reused(rng: Random) -> str:
    """Owners that acquire again, judged as if each attempt had its own owner, or refused if attempts are not clear."""
    case = single(rng)
    owners = {act.attempt: rng.randint(1, 2) for act in case.acts}
    clear = _clear(case, owners)
    try:
        answer = lease(history_of(case, owners), SETTINGS)
    except Unusable:
        if clear:
            raise Disagreement(f"refused, though it is clear whose everything is:\n{owners}\n{case}") from None
        return "refused"
    if clear is None:
        return "taken for another's"
    if not clear:
        raise Disagreement(f"judged, though it is not clear whose everything is:\n{owners}\n{case}")
    return compare(not answer.conflicts, possible(case, "full"), (owners, case))


def _clear(case: Case, owners: dict[int, int]) -> bool | None:
    """Whether each owner's attempts follow one another and leave nothing unanswered. None: they only seem to."""
    result: bool | None = True
    for owner in set(owners.values()):
        mine = [act for act in case.acts if owners[act.attempt] == owner and act.f != "believe"]
        now = None
        while mine and mine[0].f != "acquire" and mine[0].outcome == "fail":
            mine = mine[1:]
        for n, act in enumerate(mine):
            if act.f == "acquire":
                if any(a.end > act.inv for a in mine[:n] if a.f != "renew" or a.outcome != "info"):
                    return False
                now = act.attempt
            elif now not in (None, act.attempt):
                result = None
    return result


CHECKS: dict[str, Callable[[Random], str]] = {
    **{f"lease-{name}": _one_mode("grant", name) for name in MODES},
    **{f"lease-{kind}-{name}": _one_mode(kind, name) for kind in ("session", "touch") for name in ("told", "full")},
    "lease-blame": partial(blame, kind="grant"),
    **{f"lease-blame-{kind}": partial(blame, kind=kind) for kind in ("session", "touch")},
    "lease-owners": reused,
    **{f"server-exclusion-{kind}": partial(across_keys, kind=kind) for kind in ("session", "touch")},
}

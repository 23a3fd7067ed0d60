"""The contents of a service's members are compared with each other and with the answers that clients got."""

from dataclasses import asdict
from typing import Any, get_args

import pytest
from msgspec import convert

from checkers.claims import Hazard, Verdict
from checkers.history.history import Contents, Entry, Facts, FaultInterval, Outage
from checkers.properties.members_agree import unexplained
from checkers.tests.build import GOOD, VALID, VIOLATED, Book, known
from infra.faults.target import Kind


def contents(member: str, at: int, number: int, *entries: Entry, whole: str = "") -> Contents:
    return Contents(member, at, at, number, number, entries, whole)


def key(created: int, changed: int = 0, *, name: str = "k", value: str = "") -> Entry:
    return Entry(name, created, changed or created, 0, value)


def look(*held: Contents, **facts: Any) -> Book:
    """Change 7 grants worker 1 the lock, with a lease until 41. Worker 1 releases the lock at 50."""
    return Book(keys=("a",), ttl=40, looks=(held,), **facts).acquire(1, 3, 1, token=7).release(50, 52, 1)


def same(*entries: Entry, at: int = 10, number: int = 9, **more: Any) -> Book:
    return look(*(contents(member, at + step, number, *entries) for step, member in enumerate("xyzx")), **more)


def second(*entries: Entry, number: int = 9) -> Book:
    """The second of three members holds `entries`; the other two hold the grant."""
    held = (("x", (key(7),)), ("y", entries), ("z", (key(7),)), ("x", (key(7),)))
    return look(*(contents(member, 10 + step, number, *there) for step, (member, there) in enumerate(held)))


def plain(before: str, other: str, after: str) -> Book:
    """Members x, y and x hold these keys, one for each character, without change numbers. Nobody writes any more."""
    entries = [tuple(Entry(name, 0, 0, 0, name.lower()) for name in names) for names in (before, other, after)]
    held = [Contents(who, at, at, 0, 5, there) for at, (who, there) in enumerate(zip("xyx", entries, strict=True), 60)]
    return look(*held)


def between(*entries: Entry) -> Book:
    """Member y holds `entries` at change 12. Member x is asked before and after that, and holds nothing."""
    return look(contents("x", 10, 9), contents("y", 11, 12, *entries), contents("x", 12, 13))


def differ(*told: str, **more: int) -> dict[str, object]:
    return {"kind": "members-differ", "word": Verdict.VIOLATED, "told": told, **more}


OTHER_DIGEST = look(contents("x", 10, 9), contents("y", 11, 9, whole="1"), contents("x", 12, 9, whole="2"))
NEVER = look(contents("x", 10, 9), contents("y", 11, 9, whole="1 since -1"), contents("x", 12, 9, whole="2 since -1"))
BEHIND = look(contents("x", 10, 9), contents("y", 11, 8, whole="none"), contents("x", 12, 9, whole="2 since 5"))
COMPACTED = look(contents("x", 10, 9), contents("y", 11, 9, whole="1 since 4"), contents("x", 12, 9, whole="2 since 5"))

test_members_hold_the_same = known(
    "members-agree",
    ("all alike", same(key(7)), {**GOOD, "looks at all members": 1, "entries compared": 2, "word": Verdict.UPHELD}),
    ("nothing", same(), VALID),
    ("nobody asked", Book().acquire(1, 2, 1).release(3, 4, 1), {"unexercised": "the members were not asked"}),
    ("a live key is gone on one", second(), {"kinds": ["members-differ", "grant-not-kept"]}),
    ("it is told who lacks it", second(key(12), number=12), {"kinds": ["members-differ", "grant-not-kept"]}),
    ("an older value", second(key(7, value="old")), differ("(y: change 7, value old; x and z:", at=11)),
    ("a key beside it", second(key(7), key(3, name="l")), differ("l (y: change 3; x and z: nothing)")),
    ("a key of a later time", between(key(12)), VALID),
    ("made before, changed since", between(key(5, 12)), differ(at=11)),
    ("a member that cannot have known it", look(contents("x", 10, 6), contents("x", 11, 8, key(8))), VALID),
)

test_members_have_the_same_past = known(
    "members-agree",
    ("another digest", OTHER_DIGEST, differ("the digest of all changes (y: 1; x: 2)", at=11)),
    ("of other changes", COMPACTED, VALID),
    ("one that lacks changes has none", BEHIND, differ("the digest of all changes (y: none; x: 2 since 5)", at=11)),
    ("of another version", OTHER_DIGEST.then(versions={"x": "3.5", "y": "3.4"}), VALID),
    ("of members that had several versions", OTHER_DIGEST.then().fault("roll-version", 1, 2, kind="version"), VALID),
    ("and never compacted", NEVER.then(versions={"x": "3.5", "y": "3.4"}), differ("the digest of all changes", at=11)),
)

test_members_without_change_numbers_may_differ_only_by_a_change_meanwhile = known(
    "members-agree",
    ("the replica lacks a key", plain("ab", "a", "ab"), differ("b (x: value b; y: nothing)")),
    ("the replica has a key more", plain("a", "ab", "a"), differ("b (x: nothing; y: value b)")),
    ("a lease ends first on the replica", plain("ab", "a", "a"), VALID),
    ("a lease ends after it was asked", plain("ab", "ab", "a"), VALID),
    ("a late write comes after the replica was asked", plain("a", "a", "ab"), VALID),
    ("a late write comes before", plain("a", "ab", "ab"), VALID),
)

test_members_hold_granted_locks_and_no_released_ones = known(
    "members-agree",
    ("a grant in force is nowhere", same(key(8), at=20).acquire(2, 4, 2, token=8), {"kinds": ["grant-not-kept"] * 4}),
    ("its lease may be over", same(key(8), at=39).acquire(2, 4, 2, token=8), VALID),
    ("it was granted meanwhile", same(key(8), at=2).acquire(1, 1, 2, token=8), VALID),
    ("tokens are no numbers of changes", same(key(80), number=90), VALID),
    ("a changed key is still that grant", same(key(7, 8)), VALID),
    ("released while they were asked", same(key(7), at=51), VALID),
    ("released before", same(key(7), at=53), {"kinds": ["released-grant-kept"] * 4}),
    ("released before, on one alone", look(contents("x", 60, 9), contents("y", 61, 9, key(7))), {"valid": False}),
    ("released, and changed by another", same(key(7, 8), at=53), VALID),
)


def beside(*held: tuple[tuple[str, ...], tuple[str, ...]]) -> Book:
    """For each member: the keys beside the locks that it lacks, of five, and the removed keys that it still holds."""
    return look(*(Contents(who, 20, 20, 9, 9, (), "", 5, *each) for who, each in zip("xyzx", held, strict=True)))


WHOLE = ((), ())
LOST = ("a member lacked acknowledged writes to keys beside the locks: y lacked 4, y lacked 5 and 1 more.",)

test_members_hold_all_keys_written_beside_the_locks_and_no_removed_ones = known(
    "members-agree",
    ("all of it", beside(WHOLE, WHOLE, WHOLE, WHOLE), {**GOOD, "writes beside the locks compared": 10}),
    ("some are lost", beside(WHOLE, (("4", "5", "6"), ()), WHOLE, WHOLE), {"kind": "write-not-kept", "told": LOST}),
    ("lost on the first", beside((("4",), ()), WHOLE, WHOLE, (("4",), ())), {"kinds": ["write-not-kept"]}),
    ("a removed one is there", beside(WHOLE, WHOLE, ((), ("1",)), WHOLE), {"kind": "removed-write-kept"}),
)

LACKED = {"kind": "grant-not-kept", "owners": (1,), "told": (" token 7 at ", "x lacked worker 1's, with token 7")}
KEPT = {"kind": "released-grant-kept", "owners": (1,), "told": ("released at", "x still held worker 1's, with token 7")}

test_the_story_names_member_and_grant = known(
    "members-agree",
    ("in force", look(contents("x", 10, 9, key(8))).acquire(2, 4, 2, token=8), LACKED),
    ("released", look(contents("x", 60, 9, key(7))), KEPT),
)


def ended(status: int | None = 2, waited: int = 0, **facts: Any) -> Book:
    return same(key(7), outages=(Outage("y", 20, status, "torn", waited),), **facts)


HIT, EARLY = {"kind": "kill", "target": "x, y"}, (Hazard("members-agree", ("p",), "revoked-early"),)
BY_ITSELF = {"kind": "member-ended", "at": 20, "told": ("y ended with exit status 2, and no fault explains it; its",)}
ENDS = ("y did not serve again within 60 s after the heal: it ended with exit status 2 each time that it was started;",)
RUNS = ("after the heal: it ran; its last words: torn.", "It costs no data, only time.")

test_members_serve_and_do_not_end_by_themselves = known(
    "members-agree",
    ("one ended", ended(), {**BY_ITSELF, "word": Verdict.VIOLATED}),
    ("a fault ended it", ended().fault("f", 15, 25, **HIT), {**VALID, "ends of members by themselves": 1}),
    ("no weakness did", ended(hazards=EARLY, fault_names=("p",)).fault("p", 1, 9, kind="pause"), VIOLATED),
    ("one is gone", ended(2, 60 * 10**9).fault("f", 1, 0, **HIT), {"kind": "member-gone", "told": ENDS}),
    ("it runs", ended(None, 60 * 10**9), {"kind": "member-gone", "told": RUNS}),
    ("of one member", Book(outages=()).acquire(1, 2, 1).release(3, 4, 1), {**GOOD, "word": Verdict.UPHELD}),
)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_a_fault_explains_an_end_of_the_member_that_it_hit_until_it_is_undone(kind: str) -> None:
    until = 50 if kind in ("disk", "clock", "failover", "version", "refuse") else 0
    until = 40 if kind in ("pause", "kill", "restart", "wipe") else until
    every = [Outage(member, at, 1, "") for member in ("y", "y-replica") for at in range(60)]
    for healed, over in ((50, until), (0, until and 60)):
        hit = FaultInterval("f", kind, "x, y (leader) after 9 writes", 20, 25, 40 if healed else 0, healed)
        explained = {(each.member, each.at) for each in every} - {(e.member, e.at) for e in unexplained(every, [hit])}
        assert explained == {("y", at) for at in range(20, over + 1) if at < 60}


def test_contents_of_members_are_read_back_as_they_were_stored() -> None:
    facts = ended().facts
    assert convert(asdict(facts), Facts) == facts


@pytest.mark.parametrize("damage", [{"member": 5}, {"entries": [{"name": "k"}]}, {"last": "9"}])
def test_damaged_contents_are_refused(damage: dict[str, object]) -> None:
    data = asdict(same(key(7)).facts)
    first, damaged, *others = data["looks"][0]
    data["looks"] = [[first, {**damaged, **damage}, *others]]
    with pytest.raises(ValueError, match=r"looks|Expected|missing"):
        convert(data, Facts)

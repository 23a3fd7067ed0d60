"""`members-agree`: the members of a service serve, hold the same entries of the locks, and what they told the clients.

No member ends unless a fault ends it, and after the heal each serves again.

The members are asked one after another, each once it has every change that was acknowledged before; clients may go on
meanwhile. What a later member holds, and an earlier member must have known, the earlier member must hold as well. Also
judged are grants whose tokens are numbers of changes, and keys that a client wrote beside the locks. Source:
checkers/CONDITIONS.md, section 14.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final, NamedTuple
from urllib.parse import unquote

from checkers.history.counting import grouped
from checkers.history.finding import Finding
from checkers.history.foreign_values import shown
from checkers.history.history import Contents, Entry, Facts, FaultInterval, Outage
from checkers.history.holds_and_lease_ends import Hold
from checkers.history.view import View
from checkers.properties.property import Examined, Property
from checkers.properties.shared_counters import Exercise, fault_missed
from checkers.properties.story_sentences import listing
from checkers.row_format import NONE

LOOKS: Final = "looks at all members"
COMPARED: Final = "entries compared"
BESIDE: Final = "writes beside the locks compared"
ENDED: Final = "ends of members by themselves"
UNTIL_HEALED: Final = ("disk", "clock", "version", "refuse", "failover")
UNTIL_STARTED: Final = ("kill", "restart", "wipe", "pause")
"""Kinds of faults under which a server may end: until it serves as before; until it is started, or let go on."""
WORDS: Final = 200  # how many characters of a server's log a story repeats
NAMED: Final = 2  # how many entries a story names; it says how many others there are


class Disagreement(NamedTuple):
    """One disagreement in a look. rows: the acquires concerned. what: one text for each entry or grant."""

    at: int
    kind: str
    rows: tuple[int, ...]
    what: tuple[str, ...]


def _examine(view: View) -> Examined:
    looks = view.facts.looks
    others = [contents for look in looks for contents in look[1:-1]]
    counters = {LOOKS: len(looks), COMPARED: sum(len(contents.entries) for contents in others)}
    if beside := sum(contents.beside for contents in others):
        counters[BESIDE] = beside
    if outages := view.facts.outages:
        counters[ENDED] = sum(not outage.waited for outage in outages)
    ends = (_outage(view, outage) for outage in unexplained(outages or (), view.history.faults))
    findings = [*_disagreements(view), *ends]
    judged = looks or outages is not None  # a service of one member has nobody to agree with
    return Examined(findings, counters, unjudged=None if judged else "the members were not asked")


def _exercise(view: View) -> Exercise:
    return Exercise(fault_missed(view) if len(view.holds) else "nobody was granted the lock", {})


def unexplained(outages: Iterable[Outage], faults: Iterable[FaultInterval]) -> list[Outage]:
    """The outages that no fault explains. A fault explains an end of a member that it hit, until it is undone; none
    explains that a member does not serve after the heal. Faults on links, and maintenance, explain no end.
    """
    ends = [(fault, fault.over) for fault in faults if fault.kind in UNTIL_HEALED]
    ends += [(fault, fault.healing or fault.over) for fault in faults if fault.kind in UNTIL_STARTED]

    def by(fault: FaultInterval, over: int, outage: Outage) -> bool:
        return fault.begun <= outage.at <= over and outage.member in re.findall(r"[\w-]+", fault.target)

    return [each for each in outages if each.waited or not any(by(*end, each) for end in ends)]


def _outage(view: View, outage: Outage) -> Finding:
    kind, how = "member-ended", "ran" if outage.status is None else f"ended with exit status {outage.status}"
    what = f"at {view.clock(outage.at)} {outage.member} {how}, and no fault explains it"
    if outage.waited:
        again = " each time that it was started" * (outage.status is not None)
        waited = f"{outage.waited / 1e9:.0f} s after the heal"
        kind, what = "member-gone", f"{outage.member} did not serve again within {waited}: it {how}{again}"
    end = f"{what}; its last words: {shown(outage.words, WORDS)}"
    return Finding(kind, outage.at, (), (), f"So {end}{'' if end.endswith('.') else '.'}")


def _disagreements(view: View) -> list[Finding]:
    by_token = grouped((hold for hold in view.holds if hold.token != NONE), lambda hold: hold.token)
    looks = view.facts.looks
    numbered = any(entry.created in by_token for look in looks for contents in look for entry in contents.entries)
    mixed = any(fault.kind == "version" for fault in view.history.faults)
    wrong = [each for look in looks for each in (*_between_members(look, view.facts, mixed=mixed), *_beside(look))]
    if numbered:
        wrong += (each for look in looks for each in _against_grants(view, look, by_token))
    return [Finding(each.kind, each.at, each.rows, each.rows, _conclusion(view, each)) for each in sorted(wrong)]


def _between_members(look: Sequence[Contents], facts: Facts, *, mixed: bool) -> Iterator[Disagreement]:
    """Disagreements on entries, and on digests of the same changes. mixed: whether members had several versions during
    the trial. Digests may differ then if something was compacted, and in runs that earlier releases stored.
    """
    lacking = list(_lacking(look))
    if lacking:
        names = dict.fromkeys(entry.name for _, _, entry in lacking)
        at = min(max(first.answered, second.answered) for first, second, _ in lacking)
        yield Disagreement(at, "members-differ", (), tuple(_variants(name, look, facts.keys) for name in names))
    last, last_since = look[-1], look[-1].whole.partition(" since ")[2]
    for contents in look[1:-1]:
        since = contents.whole.partition(" since ")[2]
        of_the_same = since in ("", last_since)  # else one compacted meanwhile
        alike = not mixed and facts.versions.get(contents.member) == facts.versions.get(last.member)
        if contents.whole not in ("", last.whole) and of_the_same and (alike or last_since == "-1"):
            what = f"the digest of all changes ({contents.member}: {contents.whole}; {last.member}: {last.whole})"
            yield Disagreement(contents.answered, "members-differ", (), (what,))


def _variants(name: str, look: Sequence[Contents], keys: Sequence[str]) -> str:
    """Which members held what under a name; what the fewest members held is first. keys: the names of the locks."""
    held = {of.member: next((entry for entry in of.entries if entry.name == name), None) for of in look}
    forms = {entry and (entry.changed, entry.value) for entry in held.values()}
    numbered = len(forms) == len({form and form[0] for form in forms})  # else the number of a change is not enough

    def variant(entry: Entry | None) -> str:
        if entry is None:
            return "nothing"
        change = f"change {entry.changed}" * (entry.changed > 0)
        return change if change and numbered else ", ".join(filter(None, (change, f"value {entry.value}")))

    by_variant = grouped({member: variant(entry) for member, entry in held.items()}.items(), lambda item: item[1])
    variants = sorted(by_variant.items(), key=lambda item: len(item[1]))
    lock = max((key for key in keys if key and key in unquote(name)), key=len, default="")
    which = "the lock" if len(keys) == 1 else f"lock {keys.index(lock) + 1}" if lock else ""
    shown = f"an entry of {which}" if lock else name
    return f"{shown} ({'; '.join(f'{listing([who for who, _ in members])}: {what}' for what, members in variants)})"


def _lacking(look: Sequence[Contents]) -> Iterator[tuple[Contents, Contents, Entry]]:
    """(member that lacks the entry, other member that holds it, entry)."""
    for earlier, later in combinations(look, 2):
        for entry in _unknown(later, earlier):
            known = _numbered_before(entry, earlier) if entry.changed else _there_all_the_while(entry, later, look)
            if known:
                yield earlier, later, entry
        if 0 < later.last <= earlier.first:
            yield from ((later, earlier, entry) for entry in _unknown(earlier, later))


def _numbered_before(entry: Entry, earlier: Contents) -> bool:
    """Whether a member that lacks an entry knew its last change, or knew its creation and has no form of it."""
    if entry.changed <= earlier.first:
        return True
    made = (entry.name, entry.created)
    return entry.created <= earlier.first and all((each.name, each.created) != made for each in earlier.entries)


def _there_all_the_while(entry: Entry, later: Contents, look: Sequence[Contents]) -> bool:
    """Whether a difference in an entry without numbers counts, when nobody writes. If the first member holds the entry
    in the end, it must have held it before, too; if another member holds it, the first must lack it in the end. Other
    differences may come from requests that were under way, or from leases that ended.
    """
    first, last = look[0], look[-1]
    return entry in first.entries if later is last else entry not in last.entries


def _unknown(holder: Contents, other: Contents) -> Iterator[Entry]:
    """The entries that one member holds, and another does not."""
    there = set(other.entries)
    return (entry for entry in holder.entries if entry not in there)


def _beside(look: Sequence[Contents]) -> Iterator[Disagreement]:
    """Keys beside the locks that a member lacks though they must be there, or holds after an acknowledged removal."""
    for contents in look[1:]:
        lost = ("write-not-kept", contents.lost, "lacked")
        for kind, names, word in (lost, ("removed-write-kept", contents.undead, "still held")):
            if names:
                what = tuple(f"{contents.member} {word} {name}" for name in names)
                yield Disagreement(contents.answered, kind, (), what)


def _against_grants(
    view: View, look: Sequence[Contents], by_token: Mapping[int, Sequence[Hold]]
) -> Iterator[Disagreement]:
    """Disagreements of members with what clients were told: a grant is the change whose number is its token."""
    begun, over = look[0].asked, look[-1].answered
    every = [hold for holds in by_token.values() for hold in holds]
    in_force = [hold for hold in every if hold.ret <= begun and hold.lost < 0 and hold.core_end > over]
    released = {token: holds for token, holds in by_token.items() if all(hold.freed <= begun for hold in holds)}
    for contents in look:
        numbers = {number for entry in contents.entries for number in (entry.created, entry.changed)}
        gone = [hold for hold in in_force if hold.token not in numbers]
        unchanged = (entry.created for entry in contents.entries if entry.created == entry.changed)
        kept = [hold for number in unchanged for hold in released.get(number, ())]
        for kind, holds, word in (("grant-not-kept", gone, "lacked"), ("released-grant-kept", kept, "still held")):
            for hold in holds:
                what = f"{contents.member} {word} {view.who(hold.process)}'s, with token {hold.token}"
                yield Disagreement(contents.answered, kind, (hold.row,), (what,))


def _conclusion(view: View, wrong: Disagreement) -> str:
    more = (f"{len(wrong.what) - NAMED} more",) if len(wrong.what) > NAMED else ()
    what = {
        "members-differ": "the members differed in",
        "grant-not-kept": "a member lacked a grant that was in force:",
        "released-grant-kept": "a member still held a grant whose release had been acknowledged:",
        "write-not-kept": "a member lacked acknowledged writes to keys beside the locks:",
        "removed-write-kept": "a member still held keys beside the locks whose removal had been acknowledged:",
    }[wrong.kind]
    return f"So at {view.clock(wrong.at)} {what} {listing([*wrong.what[:NAMED], *more])}."


MEMBERS_AGREE: Final = Property("members-agree", _examine, _exercise, of_the_service=True, final=True)

"""Tells findings in words: the story of a violation is a list of sentences, with seconds since `View.zero`.

Each sentence tells one event, and they stand in order of time: a fault, a grant, the end of a lease, an access, a
release. The last one, the conclusion, says what was broken and what that costs.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from checkers.history.counting import grouped
from checkers.history.finding import Finding
from checkers.history.holds_and_lease_ends import Hold
from checkers.history.view import View
from checkers.properties.check_result import Violation
from checkers.properties.conclusions import CONCLUSIONS, COSTS
from checkers.properties.shared_counters import ending, stalls_by_worker
from checkers.properties.story_sentences import FaultTeller, Sentence, listing
from checkers.row_format import ACQUIRES, FINAL, INFINITY, LATE, NESTED, NONE, OF_SESSIONS, SHARED, F, Outcome, Reason

FULL_STORIES: Final = 50  # how many violations of one result get a whole story. The others get only its last sentence.
HUNG: Final = "kept-by-a-hung-holder"  # the kind of findings whose conclusion says whether the lease was renewed
NOT_RECOVERED: Final = "not-recovered"  # the kind of findings whose conclusion says who asked for the lock
OF_CALLS: Final = frozenset({"herd", "hung-call"})
"""Kinds of findings on calls: of an acquire their story tells the call, whether it was granted or not."""
OF_TOKENS: Final = ("token-", "grant-not-kept", "released-grant-kept")
"""How kinds of findings on tokens begin. Other stories name the tokens of grants only beside accesses to a store."""
WITHOUT_FAULTS: Final = frozenset({"herd", "deadlock", "kept-by-another-name"})
"""Kinds of findings that no fault causes: they follow from how clients ask, or from what the service wakes."""
WITH_ENDS: Final = frozenset(
    {"overlap", "believed-too-long", "believed-past-lease", "freed-by-inner-release", "kept-by-another-name"}
)
"""Kinds of findings whose story says how each earlier holder left, even if that was after the violation."""
INSIDE: Final = frozenset({"overlap", "too-many-inside"})  # kinds of findings whose story says who left first
_IDLE: Final = "got no CPU time"  # what happened to a worker that the machine did not run
FREEING: Final = 2  # how many releases one story tells of that may have freed the lock of a holder: the latest
UNDECIDED: Final = (Reason.UNAVAILABLE, Reason.TIMEOUT)  # reasons of failures that are no refusals


def in_turn(holds: Iterable[Hold]) -> tuple[int, ...]:
    """Acquire rows of grants of one key, in order of tokens or, without tokens, of returns."""
    return tuple(hold.row for hold in sorted(holds, key=lambda hold: (hold.token, hold.ret, hold.row)))


class Narrator:
    def __init__(self, view: View) -> None:
        self._view = view
        self._faults = FaultTeller(view)
        self.clock = view.clock

    def tell(self, findings: Iterable[Finding]) -> tuple[Violation, ...]:
        """Violations in order of time."""
        ordered = sorted(findings, key=lambda finding: (finding.at, finding.rows))
        facts, violations = self._view.facts, []
        bounds = {name: f"{bound / 1e9:g} s" for name, bound in facts.bounds.items()} | {"permits": str(facts.permits)}
        for number, finding in enumerate(ordered):
            holders = finding.holders or self.holders(finding.rows)
            why = finding.conclusion or CONCLUSIONS[finding.kind].format_map(bounds | self._words(finding, holders))
            before = self.sentences(finding, holders) if number < FULL_STORIES else ()
            story = " ".join(map(str, before))
            named = any(fault.name in story for fault in self._view.struck)
            no_part = finding.kind in WITHOUT_FAULTS or (_IDLE in story and not named)
            part = f" {listing(facts.planned)} had no part in it." if no_part and facts.planned else ""
            lines = (*map(str, before), f"{why}{part} {COSTS[finding.kind]}")
            violations.append(Violation(finding.kind, finding.at, finding.rows, holders, lines))
        return tuple(violations)

    def _words(self, finding: Finding, holders: Sequence[int]) -> dict[str, str]:
        """What stands in braces in conclusions, bounds and permits aside: see conclusions.toml."""
        holds = sorted((self._view.holds.by_row[row] for row in holders), key=lambda hold: hold.ret)
        names = [self._view.who(hold.process) for hold in holds] or [""]
        inside = self._faults.span(finding.at, min((hold.left for hold in holds), default=finding.at), "from", "to")
        got = "took" if holds and self._view.gave_itself(holds[-1].row) else "was granted"
        who = self._view.who(self._view.process[finding.rows[-1]]) if finding.rows else ""
        words = {"at": self.clock(finding.at), "first": names[0], "last": names[-1], "count": str(len(names))}
        return {**words, "inside": inside, "got": got, "who": who}

    def holders(self, rows: Sequence[int]) -> tuple[int, ...]:
        """Acquire rows of the grants that the operations belong to, the earliest first."""
        return in_turn({hold for hold in map(self._view.hold_of, rows) if hold is not None})

    def sentences(self, broken: Finding | Violation, holders: Sequence[int]) -> list[Sentence]:
        """A sentence for each event of the story, in order of time. holders: rows of grants."""
        view, kind = self._view, broken.kind
        holds = [view.holds.by_row[row] for row in holders if kind not in OF_CALLS]
        rows = tuple(dict.fromkeys(broken.rows))
        locks = self._locks((*holders, *rows))
        beside = [row for row in rows if row not in holders or kind in OF_CALLS]
        if kind in ("lost-update", "no-room"):  # the conclusion says what reads show; a refused release frees nothing
            beside = [row for row in beside if view.f[row] != F.READ and view.outcome[row] != Outcome.FAIL]
        if kind == NOT_RECOVERED:  # its conclusion speaks of the requests, and of who was granted the lock too late
            holds, beside = [hold for hold in holds if hold.ret <= broken.at], []
        meanwhile = self._released_meanwhile(holds, kind)
        sentences = [self._did(row, locks, holds) for row in (*beside, *meanwhile)]
        lost = (own for _, own in view.with_holds(meanwhile) if own.key in locks and own not in holds)
        for hold in dict.fromkeys(lost):
            sentences += self._held(hold, broken, locks, last=False, ends=False)[1:]
        last = max(holds, key=lambda hold: hold.ret) if len(holds) > 1 else None
        left = min((hold.left for hold in holds), default=0)
        tokens = kind.startswith(OF_TOKENS) or any(view.f[row] in (F.READ, F.WRITE) for row in rows)
        for hold in holds:
            named = hold if tokens else hold._replace(token=NONE)
            ends = hold.left <= broken.at or (kind in WITH_ENDS and hold is not last)
            ends = ends or (kind in INSIDE and hold.left == left)
            sentences += self._held(named, broken, locks, last=hold is last, ends=ends)
        if kind == "overtaken":
            sentences += map(self._waited, rows)
        if kind not in WITHOUT_FAULTS:
            until = view.inv[rows[-1]] if kind == "vanished" else broken.at  # it may vanish up to the final read
            sentences += self._faults.struck(holds, until, all_told=kind == NOT_RECOVERED)
        return sorted(sentences, key=lambda sentence: sentence.at)

    def _released_meanwhile(self, holds: Sequence[Hold], kind: str) -> list[int]:
        """Rows of the latest releases, by others or for a second time, that may have freed what several then held."""
        if kind not in ("granted-while-held", "overlap") or len(holds) < 2:
            return []
        view, first, last = self._view, min(holds, key=lambda hold: hold.ret), max(holds, key=lambda hold: hold.ret)
        rows = view.rows(F.RELEASE, outcomes=(Outcome.OK, Outcome.INFO))
        there = [row for row in rows if view.key[row] == first.key and first.start <= view.inv[row] <= last.latest]
        lost = {row for row, own in view.with_holds(there) if own.ret < first.ret <= view.inv[row]}
        return [row for row in there if view.flags[row] & LATE or row in lost][-FREEING:]

    def _locks(self, rows: Iterable[int]) -> dict[int, str]:
        """Key → what its holder gets: "the lock", or "a permit", if there is only one key, else "lock A", ..."""
        of_a_lock = (row for row in rows if self._view.f[row] not in OF_SESSIONS)
        in_order = sorted(of_a_lock, key=self._view.ended.__getitem__)
        keys = list(dict.fromkeys(self._view.key[row] for row in in_order))
        letters = [f"lock {chr(ord('A') + number) if number < 26 else number + 1}" for number in range(len(keys))]
        only = "the lock" if self._view.facts.permits == 1 else "a permit"
        return dict(zip(keys, letters if len(keys) > 1 else [only], strict=True)) if keys else {}

    def _held(
        self, hold: Hold, broken: Finding | Violation, locks: Mapping[int, str], *, last: bool, ends: bool
    ) -> list[Sentence]:
        """The grant, and what happened to the holder and its lease.

        last: whether it is the last of several grants, so that the end of its lease does not matter. ends: whether it
        matters how the holder left.
        """
        clock, view, worker, kind = self.clock, self._view, self._view.who(hold.process), broken.kind
        hits = [] if kind in WITHOUT_FAULTS else self._faults.hits(hold, broken.at)
        by_deed = grouped(hits, lambda hit: (hit.name, hit.kind, hit.owner)).values()
        sentences = [self._faults.hit(worker, same, hold) for same in by_deed]
        more: tuple[str, ...] = ()
        waited = last and kind in (HUNG, "freed-late")
        itself, (renewed, expiry) = view.gave_itself(hold.row), self._lease(hold, broken)
        if kind in (HUNG, *WITHOUT_FAULTS) or itself or expiry >= min(hold.released, INFINITY):
            pass  # its lease does not matter
        elif kind == "no-room":
            lasts = f"lasts {hold.length / 1e9:.3f} s or longer from then on"
            more = (f"its lease {f'was in force until {clock(expiry)} at least' if hold.fixed == expiry else lasts}",)
        elif expiry < hold.ret:
            waited = True
            more = (f"by then its lease could have ended, at {clock(expiry)}",)
        elif expiry <= broken.at and not last and (expiry <= hold.left or hold.open):
            met = any(hit.applied <= expiry <= hit.over for hit in hits)
            stalls = [] if met else view.once(stalls_by_worker).get(view.worker(hold.row), [])
            stalls = [stall for stall in stalls if stall[0] <= expiry <= stall[1]]
            for begin, end in stalls:
                stalled = f"{_IDLE} {self._faults.span(begin, end, 'from', 'to')}"
                sentences.append(Sentence(begin, worker, stalled))
            ended = f"lease {'ran out' if met or stalls else 'was due to end'} at {clock(expiry)}"
            sentences.append(Sentence(expiry, worker, ended, owns=True))
        elif expiry > broken.at and not last:
            since = f", renewed at {clock(renewed)}," * (renewed > 0 and not hold.session)
            lasts = f"lease{since} should have lasted until {clock(expiry)}"
            own = (view.ended[row] for row in broken.rows if view.process[row] == hold.process)
            if any(hold.ret < ended < renewed for ended in own):
                sentences.append(Sentence(renewed, worker, lasts, owns=True))
            else:
                more = (f"its {lasts}",)
        proof = hold.renewed if kind == "granted-while-held" and not last and hold.renewed > broken.at else 0
        if proof or hold.freed < renewed:
            renewal = f"renewal, sent at {clock(proof or renewed)}, was acknowledged"
            sentences.append(Sentence(proof or renewed, worker, renewal, owns=True))
        token = f" with token {hold.token}" * (hold.token != NONE)
        got = f"{locks[hold.key]}{self._purpose(hold.shared)}"
        how = f"had asked for {got} at {clock(hold.inv)} and got it{token}" if waited else f"was granted {got}{token}"
        at, until = (hold.start, hold.latest) if kind == "no-room" and not itself else (hold.ret, hold.ret)
        granted = f"{f'took {got}{token} without a grant' if itself else how} {self._faults.span(at, until)}"
        sentences.insert(0, Sentence(at, worker, granted, more=more, rows=(hold.row,), granted=hold.token))
        return [*sentences, *(self._parting(worker, hold) if ends and hold.release not in broken.rows else ())]

    def _purpose(self, shared: int) -> str:
        """For what a client asked for the lock, where there are readers."""
        return " for reading" if shared else " for writing" * any(hold.shared for hold in self._view.holds)

    def _lease(self, hold: Hold, broken: Finding | Violation) -> tuple[int, int]:
        """When it was renewed last before the violation (0: never), and when its lease ends, in ns; renewals that the
        finding is about do not count.
        """
        view = self._view
        renewals = (row for row in broken.rows if view.f[row] in (F.RENEW, F.KEEP_ALIVE))
        disputed = [row for row in renewals if view.outcome[row] == Outcome.OK]
        rest = {inv for inv, _ in hold.renewals if inv <= broken.at} - {view.inv[row] for row in disputed}
        renewed = max(rest, default=0)
        if hold.session or view.facts.lease == "none":
            return renewed, INFINITY if any(view.session[row] == hold.session for row in disputed) else hold.expiry
        return renewed, min(max(hold.start, renewed) + hold.length, INFINITY)

    def _parting(self, worker: str, hold: Hold) -> list[Sentence]:
        """How the holder left: by its release or its notice of the loss, if it did not leave in silence."""
        view, at = self._view, self.clock(hold.left)
        if hold.release >= 0 and hold.left == view.inv[hold.release]:
            outcome = view.outcome[hold.release]
            if outcome == Outcome.FAIL:
                return [Sentence(hold.left, worker, f"release {self._failed(hold.release)} at {at}", owns=True)]
            deed = f"asked to release at {at} and got no answer" if outcome == Outcome.INFO else f"released at {at}"
            return [Sentence(hold.left, worker, deed)]
        if hold.lost < 0:
            return []
        noticed = view.inv[hold.lost]
        return [Sentence(noticed, worker, f"noticed the loss at {self.clock(noticed)}")]

    def _failed(self, row: int) -> str:
        """How an operation failed: the service or the store refused it, or could not be reached."""
        return ending(row, self._view) if self._view.reason[row] in UNDECIDED else "was refused"

    def _waited(self, row: int) -> Sentence:
        """Since when an acquire was in the queue."""
        view = self._view
        inv, queued = view.inv[row], view.base[row]
        more = (f"it was in the queue by {self.clock(queued)}",) if queued > 0 else ()
        deed = f"asked for the lock at {self.clock(inv)}"
        return Sentence(inv, view.who(view.process[row]), deed, more=more, rows=(row,))

    def _did(self, row: int, locks: Mapping[int, str], holds: Sequence[Hold]) -> Sentence:
        """One operation: who asked for it and how it ended. holds: the grants of the story."""
        view = self._view
        kind, outcome, flags, inv, ret = view.f[row], view.outcome[row], view.flags[row], view.inv[row], view.ret[row]
        value, token = view.value[row], view.token[row]
        at, who = (ret if ret < INFINITY else inv), view.who(view.process[row])
        if kind == F.EFFECT:
            return Sentence(at, who, f"did job {value} at {self.clock(inv)}", rows=(row,))
        if kind in ACQUIRES and not flags & NESTED:
            moments = [moment for hold in holds for moment in (hold.ret, hold.left)]
            had = "had " * any(inv < moment < ret < INFINITY for moment in moments)
            request = f"{had}asked for {locks[view.key[row]]}{self._purpose(flags & SHARED)} at {self.clock(inv)}"
            end = {Outcome.OK: "got it", Outcome.INFO: ending(row, view)}.get(Outcome(outcome), self._failed(row))
            woken = f"it was woken {'once' if value == 1 else f'{value} times'} while it waited"
            more = (woken,) * (value > 0 and not holds)
            when = f" at {self.clock(ret)}" * (ret < INFINITY)
            return Sentence(at, who, f"{request} and {end}{when}", more=more, rows=(row,))
        lists, done = view.facts.keeps_lists, ""
        if kind == F.WRITE:
            written = f"element {value} to {_list_up_to(view.base[row])}" if lists else value
            what = f"{'late ' if flags & LATE else ''}write of {written}"
            done = "was accepted "
        elif kind == F.READ:
            what = f"{'final ' if flags & FINAL else ''}read"
            shown = _list_up_to(value) if lists else "the initial value" if value == NONE else str(value)
            size = f", {view.base[row]} element{'s' * (view.base[row] != 1)} long," * bool(lists and flags & FINAL)
            done = f"returned {shown}{size} "
        else:
            nested = kind in ACQUIRES and token != NONE and outcome == Outcome.OK
            done = f"succeeded with token {token} " if nested else "succeeded "
            token = NONE
            what = "renewal" if kind == F.RENEW else F(kind).name.lower().replace("_", "-")
            what = ("nested " if flags & NESTED else "shared " if flags & SHARED else "") + what
            if kind == F.RELEASE and holds and view.hold_of(row) not in (None, *holds):
                what += " of its earlier grant"
            what = f"{'second ' if flags & LATE else ''}{what}"
            what += f" of {locks[view.key[row]]}" if len(locks) > 1 and kind not in OF_SESSIONS else ""
        when = {
            Outcome.OK: f"{done}at {self.clock(ret)}",
            Outcome.FAIL: f"{self._failed(row)} at {self.clock(ret)}",
            Outcome.INFO: "got no answer",
        }[Outcome(outcome)]
        then = f"sent at {self.clock(inv)}, {when}"
        return Sentence(at, who, what, owns=True, token=token, then=then, rows=(row,))


def _list_up_to(element: int) -> str:
    return "the empty list" if element == NONE else f"the list ending in {element}"

"""May I use this lock where lost data costs money? One line that follows from the verdicts by `RULES`, and its grounds.

A judgement of data belongs to a check at the store (a store mode). A check *keeps* the data if all its judgements held,
at least one under a fault that cost data elsewhere (one that paused a holder, if any such did). If it checks writes
alone, that one must be of `no-lost-update` or `no-duplicate`: a stale write may land between a read and a write.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from checkers.claims import NO_FAULT, Verdict, heaviest, matches
from checkers.properties.story_sentences import listing
from results.record import Cell, grouped
from results.report import sentences
from results.report.descriptions import WORDS, pauses
from results.text import count, few

DATA: Final = ("fenced-store", "no-lost-update", "no-duplicate")
"""Properties of the data that a lock protects."""
WAITING: Final = tuple(WORDS["promises"]["Waiting for it"])
"""Properties that cost time when they break, and no data."""
CHECKS: Final[Mapping[str, Sequence[str]]] = WORDS["checks"]
"""Store mode → the check at the store in words, and what the check does."""
_READS: Final = ("fence-reads-and-writes*", "compare-owner", "guarded")  # store modes that check reads as well
BROKE: Final = (Verdict.VIOLATED, Verdict.WEAKNESS_SHOWN, Verdict.NOT_PROMISED_BROKEN)
_HELD: Final = (Verdict.UPHELD, Verdict.NOT_PROMISED_HELD)
_MOST: Final = 3  # the most failures that are grounds of their own, and the most faults that are named


@dataclass(frozen=True, slots=True)
class Ground:
    """A sentence, and the judgement that shows it, if there is any. word: the verdict whose sign the sentence has."""

    word: Verdict
    text: str
    cell: Cell | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """answer: a few words. because: the rest of the line. word: the heaviest of all. rule: the place in `RULES`."""

    answer: str
    because: str
    word: Verdict
    rule: int
    grounds: tuple[Ground, ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the rules ask of the judgements of one lock."""

    cells: list[Cell]
    data: list[Cell]  # about data
    lost: list[Cell]  # judgements of data that broke; paused: under a fault that pauses a holder
    paused: list[Cell]
    kept: list[str]  # checks that keep the data
    tokens: bool  # whether the lock gives fencing tokens: then it has cells of `token-order`

    @classmethod
    def of(cls, cells: Collection[Cell]) -> Self:
        judged = [cell for cell in cells if cell.word is not Verdict.NOT_APPLICABLE]
        data = [cell for cell in judged if cell.property in DATA]
        lost = [cell for cell in data if cell.word in BROKE]
        paused = [cell for cell in lost if pauses(cell.fault)]
        costly = {cell.fault for cell in paused or lost}
        kept = [mode for mode, mine in _by_check(data).items() if _keeps(mode, mine, costly)]
        return cls(judged, data, lost, paused, kept, any(cell.property == "token-order" for cell in cells))

    @property
    def cost(self) -> str:
        """What a loss looked like."""
        if not self.paused:
            return f"data was lost {_faults(self.lost)}"
        jobs = all(cell.property == "no-duplicate" for cell in self.paused)
        return f"a paused holder's {'job was done twice' if jobs else 'write was accepted'}"

    @property
    def no_token(self) -> str:
        return "" if self.tokens else "; this lock gives no fencing token"


def check(mode: str) -> str:
    """A store mode in words."""
    return CHECKS[mode][0] if mode in CHECKS else f"a store in the mode {mode}"


def advise(cells: Collection[Cell]) -> Advice:
    """The advice on one lock. cells: all of `settled` for this lock."""
    seen = _Seen.of(cells)
    number, answer, ground = _line(seen)
    grounds = (*_failures(seen, ground.cell), *_grounds(seen))
    word = heaviest((ground.word, *(each.word for each in grounds)))
    return Advice(answer, ground.text, word, number, grounds)


RULES: Final = (
    "A promise about data, or about who holds the lock, was violated: no.",
    "No trial looked at data behind the lock: not shown.",
    "Data was lost, and a check at the store kept it: not by itself, only with such a check.",
    "Data was lost, and no check at the store kept it: not by itself.",
    "A question about data was not stressed or not decided, or a known weakness did not show: not shown.",
    "No trial that looked at data paused a holder: not shown.",
    "Nothing was lost: no loss was seen.",
)
"""What the rules state. The first that applies gives the line."""


def _line(seen: _Seen) -> tuple[int, str, Ground]:
    """The place of the first rule of `RULES` that applies, its answer, and the rest of the line with its judgement."""
    broken = [cell for cell in seen.cells if cell.word is Verdict.VIOLATED and cell.property not in WAITING]
    if broken:
        first = min(broken, key=lambda cell: cell.property not in DATA)
        return 0, "No", Ground(first.word, sentences.cell_sentence(first), first)
    if not seen.data:
        text = "nothing that was tried looked at data behind this lock."
        return 1, "Not shown", Ground(Verdict.NOT_STRESSED, text)
    by_check = _by_check(seen.data)
    if seen.lost and seen.kept:
        checks = " or ".join(f"{check(mode)} ({mode})" for mode in seen.kept)
        faults = {cell.fault for mode in seen.kept for cell in by_check[mode]} - {NO_FAULT}
        under = f"under {count(len(faults), 'fault')}" if faults else "without a fault"
        under = f"under {min(faults)}, the only fault tried with it" if len(faults) == 1 else under
        text = f"without that check {seen.cost}{seen.no_token}; with it nothing was lost {under}."
        return 2, f"Not by itself, only with {checks}", Ground(Verdict.WEAKNESS_SHOWN, text)
    if seen.lost:
        tried = any(mode != "unfenced" for mode in by_check)
        rest = "no check that was tried was shown to keep it" if tried else "no check at the store was tried"
        return 3, "Not by itself", Ground(Verdict.WEAKNESS_SHOWN, f"{seen.cost}{seen.no_token}, and {rest}.")
    if failing := [cell for cell in seen.data if cell.word.fails]:
        first = min(failing, key=lambda cell: cell.word.weight)
        return 4, "Not shown", Ground(first.word, sentences.cell_sentence(first), first)
    if not any(pauses(cell.fault) for cell in seen.data):
        text = f"nothing was lost {_under(seen.data)}, but no holder was paused."
        return 5, "Not shown", Ground(Verdict.NOT_STRESSED, text)
    alone = "" if "unfenced" in by_check else " Without such a check nothing was tried."
    text = f"with {listing([check(mode) for mode in by_check])}, {_under(seen.data)}.{alone}"
    return 6, "No loss was seen", Ground(Verdict.UPHELD, text)


def _by_check(data: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Store mode → its judgements of data, in the order of `CHECKS`."""
    made = grouped(data, lambda cell: cell.store)
    return {mode: made[mode] for mode in (*CHECKS, *sorted(made.keys() - CHECKS.keys())) if mode in made}


def _keeps(mode: str, cells: Sequence[Cell], costly: Container[str]) -> bool:
    if mode == "unfenced":
        return False
    enough = DATA if matches(mode, _READS) else DATA[1:]
    shown = any(cell.fault in costly and cell.property in enough for cell in cells)
    return shown and all(cell.word in _HELD for cell in cells)


def _failures(seen: _Seen, first: Cell | None) -> Iterator[Ground]:
    """What fails, beside the judgement that the line is about."""
    failing = sorted((cell for cell in seen.cells if cell.word.fails), key=lambda cell: cell.word.weight)
    kinds = grouped(failing, lambda cell: (cell.word, cell.property, cell.fault)).values()
    failing = [mine[0] for mine in kinds if mine[0] != first]
    for cell in failing[:_MOST]:
        cost = " That costs time, no data." if cell.word is Verdict.VIOLATED and cell.property in WAITING else ""
        yield Ground(cell.word, sentences.cell_sentence(cell) + cost, cell)
    if len(failing) > _MOST:
        yield Ground(failing[_MOST].word, f"{len(failing) - _MOST} more fail: see the table.")


def _grounds(seen: _Seen) -> Iterator[Ground]:
    for name, text in WORDS["broken"].items():
        if broke := [cell for cell in seen.cells if cell.property == name and cell.word in BROKE]:
            yield _ground(broke, text.format(under=_faults(broke)))
    by_check = _by_check(seen.data)
    lost = {mode: [cell for cell in mine if cell.word in BROKE] for mode, mine in by_check.items()}
    if seen.lost:
        where = listing([f"with {check(mode)} {_faults(mine)}" for mode, mine in lost.items() if mine])
        yield _ground(seen.lost, f"Data was lost {where}.")
    for mode in seen.kept:
        left = {cell.fault for cell in seen.cells} - {cell.fault for cell in by_check[mode]} - {NO_FAULT}
        rest = f"; {len(left)} others were not tried with it" if len(left) > _MOST else ""
        rest = rest or (f"; not tried {_named(left)}" if left else "")
        how = f"{check(mode)} ({CHECKS[mode][1]})" if mode in CHECKS else check(mode)
        yield _ground(by_check[mode], f"Nothing was lost with {how}, {_under(by_check[mode])}{rest}.")
    if not seen.paused and (held := [cell for cell in seen.data if pauses(cell.fault) and cell.word in _HELD]):
        yield _ground(held, f"Paused holders cost no data {_faults(held)}.")


def _ground(cells: Sequence[Cell], text: str) -> Ground:
    first = min(cells, key=lambda cell: (cell.word.weight, not pauses(cell.fault)))
    return Ground(first.word, text, first)


def _under(cells: Iterable[Cell]) -> str:
    faults = {cell.fault for cell in cells} - {NO_FAULT}
    return f"under {count(len(faults), 'fault')}" if faults else "without any fault"


def _faults(cells: Iterable[Cell]) -> str:
    return _named({cell.fault for cell in cells})


def _named(faults: Collection[str]) -> str:
    """Faults that pause a holder are named first."""
    if NO_FAULT in faults:
        return "even without any fault"
    named = sorted(faults, key=lambda fault: (not pauses(fault), fault))
    return f"under {listing(few(named, _MOST, 'other faults'))}"

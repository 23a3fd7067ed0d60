"""Runs, judgements and operations as sentences."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from checkers.claims import NO_FAULT, Verdict, heaviest
from checkers.history.history import History
from checkers.judging.judgement import Judgement
from checkers.properties.story_sentences import listing
from checkers.row_format import ACQUIRES, FINAL, LATE, NESTED, NONE, SHARED, F, Outcome, Reason
from results.record import Cell, LaneRecord, decisive, fault_of
from results.report import grid
from results.report.descriptions import explained
from results.text import count, duration, few, seconds

_PLURAL: Final = (
    ("its promise", "their promise"),
    ("{lock} is", "{lock} are"),
    ("{lock} keeps", "{lock} keep"),
    ("it does not", "they do not"),
)


MOST_WORDS: Final = 12
"""The most words of a trial's heading, if the names of lock and fault are one word each."""
PASSED: Final = "PASSED"
FAILED: Final = "FAILED"
NOT_CLEAN: Final = "NOT CLEAN"
"""How the sentence of a run begins: all that was promised held, a promise broke, or neither is certain."""


def came_to(number: Mapping[Verdict, int], left_out: int) -> str:
    """PASSED, FAILED or NOT_CLEAN. number: verdict → how often it was given. left_out: trials without a verdict."""
    if number.get(Verdict.VIOLATED):
        return FAILED
    doubts = left_out or any(map(number.get, (Verdict.NOT_STRESSED, Verdict.UNKNOWN, Verdict.WEAKNESS_NOT_SHOWN)))
    judged = any(how_many for word, how_many in number.items() if word is not Verdict.NOT_APPLICABLE)
    return PASSED if judged and not doubts else NOT_CLEAN


def run_sentence(cells: Iterable[Cell], left_out: int = 0) -> str:
    """What a run came to, in one sentence for terminal, pages and files. left_out: trials without a verdict.

    A promise is a claim of a lock in one lane under one fault.
    """
    cells = list(cells)
    number = Counter(dict(grid.counts(cells)))
    upheld, broken = number[Verdict.UPHELD], number[Verdict.VIOLATED]
    not_stressed, unknown = number[Verdict.NOT_STRESSED], number[Verdict.UNKNOWN]
    promises = upheld + broken + not_stressed + unknown
    begin = came_to(number, left_out)
    if begin == FAILED:
        first = grid.failures(cells)[0].first
        more = f", and {count(broken - 1, 'more promise')} broke" if broken > 1 else ""
        of = f"{broken:,} of {count(promises, 'promise')}"
        return f"{begin}: {first.lock} broke {first.property} {_when(first.fault)}{more} ({of})"
    silent = number[Verdict.WEAKNESS_NOT_SHOWN]
    doubts = (
        (not_stressed, f"{not_stressed:,} of {promises:,} not stressed"),
        (unknown, f"{unknown:,} of {promises:,} undecided"),
        (silent, f"{count(silent, 'known weakness', 'known weaknesses')} did not show"),
        (left_out, f"{count(left_out, 'trial')} without a verdict"),
    )
    if in_words := [words for how_many, words in doubts if how_many]:
        return f"{begin}: no promise broken, {listing(in_words)}"
    if begin == NOT_CLEAN:
        reasons = Counter(cell.because for cell in cells if cell.because).most_common()
        mostly = "mostly: " if len(reasons) > 1 else ""
        return f"{begin}: nothing was judged" + "".join(f" ({mostly}{reason})" for reason, _ in reasons[:1])
    text = f"{upheld:,} of {promises:,} promises upheld"
    if not promises:
        held, broke = number[Verdict.NOT_PROMISED_HELD], number[Verdict.NOT_PROMISED_BROKEN]
        text = f"nothing was promised; {held:,} properties held and {broke:,} broke"
    if shown := number[Verdict.WEAKNESS_SHOWN]:
        text += f"; {count(shown, 'known weakness', 'known weaknesses')} shown, as expected"
    return f"{begin}: {text}"


def _when(fault: str) -> str:
    return "without any fault" if fault == NO_FAULT else f"under {fault}"


def sentence(
    lock: str, properties: Sequence[str], word: Verdict, fault: str, because: str, *, several: bool = False
) -> str:
    """One sentence for one verdict. properties: all that have it. several: `lock` names more than one lock."""
    pattern = grid.SIGNS[word].sentence
    if several:
        for singular, plural in _PLURAL:
            pattern = pattern.replace(singular, plural)
    return pattern.format(lock=lock, what=listing(properties), when=_when(fault), because=because.rstrip("."))


def cell_sentence(*cells: Cell) -> str:
    """`sentence` for cells of one lane that have the same word, with mechanisms in words."""
    first = cells[0]
    properties = [cell.property or "everything" for cell in cells]
    return sentence(first.lock, properties, first.word, first.fault, explained(first.because))


def lane_sentence(lane: LaneRecord) -> str:
    """A sentence for a lane's heaviest verdict."""
    facts = lane.history.facts
    if not lane.judgements:
        return f"Nothing of {facts.lock} was judged."
    word = lane_word(lane)
    judged = [judgement for judgement in lane.judgements if judgement.word is word]
    return sentence(facts.lock, [j.property for j in judged], word, fault_of(facts), judged[0].because)


def trial_heading(lanes: Sequence[LaneRecord]) -> str:
    """A trial's heaviest verdict in at most `MOST_WORDS` words, without the reason."""
    judged = [(lane.history.facts, judgement) for lane in lanes for judgement in lane.judgements]
    if not judged:
        return "Nothing was judged" if lanes else "No lane came to an end"
    word = heaviest(judgement.word for _, judgement in judged)
    locks = list(dict.fromkeys(facts.lock for facts, judgement in judged if judgement.word is word))
    names = [name for name, _ in Counter(each.property for _, each in judged if each.word is word).most_common()]
    lock, several = (locks[0], False) if len(locks) == 1 else (f"{len(locks)} locks", True)
    fault = fault_of(judged[0][0])
    shorter = [names[0]] if len(names) == 1 else [f"{names[0]} and {len(names) - 1} more", f"{len(names)} properties"]
    forms = [sentence(lock, [what], word, fault, "", several=several).rstrip(".: ") for what in shorter]
    forms.append(f"{lock}, {shorter[-1]} {_when(fault)}: {word}")
    return next((form for form in forms if len(form.split()) <= MOST_WORDS), forms[-1])


def trial_sentence(lanes: Sequence[LaneRecord]) -> str:
    """A sentence for a trial's heaviest verdict: which lanes have it, and the verdicts of the others."""
    if not lanes:
        return "No lane came to an end."
    if len(lanes) == 1:
        return lane_sentence(lanes[0])
    judged = [lane for lane in lanes if lane.judgements]
    if not judged:
        return f"Nothing of {len(lanes)} lanes was judged."
    words = [lane_word(lane) for lane in judged]
    word = heaviest(words)
    concerned = [(lane, judgement) for lane in judged for judgement in lane.judgements if judgement.word is word]
    reasons = Counter(judgement.because.rstrip(".") for _, judgement in concerned)
    reason = f"{'mostly ' if len(reasons) > 1 else ''}{reasons.most_common(1)[0][0]}"
    locks = dict.fromkeys(lane.history.facts.lock for lane, _ in concerned)
    properties = Counter(judgement.property for _, judgement in concerned)
    uneven = len(set(properties.values())) > 1  # then each property is named with the number of its lanes
    of = f" of {len(lanes)} lanes"
    named = [f"{name} in {number}{of}" if uneven else name for name, number in properties.most_common()]
    text = sentence(
        listing(few(locks, 2, "other locks")),
        few(named, 2, "other properties"),
        word,
        fault_of(concerned[0][0].history.facts),
        reason,
        several=len(locks) > 1,
    )
    if not uneven and not grid.SIGNS[word].sentence.startswith("{"):
        text = text[:1].lower() + text[1:]
    having = words.count(word)
    where = f"In {'both' if len(lanes) == 2 else f'all {len(lanes)}'} lanes" if having == len(lanes) else ""
    where = f"{where or f'In {having}{of}'} "
    rest = [f"{words.count(other)} “{other}”" for other in Verdict if other is not word and other in words]
    rest += [f"{len(lanes) - len(judged)} not judged"] if len(judged) < len(lanes) else []
    return f"{'' if uneven else where}{text.rstrip('.')}" + (f"; of the others, {listing(rest)}." if rest else ".")


def lane_word(lane: LaneRecord) -> Verdict:
    """A lane's heaviest verdict."""
    return heaviest(judgement.word for judgement in lane.judgements)


def leading(lane: LaneRecord) -> Judgement | None:
    """The judgement that a lane's story and picture are about: the heaviest one with a violation (of equally heavy
    ones, the one with the longest witness), or the heaviest one if there is no violation.
    """

    def rank(judgement: Judgement) -> tuple[bool, int, int]:
        violation = decisive(judgement)
        size = len({*violation.rows, *violation.holders}) if violation is not None else 0
        return violation is None, judgement.word.weight, -size

    return min(lane.judgements, key=rank, default=None)


# Operations

_KINDS: Final[dict[int, str]] = {
    F.TRY_ACQUIRE: "try to acquire",
    F.SESSION_OPEN: "open session",
    F.SESSION_CLOSE: "close session",
    F.LOST: "notice of loss",
    F.EFFECT: "do job",
    F.STALL: "stalled by the machine",
}
"""Kinds that are not called by their own names."""

_CIRCUMSTANCES: Final = (
    (SHARED, ", beside other readers"),
    (NESTED, ", inside its own hold"),
    (LATE, ", sent late on purpose"),
    (FINAL, ", after everything else"),
)
"""Flag → its words, put behind the operation."""


def kind(f: int) -> str:
    return _KINDS.get(f) or F(f).name.lower().replace("_", " ")


def carries_value(f: int, outcome: int) -> bool:
    """Whether an operation of this kind and outcome has a value: what was written, read or done."""
    return f in (F.WRITE, F.EFFECT) or (f == F.READ and outcome == Outcome.OK)


def circumstances(f: int, flags: int) -> str:
    """What the flags say of an operation, to be put behind it; empty without flags."""
    known = flags if f in ACQUIRES else flags & ~SHARED
    return "".join(words for flag, words in _CIRCUMSTANCES if known & flag)


def answer(outcome: int, reason: int) -> str:
    """How an operation ended, with the reason of a refusal."""
    if outcome != Outcome.FAIL:
        return "ok" if outcome == Outcome.OK else "unknown"
    if not reason:
        return "failed"
    # A later version of the wire knows more reasons.
    known = {int(each): each.name.lower().replace("_", " ") for each in Reason}
    return f"refused: {known.get(reason, f'reason {reason}')}"


def outcome(history: History, row: int) -> str:
    c = history.columns
    words = answer(int(c["outcome"][row]), int(c["reason"][row]))
    text = history.errors[int(c["error"][row])]
    return f"{words} ({text})" if text else words


def what(history: History, row: int) -> str:
    """An operation without its times: `write 4100 with token 41`."""
    c = history.columns
    f, value, token = int(c["f"][row]), int(c["value"][row]), int(c["token"][row])
    words = kind(f)
    if carries_value(f, int(c["outcome"][row])):
        words += f" {value}" if value != NONE else " nothing"
    if f == F.WRITE and c["base"][row] != NONE:
        words += f" (on {int(c['base'][row])})"
    if token != NONE:
        words += f" with token {token}"
    return words + circumstances(f, int(c["flags"][row]))


def details(history: History, row: int, origin: int) -> str:
    """What people want to know of one operation, in several lines."""
    c = history.columns
    inv, ret = int(c["inv"][row]), int(c["ret"][row])
    lines = [
        f"worker {history.facts.worker_of(int(c['process'][row]))}: {what(history, row)}",
        f"outcome: {outcome(history, row)}",
        f"invoked {seconds(inv, origin)}"
        + (f", returned {seconds(ret, origin)} ({duration(ret - inv)})" if ret else ""),
    ]
    if len(history.facts.keys) > 1:
        lines.append(f"key: {history.facts.keys[int(c['key'][row])]}")
    if c["owner"][row]:
        lines.append(f"grant: {int(c['owner'][row]):x}")
    if c["session"][row]:
        lines.append(f"session: {int(c['session'][row]):x}")
    if c["ttl"][row] and c["outcome"][row] == Outcome.OK:
        lines.append(f"lease: {duration(int(c['ttl'][row]))}, counted from {seconds(int(c['sent'][row]), origin)}")
    return "\n".join(lines)

"""`python -m suites readme`: the parts of pages that are made from the code and from what was measured.

Each part stands between two comments, `<!-- locks -->` and `<!-- /locks -->`; the command replaces the text between
them. Nothing is started. `--check` writes nothing, and says whether anything would change.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Final

from checkers.claims import NO_FAULT, Claim, Hazard
from results.record import grouped
from suites.commands import literature, mutants, repeat, track_record
from suites.commands.literature import FOLDER, STATEMENTS, Probe
from suites.commands.track_record import Bug, Try
from suites.lock import LockClient
from suites.locks import registry
from suites.mutants.catalogue import catalogue
from suites.worker.pool import ROOT


def main(*, check: bool) -> int:
    """Exit status: 0 written, or nothing to write; 1 with `--check`: out of date."""
    status = 0
    for page, parts in _PAGES.items():
        old = (ROOT / page).read_text()
        new = made(old, parts)
        if new != old and check:
            print(f"fencepost: {page} is out of date; run `python -m suites readme`", file=sys.stderr)
            status = 1
        elif new != old:
            (ROOT / page).write_text(new)
    return status


def made(text: str, parts: Mapping[str, Callable[[], str]]) -> str:
    """The text with every generated part in its present form."""
    for name, part in parts.items():
        text = re.sub(
            rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)",
            lambda marks, part=part: f"{marks[1]}{part()}{marks[2]}",  # type: ignore[misc]
            text,
            flags=re.DOTALL,
        )
    return text


def _locks() -> str:
    return "".join(f"\n**{family}**\n\n{_table(_rows(names))}" for family, names in registry.FAMILIES.items()) + "\n"


def _rows(names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    yield "lock", "what it is", "promises", "breaks"
    for name in names:
        lock = registry.load(name)
        yield f"`{name}`", summary(lock), _promises(lock.claims), _breaks(lock.hazards)


def summary(lock: type[LockClient]) -> str:
    """The first sentence about the lock, without its name."""
    return _cell(re.split(r"(?<=\.)\s", registry.described(lock).strip(), maxsplit=1)[0])


def _promises(claims: Sequence[Claim]) -> str:
    return ", ".join(dict.fromkeys(f"`{claim.property}`" for claim in claims)) or "nothing"


def _breaks(hazards: Sequence[Hazard]) -> str:
    """Mechanisms and the properties that each certainly breaks, without the faults, which `python -m suites` lists."""
    sure: dict[str, dict[str, None]] = {}
    for hazard in hazards:
        if hazard.certain:
            sure.setdefault(hazard.mechanism, {})[f"`{hazard.property}`"] = None
    return "; ".join(f"{mechanism}: {', '.join(names)}" for mechanism, names in sure.items())


def _literature() -> str:
    entries = literature.stored()
    rows = [("statement", "who says so", "measured", "by", "picture")]
    for statement in STATEMENTS:
        entry = entries.get(statement.says, {})
        name, address = statement.source
        source = f"[{name}]({address})" if address else name
        outcome = f"**{entry['outcome']}**" if entry else "not yet"
        words = entry.get("words", ())
        words = [*words, *[""] * (len(statement.probes) - len(words))]
        by = "<br>".join(_probe(probe, word) for probe, word in zip(statement.probes, words, strict=True))
        picture = f"[{entry['picture'].removesuffix('.svg')}]({entry['picture']})" if entry else ""
        rows.append((statement.says, source, outcome, by, picture))
    return f"\n{_table(rows)}\n"


def _striking() -> str:
    entries = literature.stored()
    rows = [
        (statement.says, statement.source[0], f"**{entries[statement.says]['outcome']}**")
        for statement in STATEMENTS
        if statement.striking and statement.says in entries
    ]
    return f"\n{_table([('statement', 'who says so', 'measured'), *rows])}\n"


def _probe(probe: Probe, word: str) -> str:
    under = "without a fault" if probe.fault == NO_FAULT else f"under `{probe.fault}`"
    return f"`{probe.property}` of `{probe.lane}` {under}" + (f": {word}" if word else "")


def _curves() -> str:
    shown = (("pause", "pause ÷ TTL"), ("skew", "clock jump ÷ TTL"))
    pictures = [
        f"![P(two inside) against {over}]({name}.svg)\n" for name, over in shown if (FOLDER / f"{name}.svg").exists()
    ]
    return "".join(pictures) or "Not measured yet: `make literature`.\n"


def _table(rows: Iterable[Sequence[str]]) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(_cell(text) for text in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _repeated() -> str:
    """What `python -m suites repeat` has noted since the last red run of each command."""
    lines = (repeat.in_words(command, repeat.green_in_a_row(command)) for command in ("certify", "test"))
    return "".join(f"\n- {line}" for line in lines) + "\n\n"


def _mutants() -> str:
    """What `python -m suites mutants --score` has stored: a paragraph for each seed, and one for all of them."""
    by_seed = mutants.stored()
    paragraphs = [
        f"Seed {seed}, with {len(scores)} of {len(catalogue())} bugs: {'; '.join(mutants.in_words(scores))}."
        for seed, scores in by_seed.items()
    ]
    every = [each for scores in by_seed.values() for each in scores]
    caught = {each.mutant for each in every if each.catch is not None}
    missed = [f"`{name}`" for name in dict.fromkeys(each.mutant for each in every) if name not in caught]
    if len(by_seed) > 1:
        paragraphs.append(f"All {len(by_seed)} seeds together miss {len(missed)}.")
    if by_seed and missed:
        paragraphs.append(f"Missed: {', '.join(missed)}.")
    tried, of_schedules = mutants.stored_schedules()
    if tried and by_seed:
        counts = ", ".join(f"`{schedule}` {len(names)}" for schedule, names in of_schedules.items())
        by_default = len(caught.intersection(tried))
        paragraphs.append(
            f"Of {len(tried)} of them, our checkers catch under the schedules of other suites, in trials of "
            f"{mutants.SCHEDULE_LASTS} s: {counts}; under the faults of a default run {by_default}."
        )
    return "".join(f"\n- {text}" for text in paragraphs or ["not measured yet"]) + "\n\n"


def _track_record() -> str:
    tries = grouped(track_record.stored(), lambda each: (each.bug, each.to_bad))
    rows = [("bug", "what goes wrong", "properties", "to a release with it", "to one that mended it")]
    for name, bug in track_record.bugs().items():
        bad, mended = (_certificates(bug, tries.get((name, to_bad), ())) for to_bad in (True, False))
        rows.append((bug.source, bug.bug, ", ".join(f"`{each}`" for each in bug.found_by), bad, mended))
    return f"\n{_table(rows)}\n"


def _certificates(bug: Bug, tries: Sequence[Try]) -> str:
    """What the certificates of these upgrades said, each upgrade in a line."""
    if bug.cannot:
        return f"not tried: {bug.cannot}"
    lines = []
    for (old, new), mine in grouped(tries, lambda each: (each.old, each.new)).items():
        right = [each for each in mine if each.right]
        line = f"{old} → {new}: as it should be in {len(right)} of {len(mine)}"
        if shown := [each for each in right if each.hits]:
            seconds = median(each.seconds for each in shown)
            line += f", after {seconds:.0f} s: {shown[-1].hits[0]}; {shown[-1].began[:10]}, {shown[-1].suite}"
        lines.append(line)
    return "<br>".join(lines) or "not tried yet"


_PAGES: Final[Mapping[str, Mapping[str, Callable[[], str]]]] = {
    "README.md": {"repeated": _repeated, "mutants": _mutants, "striking": _striking},
    "suites/locks/README.md": {"locks": _locks},
    "results/track-record/README.md": {"track-record": _track_record},
    "results/literature/README.md": {"literature": _literature, "curves": _curves},
}
"""Page -> name of a part -> what makes it."""

"""The certificate as one printed page: the decision, each promise in every stage, what changes, and the evidence.

The page lists what differs, broke or was lost. It counts and folds the rest, so that the list fits on one sheet.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from checkers.claims import Verdict
from results.certificate.certify import Certificate, Decision, sentence
from results.certificate.detection_power import EXPOSURES, Exposure, LockGap, Tries, seen_in
from results.certificate.promise_losses import Promise
from results.certificate.trials import BUSY, ServerStep
from results.comparison import presentation
from results.comparison.speeds import RATIO, Speed
from results.pages import svg, web
from results.record import grouped, mapping, words
from results.report.grid import tally
from results.stages import ALONE, BASELINE, CLIENTS, COLUMNS, TITLES, TOGETHER
from results.storage import files
from results.text import again, command_line, cut, typed

SIGNS: Final[Mapping[Decision, Verdict]] = {
    Decision.REGRESSION: Verdict.VIOLATED,
    Decision.INCONCLUSIVE: Verdict.UNKNOWN,
    Decision.NO_REGRESSION: Verdict.UPHELD,
}
"""Decision → the verdict whose sign it has."""

ALWAYS: Final = ("acquire p50", "acquire p99", "recovery", "longest gap", "grants")
"""Measures that the page shows for each backend even if they did not change."""
ROWS: Final = 6
"""The most rows of a list that are shown unfolded."""
PRINTED: Final = 4
"""The most long rows of a list that are printed."""


def render(certificate: Certificate, stored: Mapping[str, Any], root: Path) -> str:
    """The page as HTML. stored: the content of certificate.json. root: the run's folder, where the page is stored."""
    lost = {loss.name() for loss in certificate.regressed}
    failed = [promise for promise in certificate.promises if _failed(promise)]
    (speeds, same), plans = _speeds(certificate), stored["conditions"]["plans"]
    questions = grouped(certificate.tries, lambda each: (each.backend, each.lock, each.property))

    def became(promise: Promise) -> str:
        if promise.name() in lost:
            return "lost"
        return "cleared" if promise.cleared() else "known" if promise.broke(BASELINE) else ""

    return web.render(
        "certificate.html",
        style="certificate.css",
        title=f"certificate of {root.name} - fencepost",
        run=root.name,
        certificate=certificate,
        stored=stored,
        sentence=sentence(certificate),
        sign=SIGNS[certificate.decision],
        upgrades=_upgrades(certificate, stored["conditions"]["images"]),
        shapes=mapping(stored["asked"].get("shapes")),
        several=len(certificate.upgrades) > 1,
        stages=[(stage, TITLES[stage]) for stage in certificate.parts],
        together=[stage for stage in TOGETHER if stage in certificate.parts],
        titles=TITLES,
        most=ROWS,
        printed=PRINTED,
        total=len(certificate.promises),
        failed=sorted(failed, key=lambda promise: (promise.name() not in lost, not promise.cleared())),
        kept=[promise for promise in certificate.promises if not _failed(promise)],
        became=became,
        page_of=lambda seen: web.to_page(seen.page, root),
        lane_of=lambda loss: web.to_page(loss.seen.page, root, loss.lane, loss.property),
        counts={
            stage: tally(promise.stages[stage].word for promise in certificate.promises if stage in promise.stages)
            for stage in certificate.parts
        },
        turned=[f"{promise.property} of {promise.lock}" for promise in certificate.turned],
        rolled=_rolled(certificate),
        tried=_by_number(certificate.tries),
        tries=[(mine[0], _by_number(mine)) for mine in questions.values()],
        speeds=speeds,
        same=same,
        beyond=RATIO,
        exposures=_exposures(certificate.exposures),
        reasons=list(dict.fromkeys(f"{kind.what}: {kind.why}" for kind in certificate.exposures if kind.why)),
        not_shown=[
            (TITLES[control.stage], name)
            for control in (*certificate.calibration.hazards, *certificate.calibration.locks)
            for name in control.missing
        ],
        clients=any(plan["column"] == CLIENTS for plan in plans),
        busy=BUSY,
        columns=list(dict.fromkeys(plan["column"] for plan in plans)),
        seeds=list(dict.fromkeys(plan["seed"] for plan in plans)),
        again=again(words(stored["asked"].get("command"))),
        check=command_line("results", "verify", str(typed(root / files.CERTIFICATE))),
    )


def _upgrades(certificate: Certificate, images: Iterable[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """(backend, [from, to]): the versions asked for; in brackets what the servers reported, if that differs."""
    reported = {(image["backend"], image["stage"]): image["version"] for image in images}

    def spelled(wanted: str, version: str) -> str:
        return wanted if version in ("", wanted) else f"{wanted} ({version})"

    return [
        (backend, [spelled(of, reported.get((backend, stage), "")) for stage, of in zip(ALONE, versions, strict=True)])
        for backend, versions in sorted(certificate.upgrades.items())
    ]


def _failed(promise: Promise) -> bool:
    return any(seen.word.fails for seen in promise.stages.values())


def _by_number(tries: Iterable[Tries]) -> list[tuple[int, str, list[Tries]]]:
    """(number of trials, the share that `seen_in` gives, what was tried so often)."""
    by_number = sorted(grouped(tries, lambda each: each.trials).items())
    return [(number, f"{100 * seen_in(number):.0f} %", mine) for number, mine in by_number]


def _rolled(certificate: Certificate) -> list[dict[str, Any]]:
    """An entry for each column: of its trials the steps of the one with the longest gap, or of the first; a drawing of
    them with the longest gap of each lock; and the number of trials with steps.
    """
    columns = grouped(certificate.steps, lambda step: (step.backend, step.stage, step.column))
    rolled = []
    for (backend, _, column), mine in sorted(columns.items(), key=lambda item: _place(*item[0])):
        trials = grouped(mine, lambda step: step.trial)
        longest = next((gap.trial for gap in certificate.gaps if gap.trial in trials), mine[0].trial)
        steps, gaps = trials[longest], [gap for gap in certificate.gaps if gap.trial == longest]
        line = _time_line(steps, gaps[:ROWS], column)
        more = len(gaps[ROWS:])
        rolled.append(
            {"backend": backend, "column": column, "steps": steps, "trials": len(trials), "line": line, "more": more}
        )
    return rolled


WIDTH: Final = 360.0
"""The width of a time line in its own units, which are CSS pixels on a phone. A wide screen shows it larger."""
_TOP, _ROW, _LOW = 20.0, 28.0, 20.0  # heights: of the numbers of the steps, of a lock, and of the axis
_MARGIN: Final = 10.0
_DIGIT: Final = 7.0
_NAME: Final = 30  # the most characters of a lock's name


def _time_line(steps: Sequence[ServerStep], gaps: Sequence[LockGap], column: str) -> Markup:
    """The steps of one trial, numbered, and for each lock a bar while clients asked for it and nobody held it."""
    latest = max(1.0, *(step.at for step in steps), *(gap.end for gap in gaps))
    apart = svg.round_up(latest / 5)
    scale, low = (WIDTH - 2 * _MARGIN) / latest, _TOP + _ROW * len(gaps)
    drawn, free = [], 0.0  # free: where the number of the next step has room
    for number, step in enumerate(steps, 1):
        x = _MARGIN + max(step.at, 0.0) * scale
        free = max(x, free)
        drawn += [
            svg.tag("path", d=f"M{svg.number(x)} {svg.number(_TOP - 4)}V{svg.number(low)}", class_="step-line"),
            svg.tag("text", str(number), x=free, y=_TOP - 8, text_anchor="middle", class_="who"),
        ]
        free += _DIGIT * (1 + len(str(number)))
        if step.refused:
            at = f"translate({svg.number(x)} {svg.number(_TOP)})"
            drawn.append(svg.tag("path", d=svg.SHAPES["cross"], transform=at, class_="cross"))
    for row, gap in enumerate(gaps):
        y, words = _TOP + _ROW * row, f"{cut(gap.lock, _NAME)}: nobody for {gap.seconds:.1f} s"
        width = max(gap.seconds * scale, 1.0)
        drawn += [
            svg.tag("text", words, x=_MARGIN, y=y + 15),
            svg.tag("rect", x=_MARGIN + max(gap.begin, 0.0) * scale, y=y + 18, width=width, height=7.0, class_="gap"),
        ]
    axis = f"M{svg.number(_MARGIN)} {svg.number(low)}H{svg.number(WIDTH - _MARGIN)}"
    drawn.append(svg.tag("path", d=axis, class_="axis"))
    for number in range(int(latest / apart) + 1):
        x = _MARGIN + number * apart * scale
        anchor = "start" if number == 0 else "middle"
        drawn.append(svg.tag("text", f"{number * apart:g} s", x=x, y=low + 14, text_anchor=anchor, class_="tick"))
    label = f"{column}: {len(steps)} steps, and when nobody held each lock"
    size = f"0 0 {svg.number(WIDTH)} {svg.number(low + _LOW)}"
    return svg.tag("svg", *drawn, viewBox=size, class_="time-line", role="img", aria_label=label)


def _place(backend: str, stage: str, column: str) -> tuple[str, int, int, str]:
    """The key that sorts columns by the order in which they are run."""
    known = COLUMNS.get(stage, ())
    return backend, list(TITLES).index(stage), known.index(column) if column in known else len(known), column


def _speeds(certificate: Certificate) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows that are shown unfolded (each backend as a whole, then times and rates that changed), and the other rows.

    who: a lock or all locks. cells: baseline, candidate, ratio. became: `Speed.word`. together: stage in which versions
    change → how long locks had no holder.
    """
    speeds = certificate.comparison.speeds
    whole = presentation.overall(certificate.comparison)
    chosen = [speed for speed in whole if speed.measure in ALWAYS]
    chosen += [speed for speed in speeds if speed.word in ("worse", "better") and speed not in chosen]
    chosen = chosen[: len(whole) + ROWS]
    gaps = {(gap.backend, gap.lock, gap.measure, gap.stage): gap for gap in certificate.handover_gaps}
    # A measure gets a row even if nothing was timed in both versions.
    timed = {(speed.backend, speed.measure) for speed in whole}
    untimed = dict.fromkeys((gap.backend, gap.measure) for gap in certificate.handover_gaps if not gap.lock)

    def row(backend: str, lock: str, measure: str, speed: Speed | None = None) -> dict[str, Any]:
        who = f"{backend}, {lock or 'all locks'}" if len(certificate.upgrades) > 1 else lock or "all locks"
        became, _, _, _, *cells = presentation.cells(speed) if speed else ("", "", "", "", "-", "-", "-")
        by_stage = {stage: gaps.get((backend, lock, measure, stage)) for stage in TOGETHER}
        together = {
            stage: f"{gap.middle:.3g} {gap.unit}, worst {gap.worst:.3g} {gap.unit}" if gap else "-"
            for stage, gap in by_stage.items()
        }
        return {"who": who, "measure": measure, "cells": cells[:3], "became": became, "together": together}

    shown = [row(speed.backend, speed.lock, speed.measure, speed) for speed in chosen]
    shown += [row(backend, "", measure) for backend, measure in untimed if (backend, measure) not in timed]
    return shown, [row(speed.backend, speed.lock, speed.measure, speed) for speed in speeds if speed not in chosen]


def _exposures(exposures: Iterable[Exposure]) -> list[tuple[str, str, dict[str, Exposure]]]:
    """(backend, what, stage → how often)."""
    rows = grouped(exposures, lambda exposure: (exposure.backend, exposure.what))
    order = sorted(rows, key=lambda key: (key[0], EXPOSURES.index(key[1])))
    return [(backend, what, {each.stage: each for each in rows[backend, what]}) for backend, what in order]

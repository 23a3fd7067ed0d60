"""The certificate as one printed page: the verdict, each promise in every stage, what changes, what it rests on.

What differs, broke or was lost is listed, the rest is counted and folded away, with links to the run's page: that is
what fits on a sheet of paper.
"""

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from checkers.claims import Verdict
from results.certificate.calibration import Shown
from results.certificate.certify import Certificate, Decision, sentence
from results.certificate.exposure import BITES, Bite
from results.certificate.handover_gaps import Beside
from results.certificate.promises import Loss, Promise
from results.certificate.trials import BUSY, Step
from results.comparison import presentation
from results.comparison.compare import Seen
from results.comparison.speeds import RATIO, Speed
from results.pages import web
from results.pages.links import to_lane, to_page
from results.record import words
from results.report.grid import SHORT
from results.stages import ALONE, BASELINE, COLUMNS, MIXED, ROLLBACK, TITLES, TOGETHER
from results.storage import files
from results.text import typed

SIGNS: Final[Mapping[Decision, Verdict]] = {
    Decision.REGRESSION: Verdict.VIOLATED,
    Decision.INCONCLUSIVE: Verdict.UNKNOWN,
    Decision.NO_REGRESSION: Verdict.UPHELD,
}
"""The word of a judgement whose sign the verdict has."""

ALWAYS: Final = ("acquire p50", "acquire p99", "recovery", "longest gap", "grants")
"""Measures that are shown of each backend, whether they changed or not."""

ROWS: Final = 6
"""Of a list, what is shown at once."""

PRINTED: Final = 4
"""Of those that are long, what there is room for on the sheet of paper."""


def render(certificate: Certificate, stored: Mapping[str, Any], root: Path) -> str:
    """The page as HTML. stored: what certificate.json says. root: the run's folder, in which the page will stand."""
    lost = {loss.name() for loss in certificate.regressed}
    notable = sorted(
        (promise for promise in certificate.promises if _notable(promise)),
        key=lambda promise: (promise.name() not in lost, not promise.cleared()),
    )
    rest = [promise for promise in certificate.promises if not _notable(promise)]
    rows = _speeds(certificate)
    return web.render(
        "certificate.html",
        style="certificate.css",
        title=f"certificate of {root.name} - fencepost",
        run=root.name,
        sentence=sentence(certificate),
        sign=SIGNS[certificate.decision],
        upgrades=_upgrades(certificate, stored["conditions"]["images"]),
        one_version=certificate.one_version,
        turned=[f"{promise.property} of {promise.lock}" for promise in certificate.turned],
        stages=[(stage, TITLES[stage]) for stage in certificate.parts],
        most=ROWS,
        printed=PRINTED,
        doubts=certificate.doubts,
        no_way_there=certificate.no_way_there,
        no_way_back=certificate.no_way_back,
        timed=certificate.comparison.timed,
        regressed=[_loss(loss, root) for loss in certificate.regressed],
        known=[_loss(loss, root) for loss in certificate.known],
        notable=[_promise(promise, promise.name() in lost, certificate, root) for promise in notable],
        kept=[_promise(promise, False, certificate, root) for promise in rest],
        several=len(certificate.upgrades) > 1,
        total=len(certificate.promises),
        counts={stage: _counts(certificate.promises, stage) for stage in certificate.parts},
        absent=certificate.absent,
        short=SHORT,
        titles=TITLES,
        rolled=_rolled(certificate.steps),
        speeds=[row for row in rows if row["told"]],
        same=[row for row in rows if not row["told"]],
        beyond=RATIO,
        together=[stage for stage in TOGETHER if stage in certificate.parts],
        errors=certificate.errors,
        bites=_bites(certificate.bites),
        reasons=list(dict.fromkeys(f"{bite.what}: {bite.why}" for bite in certificate.bites if bite.why)),
        calibration=certificate.calibration,
        planted=[(bug, "" if bug.page is None else to_page(bug.page, root)) for bug in certificate.calibration.planted],
        not_shown=[(TITLES[control.stage], name) for control in _controls(certificate) for name in control.missing],
        conditions=stored["conditions"],
        busy=BUSY,
        columns=list(dict.fromkeys(plan["column"] for plan in stored["conditions"]["plans"])),
        seeds=list(dict.fromkeys(plan["seed"] for plan in stored["conditions"]["plans"])),
        uncovered=stored["uncovered"],
        never=stored["never"],
        asked=stored["asked"],
        again=_again(stored["asked"].get("command")),
        digest=stored["digest"],
        evidence=len(stored["evidence"]),
        check=shlex.join([".venv/bin/python", "-m", "results", "verify", str(typed(root / files.CERTIFICATE))]),
    )


def _again(command: object) -> str:
    """The command line that runs it again; empty where none was stored."""
    typed_in = words(command)
    return shlex.join([".venv/bin/python", "-m", *typed_in] if typed_in[:1] == ["pytest"] else typed_in)


def _upgrades(certificate: Certificate, images: Iterable[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """(backend, [from, to]), as they were asked for, and in brackets what the servers said where that is more."""
    said = {(image["backend"], image["stage"]): image["version"] for image in images}
    return [
        (
            backend,
            [
                asked if (version := said.get((backend, stage), "")) in ("", asked) else f"{asked} ({version})"
                for stage, asked in zip(ALONE, versions, strict=True)
            ],
        )
        for backend, versions in sorted(certificate.upgrades.items())
    ]


def _notable(promise: Promise) -> bool:
    """Whether it failed anywhere."""
    return any(seen.word.fails for seen in promise.stages.values())


def _promise(promise: Promise, lost: bool, certificate: Certificate, root: Path) -> dict[str, Any]:  # noqa: FBT001
    return {
        "promise": promise,
        "became": "lost" if lost else _became(promise),
        "cells": [_cell(promise, stage, root) for stage in certificate.parts],
    }


def _became(promise: Promise) -> str:
    if promise.cleared():
        return "cleared"
    return "known" if promise.broke(BASELINE) else ""


def _cell(promise: Promise, stage: str, root: Path) -> dict[str, Any]:
    """seen: None where it was not judged, then why tells the reason, if anybody knows it."""
    seen = promise.stages.get(stage)
    return {"seen": seen, "why": promise.absent.get(stage, ""), "link": _link(seen, root)}


def _link(seen: Seen | None, root: Path) -> str:
    return "" if seen is None or seen.page is None else to_page(seen.page, root)


def _loss(loss: Loss, root: Path) -> dict[str, Any]:
    page = loss.seen.page
    return {"loss": loss, "stage": TITLES[loss.stage], "link": "" if page is None else to_lane(page, root, loss.lane)}


def _counts(promises: Iterable[Promise], stage: str) -> list[tuple[Verdict, int]]:
    """How many promises of a stage came to which word."""
    said = Counter(promise.stages[stage].word for promise in promises if stage in promise.stages)
    return [(word, said[word]) for word in Verdict if said[word]]


def _controls(certificate: Certificate) -> tuple[Shown, ...]:
    return (*certificate.calibration.hazards, *certificate.calibration.locks)


def _rolled(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """By column: what was replaced in its first trial; trials: in how many there are such steps."""
    columns: dict[tuple[str, str, str], dict[str, list[Step]]] = {}
    for step in steps:
        columns.setdefault((step.backend, step.stage, step.column), {}).setdefault(step.trial, []).append(step)
    return [
        {"backend": backend, "column": column, "steps": next(iter(trials.values())), "trials": len(trials)}
        for (backend, _, column), trials in sorted(columns.items(), key=lambda item: _place(*item[0]))
    ]


def _place(backend: str, stage: str, column: str) -> tuple[str, int, int, str]:
    """In the order in which they are done."""
    known = COLUMNS.get(stage, ())
    return backend, list(TITLES).index(stage), known.index(column) if column in known else len(known), column


def _speeds(certificate: Certificate) -> list[dict[str, Any]]:
    """Times and rates: of each backend as a whole, then those that changed. told: whether it is shown at once."""
    speeds = certificate.comparison.speeds
    whole = presentation.overall(certificate.comparison)
    chosen = [speed for speed in whole if speed.measure in ALWAYS]
    chosen += [speed for speed in speeds if (speed.worse or speed.better) and speed not in chosen]
    chosen = chosen[: len(whole) + ROWS]
    beside = {(gap.backend, gap.lock, gap.measure, gap.stage): gap for gap in certificate.beside}
    rows = [_row(speed, certificate, beside) | {"told": True} for speed in chosen]
    timed = {(speed.backend, speed.measure) for speed in whole}
    rows += [
        {
            "who": _who(gap.backend, "all locks", certificate),
            "measure": gap.measure,
            "before": "-",
            "after": "-",
            "ratio": "-",
        }
        | {"became": "", "worse": False, "together": _together(gap.backend, "", gap.measure, beside), "told": True}
        for gap in certificate.beside
        if not gap.lock and (gap.backend, gap.measure) not in timed and gap.stage == _first(gap, beside)
    ]
    return rows + [_row(speed, certificate, beside) | {"told": False} for speed in speeds if speed not in chosen]


def _who(backend: str, lock: str, certificate: Certificate) -> str:
    return f"{backend}, {lock}" if len(certificate.upgrades) > 1 else lock


_Beside = Mapping[tuple[str, str, str, str], Beside]


def _first(gap: Beside, beside: _Beside) -> str:
    """The first stage that has this measure: it has one row."""
    return next(stage for stage in TOGETHER if (gap.backend, gap.lock, gap.measure, stage) in beside)


def _row(speed: Speed, certificate: Certificate, beside: _Beside) -> dict[str, Any]:
    became, backend, lock, measure, before, after, ratio, *_ = presentation.cells(speed)
    return {
        "who": _who(backend, lock, certificate),
        "measure": measure,
        "before": before,
        "after": after,
        "ratio": ratio,
        "became": became,
        "worse": speed.worse,
        "together": _together(speed.backend, speed.lock, speed.measure, beside),
    }


def _together(backend: str, lock: str, measure: str, beside: _Beside) -> dict[str, str]:
    gaps = {stage: beside.get((backend, lock, measure, stage)) for stage in (MIXED, ROLLBACK)}
    return {
        stage: f"{gap.middle:.3g} {gap.unit}, worst {gap.worst:.3g} {gap.unit}" if gap else "-"
        for stage, gap in gaps.items()
    }


def _bites(bites: Iterable[Bite]) -> list[tuple[str, str, dict[str, Bite]]]:
    """(backend, what, stage → how often)."""
    rows: dict[tuple[str, str], dict[str, Bite]] = {}
    for bite in bites:
        rows.setdefault((bite.backend, bite.what), {})[bite.stage] = bite
    order = sorted(rows, key=lambda key: (key[0], BITES.index(key[1])))
    return [(backend, what, rows[backend, what]) for backend, what in order]

"""The certificate as one printed page: the verdict, the promises on both versions, what changes, what it rests on."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from results import files
from results.certificate.certificate import Certificate, Promise, sentence
from results.certificate.stages import STAGES
from results.certificate.written import NAME
from results.comparison import compared
from results.comparison.comparison import Change, Seen
from results.pages import web
from results.pages.links import to_page


def render(certificate: Certificate, told: Mapping[str, Any], root: Path) -> str:
    """The page as HTML. told: what certificate.json says. root: the run's folder, in which the page will stand."""
    notable = [one for one in certificate.promises if any(seen.word.fails for seen in one.stages.values())]
    rest = [one for one in certificate.promises if one not in notable]
    return web.render(
        "certificate.html",
        title=f"certificate of {root.name} - fencepost",
        run=root.name,
        sentence=sentence(certificate),
        upgrades=certificate.upgrades,
        stages=STAGES,
        doubts=certificate.doubts,
        regressed=[_change(one, root) for one in certificate.regressed],
        known=[_change(one, root) for one in certificate.known],
        notable=[_promise(one, certificate.cleared, root) for one in notable],
        kept=[_promise(one, certificate.cleared, root) for one in rest],
        bites=certificate.bites,
        heads=[{"A": "before", "B": "after"}.get(head, head) for head in compared.HEADS],
        speeds=[compared.cells(speed) for speed in compared.overall(certificate.comparison)],
        asked=told["asked"],
        again=shlex.join(map(str, told["asked"].get("command", ()))),
        digest=told["digest"],
        evidence=len(told["evidence"]),
        check=shlex.join([".venv/bin/python", "-m", "results", "verify", str(files.typed(root / NAME))]),
    )


def _promise(promise: Promise, cleared: Collection[Promise], root: Path) -> dict[str, Any]:
    return {
        "promise": promise,
        "cells": [_seen(promise.stages.get(stage), root) for stage in STAGES],
        "cleared": promise in cleared,
    }


def _seen(seen: Seen | None, root: Path) -> dict[str, Any] | None:
    if seen is None:
        return None
    return {"seen": seen, "link": "" if seen.page is None else to_page(seen.page, root)}


def _change(change: Change, root: Path) -> dict[str, Any]:
    after = change.after
    page = None if after is None else after.page
    return {"change": change, "seen": after, "link": "" if page is None else to_page(page, root)}

"""Templates to pages that open from disk: no request leaves them, and nothing in them runs but our own scripts.

Autoescaping is on for every template. The policy in each page allows exactly the style and the script that the room
wrote, by their hashes, so that even a string that escaped the escaping could not run. The script that draws timelines
stands once per run folder. A page opened from disk cannot check what is in such a file: browsers refuse `integrity` for
file:, and a hash in the policy admits only what stands in the page. So its element is admitted by a nonce, which is the
hash of the page around it: the same page always has the same, and no string in it can have known it.
"""

import base64
import hashlib
import json
import os
import re
import secrets
import zlib
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from checkers.claims import Verdict
from results.pages.shapes import SHAPES
from results.report.sentences import MEANINGS

_TEMPLATES: Final = Path(__file__).parent / "templates"
_TIMELINE: Final = (
    "timeline-sums.js",
    "timeline-data.js",
    "timeline-sheet.js",
    "timeline-rows.js",
    "timeline-strips.js",
    "timeline-find.js",
    "timeline.js",
)
"""Parts of the shared script, in the order in which they build on each other."""
_ASSET: Final = "timeline.js"

_UNSEEN: Final = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Controls, what turns the direction of text around, and halves of characters, which no file can hold."""

GLYPHS: Final[dict[Verdict, str]] = {
    Verdict.VIOLATED: "✖",
    Verdict.HAZARD_NOT_SHOWN: "∅",
    Verdict.UNKNOWN: "?",
    Verdict.UNEXERCISED: "○",
    Verdict.BROKEN_AS_DOCUMENTED: "◆",
    Verdict.NOT_CLAIMED_BROKEN: "◇",
    Verdict.NOT_CLAIMED_HELD: "◦",
    Verdict.UPHELD: "✔",
    Verdict.NOT_APPLICABLE: "-",
}


def render(
    template: str,
    *,
    script: str = "page.js",
    style: str = "",
    assets: str = "",
    inline: bool = False,
    **context: Any,
) -> str:
    """A whole page. template, script, style: files of `templates/`; the style follows on that of all pages.

    assets  of a page with a timeline: the relative path from the page to the run's folder of assets.
    inline  the shared script stands in the page itself, which is then one self-contained file.
    """
    styles = _joined("style.css", style, "timeline.css" if assets or inline else "")
    scripts = _joined(script)
    # What stands for the nonce until it is known; not to be guessed, for all of it is replaced.
    unknown = secrets.token_hex(16)
    sources, shared = [_digest(scripts)], Markup()
    if inline:
        sources.append(_digest(timeline_script()))
        shared = Markup("<script>{}</script>").format(Markup(timeline_script()))
    elif assets:
        sources.append(f"'nonce-{unknown}'")
        shared = Markup('<script src="{}/{}" nonce="{}"></script>').format(assets, _ASSET, unknown)
    policy = (
        f"default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src {_digest(styles)}; script-src {' '.join(sources)}"
    )
    text = spelled(
        _environment()
        .get_template(template)
        .render(style=styles, script=scripts, shared=shared, policy=policy, **context)
    )
    known = hashlib.sha256(text.replace(unknown, "").encode()).hexdigest()[:32]
    return text.replace(unknown, known)


def fragment(template: str, **context: Any) -> Markup:
    """A part of a page, of a file of `templates/`."""
    return Markup(_environment().get_template(template).render(**context))


def spelled(text: str) -> str:
    """A text in which what nobody sees, or what turns others around, is spelled out as Python does."""
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def packed(text: str) -> str:
    """Deflated, in base64, in which no text can end an element; `fencepost.unpacked` of `page.js` is the inverse."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return base64.b64encode(packer.compress(text.encode()) + packer.flush()).decode()


def write_assets(folder: Path) -> None:
    """Puts the shared script into a run's folder, if it is not there yet; several processes may do so at once."""
    path = folder / "assets" / _ASSET
    text = timeline_script()
    try:
        if path.read_text("utf-8") == text:
            return
    except (FileNotFoundError, UnicodeDecodeError):
        path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{_ASSET}.{os.getpid()}.{secrets.token_hex(4)}.partial")
    partial.write_text(text, "utf-8")
    partial.replace(path)


@cache
def timeline_script() -> str:
    """The script that draws timelines."""
    parts = "".join((_TEMPLATES / name).read_text("utf-8") for name in _TIMELINE)
    return f'"use strict";\n(() => {{\nconst PATHS = {json.dumps(SHAPES)};\n{parts}}})();\n'


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(glyphs=GLYPHS, meanings=MEANINGS, Verdict=Verdict)
    return environment


@cache
def _joined(*names: str) -> Markup:
    return Markup("".join((_TEMPLATES / name).read_text("utf-8") for name in names if name))


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

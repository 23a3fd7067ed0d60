"""Renders templates to pages that open from disk, make no request, and run only our own scripts. Makes links to pages.

Autoescaping is on for every template. The policy in each page allows exactly our style and our script, by their hashes,
so a string could not run even if it were not escaped. The script that draws timelines is stored once in a run folder.
A page from disk cannot check that file: browsers refuse `integrity` for file:, and a hash in the policy allows only
scripts inside the page. So the policy allows the script by a nonce, which is the hash of the page around it. The same
page always has the same nonce, and no string in the page can know it beforehand.
"""

import base64
import hashlib
import json
import os
import re
import secrets
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from checkers.claims import Verdict
from checkers.properties.story_sentences import listing
from results.pages.svg import SHAPES
from results.report.descriptions import explained
from results.report.grid import SIGNS
from results.storage import files
from results.text import count, few, plain

_TEMPLATES: Final = Path(__file__).parent / "templates"
_TIMELINE: Final = (
    "timeline-sums.js",
    "timeline-data.js",
    "timeline-sheet.js",
    "timeline-rows.js",
    "timeline-strips.js",
    "timeline-find.js",
    "timeline-logs.js",
    "timeline.js",
)
"""Parts of the shared script. Each uses only the parts before it."""
RUN_SCRIPT: Final = ("page.js", "tables.js", "run-matrix.js", "run-filters.js", "run-panel.js", "run.js")
"""Parts of the script of a run's page, in this order in one function: each knows what is in the others, but while the
page loads it uses only the parts before it."""
_ASSET: Final = "timeline.js"

_LINK: Final = re.compile(r'<a [^<>]*href="(?!#)[^"<>]*"[^<>]*>')
"""A link that leads out of the page. Recorded strings are escaped, so none of them matches."""
_UNSEEN: Final = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, characters that change the direction of text, and lone surrogates, which no file can hold."""


def render(
    template: str,
    *,
    script: Sequence[str] = ("page.js",),
    style: str = "",
    assets: str = "",
    inline: bool = False,
    **context: Any,
) -> str:
    """A whole page. template, style: files of `templates/`; the style comes after that of all pages.

    script  files of `templates/` that are one script together.
    assets  of a page with a timeline: the relative path from the page to the run's folder of assets.
    inline  the shared script stands in the page itself, which is then one self-contained file.
    """
    styles = _joined("style.css", style, "timeline.css" if assets or inline else "")
    scripts = _enclosed(*script)
    # Stands for the nonce until that is known. It cannot be guessed, so no string in a page has it and is replaced too.
    unknown = secrets.token_hex(16)
    sources, shared = [_digest(scripts)], Markup()
    if inline:
        sources.append(_digest(timeline_script()))
        shared = Markup("<script>{}</script>").format(timeline_script())
    elif assets:
        sources.append(f"'nonce-{unknown}'")
        shared = Markup('<script src="{}/{}" nonce="{}"></script>').format(assets, _ASSET, unknown)
    policy = (
        f"default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src {_digest(styles)}; script-src {' '.join(sources)}"
    )
    made = _environment().get_template(template)
    text = spelled(made.render(style=styles, script=scripts, shared=shared, policy=policy, **context))
    known = hashlib.sha256(text.replace(unknown, "").encode()).hexdigest()[:32]
    return text.replace(unknown, known)


def fragment(template: str, **context: Any) -> Markup:
    """A part of a page, from a file of `templates/`."""
    return Markup(_environment().get_template(template).render(**context))


def to_page(page: Path | None, root: Path, lane: str | None = None, property: str = "") -> str:
    """A link from a page in `root`; empty without a page. `run-panel.js` makes the same."""
    if page is None:
        return ""
    path = quote(page.relative_to(root).as_posix(), errors="surrogateescape")
    return path if lane is None else path + at_lane(lane, property)


def at_lane(lane: str, property: str = "") -> str:
    """The end of a link to a trial's page: which lane is shown, and the violation of which property."""
    return f"#lane={quote(plain(lane), safe='')}" + (f"&property={quote(plain(property), safe='')}" if property else "")


def relative(page: Path | None, folder: Path) -> str:
    """A link to a page from one in a resolved folder, wherever both are; empty if there is no such page."""
    if page is None or not page.is_file():
        return ""
    return quote(Path(os.path.relpath(page.resolve(), folder)).as_posix(), errors="surrogateescape")


def without_links(text: str) -> str:
    """A page to be sent to somebody: links that lead out of the page become plain words."""
    return _LINK.sub("<a>", text)


def spelled(text: str) -> str:
    """A text in which invisible characters, and those that change the direction of text, are written as escapes."""
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def packed(text: str) -> str:
    """A text deflated and in base64, which cannot end an element. `fencepost.unpacked` of `page.js` is the inverse."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return base64.b64encode(packer.compress(text.encode()) + packer.flush()).decode()


def write_assets(folder: Path) -> None:
    """Write the shared script into a run's folder if it is not there. Several processes may do so at the same time.

    Raises BadFile where a link would lead it out of the folder.
    """
    path = files.inside(folder / "assets", _ASSET)
    text = timeline_script()
    try:
        if path.read_text("utf-8") == text:
            return
    except (FileNotFoundError, UnicodeDecodeError):
        path.parent.mkdir(parents=True, exist_ok=True)
    files.write_text(path, text)


@cache
def timeline_script() -> Markup:
    return _enclosed(*_TIMELINE, before=f"const PATHS = {json.dumps(SHAPES)};\n")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(explained=explained, thousands="{:,}".format)
    environment.filters["shortened"] = lambda names, most: listing(few(names, most))
    environment.globals.update(
        count=count,
        glyphs={word: signs.glyph for word, signs in SIGNS.items()},
        meanings={word: signs.meaning for word, signs in SIGNS.items()},
        short={word: signs.short for word, signs in SIGNS.items()},
        Verdict=Verdict,
    )
    return environment


@cache
def _joined(*names: str) -> Markup:
    return Markup("".join((_TEMPLATES / name).read_text("utf-8") for name in names if name))


@cache
def _enclosed(*names: str, before: str = "") -> Markup:
    """Scripts in one function, so that other scripts of the page do not see their names."""
    return Markup(f'"use strict";\n(() => {{\n{before}{_joined(*names)}}})();\n')


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

"""Templates to pages that open from disk: no request leaves them, and nothing in them runs but our own script.

Autoescaping is on for every template. The policy in each page allows exactly the style and the script that the room
wrote, by their hashes, so that even a string that escaped the escaping could not run.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from checkers.claims import Word
from results.story import MEANINGS

_TEMPLATES: Final = Path(__file__).parent / "templates"

GLYPHS: Final[dict[Word, str]] = {
    Word.VIOLATED: "✖",
    Word.HAZARD_NOT_SHOWN: "∅",
    Word.UNKNOWN: "?",
    Word.UNEXERCISED: "○",
    Word.BROKEN_AS_DOCUMENTED: "◆",
    Word.NOT_CLAIMED_BROKEN: "◇",
    Word.NOT_CLAIMED_HELD: "◦",
    Word.UPHELD: "✔",
    Word.NOT_APPLICABLE: "-",
}


def render(template: str, **context: Any) -> str:
    """A whole page. template: a file of `templates/`."""
    environment, style, script = _made()
    policy = (
        f"default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src {_digest(style)}; script-src {_digest(script)}"
    )
    return environment.get_template(template).render(style=style, script=script, policy=policy, **context)


@cache
def _made() -> tuple[Environment, Markup, Markup]:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(glyphs=GLYPHS, meanings=MEANINGS, Word=Word)
    style, script = (Markup((_TEMPLATES / name).read_text("utf-8")) for name in ("style.css", "page.js"))
    return environment, style, script


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

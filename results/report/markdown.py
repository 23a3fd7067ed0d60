"""Markdown from templates, in which recorded strings cannot act as markup.

Characters with a meaning in Markdown or HTML are written as character references. Text from which renderers would make
links, mentions or pictures is split by an invisible character.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from checkers.claims import Verdict
from results.text import count, in_a_line, plain

_LONGEST: Final = 600  # characters of one recorded string
_LINKED: Final = re.compile(r"@|#(?=\d)|:(?=//|[\w+-]+:)|\bwww(?=\.)", re.IGNORECASE)
"""Where renderers begin to make a link, a mention or a picture out of plain text."""
_PLAIN: Final = re.compile(r"[^\W_]|[ ,;()/'%?]|(?<=[^\W_])[-.](?=[^\W_])|[^\x00-\x7f]")
"""Characters without a meaning in Markdown, everywhere or inside a word."""


def render(template: str, **context: Any) -> str:
    """A document. template: a file of `templates/`, where `code` shows a name, and `own` marks words of ours, which are
    taken as they are. All else is shown as text.
    """
    return _environment().get_template(template).render(**context)


def macros(template: str, **context: Any) -> Any:
    """The macros of a template, as functions that give Markdown."""
    return _environment().get_template(template).make_module(context)


def text(words: str) -> str:
    """A recorded string as text on one line, for Markdown and for HTML."""
    words = in_a_line(words)
    shown = plain(words if len(words) <= _LONGEST else words[:_LONGEST] + "...")
    parted = _LINKED.sub(lambda match: match[0] + "\u2060", shown)
    plainly = {match.start() for match in _PLAIN.finditer(parted)}
    return "".join(letter if at in plainly else f"&#{ord(letter)};" for at, letter in enumerate(parted))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,  # what macros give is taken as it is
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(code=lambda words: Markup(f"<code>{text(str(words))}</code>"), own=Markup)
    environment.globals.update(count=count)
    return environment


def _shown(value: object) -> Markup:
    """The value of an expression in a template."""
    if isinstance(value, Markup):
        return value
    return Markup(str(value) if isinstance(value, int | Verdict) else text(str(value)))

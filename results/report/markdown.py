"""Recorded strings in Markdown: shown as the text that they are, whatever they hold.

Whatever means anything in Markdown or HTML is written as a character reference, and what renderers make links, names or
pictures of is parted.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from results.text import in_a_line, plain

_LONGEST: Final = 600
"""Characters of one recorded string."""
_LINKED: Final = re.compile(r"@|#(?=\d)|:(?=//|[\w+-]+:)|\bwww(?=\.)", re.IGNORECASE)
"""Where renderers begin to make a link, a name or a picture out of plain text: what follows is parted from it."""
_PLAIN: Final = re.compile(r"[^\W_]|[ ,;()/'%?]|(?<=[^\W_])[-.](?=[^\W_])|[^\x00-\x7f]")
"""What means nothing in Markdown, as such or inside a word."""


def text(words: str) -> str:
    """A recorded string as text on one line, in Markdown and in HTML."""
    words = in_a_line(words)
    shown = plain(words if len(words) <= _LONGEST else words[:_LONGEST] + "...")
    parted = _LINKED.sub(lambda match: match[0] + "\u2060", shown)
    plainly = {match.start() for match in _PLAIN.finditer(parted)}
    return "".join(letter if at in plainly else f"&#{ord(letter)};" for at, letter in enumerate(parted))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = False) -> list[str]:
    """The lines of a table, whose entries are Markdown already. numbers: in all columns but the first."""
    rule = "|---" + ("|--:" if numbers else "|---") * (len(head) - 1) + "|"
    first, *others = (f"| {' | '.join(row)} |" for row in (head, *rows))
    return [first, rule, *others]


def code(words: str) -> str:
    """The same in the letters of a program: for names."""
    return f"<code>{text(words)}</code>"

"""Recorded strings in Markdown, where no part of them may act as markup.

Characters with a meaning in Markdown or HTML are written as character references. Text of which renderers would make
links, mentions or pictures is split by an invisible character.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from results.text import in_a_line, plain

_LONGEST: Final = 600
"""Characters of one recorded string."""
_LINKED: Final = re.compile(r"@|#(?=\d)|:(?=//|[\w+-]+:)|\bwww(?=\.)", re.IGNORECASE)
"""Where renderers begin to make a link, a mention or a picture out of plain text."""
_PLAIN: Final = re.compile(r"[^\W_]|[ ,;()/'%?]|(?<=[^\W_])[-.](?=[^\W_])|[^\x00-\x7f]")
"""Characters without a meaning in Markdown, everywhere or inside a word."""


def text(words: str) -> str:
    """A recorded string as text on one line, for Markdown and for HTML."""
    words = in_a_line(words)
    shown = plain(words if len(words) <= _LONGEST else words[:_LONGEST] + "...")
    parted = _LINKED.sub(lambda match: match[0] + "\u2060", shown)
    plainly = {match.start() for match in _PLAIN.finditer(parted)}
    return "".join(letter if at in plainly else f"&#{ord(letter)};" for at, letter in enumerate(parted))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = False) -> list[str]:
    """The lines of a table. Entries are Markdown already. numbers: all columns but the first hold numbers."""
    rule = "|---" + ("|--:" if numbers else "|---") * (len(head) - 1) + "|"
    first, *others = (f"| {' | '.join(row)} |" for row in (head, *rows))
    return [first, rule, *others]


def code(words: str) -> str:
    """`text` in a fixed-width font, for names."""
    return f"<code>{text(words)}</code>"

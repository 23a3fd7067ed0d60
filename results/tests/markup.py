"""Reads pages for tests, as elements and as plain lines of words. Compares long texts with files in `golden/`.

`GOLDEN=rewrite .venv/bin/python -m pytest results/tests` writes these files anew. Review what `git diff` shows then.
"""

import base64
import itertools
import json
import os
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final, NamedTuple

VOID: Final = {"meta", "link", "input", "br", "hr", "img", "col"}
UNREAD: Final = {"script", "style"}

LINES: Final = dict.fromkeys(("p", "tr", "dt", "figcaption", "div", "section", "pre"), "") | {
    "h1": "# ", "h2": "## ", "h3": "### ", "h4": "#### ", "li": "- ", "summary": "+ ", "title": "~ ",
}  # fmt: skip
"""Elements that are a line of their own in `Page.lines`, and how that line begins."""

JOINED: Final = {"td": "|", "th": "|", "dd": ":"}  # elements that continue a line, and the sign before them


def golden(name: str, text: str) -> str:
    """The stored text of this name, to which `text` must be equal. `GOLDEN=rewrite` writes it anew."""
    file = Path(__file__).parent / "golden" / name
    if os.environ.get("GOLDEN") == "rewrite":
        file.write_text(text, "utf-8")
    return file.read_text("utf-8")


def unpacked(text: str) -> str:
    """The text that a page keeps packed until somebody asks for it."""
    return zlib.decompress(base64.b64decode(text), -zlib.MAX_WBITS).decode()


class Element(NamedTuple):
    """words: the texts inside the element. depth: how many elements are around it."""

    tag: str
    given: dict[str, str]
    words: list[str]
    depth: int

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


class Page(HTMLParser):
    """The elements of a page in order. Raises AssertionError if an element is not closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self._words: list[str] = []
        self._lines: list[str] = []
        self._said: list[str] = []
        self.feed(text)
        self.close()
        self._end_line()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self._open.append(self.elements[-1])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.elements.append(Element(tag, given, [], len(self._open)))
        if tag in LINES:
            self._end_line(LINES[tag])
        elif tag in JOINED:
            self._words.append(JOINED[tag])
        elif tag == "a" and given.get("href", "#")[0] != "#":
            self._words.append(f"<{given['href']}>")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().tag == tag
        if tag in LINES and tag != "dt":
            self._end_line()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.words.append(data)
        if self._open and self._open[-1].tag not in UNREAD:
            self._words.append(data)
            self._said.append(data)

    def _end_line(self, begin: str = "") -> None:
        line = " ".join(" ".join(self._words).split())
        if line.strip("#+-~:| "):
            self._lines.append(line)
        self._words = [begin]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._said).split())

    @property
    def lines(self) -> str:
        """For `golden`: a line for each heading, paragraph, item, row and title of a mark; with addresses of links."""
        return "\n".join(self._lines) + "\n"

    def all(self, tag: str, **attributes: str) -> Iterator[Element]:
        """Elements with these attributes. `class_` stands for `class`, `data_i` for `data-i`."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return (one for one in self.elements if one.tag == tag and wanted.items() <= one.given.items())

    def one(self, tag: str, **attributes: str) -> str:
        [element] = self.all(tag, **attributes)
        return element.text

    def within(self, tag: str, **attributes: str) -> list[Element]:
        """The first element with these attributes, and all elements inside of it."""
        first = self.elements.index(next(self.all(tag, **attributes)))
        inside = itertools.takewhile(lambda one: one.depth > self.elements[first].depth, self.elements[first + 1 :])
        return [self.elements[first], *inside]

    @property
    def data(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.one("script", id="data"))
        return loaded

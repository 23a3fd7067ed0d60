"""EDN, the notation of Clojure's data: a complete reader.

Values come out hashable: vectors and lists as tuples, sets as frozensets, maps as `FrozenMap`. Keywords keep their
colon. A string that could be taken for a keyword, symbol, character or tag keeps its quotes: no two forms become the
same value. A tagged form becomes a pair of tag and value, a record (``#jepsen.history.Op{...}``) its map.
"""

import re
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Final

from checkers.history.foreign_values import DEEPEST, FrozenMap, encodable, finite, frozen_map, no_value, shown, whole


class Malformed(ValueError):
    """The text is not EDN. line: counted from 0 at the start of the text."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


class CutShort(Malformed):
    """The text ends within a form."""


# Repetitions are possessive throughout: text that was skipped or read is never matched in another way.
_BLANK: Final = re.compile(r"(?:[\s,]|;[^\n]*+)*+")
_TOKEN: Final = re.compile(
    r"""(?P<atom>[^\s,\[\](){}";\#\\^@`~][^\s,\[\](){}";\\^@`~]*+)
    |(?P<string>"(?:[^"\\]|\\.)*+")
    |(?P<open>\#\{|[\[({])
    |(?P<close>[\])}])
    |(?P<special>\#\#[A-Za-z]++)
    |(?P<tag>\#[^\s,\[\](){}";\#\\^@`~_][^\s,\[\](){}";\#\\^@`~]*+)
    |(?P<character>\\(?:[a-zA-Z0-9]++|.))""",
    re.VERBOSE | re.DOTALL,
)
_INTEGER: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*+)N?\Z", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?[0-9]")
_FLOAT: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*+)(?:\.[0-9]*+)?(?:[eE][+-]?[0-9]++)?(M?)\Z", re.ASCII)
_RATIO: Final = re.compile(r"([+-]?[0-9]++)/([0-9]++)\Z", re.ASCII)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "'": "'", "/": "/"}
_WORDS: Final = {"nil": None, "true": True, "false": False}
_CLOSING: Final = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_TAKEN: Final = frozenset(":'\"\\#")
"""First characters of the values of other forms, and the quote. A string that begins so keeps its quotes."""

RECORD: Final = re.compile(r"#[A-Za-z_][\w-]*+(?:\.[A-Za-z_][\w$-]*+)++")
"""The tag of a record: a class with its package."""


class Reader:
    """Reads forms one by one. at: where the next begins; begun: where the last began, tags and discards aside."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = self.begun = 0

    def line(self, at: int | None = None) -> int:
        """Line of a place in the text, from 0."""
        return self._text.count("\n", 0, self.at if at is None else at)

    def peek(self, depth: int = 0) -> str:
        """The first character of the next form, empty at the end. Passes over what is discarded. Raises Malformed."""
        while True:
            blank = _BLANK.match(self._text, self.at)
            self.at = blank.end() if blank else self.at
            if not self._text.startswith("#_", self.at):
                return self._text[self.at : self.at + 1]
            self.at += len("#_")
            self.form(self._nested(depth, self.at - len("#_")))

    def form(self, depth: int = 0) -> Any:
        """The next form. depth: how many it is part of. Raises Malformed; CutShort where the text ends first."""
        if not self.peek(depth):
            raise CutShort(self.line(), "the file ends in the middle of a form")
        start = self.at
        token = _TOKEN.match(self._text, start)
        if token is None:
            raise self._refused(start)
        self.at = token.end()
        kind, text = token.lastgroup, token.group()
        if kind == "tag":
            return self._tagged(text, self.form(self._nested(depth, start)), start)
        if kind == "close":
            raise Malformed(self.line(start), f"{text} closes nothing that was opened")
        items = []
        if kind == "open":
            while self.peek(inner := self._nested(depth, start)) != _CLOSING[text]:
                items.append(self.form(inner))
            self.at += 1
        try:
            value = _collection(text, items) if kind == "open" else _SCALARS[str(kind)](text)
        except ValueError as error:
            raise Malformed(self.line(start), str(error)) from error
        self.begun = start
        return value

    def _nested(self, depth: int, start: int) -> int:
        """The depth of what is part of the form that begins at `start`."""
        if depth >= DEEPEST:
            raise Malformed(self.line(start), f"nested deeper than {DEEPEST}")
        return depth + 1

    def spans(self) -> Iterator[tuple[Any, int, int]]:
        """The keys of the map that comes next, each with where its value begins and ends. Raises Malformed."""
        if self.peek() != "{":
            raise Malformed(self.line(), "not a map")
        self.at += 1
        while self.peek() != "}":
            key = self.form()
            self.peek()
            start = self.at
            self.form()
            yield key, start, self.at
        self.at += 1

    def _refused(self, start: int) -> Malformed:
        rest = self._text[start : start + 20]
        if rest[0] == '"':
            return CutShort(self.line(start), "a string without an end")
        if rest in ("#", "\\", "##"):
            return CutShort(self.line(start), "the file ends in the middle of a form")
        return Malformed(self.line(start), f"not EDN: {shown(rest)}")

    def _tagged(self, tag: str, value: Any, begun: int) -> Any:
        if isinstance(value, FrozenMap):
            if tag.startswith("#:"):  # a map whose keys share a namespace
                return FrozenMap((_qualified(tag[2:], key), item) for key, item in value)
            if RECORD.fullmatch(tag):
                return value
        elif tag.startswith("#:"):
            raise Malformed(self.line(begun), f"{shown(tag)} stands before something that is no map")
        return (tag, value)


def _collection(opened: str, items: list[Any]) -> Any:
    if opened in "[(":
        return tuple(items)
    if opened == "#{":
        elements = frozenset(items)
        if len(elements) != len(items):
            raise ValueError("a set holds something twice")
        return elements
    if len(items) % 2:
        raise ValueError("a map with a key and no value")
    return frozen_map(zip(items[::2], items[1::2], strict=True))


def _qualified(space: str, key: Any) -> Any:
    return f":{space}/{key[1:]}" if isinstance(key, str) and key.startswith(":") and "/" not in key else key


def atom(text: str) -> Any:
    """A number, keyword, symbol, nil or boolean. Raises ValueError."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] == ":":
        if text in (":", "::"):
            raise ValueError("a keyword without a name")
        return text
    if _NUMBER.match(text):
        return number(text)
    return f"'{text}"


def number(text: str) -> Any:
    """An integer, float, decimal or ratio. Raises ValueError."""
    if _INTEGER.match(text):
        return whole(text)
    decimal = _FLOAT.match(text)
    if decimal and len(text) <= 1000:
        if decimal[1]:
            try:
                return Decimal(text[:-1])
            except InvalidOperation as error:
                raise ValueError(f"{shown(text)} is out of range") from error
        return finite(text)
    ratio = _RATIO.match(text)
    if ratio and len(text) <= 1000 and int(ratio[2]):
        return Fraction(int(ratio[1]), int(ratio[2]))
    raise ValueError(f"{shown(text)} is not a number")


def string(text: str) -> str:
    """The text of a string in quotes. Raises ValueError."""
    body = text[1:-1]
    body = encodable(_ESCAPE.sub(_unescaped, body) if "\\" in body else body)
    return f'"{body}"' if body[:1] in _TAKEN else body


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    if code[0] == "u" and len(code) == 5:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8))
    if code not in _ESCAPES:
        raise ValueError(f"a string with the unknown escape {shown(escape[0])}")
    return _ESCAPES[code]


# Kind of a token (see `_TOKEN`) → what makes a value of its text, or raises ValueError.
_SCALARS: Final[dict[str, Callable[[str], Any]]] = {
    "atom": atom,
    "string": string,
    "character": str,
    "special": no_value,
}


def value_of(text: str) -> Any:
    """The value of a text that is one form and nothing else. Raises Malformed."""
    reader = Reader(text)
    value = reader.form()
    if reader.peek():
        raise Malformed(0, "more than one form")
    return value

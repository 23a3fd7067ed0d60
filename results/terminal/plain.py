"""Recorded strings as plain text: they can neither style nor steer a terminal, nor break an encoding or a file."""


def plain(words: str, encoding: str = "utf-8") -> str:
    """One line; what is not printable, and what the encoding lacks, is spelled out: an escape as backslash, x1b."""
    shown = "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in words)
    return shown.encode(encoding, "backslashreplace").decode(encoding)


def plain_lines(text: str) -> str:
    """The same of a text of several lines."""
    return "\n".join(map(plain, text.splitlines()))

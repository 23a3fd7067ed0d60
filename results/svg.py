"""Pictures as text: SVG elements whose attributes and contents are always escaped."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

Attribute = str | int | float | None


def number(value: float) -> str:
    """As short as a tenth of a pixel allows."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")


def tag(name: str, *children: str, **attributes: Attribute) -> Markup:
    """One element. `class_` and `stroke_width` become class and stroke-width; None leaves an attribute out.

    Children that are plain text are escaped, `Markup` is taken as it is.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None:
            continue
        text = number(value) if isinstance(value, float) else escape(str(value))
        parts.append(f' {key.rstrip("_").replace("_", "-")}="{text}"')
    if not children:
        parts.append("/>")
    else:
        parts.append(">")
        parts.extend(escape(child) for child in children)
        parts.append(f"</{name}>")
    return Markup("".join(parts))


def join(parts: Iterable[Markup]) -> Markup:
    """Elements one after another."""
    return Markup("").join(parts)


def spans(pairs: Iterable[tuple[float, float]], y: float, height: float) -> str:
    """Path data of filled boxes of one height, far shorter than as many rectangles."""
    return "".join(
        f"M{number(left)} {number(y)}h{number(right - left)}v{number(height)}h{number(left - right)}z"
        for left, right in pairs
    )

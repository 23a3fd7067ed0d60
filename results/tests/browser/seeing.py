"""What people can see and reach: contrasts of texts, obstacles to keyboards and screen readers, missing characters."""

from collections.abc import Iterable
from typing import Final

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

CONTRAST: Final = 4.5  # the contrast that WCAG 2 demands of text of ordinary size (AA)

_CONTRASTS: Final = """
(paper) => {
  const scratch = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const over = (below, colour, opacity = 1) => {
    for (const [one, alpha] of [[`rgb(${below.join()})`, 1], [colour, opacity]]) {
      scratch.globalAlpha = alpha;
      scratch.fillStyle = one;
      scratch.fillRect(0, 0, 1, 1);
    }
    return [...scratch.getImageData(0, 0, 1, 1).data.slice(0, 3)];
  };
  const ground = (element) => {
    if (!element) return paper || over([255, 255, 255], "canvas");
    const below = ground(element.parentElement), style = getComputedStyle(element);
    return paper && style.printColorAdjust !== "exact" ? below : over(below, style.backgroundColor);
  };
  // In a drawing, what is behind a text is whatever shape was drawn there last.
  const behind = (text, box) => {
    let below = ground(text.ownerSVGElement);
    const shapes = document.elementsFromPoint(box.x + box.width / 2, box.y + box.height / 2)
      .filter((one) => one instanceof SVGGeometryElement && one.ownerSVGElement === text.ownerSVGElement);
    for (const shape of shapes.reverse()) {
      if (!(shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)) continue;
      const { fill, fillOpacity } = getComputedStyle(shape);
      if (/^(rgb|color)/.test(fill)) below = over(below, fill, Number(fillOpacity));
    }
    return below;
  };
  const light = (colour) => {
    const [red, green, blue] = colour.map((part) => {
      const value = part / 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.data.trim()) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getClientRects()[0], element = node.parentElement, style = getComputedStyle(element);
    if (!box || style.visibility !== "visible") continue;
    const drawing = element instanceof SVGElement;
    const below = drawing ? behind(element, box) : ground(element);
    let opacity = 1;
    for (let one = element; one; one = one.parentElement) opacity *= Number(getComputedStyle(one).opacity);
    const own = over(below, drawing ? style.fill : style.color, opacity);
    const [dark, bright] = [light(own), light(below)].sort((one, other) => one - other);
    const contrast = (bright + 0.05) / (dark + 0.05);
    found.push([node.data.trim().slice(0, 60), contrast, light(below)]);
  }
  return found;
}
"""
"""In SVG drawings, the shape behind a text is found only inside the window."""


def texts(page: Page, *, on_paper: bool = False) -> list[tuple[str, float, float]]:
    """(beginning, WCAG 2 contrast, lightness of the ground, 0 to 1) of each. on_paper: without most backgrounds."""
    return list(map(tuple, page.evaluate(_CONTRASTS, [255, 255, 255] if on_paper else None)))


def faint(seen: Iterable[tuple[str, float, float]]) -> list[str]:
    """Texts with too little contrast, each once, as `contrast: text`."""
    return [f"{contrast:.1f}: {text}" for text, contrast in sorted({each[:2] for each in seen if each[1] < CONTRAST})]


def obstacles(page: Page) -> list[str]:
    """What axe-core finds in the way of people who use a keyboard or a screen reader. `texts` measures contrasts."""
    rules = {"resultTypes": ["violations"], "rules": {"color-contrast": {"enabled": False}}}
    violations = Axe().run(page, options=rules).response["violations"]
    return [f"{each['impact']}, {each['id']}: {each['nodes'][0]['html'][:200]}" for each in violations]


_TOFU: Final = """
() => {
  const size = 40, context = new OffscreenCanvas(size, size).getContext("2d", { willReadFrequently: true });
  context.textBaseline = "middle";
  const picture = (text, font) => {
    context.clearRect(0, 0, size, size);
    context.font = font;
    context.fillText(text, 4, size / 2);
    return context.getImageData(0, 0, size, size).data.join();
  };
  const found = new Map(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const style = getComputedStyle(node.parentElement), font = `${style.fontWeight} 24px ${style.fontFamily}`;
    for (const one of node.data) if (one > "~" && !/\\s/.test(one)) found.set(one + font, [one, font]);
  }
  const empty = picture("", "24px serif");
  return [...found.values()]
    .map(([one, font]) => ({ one, drawn: ![empty, picture("\\u{10fffd}", font)].includes(picture(one, font)) }))
}
"""


def glyphs(page: Page) -> dict[str, bool]:
    """Each character beyond ASCII in the page's texts → whether a font of this machine can draw it."""
    found: dict[str, bool] = {}
    for item in page.evaluate(_TOFU):
        found[item["one"]] = found.get(item["one"], True) and item["drawn"]
    return found

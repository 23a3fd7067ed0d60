"""The whole lane on one axis: drawn, zoomed, moved along and asked, with the mouse and without."""

from typing import Final

import pytest
from playwright.sync_api import Browser, expect

from results.tests.browser.made import Made
from results.tests.browser.visit import box, settle, span, timeline

_FOUND: Final = """
(canvas) => {
  const found = new Map(), box = canvas.getBoundingClientRect();
  for (let y = 1; y < box.height; y += 2) {
    for (let x = 1; x < box.width; x += 2) {
      const one = canvas.operationAt(x, y);
      if (one && !found.has(one.row)) found.set(one.row, [one.row, x, y]);
    }
  }
  return [...found.values()];
}
"""
"""Every operation that the pointer can find: its row and a place."""


def test_every_operation_can_be_come_by(chromium: Browser, made: Made) -> None:
    """By the pointer what does not stand too close to others, by key all that workers did."""
    history = made.records["stale"].lanes[0].history
    with timeline(chromium, made.page("stale"), made.root) as (page, canvas):
        assert len(canvas.evaluate(_FOUND)) > len(history) / 2
        told: set[str] = set()
        canvas.press("ArrowDown")
        for _ in range(history.facts.workers):
            for key in (",", "."):  # back to the worker's first operation, and on to its last
                before = ""
                while before != (now := page.locator("#tip").inner_text()):
                    told.add(now)
                    before = now
                    canvas.press(key)
            canvas.press("ArrowDown")
    rows = {int(text.rpartition("row ")[2]) for text in told}
    own = history.columns["process"] < history.facts.workers  # what renews for them has a process of its own
    assert rows >= set(own.nonzero()[0].tolist())


def test_keys_zoom_and_move(chromium: Browser, made: Made) -> None:
    with timeline(chromium, made.page("stale"), made.root, motion="no-preference") as (_, canvas):
        whole = span(canvas)
        for _ in range(4):
            canvas.press("+")
        near = span(canvas)
        assert near[1] - near[0] < whole[1] - whole[0]
        assert whole[0] <= near[0] < near[1] <= whole[1]
        canvas.press("ArrowRight")
        right = span(canvas)
        assert right[0] > near[0]
        assert right[1] - right[0] == pytest.approx(near[1] - near[0])
        canvas.press("ArrowLeft")
        assert span(canvas) == pytest.approx(near)
        canvas.press("-")
        begin, end = span(canvas)
        assert end - begin > near[1] - near[0]
        canvas.press("+")
        canvas.press("0")
        assert span(canvas) == pytest.approx(whole)


def test_the_wheel_zooms_where_it_points_and_dragging_moves(chromium: Browser, made: Made) -> None:
    with timeline(chromium, made.page("stale"), made.root, motion="no-preference") as (page, canvas):
        place, whole = box(canvas), span(canvas)
        page.mouse.move(place["x"] + place["width"] * 0.7, place["y"] + place["height"] * 0.3)
        page.mouse.wheel(0, -400)
        near = span(canvas)
        assert near[1] - near[0] < whole[1] - whole[0]
        assert near[0] - whole[0] > whole[1] - near[1]
        page.mouse.down()
        page.mouse.move(place["x"] + place["width"] * 0.8, place["y"] + place["height"] * 0.3, steps=4)
        page.mouse.up()
        moved = span(canvas)
        assert moved[0] < near[0]
        assert moved[1] - moved[0] == pytest.approx(near[1] - near[0], rel=1e-3)


def test_an_operation_is_told_of_under_the_pointer_and_kept_by_a_click(chromium: Browser, made: Made) -> None:
    with timeline(chromium, made.page("stale"), made.root) as (page, canvas):
        place = box(canvas)
        first, *_, last = canvas.evaluate(_FOUND)
        tip = page.locator("#tip")
        page.mouse.move(place["x"] + first[1], place["y"] + first[2])
        expect(tip).to_contain_text("worker")
        told = tip.inner_text()
        page.mouse.click(place["x"] + first[1], place["y"] + first[2])
        page.mouse.move(place["x"] + last[1], place["y"] + last[2])
        settle(page)
        assert tip.inner_text() == told
        page.keyboard.press("Escape")
        expect(tip).to_be_hidden()


def test_keys_go_to_violations(chromium: Browser, made: Made) -> None:
    record = made.records["stale"].lanes[0]
    moments = sorted({v.at for one in record.judgements if one.result for v in one.result.violations})
    with timeline(chromium, made.page("stale"), made.root) as (page, canvas):
        canvas.press("n")
        begin, end = span(canvas)
        first = moments[0] - int(record.history.columns["inv"][0])
        assert begin <= first <= end
        expect(page.locator("#tip")).to_contain_text("1 of")
        expect(page.locator("#tip")).to_contain_text(f"{first / 1e9:.3f}")

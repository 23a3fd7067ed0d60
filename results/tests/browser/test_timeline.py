"""The timeline of a lane has every operation, and shows trouble even from far away. A drawing costs what its pixels
cost. The view can be zoomed and moved, and operations can be looked up, with the mouse and without.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from checkers.history.history import History
from checkers.row_format import NONE, F, Outcome, Reason
from results.pages import trial_page as pages
from results.pages import web
from results.record import LaneRecord
from results.tests import samples
from results.tests.browser.made import Made
from results.tests.browser.visit import box, meddle, settle, span, timeline
from results.tests.test_timeline import HISTORIES

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
"""Every operation that the pointer can find: its row, and a point where the pointer finds it."""

_DECODED: Final = """
(canvas) => Array.from({ length: Number(canvas.dataset.operations) }, (_, n) => {
  const one = canvas.operation(n);
  return [one.row, one.worker, one.outcome, one.inv, one.end, String(one.token), String(one.value),
    one.words, one.result, one.key];
})
"""

_IN_ROW: Final = """
(canvas, y) => {
  const found = [];
  for (let x = 0; x < canvas.clientWidth; x++) found.push(canvas.operationAt(x, y));
  return found.filter((one) => one).map(({ row, outcome }) => [row, outcome]);
}
"""

_INK: Final = """
(canvas) => {
  const copy = new OffscreenCanvas(70 * devicePixelRatio, canvas.height), context = copy.getContext("2d");
  context.drawImage(canvas, 0, 0);
  const { data } = context.getImageData(0, 0, copy.width, copy.height);
  let sum = 0, count = 0;
  for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 250) sum += data[at + 1], count++;
  return sum / count;
}
"""
"""How bright the words beside the rows are, 0 to 255."""


def put(root: Path, *histories: History, logs: Mapping[str, bytes] = MappingProxyType({}), **about: object) -> Path:
    """Write the page of a trial with these lanes, as in a run's folder. Returns its path."""
    named = (replace(one, facts=replace(one.facts, lane=f"lane {n}")) for n, one in enumerate(histories))
    record = replace(samples.trial("trial", **about), lanes=tuple(LaneRecord(it, ()) for it in named), logs=dict(logs))
    path = root / "trials" / "trial" / "index.html"
    path.parent.mkdir(parents=True)
    path.write_text(pages.render(record, path.parent), "utf-8")
    web.write_assets(root)
    return path


def in_the_middle(canvas: Locator, of: float, y: float) -> tuple[float, float]:
    place = box(canvas)
    return place["x"] + place["width"] * of, place["y"] + y


def turned(page: Page, canvas: Locator, x: float, y: float) -> None:
    """Turn the wheel, and wait until the canvas has seen it."""
    before = canvas.get_attribute("data-begin")
    page.mouse.wheel(x, y)
    expect(canvas).not_to_have_attribute("data-begin", before or "")


def places(canvas: Locator) -> dict[str, Any]:
    """The layout of the canvas: places and heights of its parts, in CSS pixels."""
    data = "canvas.closest('.timeline').querySelector('script').textContent"
    found: dict[str, Any] = canvas.evaluate(f"async (canvas) => JSON.parse(await fencepost.unpacked({data})).places")
    return found


@pytest.mark.parametrize("name", ["crowded", "two-locks", "large-numbers"])
def test_every_operation_is_what_was_recorded(chromium: Browser, tmp_path: Path, name: str) -> None:
    history = HISTORIES[name]()
    c = history.columns
    with timeline(chromium, put(tmp_path, history), tmp_path) as (_, canvas):
        found = sorted(canvas.evaluate(_DECODED))
    origin = int(c["inv"][0])
    assert [one[0] for one in found] == list(range(len(history)))
    for row, worker, outcome, inv, end, token, value, words, result, key in found:
        assert worker == c["process"][row] % history.facts.workers
        assert outcome == int(c["outcome"][row]) - 1
        assert abs(inv - (int(c["inv"][row]) - origin)) < 1000
        assert (end is None) == (c["ret"][row] == 0)
        assert end is None or abs(end - (int(c["ret"][row]) - origin)) < 1000
        assert token == ("null" if c["token"][row] == NONE else str(c["token"][row]))
        if value != "null":
            assert value == str(c["value"][row])
            assert value in words
        assert history.errors[int(c["error"][row])] in result
        assert key == (history.facts.keys[int(c["key"][row])] if len(history.facts.keys) > 1 else None)


def test_a_refused_write_is_seen_from_far_away(chromium: Browser, tmp_path: Path) -> None:
    history = samples.long(30_000)
    c = {name: column.copy() for name, column in history.columns.items()}
    row = int(np.flatnonzero(c["f"] == F.WRITE)[len(history) // 9])
    c["outcome"][row], c["reason"][row] = Outcome.FAIL, Reason.STALE_TOKEN
    history = replace(history, columns=c)
    worker = int(c["process"][row]) % history.facts.workers
    with timeline(chromium, put(tmp_path, history), tmp_path) as (_, canvas):
        at = places(canvas)
        assert [row, "refused"] in canvas.evaluate(_IN_ROW, at["rows"] + worker * at["row"] + 6)
        others = [w for w in range(history.facts.workers) if w != worker]
        assert "refused" not in {o for _, o in canvas.evaluate(_IN_ROW, at["rows"] + others[0] * at["row"] + 6)}


def test_the_cost_of_a_drawing_does_not_grow_with_the_operations(chromium: Browser, tmp_path: Path) -> None:
    drawn = []
    for size in (12_000, 120_000):
        with timeline(chromium, put(tmp_path / str(size), samples.long(size)), tmp_path / str(size)) as (_, canvas):
            drawn.append(int(canvas.get_attribute("data-drawn") or 0))
    assert drawn[1] < min(1.5 * drawn[0], 20_000)


def test_only_the_lane_that_is_open_is_unpacked(chromium: Browser, tmp_path: Path) -> None:
    path = put(tmp_path, samples.stale_write(), samples.long(2000))
    with timeline(chromium, path, tmp_path) as (page, _):
        assert page.locator(".timeline canvas[data-ready]").count() == 1
    with timeline(chromium, path, tmp_path, lane=1) as (page, canvas):
        assert canvas.get_attribute("data-operations") == "2000"


def test_double_click_brush_wheel_and_button_move_the_view(chromium: Browser, tmp_path: Path) -> None:
    with timeline(chromium, put(tmp_path, samples.long(3000)), tmp_path) as (page, canvas):
        whole, at = span(canvas), places(canvas)
        canvas.dblclick(position={"x": 600, "y": at["rows"] + 5})
        near = span(canvas)
        assert near[1] - near[0] < (whole[1] - whole[0]) / 2
        page.mouse.move(*in_the_middle(canvas, 0.5, at["brush"] + 10))
        page.mouse.down()
        page.mouse.move(*in_the_middle(canvas, 0.6, at["brush"] + 10), steps=3)
        page.mouse.up()
        brushed = span(canvas)
        assert brushed[0] - near[0] == pytest.approx((whole[1] - whole[0]) * 0.1, rel=0.2)
        page.mouse.move(*in_the_middle(canvas, 0.5, at["rows"] + 5))
        turned(page, canvas, 300, 0)
        sideways = span(canvas)
        assert sideways[1] - sideways[0] == pytest.approx(brushed[1] - brushed[0], abs=2)
        page.get_by_role("button", name="the whole lane").first.click()
        assert span(canvas) == whole


def test_the_wheel_over_the_canvas_still_scrolls_the_page(chromium: Browser, tmp_path: Path) -> None:
    with timeline(chromium, put(tmp_path, samples.long(3000)), tmp_path) as (page, canvas):
        before, whole = page.evaluate("scrollY"), span(canvas)
        page.mouse.move(*in_the_middle(canvas, 0.5, 60))
        page.mouse.wheel(0, 120)
        page.wait_for_function("(before) => scrollY > before", arg=before)
        assert span(canvas) == whole


def test_fingers_zoom(chromium: Browser, tmp_path: Path) -> None:
    with timeline(chromium, put(tmp_path, samples.long(3000)), tmp_path) as (page, canvas):
        whole = span(canvas)
        cdp = page.context.new_cdp_session(page)
        for kind, gap in (("touchStart", 100), ("touchMove", 200), ("touchMove", 400), ("touchEnd", 0)):
            x, y = in_the_middle(canvas, 0.5, 100)
            points = [{"x": x - gap / 2, "y": y, "id": 1}, {"x": x + gap / 2, "y": y, "id": 2}] if gap else []
            cdp.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        near = span(canvas)
        assert (near[1] - near[0]) / (whole[1] - whole[0]) == pytest.approx(0.25, rel=0.1)
        assert whole[0] < near[0] < near[1] < whole[1]


def test_colours_follow_the_scheme_and_the_paper(chromium: Browser, tmp_path: Path) -> None:
    with timeline(chromium, put(tmp_path, samples.stale_write()), tmp_path, scheme="dark") as (page, canvas):
        assert canvas.evaluate(_INK) > 200
        meddle(page).emulate_media(media="print")
        settle(page)
        assert canvas.evaluate(_INK) < 60
        page.emulate_media(media="screen", color_scheme="light")
        settle(page)
        assert canvas.evaluate(_INK) < 60
        page.emulate_media(color_scheme="dark")
        settle(page)
        assert canvas.evaluate(_INK) > 200


@pytest.mark.parametrize("scale", [1, 2])
def test_the_canvas_is_as_sharp_as_the_screen(chromium: Browser, tmp_path: Path, scale: float) -> None:
    with timeline(chromium, put(tmp_path, samples.stale_write()), tmp_path, scale=scale) as (page, canvas):
        for width in (1280, 500):
            meddle(page).set_viewport_size({"width": width, "height": 800})
            settle(page)
            pixels, points = canvas.evaluate("(canvas) => [canvas.width, canvas.clientWidth]")
            assert pixels == round(points * scale)


def test_a_window_too_narrow_for_the_canvas_breaks_nothing(chromium: Browser, tmp_path: Path) -> None:
    with timeline(chromium, put(tmp_path, samples.stale_write()), tmp_path) as (page, canvas):
        for width in (70, 40, 1280):  # pixels
            meddle(page).set_viewport_size({"width": width, "height": 800})
            settle(page)
        assert canvas.evaluate("(canvas) => canvas.clientWidth") > 500
        assert canvas.evaluate("(canvas) => Number(canvas.dataset.drawn)") > 10


def test_a_key_that_the_canvas_handles_reaches_no_other_listener(chromium: Browser, tmp_path: Path) -> None:
    with timeline(chromium, put(tmp_path, samples.stale_write()), tmp_path) as (page, canvas):
        canvas.focus()
        page.evaluate("addEventListener('keydown', (event) => { (window.heard ??= []).push(event.key); })")
        for key in ("n", "ArrowLeft", "+", ".", "ArrowDown", "0", "x"):
            canvas.press(key)
        assert page.evaluate("window.heard") == ["x"]
        expect(page.locator("#tip")).to_contain_text("worker")


def test_keys_reach_every_operation_of_workers_and_the_pointer_most_operations(chromium: Browser, made: Made) -> None:
    history = made.records["stale"].lanes[0].history
    with timeline(chromium, made.page("stale"), made.root) as (page, canvas):
        assert len(canvas.evaluate(_FOUND)) > len(history) / 2
        told: set[str] = set()
        canvas.focus()
        settle(page)  # if the page still scrolled for the focus, that would hide the tip
        canvas.press("ArrowDown")
        for _ in range(history.facts.workers):
            for key in (",", "."):  # back to the worker's first operation, and on to its last
                before = ""
                while before != (now := page.locator("#tip").inner_text()):
                    told.add(now)
                    before = now
                    canvas.press(key)
            canvas.press("ArrowDown")
    invoked = {text.partition("invoked ")[2].partition(" s")[0] for text in told}
    own = history.columns["process"] < history.facts.workers  # renewals on behalf of a worker have another process
    assert invoked >= {f"{(at - samples.START) / 1e9 - 0.03:.4f}" for at in history.columns["inv"][own].tolist()}


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
        whole = span(canvas)
        page.mouse.move(*in_the_middle(canvas, 0.7, 100))
        turned(page, canvas, 0, -400)
        near = span(canvas)
        assert near[1] - near[0] < whole[1] - whole[0]
        assert near[0] - whole[0] > whole[1] - near[1]
        page.mouse.down()
        page.mouse.move(*in_the_middle(canvas, 0.8, 100), steps=4)
        page.mouse.up()
        moved = span(canvas)
        assert moved[0] < near[0]
        assert moved[1] - moved[0] == pytest.approx(near[1] - near[0], rel=1e-3)


def test_the_tip_describes_the_operation_under_the_pointer_and_a_click_keeps_it(chromium: Browser, made: Made) -> None:
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


def test_a_click_lists_server_logs_of_that_time_or_else_the_nearest_lines(chromium: Browser, tmp_path: Path) -> None:
    """The servers' clock is `clock_zero` ahead of the operations' clock. Log lines without a time are left out."""
    history, zero = samples.stale_write(), 1_700_000_000 * 10**9
    c = history.columns
    row = int(c["ret"].argmax())
    moments = {"long before": -900, "before": -150, "<b>meanwhile</b>": 0, "after": 199, "later": 450}

    def logged(*texts: str) -> bytes:
        times = (zero + int(c["inv"][row]) + moments[text] * 10**6 + 2_000 for text in texts)
        stamps = (datetime.fromtimestamp(at / 1e9, UTC).isoformat().replace("+00:00", "123Z") for at in times)
        return b"\xff\nno time\n" + b"".join(f"{at} {text}\n".encode() for at, text in zip(stamps, texts, strict=True))

    logs = {"redis1": logged("before", "later"), "redis2": logged("long before", "<b>meanwhile</b>", "after")}
    page_ = put(tmp_path, history, logs=logs, clock_zero=zero)
    with timeline(chromium, page_, tmp_path) as (page, canvas):
        place, lines = box(canvas), page.locator(".timeline-logged li")
        found = {at: (x, y) for at, x, y in canvas.evaluate(_FOUND)}
        expect(page.locator(".timeline-logged")).to_be_hidden()
        page.mouse.click(place["x"] + found[row][0], place["y"] + found[row][1])
        expect(lines.locator("code")).to_have_text(["before", "<b>meanwhile</b>", "after"])
        expect(lines.locator("b")).to_have_text(["redis1", "redis2", "redis2"])
        expect(lines.first.locator("span")).to_have_text(f"{(c['inv'][row] - c['inv'][0] - 150 * 10**6) / 1e9:.4f} s")
        page.mouse.click(place["x"] + found[0][0], place["y"] + found[0][1])
        expect(page.locator(".timeline-logged p")).to_contain_text("No server logged anything within 200 ms")
        expect(lines.locator("code")).to_have_text(["long before"])
    with timeline(chromium, put(tmp_path / "older", history, logs=logs), tmp_path) as (page, canvas):
        place, first = box(canvas), canvas.evaluate(_FOUND)[0]
        page.mouse.click(place["x"] + first[1], place["y"] + first[2])
        expect(page.locator("#tip")).to_be_visible()
        expect(page.locator(".timeline-logged")).to_be_hidden()

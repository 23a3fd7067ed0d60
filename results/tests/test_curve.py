"""Curves: intervals as Wilson gives them, and a file that stands alone."""

from xml.etree import ElementTree

import pytest

from results.pages.curve import LockPoints, Point, draw


@pytest.mark.parametrize(
    ("hits", "tries", "low", "high"),
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0), (129, 718, 0.1533, 0.2094)],
)
def test_the_interval_is_wilsons(hits: int, tries: int, low: float, high: float) -> None:
    assert Point(1.0, hits, tries).interval() == pytest.approx((low, high), abs=5e-4)


def test_the_file_is_whole_and_hostile_names_are_escaped() -> None:
    text = draw("a < b", "across", [LockPoints("<script>", (Point(0.5, 1, 4), Point(1.0, 4, 4)))], [(0.1, "& mark")])
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert ("<script>" in "".join(root.itertext()), "<script>" in text) == (True, False)

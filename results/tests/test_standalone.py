"""The picture of a judgement, as a file without a page."""

from xml.etree import ElementTree

import pytest

from checkers.check import check
from checkers.judging.judgement import judge
from checkers.tests.build import Book
from results.pages.lane.windows import standalone


@pytest.mark.parametrize("second", [3, 9])
def test_it_stands_alone_whether_it_broke_or_held(second: int) -> None:
    book = Book(keys=("<a>",)).acquire(1, 2, 1, token=1).release(5, 6, 1)
    history = book.acquire(second, second + 1, 2, token=2).release(12, 13, 2).history()
    judgement = judge(check(history, ["holder-exclusion"])[0], history)
    root = ElementTree.fromstring(standalone(history, judgement))
    told = root.findtext("{http://www.w3.org/2000/svg}desc") or ""
    assert ("inside" in told) == (second == 3)
    assert root.findtext("{http://www.w3.org/2000/svg}style")

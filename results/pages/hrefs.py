"""Links from one page to another, and to a lane on a trial's page."""

from pathlib import Path
from urllib.parse import quote

from results.text import plain


def to_page(page: Path, root: Path) -> str:
    """A link to a page. root: the folder of the page that has the link."""
    return quote(page.relative_to(root).as_posix(), errors="surrogateescape")


def to_lane(page: Path, root: Path, lane: str) -> str:
    """A link to a lane on a trial's page, by the lane's plain name. `templates/run.js` makes the same links."""
    return f"{to_page(page, root)}#lane={quote(plain(lane), safe='')}"

"""From a page about runs to a run's page, to the page of a trial, and to a lane on it."""

from pathlib import Path
from urllib.parse import quote

from results.text import plain


def to_page(page: Path, root: Path) -> str:
    """page: a file, root: the folder of the page that has the link."""
    return quote(page.relative_to(root).as_posix(), errors="surrogateescape")


def to_lane(page: Path, root: Path, lane: str) -> str:
    """The trial's page opens at this lane, which it calls by its plain name. `templates/run.js` makes such links."""
    return f"{to_page(page, root)}#lane={quote(plain(lane), safe='')}"

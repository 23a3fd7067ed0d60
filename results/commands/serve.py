"""`python -m results serve`: serves the stored runs to a browser on this machine.

It serves only files of run folders, read only, on 127.0.0.1. It follows no link, and lists no folder but trials' logs.
"""

import io
import os
import stat
import webbrowser
from functools import partial
from html import escape
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import quote, unquote, urlsplit

from results.pages import trend
from results.terminal.output import warn
from results.text import plain

ADDRESS: Final = "127.0.0.1"
LOGS: Final = "logs"
PAGES: Final = "index.html"
_HTML: Final = "text/html; charset=utf-8"
_TEXT: Final = "text/plain; charset=utf-8"
TYPES: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".arrow": "application/vnd.apache.arrow.file",
    ".xml": "application/xml",
}


def main(results: Path, port: int, *, open: bool) -> int:
    """Returns 0 when it is ended by Ctrl-C, 2 if it cannot listen."""
    if not results.is_dir():
        warn(f"no runs in {results}")
        return 2
    if not (results / PAGES).is_file():
        trend.write(results)
    try:
        made = server(results, port)
    except OSError as error:
        warn(f"port {port}: {error.strerror}")
        return 2
    with made:
        url = f"http://{ADDRESS}:{made.server_port}/"
        print(f"{url} (Ctrl-C ends it)", flush=True)
        if open:
            webbrowser.open(url)
        try:
            made.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


def server(root: Path, port: int) -> ThreadingHTTPServer:
    """A server that listens already. Raises OSError."""
    return ThreadingHTTPServer((ADDRESS, port), partial(_RequestHandler, root))


def locate(root: Path, url: str) -> Path | None:
    """The regular file of a URL's path in `root`, under plain names, or a trial's folder of logs; None for all else."""
    parts = unquote(urlsplit(url).path, errors="surrogateescape").split("/")[1:]
    if parts and parts[-1] == "":
        parts[-1] = PAGES
    if parts[-2:] == [LOGS, PAGES]:
        parts.pop()
    path = root
    try:
        for number, part in enumerate(parts, 1):
            if part.startswith(".") or not part or any(sign in part for sign in "\\\0"):
                return None
            path = path / part
            mode = path.lstat().st_mode
            last = number == len(parts) and part != LOGS
            if not (stat.S_ISREG(mode) if last else stat.S_ISDIR(mode)):
                return None
    except (OSError, ValueError):
        return None
    return path if parts else None


def type_of(path: Path, root: Path) -> str:
    """The content type of a file. Only our own pages are HTML, whatever else a run folder has."""
    if LOGS in path.relative_to(root).parts[:-1]:
        return _TEXT
    return _HTML if path.name == PAGES else TYPES.get(path.suffix, _TEXT)


def logs(folder: Path) -> str:
    """A page with the names of a trial's logs. Raises OSError."""
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    rows = (f'<li><a href="./{quote(name, errors="surrogateescape")}">{escape(plain(name))}</a></li>' for name in names)
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>logs</title><ul>{"".join(rows)}</ul></html>'


class _RequestHandler(SimpleHTTPRequestHandler):
    """One connection. `locate` alone decides which file is read: the search of the base class is not used."""

    server_version = "fencepost"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 60

    def __init__(self, root: Path, *given: Any) -> None:
        self.root = root
        super().__init__(*given)

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""

    def send_head(self) -> BinaryIO:
        """Send the head of the answer. Returns its body, which the base class sends for GET, and not for HEAD."""
        port = self.connection.getsockname()[1]
        # A page from elsewhere could make another name lead to this machine.
        if self.headers.get("Host", "") not in (f"{ADDRESS}:{port}", f"localhost:{port}"):
            return self._refuse(HTTPStatus.FORBIDDEN)
        path = locate(self.root, self.path)
        if path is None:
            return self._elsewhere()
        try:
            if path.is_dir():
                return self._head(_HTML, io.BytesIO(logs(path).encode("utf-8", "backslashreplace")))
            return self._head(type_of(path, self.root), path.open("rb"))
        except OSError:
            return self._refuse(HTTPStatus.NOT_FOUND)

    def _head(self, kind: str, body: BinaryIO, status: HTTPStatus = HTTPStatus.OK, location: str = "") -> BinaryIO:
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(body.seek(0, os.SEEK_END)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-cache")
        self.end_headers()
        body.seek(0)
        return body

    def _elsewhere(self) -> BinaryIO:
        """Redirect from a folder's name without its slash to its page; refuse all else."""
        path = urlsplit(self.path).path
        if path.startswith("/") and not path.startswith("//") and locate(self.root, f"{path}/"):
            return self._head(_TEXT, io.BytesIO(), HTTPStatus.MOVED_PERMANENTLY, f"{path}/")
        return self._refuse(HTTPStatus.NOT_FOUND)

    def _refuse(self, status: HTTPStatus) -> BinaryIO:
        return self._head(_TEXT, io.BytesIO(f"{status.value} {status.phrase}\n".encode()), status)

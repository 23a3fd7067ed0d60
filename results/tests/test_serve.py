"""`python -m results serve`: what it hands out, and to whom."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from results.commands import serve
from results.tests import samples

RUN = "/20261123T080000Z-0001"
TRIAL = f"{RUN}/trials/t"
HTML, TEXT = "text/html; charset=utf-8", "text/plain; charset=utf-8"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("served")
    (made / "secret.json").write_text("{}")
    path = made / "runs" / RUN[1:]
    samples.run(path, samples.trial("t")).close({})
    for name in ("trials/t/logs/index.html", "trials/t/x.html", ".hidden"):
        (path / name).write_text("<script>alert(1)</script>")
    (path / "trials" / "t" / "link.json").symlink_to(made / "secret.json")
    (path / "linked").symlink_to(made)
    return made / "runs"


@pytest.fixture(scope="module")
def port(root: Path) -> Iterator[int]:
    with serve.server(root, 0) as server:
        assert server.server_address[0] == "127.0.0.1", "it listens to this machine only"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def ask(port: int, path: str, method: str = "GET", host: str = "") -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection(serve.ADDRESS, port, timeout=30)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or f"{serve.ADDRESS}:{port}")
    connection.endheaders()
    with closing(connection):
        answer = connection.getresponse()
        return answer, answer.read()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        *((path, HTML) for path in ("/", "/index.html?x=1", f"{RUN}/", f"{TRIAL}/index.html")),
        (f"{RUN}/assets/timeline.js", "text/javascript; charset=utf-8"),
        (f"{RUN}/summary.json", "application/json"),
        (f"{TRIAL}/trial.json", "application/json"),
        (f"{TRIAL}/redis-register-unfenced.arrow", "application/vnd.apache.arrow.file"),
        (f"{TRIAL}/logs/redis1", TEXT),
        (f"{TRIAL}/logs/", HTML),
        (f"{TRIAL}/logs/index.html?", HTML),
        (f"{TRIAL}/x.html", TEXT),
    ],
)
def test_files_of_runs_are_served_for_what_they_are(port: int, root: Path, path: str, kind: str) -> None:
    answer, body = ask(port, path)
    assert (answer.status, answer.getheader("Content-Type")) == (200, kind)
    assert answer.getheader("X-Content-Type-Options") == "nosniff"
    assert len(body) == int(answer.getheader("Content-Length") or 0) > 0
    file = root / path.partition("?")[0].strip("/")
    if file.is_file() and "logs/index" not in path:
        assert body == file.read_bytes()
    assert b"<script>alert(1)</script>" not in body or kind.startswith("text/plain")


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.json", "/%2e%2e/secret.json", "/..%2fsecret.json", f"{RUN}/../../secret.json", "/%2fetc/passwd",
        "//etc/passwd", f"{RUN}/..%5c..%5csecret.json", f"{TRIAL}/trial.json%00.html", f"{TRIAL}/link.json",
        f"{RUN}/linked/secret.json", f"{RUN}/.hidden", f"{TRIAL}/trial.json/", f"{TRIAL}/assets/", f"{RUN}/trials/",
        f"{RUN}/nothing", "/%ff%fe", "/" + "x" * 5000, "*", "http://127.0.0.1/../secret.json",
    ],
)  # fmt: skip
def test_nothing_else_is_served(port: int, path: str) -> None:
    answer, body = ask(port, path)
    assert (answer.status, body) == (404, b"404 Not Found\n")


def test_a_folder_leads_to_its_page(port: int) -> None:
    answer, _ = ask(port, RUN)
    assert (answer.status, answer.getheader("Location")) == (301, f"{RUN}/")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_written(port: int, method: str) -> None:
    assert ask(port, f"{TRIAL}/trial.json", method)[0].status == 501


def test_the_head_of_a_file(port: int, root: Path) -> None:
    answer, body = ask(port, f"{RUN}/summary.json", "HEAD")
    assert (answer.status, body) == (200, b"")
    assert answer.getheader("Content-Length") == str((root / RUN[1:] / "summary.json").stat().st_size)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "[::1]:{port}"])
def test_a_name_that_others_made_lead_here_is_refused(port: int, host: str) -> None:
    assert ask(port, "/", host=host.format(port=port))[0].status == 403
    assert ask(port, "/", host=f"localhost:{port}")[0].status == 200


def test_a_port_that_is_taken(root: Path, port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert serve.main(root, port, open=False) == 2
    assert capsys.readouterr().err == f"results: port {port}: Address already in use\n"


def test_no_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert serve.main(tmp_path / "none", port=0, open=False) == 2
    assert capsys.readouterr().err.startswith("results: no runs in")

"""`python -m results serve`: what it hands out, and to whom."""

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from results import serve
from results.run import Run
from results.tests import samples


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("served")
    (made / "secret.json").write_text("{}")
    path = made / "runs" / "20261123T080000Z-0001"
    path.mkdir(parents=True)
    run = Run.create_at(path, "2026-11-23T08:00:00+00:00", {})
    folder = run.save_trial(samples.trial("t")).parent
    run.close({})
    (folder / "logs" / "index.html").write_text("<script>alert(1)</script>")
    (folder / "x.html").write_text("<script>alert(1)</script>")
    (folder / "link.json").symlink_to(made / "secret.json")
    (path / "linked").symlink_to(made)
    (path / ".hidden").write_text("x")
    return made / "runs"


@pytest.fixture(scope="module")
def port(root: Path) -> Iterator[int]:
    with serve.server(root, 0) as server:
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
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


RUN = "/20261123T080000Z-0001"
TRIAL = f"{RUN}/trials/t"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/index.html?x=1", "text/html; charset=utf-8"),
        (f"{RUN}/", "text/html; charset=utf-8"),
        (f"{TRIAL}/index.html", "text/html; charset=utf-8"),
        (f"{RUN}/assets/timeline.js", "text/javascript; charset=utf-8"),
        (f"{RUN}/summary.json", "application/json"),
        (f"{TRIAL}/trial.json", "application/json"),
        (f"{TRIAL}/redis-register-unfenced.arrow", "application/vnd.apache.arrow.file"),
        (f"{TRIAL}/logs/redis1", "text/plain; charset=utf-8"),
        (f"{TRIAL}/logs/", "text/html; charset=utf-8"),
        (f"{TRIAL}/logs/index.html?", "text/html; charset=utf-8"),
        (f"{TRIAL}/x.html", "text/plain; charset=utf-8"),
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
        "/../secret.json",
        "/%2e%2e/secret.json",
        "/..%2fsecret.json",
        f"{RUN}/../../secret.json",
        "/%2fetc/passwd",
        "//etc/passwd",
        f"{RUN}/..%5c..%5csecret.json",
        f"{TRIAL}/trial.json%00.html",
        f"{TRIAL}/link.json",
        f"{RUN}/linked/secret.json",
        f"{RUN}/.hidden",
        f"{TRIAL}/trial.json/",
        f"{TRIAL}/assets/",
        f"{RUN}/trials/",
        f"{RUN}/nothing",
        "/%ff%fe",
        "/" + "x" * 5000,
        "*",
        "http://127.0.0.1/../secret.json",
    ],
)
def test_nothing_else_is_served(port: int, path: str) -> None:
    answer, body = ask(port, path)
    assert answer.status == 404
    assert body == b"404 Not Found\n"


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


def test_it_listens_to_this_machine_only(root: Path) -> None:
    with serve.server(root, 0) as server:
        assert server.server_address[0] == "127.0.0.1"


def test_a_port_that_is_taken(root: Path, port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert serve.main(["--results", str(root), "--port", str(port)]) == 2
    assert capsys.readouterr().err == f"results: port {port}: Address already in use\n"


def test_no_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert serve.main(["--results", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.startswith("results: no runs in")

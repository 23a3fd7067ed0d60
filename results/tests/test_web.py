"""Pages: what may run in them, the script that pages of a run share, and which files are served to whom."""

import base64
import hashlib
import http.client
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from checkers.tests.build import cases
from results.commands import serve
from results.pages import web
from results.tests import samples


def page(*, title: str = "page", assets: str = "../../assets", inline: bool = False) -> str:
    return web.render("layout.html", title=title, assets=assets, inline=inline)


def policy(text: str) -> dict[str, list[str]]:
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert found
    return {words[0]: words[1:] for words in map(str.split, found[1].replace("&#39;", "'").split(";"))}


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def elements(text: str, name: str) -> list[tuple[str, str]]:
    return re.findall(rf"<{name}([^>]*)>(.*?)</{name}>", text, re.DOTALL)


def test_nothing_may_run_or_load_but_what_the_policy_names() -> None:
    for text in (page(), page(inline=True), page(assets="")):
        allowed = policy(text)
        ours = allowed.pop("style-src") + allowed.pop("script-src")
        nothing = {name: ["'none'"] for name in ("default-src", "base-uri", "form-action")}
        assert allowed == {**nothing, "img-src": ["data:"]}
        assert all(word.startswith(("'sha256-", "'nonce-")) for word in ours)


def test_the_policy_has_the_hash_of_every_style_and_script() -> None:
    text = page(inline=True)
    assert [digest(content) for _, content in elements(text, "style")] == policy(text)["style-src"]
    assert [digest(content) for _, content in elements(text, "script")] == policy(text)["script-src"]


def test_the_shared_script_is_admitted_by_a_nonce_that_no_string_can_know() -> None:
    text = page(title="one")
    (own, _), (shared, content) = elements(text, "script")
    assert own == content == ""
    assert 'src="../../assets/timeline.js"' in shared
    nonce = re.search(r'nonce="([0-9a-f]{32})"', shared)
    assert nonce
    assert f"'nonce-{nonce[1]}'" in policy(text)["script-src"]
    assert text.count(nonce[1]) == 2
    assert nonce[1] not in page(title="two")
    assert page(title="one") == text, "the same page is the same text"


def test_a_page_without_a_timeline_has_neither_its_script_nor_its_style() -> None:
    text = page(assets="")
    assert len(elements(text, "script")) == 1
    assert "nonce" not in text
    assert ".timeline-tools" not in elements(text, "style")[0][1]
    assert ".timeline-tools" in elements(page(), "style")[0][1]


def test_the_shared_script_ends_no_element_and_keeps_its_names_to_itself() -> None:
    script = web.timeline_script()
    assert not re.search("</script|<!--", script)
    assert script.startswith('"use strict";\n(() => {\n')
    assert script.endswith("})();\n")


@pytest.mark.parametrize("part", web._TIMELINE)
def test_the_parts_of_the_shared_script_are_short(part: str) -> None:
    lines = (web._TEMPLATES / part).read_text("utf-8").splitlines()
    assert len(lines) <= 400
    assert max(map(len, lines)) <= 120


def test_hostile_characters_are_escaped_and_ordinary_text_stays() -> None:
    for words in ("plain\n\ttext", "Łódź 北京 ✖ 🙂"):
        assert web.spelled(words) == words
    text = page(title=samples.HOSTILE + "\u202eabc\0\x1b[31m\r\x85")
    assert "<img" not in text
    assert "\\ud800" in text
    assert "\\u202eabc\\x00\\x1b[31m\\r\\x85" in text
    text.encode("utf-8")


def test_assets_are_written_once_and_mended(tmp_path: Path) -> None:
    asset = tmp_path / "assets" / "timeline.js"
    with ThreadPoolExecutor(8) as pool:  # several may write them at once
        list(pool.map(lambda _: web.write_assets(tmp_path), range(32)))
    assert [path.name for path in (tmp_path / "assets").iterdir()] == [asset.name]
    assert asset.read_text("utf-8") == web.timeline_script()
    before = asset.stat().st_ino
    web.write_assets(tmp_path)
    assert asset.stat().st_ino == before
    asset.write_bytes(b"\xff")
    web.write_assets(tmp_path)
    assert asset.read_text("utf-8") == web.timeline_script()


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


@cases(
    "path, kind",
    *((path, HTML) for path in ("/", "/index.html?x=1", f"{RUN}/")),
    *((f"{TRIAL}/{name}", HTML) for name in ("index.html", "logs/", "logs/index.html?")),
    *((f"{TRIAL}/{name}", TEXT) for name in ("logs/redis1", "x.html")),
    *((path, "application/json") for path in (f"{RUN}/summary.json", f"{TRIAL}/trial.json")),
    (f"{RUN}/assets/timeline.js", "text/javascript; charset=utf-8"),
    (f"{TRIAL}/redis-register-unfenced.arrow", "application/vnd.apache.arrow.file"),
)
def test_files_of_runs_are_served_with_their_content_type(port: int, root: Path, path: str, kind: str) -> None:
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
def test_a_path_to_anything_but_a_file_of_a_run_is_not_found(port: int, path: str) -> None:
    answer, body = ask(port, path)
    assert (answer.status, body) == (404, b"404 Not Found\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_written(port: int, method: str) -> None:
    assert ask(port, f"{TRIAL}/trial.json", method)[0].status == 501


def test_a_folder_redirects_to_its_page_and_a_head_request_gets_no_body(port: int, root: Path) -> None:
    answer, _ = ask(port, RUN)
    assert (answer.status, answer.getheader("Location")) == (301, f"{RUN}/")
    answer, body = ask(port, f"{RUN}/summary.json", "HEAD")
    assert (answer.status, body) == (200, b"")
    assert answer.getheader("Content-Length") == str((root / RUN[1:] / "summary.json").stat().st_size)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "[::1]:{port}"])
def test_a_request_with_the_name_of_another_host_is_refused(port: int, host: str) -> None:
    assert ask(port, "/", host=host.format(port=port))[0].status == 403
    assert ask(port, "/", host=f"localhost:{port}")[0].status == 200


def test_a_taken_port_and_a_lack_of_runs_are_errors(root: Path, port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert serve.main(root, port, open=False) == 2
    assert capsys.readouterr().err == f"results: port {port}: Address already in use\n"
    assert serve.main(root / "none", port=0, open=False) == 2
    assert capsys.readouterr().err.startswith("results: no runs in")

"""Pages: what may run in them, and the script that pages of a run share."""

import base64
import hashlib
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from results.pages import web
from results.tests.samples import HOSTILE


def page(*, title: str = "page", assets: str = "../../assets", inline: bool = False) -> str:
    return web.render("layout.html", title=title, assets=assets, inline=inline)


def policy(text: str) -> dict[str, list[str]]:
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert found
    parts = found[1].replace("&#39;", "'").split(";")
    return {words[0]: words[1:] for words in (part.split() for part in parts)}


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def elements(text: str, name: str) -> list[tuple[str, str]]:
    """Attributes and content of each."""
    return re.findall(rf"<{name}([^>]*)>(.*?)</{name}>", text, re.DOTALL)


def test_nothing_may_run_or_load_but_what_the_policy_names() -> None:
    for text in (page(), page(inline=True), page(assets="")):
        allowed = policy(text)
        ours = allowed.pop("style-src") + allowed.pop("script-src")
        nothing = {name: ["'none'"] for name in ("default-src", "base-uri", "form-action")}
        assert allowed == {**nothing, "img-src": ["data:"]}
        assert all(word.startswith(("'sha256-", "'nonce-")) for word in ours)


def test_styles_and_scripts_are_those_of_the_hashes() -> None:
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


def test_parts_of_the_shared_script_end_no_element_and_share_nothing_with_others() -> None:
    script = web.timeline_script()
    assert not re.search("</script|<!--", script)
    assert script.startswith('"use strict";\n(() => {\n')
    assert script.endswith("})();\n")


@pytest.mark.parametrize("part", web._TIMELINE)
def test_parts_are_short(part: str) -> None:
    lines = (web._TEMPLATES / part).read_text("utf-8").splitlines()
    assert len(lines) <= 400
    assert max(map(len, lines)) <= 120


def test_strings_are_text_and_can_be_written() -> None:
    text = page(title=HOSTILE + "\u202eabc\0\x1b[31m\r\x85")
    assert "<img" not in text
    assert "\\ud800" in text
    assert "\\u202eabc\\x00\\x1b[31m\\r\\x85" in text
    text.encode("utf-8")


@pytest.mark.parametrize("words", ["plain\n\ttext", "Łódź 北京 ✖ 🙂"])
def test_what_people_write_stays(words: str) -> None:
    assert web.spelled(words) == words


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

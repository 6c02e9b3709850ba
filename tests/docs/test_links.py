"""Links between the pages, and mentions of pages in code, lead somewhere; nothing is asked of the network."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.docs.pages import ROOT, Page, pages


def test_links_lead_to_files_and_headings() -> None:
    found = {page.path: page for page in pages()}
    broken = []
    for page in found.values():
        for link in page.links:
            path, _, anchor = link.partition("#")
            target = (page.path.parent / path).resolve() if path else page.path
            if not target.exists() or (anchor and anchor not in found.get(target, Page(target)).anchors):
                broken.append(f"{page.name}: {link}")
    assert broken == []


def test_pictures_are_small() -> None:
    pictures = {page.path.parent / link for page in pages() for link in page.links if link.endswith(".png")}
    assert [path for path in pictures if path.stat().st_size >= 150_000] == []


def test_mentions_of_pages_in_code_name_pages_that_exist() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    names = tracked or [str(path.relative_to(ROOT)) for path in (ROOT / "dra_spawner").rglob("*.py")]
    missing = []
    for name in names:
        path = ROOT / name
        if path.suffix in (".py", ".md", ".yaml", ".tpl", ".txt", ".toml", ".json") and path.exists():
            found = re.findall(r"(?<![\w/.-])docs/[\w/-]+\.(?:md|png)", path.read_text(errors="replace"))
            missing += [f"{name}: {each}" for each in found if not (ROOT / each).exists()]
    assert [each for each in missing if not each.startswith("dra_spawner/profiles/drivers/shipped/amd.py")] == [], (
        "amd.py names a page of its driver; all others are ours"
    )


def test_each_page_is_in_the_contents_of_its_directory() -> None:
    """Sphinx would warn, too."""
    for index in (ROOT / "docs").glob("*/index.md"):
        contents = re.search(r"<!-- contents: (.+?) -->", index.read_text())
        assert contents is not None, index
        assert sorted(contents[1].split()) == sorted(
            path.stem for path in index.parent.glob("*.md") if path != index
        ), index
    assert {path.name for path in (ROOT / "docs").glob("*.md")} == {"index.md"}, "pages are below a directory of docs"


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("# `Placeholders` instead of nodes", "placeholders-instead-of-nodes"),
        ("## What is refused, and when", "what-is-refused-and-when"),
    ],
)
def test_anchors_are_those_of_github(tmp_path, heading: str, anchor: str) -> None:
    (tmp_path / "page.md").write_text(f"{heading}\n\n{heading}\n")
    assert Page(tmp_path / "page.md").anchors == {anchor, f"{anchor}-1"}

"""The Markdown pages of the repository: text, headings, links, blocks."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_FENCE: Final = re.compile(r"^( *)```([a-z]*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_HEADING: Final = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_LINK: Final = re.compile(r"\]\(<?([^)>\s]+)>?\)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    before: str
    """The paragraph before the block."""


@dataclass(frozen=True)
class Page:
    """A page of Markdown."""

    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @property
    def name(self) -> str:
        """The path in the repository."""
        return str(self.path.relative_to(ROOT))

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        return tuple(
            Block(
                language=found[2],
                text=textwrap.dedent(found[3]),
                before=self.text[: found.start()].rstrip().rpartition("\n\n")[2],
            )
            for found in _FENCE.finditer(self.text)
        )

    @cached_property
    def prose(self) -> str:
        """The text without blocks and without code in lines."""
        return re.sub(r"`[^`\n]*`", "", _FENCE.sub("", self.text))

    @property
    def links(self) -> list[str]:
        return [link for link in _LINK.findall(self.prose) if not re.match(r"[a-z]+:", link)]

    @cached_property
    def anchors(self) -> frozenset[str]:
        """The anchors that GitHub gives to the headings."""
        seen: dict[str, int] = {}
        for heading in _HEADING.findall(_FENCE.sub("", self.text)):
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
            slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            seen[slug] = seen.get(slug, -1) + 1
        return frozenset(f"{slug}-{more}" if more else slug for slug, last in seen.items() for more in range(last + 1))


def pages() -> Iterator[Page]:
    """README, CONTRIBUTING, CHANGELOG and all pages below docs."""
    for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        yield Page(path)

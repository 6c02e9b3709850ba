"""What the site has and GitHub's view of the pages does not: generated parts, the order of pages, titles of links.

The pages are Markdown that GitHub shows as it is. Its comments, which GitHub hides, say what Sphinx puts there:

``<!-- generated: NAME -->``
    a part of the reference, made from the code when the pages are built
``<!-- contents: PAGE... -->``
    the pages below this one, in this order
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from .command_line import command_line
from .http_addresses import http_addresses
from .language import profile_language
from .settings import service_settings, spawner_settings

__all__ = ["GENERATED", "PARTS", "setup"]

GENERATED: Final = re.compile(r"<!-- generated: ([a-z-]+) -->")
_CONTENTS: Final = re.compile(r"<!-- contents: (.+?) -->")
_NAMED_FILE: Final = re.compile(r"\[[\w-]+\.md\]\((?!https?:)")
_OF_THE_REPOSITORY: Final = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:CONTRIBUTING|CHANGELOG)\.md[^)]*\)")
_ONLY_ON_GITHUB: Final = re.compile(r"<!-- without the site: begin -->.*?<!-- end -->\n*", re.DOTALL)
_ROOT: Final = Path(__file__).parents[3]


def _chart_values() -> str:
    return f"```yaml\n{(_ROOT / 'helm-values/chart/values.yaml').read_text()}```\n"


def _changelog() -> str:
    """CHANGELOG.md without its title; pages that it mentions become links."""
    _, _, text = (_ROOT / "CHANGELOG.md").read_text().partition("\n## ")
    return re.sub(r"(?<![`\w/])docs/([\w-]+/[\w-]+)\.md", r"[this page](../\1.md)", f"## {text}")


PARTS: Final[dict[str, Callable[[], str]]] = {
    "changelog": _changelog,
    "chart-values": _chart_values,
    "command-line": command_line,
    "http-addresses": http_addresses,
    "profile-language": profile_language,
    "service-settings": service_settings,
    "spawner-settings": spawner_settings,
}


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("source-read", _fill)
    app.connect("env-before-read-docs", _read_again)
    return {"parallel_read_safe": True}


def _fill(app: Any, name: str, source: list[str]) -> None:
    """Fill a page; an unknown part is an error."""
    text = _ONLY_ON_GITHUB.sub("", source[0])
    text = GENERATED.sub(lambda mark: PARTS[mark[1]](), text)
    text = _CONTENTS.sub(lambda mark: _contents(mark[1].split()), text)
    text = _OF_THE_REPOSITORY.sub(r"`\1` of the repository", text)
    # GitHub shows the name of the file, the site the title of the page.
    source[0] = _NAMED_FILE.sub("[](", text)


def _contents(pages: list[str]) -> str:
    return "\n".join(["```{toctree}", ":hidden:", "", *pages, "```"])


def _read_again(app: Any, env: Any, names: list[str]) -> None:
    """Read the generated pages in each build: their parts change with the code."""
    generated = {name for name in env.found_docs if GENERATED.search(Path(env.doc2path(name)).read_text())}
    names.extend(generated - set(names))

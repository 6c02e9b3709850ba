"""Steps of the release workflow: what a tag must agree with, the notes of a release, and the chart as it is published.

``release.py check v0.1.0`` ends with 1 if the tag, the package, the chart, the citation and the changelog disagree;
``notes 0.1.0`` prints the changelog's section; ``chart DIRECTORY IMAGE DIGEST`` writes the chart with the image of the
service, and with the addresses of the repository that DRA_SPAWNER_HOME and DRA_SPAWNER_REF name.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
_VERSION = re.compile(r"(?P<release>\d+\.\d+\.\d+)(?:(?P<kind>a|b|rc|\.dev)(?P<number>\d+))?")
_KINDS = {"a": "alpha", "b": "beta", "rc": "rc", ".dev": "dev"}
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def chart_version(version: str) -> str:
    """A version of the package as Helm writes it: ``0.1.0rc1`` is ``0.1.0-rc.1``."""
    found = _VERSION.fullmatch(version)
    if found is None:
        raise ValueError(f"{version!r} is no version such as 0.1.0, 0.1.0rc1 or 0.1.0.dev0")
    return found["release"] + (f"-{_KINDS[found['kind']]}.{found['number']}" if found["kind"] else "")


def package_version(root: Path) -> str:
    return _value(root / "dra_spawner" / "__init__.py", r'^__version__ = "(.*)"$')


def _value(path: Path, pattern: str) -> str:
    found = re.search(pattern, path.read_text(), re.MULTILINE)
    return found[1] if found else ""


def notes(changelog: str, version: str) -> str:
    """The section of a version, without its heading; empty if there is none."""
    found = re.search(
        rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL
    )
    return found[1].strip() if found else ""


def problems(tag: str, root: Path) -> Iterator[str]:
    """What disagrees with a tag, as sentences."""
    version, chart = package_version(root), root / "helm-values" / "chart" / "Chart.yaml"
    if tag != f"v{version}":
        yield f"The tag is {tag}, but dra_spawner/__init__.py says {version}: expected v{version}."
    try:
        expected = chart_version(version)
    except ValueError as error:
        yield f"dra_spawner/__init__.py: {error}."
        return
    if ".dev" in version:
        yield f"{version} is a version of a checkout, which is not released."
    if (found := _value(chart, r"^version: (.*)$")) != expected:
        yield f"Chart.yaml: version is {found}, expected {expected}."
    if (found := _value(chart, r'^appVersion: "(.*)"$')) != version:
        yield f"Chart.yaml: appVersion is {found}, expected {version}."
    if (found := _value(root / "CITATION.cff", r"^version: (.*)$")) != version:
        yield f"CITATION.cff: version is {found}, expected {version}."
    changelog = (root / "CHANGELOG.md").read_text()
    if not notes(changelog, version):
        yield f"CHANGELOG.md has no section `## {version} - <year>-<month>-<day>` with a text."
    if re.search(r"^## Unreleased\n+(?!## )\S", changelog, re.MULTILINE):
        yield "CHANGELOG.md: what is under Unreleased belongs to this release."


def write_chart(directory: Path, image: str, digest: str, root: Path, home: str = "", ref: str = "") -> Path:
    """Copy the chart to a directory, with an image of the service for installations that name none.

    Parameters
    ----------
    home, ref
        Address of the repository, and the tag; without them the chart has no addresses.

    Raises
    ------
    ValueError
        If image, digest, address or tag are something else.
    """
    if not re.fullmatch(r"[a-z0-9./_-]+", image) or not _DIGEST.fullmatch(digest):
        raise ValueError(f"expected an image and sha256:<64 digits>, found {image} and {digest}")
    if (home or ref) and not (re.fullmatch(r"https://[\w./-]+", home) and re.fullmatch(r"[\w.-]+", ref)):
        raise ValueError(f"expected an address https://… and a tag, found {home!r} and {ref!r}")
    copy = directory / "dra-spawner"
    shutil.copytree(root / "helm-values" / "chart", copy)
    text, count = re.subn(
        r'^image:\n  name: ""\n(.*?)^  digest: ""\n',
        rf'image:\n  name: "{image}"\n\1  digest: "{digest}"\n',
        (copy / "values.yaml").read_text(),
        flags=re.MULTILINE | re.DOTALL,
    )
    assert count == 1, "values.yaml has one image"
    (copy / "values.yaml").write_text(text)
    defaults = copy / "files" / "defaults.json"
    values = json.loads(defaults.read_text())
    values["image"] |= {"name": image, "digest": digest}
    defaults.write_text(json.dumps(values))
    if home:
        chart = (copy / "Chart.yaml").read_text().rstrip()
        addresses = {"name: documentation": f"{home}/tree/{ref}/docs", "name: support": f"{home}/issues"}
        links = "".join(f"    - {name}\n      url: {address}\n" for name, address in addresses.items())
        icon = f"{home}/raw/{ref}/docs/_static/icon.svg"
        text = f"{chart}\n  artifacthub.io/links: |\n{links}home: {home}\nsources: [{home}]\nicon: {icon}\n"
        (copy / "Chart.yaml").write_text(text)
    return copy


def main(arguments: list[str]) -> int:
    """Run one step."""
    match arguments:
        case ["check", tag]:
            found = list(problems(tag, ROOT))
            print("\n".join(found) or f"{tag}: package, chart and changelog agree")
            return 1 if found else 0
        case ["notes", version]:
            text = notes((ROOT / "CHANGELOG.md").read_text(), version)
            print(text)
            return 0 if text else 1
        case ["chart", directory, image, digest]:
            home, ref = os.environ.get("DRA_SPAWNER_HOME", ""), os.environ.get("DRA_SPAWNER_REF", "")
            print(write_chart(Path(directory), image, digest, ROOT, home, ref))
            return 0
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Created objects for each example of the documentation, against reviewed files: tests/profiles/golden/README.md."""

from __future__ import annotations

import difflib
import io
import os
import re
from pathlib import Path

import pytest
import yaml

from dra_spawner.commands.checking.render_command import RenderOptions, run_render

GOLDEN = Path(__file__).parent / "golden"
DOCUMENTS = Path(__file__).parents[2] / "docs"
PAGES = ("reference/profiles", "how-to/vlans", "reference/drivers", "how-to/intel-gas")
#: Set: the files are written anew instead of compared.
REWRITE = "DRA_SPAWNER_REWRITE_GOLDEN"

#: Blocks of YAML that ask for nothing by themselves.
NO_PROFILES = {
    "profiles--choices-2": "options of all profiles",
    "profiles--choices-3": "a part of an option",
    "profiles--in-an-editor": "a comment for editors",
    "vlans--bandwidth-and-how-many-vlans-a-card-carries": "a device of a slice",
    "vlans--the-list-of-vlans-in-use": "data of a ConfigMap",
}


def documented_blocks() -> dict[str, str]:
    """Every block of YAML in the pages, by page, heading and number below the heading."""
    blocks: dict[str, str] = {}
    for page in PAGES:
        heading = ""
        text = (DOCUMENTS / f"{page}.md").read_text()
        for line, block in re.findall(r"^#+ ([^\n]+)$|^```yaml\n(.+?)^```$", text, re.M | re.S):
            if line:
                heading = f"{Path(page).name}--" + re.sub(r"[^a-z0-9]+", "-", line.lower()).strip("-")
                number = 0
            else:
                number += 1
                blocks[heading if number == 1 else f"{heading}-{number}"] = block
    return blocks


BLOCKS = documented_blocks()
EXAMPLES = {name: block for name, block in BLOCKS.items() if name not in NO_PROFILES}


def rendered(example: str, directory: Path) -> str:
    """Output of ``dra-spawner render`` for every choice of an example, below the example itself."""
    value = yaml.safe_load(example)
    if isinstance(value, dict) and "kubespawner_override" in value:
        value = [{"display_name": "Example", **value}]
    file = directory / "example.yaml"
    file.write_text(yaml.safe_dump(value, sort_keys=False))
    output, messages = io.StringIO(), io.StringIO()
    options = RenderOptions(profiles=(str(file),), user="ada", namespace="jupyterhub")
    code = run_render(options, io.BytesIO(), output, messages)
    assert (code, messages.getvalue()) == (0, "")
    lines = [f"# {line}".rstrip() for line in example.splitlines()]
    return "\n".join(lines) + "\n" + output.getvalue()


@pytest.mark.parametrize("name", EXAMPLES)
def test_created_objects_are_the_reviewed_ones(name, tmp_path):
    file = GOLDEN / f"{name}.yaml"
    now = rendered(EXAMPLES[name], tmp_path)
    if os.environ.get(REWRITE):
        file.write_text(now)
    reviewed = file.read_text() if file.exists() else ""
    difference = "\n".join(
        difflib.unified_diff(reviewed.splitlines(), now.splitlines(), "reviewed", "created now", lineterm="")
    )
    if reviewed != now:
        pytest.fail(f"{file.name} is not what is created now; {GOLDEN.name}/README.md says what to do.\n{difference}")


def test_every_file_has_an_example():
    files = {file.stem: file for file in GOLDEN.glob("*.yaml")}
    if os.environ.get(REWRITE):
        for name in files.keys() - EXAMPLES:
            files.pop(name).unlink()
    assert files.keys() - EXAMPLES == set(), "no example in the documentation has these names"
    assert files.keys() == EXAMPLES.keys()


def test_blocks_without_profiles_still_exist():
    assert NO_PROFILES.keys() - BLOCKS == set()

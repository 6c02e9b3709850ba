"""The generated parts of the reference: complete, and each in a page. ``.ci/run`` builds the site with them."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from types import ModuleType

import pytest

from dra_spawner.cli import main
from dra_spawner.service.application import DRASpawnerService
from dra_spawner.service.http.web_application import ADDRESSES
from dra_spawner.spawner.settings import SpawnerSettings
from tests.docs.pages import ROOT, pages

HAVE_COMMANDS = ((), ("history",))
"""Without a further word these print their help."""


@pytest.fixture(scope="module")
def site_parts() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs" / "_extensions"))
        return importlib.import_module("site_parts")


def headings(text: str) -> set[str]:
    return {line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")}


def test_each_part_is_in_a_page(site_parts: ModuleType) -> None:
    assert sorted(name for page in pages() for name in site_parts.GENERATED.findall(page.text)) == sorted(
        site_parts.PARTS
    )


def test_every_setting_is_there(site_parts: ModuleType) -> None:
    service = headings(site_parts.PARTS["service-settings"]())
    assert set(DRASpawnerService.class_own_traits(config=True)) <= service
    assert set(SpawnerSettings.class_own_traits(config=True)) <= headings(site_parts.PARTS["spawner-settings"]())


def test_every_command_is_there(site_parts: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    def below(*words: str) -> Iterator[str]:
        """The command of these words, and the commands that its help lists."""
        yield " ".join(("dra-spawner", *words))
        if words in HAVE_COMMANDS:
            assert main([*words]) == 0
        for name in re.findall(r"^    ([a-z]+)", capsys.readouterr().out, re.MULTILINE):
            yield from below(*words, name)

    assert headings(site_parts.PARTS["command-line"]()) == set(below())


def test_every_address_is_there(site_parts: ModuleType) -> None:
    text = site_parts.PARTS["http-addresses"]()
    assert [address for address, _ in ADDRESSES if address.startswith("api/") and f" {address}" not in text] == []


def test_the_keys_of_a_claim_are_there(site_parts: ModuleType) -> None:
    text = site_parts.PARTS["profile-language"]()
    for key in ("device_class", "capacity", "first_available", "shared", "constraints"):
        assert f"| `{key}` |" in text

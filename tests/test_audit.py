"""The audit of dependencies (.ci/audit.py), and the files that it compares."""

from __future__ import annotations

import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.all_of_them import all_of_them
from tests.loose_modules import load

ROOT = Path(__file__).parents[1]
TODAY = date(2026, 12, 1)
LOCKED = {"tornado": Version("6.6.1"), "six": Version("1.17.0")}


audit = load(".ci/audit.py")


def entry(affected: str = "<6.5.9", more: str = "", looked_up: str = "2026-11-22") -> str:
    return f'[tornado]\nlooked_up = {looked_up}\nadvisories = [{{id = "CVE-1", affected = "{affected}", what = "bodies"}}]\n{more}'


def audited(text: str, locked: dict[str, Version] | None = None, bound: str = "6.5.10") -> Any:
    return audit.audit(audit.read_advisories(text), locked or LOCKED, {"tornado": Version(bound)}, TODAY)


def test_the_report_lists_unaffected_packages_with_their_day_and_unknown_packages() -> None:
    found = audited(entry())
    assert (found.problems, found.warnings) == ((), ())
    assert found.checked == ("tornado 6.6.1 (2026-11-22)",)
    assert found.unknown == ("six 1.17.0",)
    text = "\n".join(audit.report(found))
    assert "Nothing was looked up for these:\n  six 1.17.0" in text
    assert "Problems" not in text


@all_of_them("affected", ["<6.7", ">=6.6,<6.7", "<5; >=6.6.1,<6.6.2", "==6.6.1"])
def test_a_locked_version_that_is_affected_is_a_problem(affected: str) -> None:
    found = audited(entry(affected), bound="6.9")
    expected = " or ".join(str(audit.SpecifierSet(each)) for each in affected.split(";"))
    assert found.problems == (f"the lock: tornado 6.6.1: CVE-1, bodies (affected: {expected})",)


def test_a_prerelease_is_affected_like_a_release() -> None:
    assert len(audited(entry("<6.7"), {**LOCKED, "tornado": Version("6.6.2b1")}, bound="6.9").problems) == 1


def test_a_lower_bound_that_lets_in_an_affected_version_is_a_problem() -> None:
    assert audited(entry(), bound="6.1").problems == (
        "pyproject.toml lets in: tornado 6.1: CVE-1, bodies (affected: <6.5.9)",
    )


def test_an_accepted_advisory_is_reported_with_its_reason_and_never_applies_to_the_lock() -> None:
    accepted = '[tornado.accepted]\nids = ["CVE-1"]\nbecause = "of the chart"\n'
    found = audited(entry(more=accepted), bound="6.1")
    assert found.problems == ()
    assert found.accepted == ("tornado >=6.1: CVE-1; of the chart",)
    assert len(audited(entry("<6.7", more=accepted), bound="6.1").problems) == 1
    (unneeded,) = audited(entry(more=accepted)).problems
    assert unneeded == "tornado: CVE-1 is accepted, but the lower bound does not let it in"


def test_an_old_entry_is_a_warning_alone() -> None:
    long_ago = TODAY - timedelta(days=audit.MAX_DAYS + 1)
    found = audited(entry(looked_up=str(long_ago)))
    assert found.problems == ()
    assert found.warnings == (f"tornado: was last looked up on {long_ago}, more than {audit.MAX_DAYS} days ago",)


def test_failed_look_ups_are_reported() -> None:
    found = audited(entry(more='not_found = "release notes of 6.6.1"\n'))
    assert "Could not be looked up:\n  tornado: release notes of 6.6.1" in "\n".join(audit.report(found))


def test_a_dependency_that_is_not_locked_is_a_problem() -> None:
    assert audited(entry(), {"six": Version("1")}).problems == ("pyproject.toml: tornado is not in the lock",)


KEYS = "tornado: expected accepted, advisories, looked_up, not_found, found "


@all_of_them("text, said", [
    ("[tornado", "not TOML: "),
    ("[tornado]\nadvisories = []", f"{KEYS}advisories"),
    (
        '[tornado]\nlooked_up = "now"\nadvisories = []',
        "tornado.looked_up: expected a day such as 2026-11-22, found 'now'",
    ),
    ("[tornado]\nlooked_up = 2026-11-22\nadvisories = 1", "tornado.advisories: expected a list, found 1"),
    (entry("6.5.9"), "tornado.advisories[0].affected: "),
    (entry(""), "tornado.advisories[0].affected: expected versions such as <6.5.9, found ''"),
    (entry(more="ids = []"), KEYS),
    (
        entry(more='[tornado.accepted]\nids = ["CVE-2"]\nbecause = "x"\n'),
        "tornado.accepted.ids: expected ids of its advisories, found ['CVE-2']",
    ),
    ("tornado = 1", f"{KEYS}1"),
])  # fmt: skip
def test_an_invalid_file_is_refused_with_the_path(text: str, said: str) -> None:
    with pytest.raises(audit.AdvisoriesError) as raised:
        audit.read_advisories(text)
    assert str(raised.value).startswith(said)


# --- the files of this checkout ---------------------------------------------------------------------------------------


def locked() -> dict[str, Version]:
    found: dict[str, Version] = audit.read_lock((ROOT / "requirements" / "service.lock").read_text())
    return found


def test_nothing_known_is_met(capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main() == 0, capsys.readouterr().out
    assert "Nothing was looked up for these:" in capsys.readouterr().out


def test_packages_that_face_the_network_were_looked_up() -> None:
    known = audit.read_advisories((ROOT / ".ci" / "advisories.toml").read_text())
    assert {"tornado", "aiohttp", "jupyterhub", "oauthlib", "jinja2"} <= known.keys()


def test_the_lock_satisfies_the_packages_requirements() -> None:
    project = audit.tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for line in project["dependencies"]:
        requirement = Requirement(line)
        assert locked()[canonicalize_name(requirement.name)] in requirement.specifier, line


def test_everything_is_locked_with_hashes_and_names_no_registry() -> None:
    text = (ROOT / "requirements" / "service.lock").read_text()
    requirements = re.split(
        r"^(?=[A-Za-z0-9])", re.sub(r"^\s*#.*\n?", "", text, flags=re.MULTILINE), flags=re.MULTILINE
    )
    for each in filter(str.strip, requirements):
        assert re.match(r"[\w.-]+==[^\s\\]+( ; [^\\]+)? \\\n", each), each
        assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", each)) >= 1, each
    assert "://" not in text
    assert "--index-url" not in text


def test_the_oldest_versions_that_are_tested_are_the_lower_bounds() -> None:
    bounds = audit.lower_bounds((ROOT / "pyproject.toml").read_text())
    oldest = audit.read_lock((ROOT / ".ci" / "oldest.txt").read_text())
    assert {"jupyterhub", "jupyterhub-kubespawner", "kubernetes-asyncio", "aiohttp", "tornado"} == oldest.keys()
    assert {name: bounds[name] for name in oldest} == oldest

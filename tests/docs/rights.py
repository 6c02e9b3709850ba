"""The table of rights in docs/explanation/security.md, from the roles that the chart grants.

``python -m tests.docs.rights`` writes it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import yaml

from dra_spawner.common.json_types import JsonObject
from dra_spawner.doctor.needed_rights import chart_objects_text

PAGE: Final = Path(__file__).parents[2] / "docs" / "explanation" / "security.md"
BEGIN: Final = "<!-- by python -m tests.docs.rights: begin -->\n"
END: Final = "<!-- end -->\n"
_READING: Final = frozenset(("get", "list", "watch"))
_WORDS: Final = {"jupyterhub": "the hub's namespace", "default": "the namespace `default`", "": "all namespaces"}
_SWITCHES: Final = {
    "-users": "`userNamespaces`",
    "-placeholders": "`placeholders.enabled`",
    "-node-events": "`placeholders.enabled`",
}
"""Values of the chart that a role depends on, by the end of its name; the first that fits."""


def rights_table() -> str:
    """A row for each right of an account: resources, what may be done, where, and with which value of the chart."""
    objects = [each for each in yaml.safe_load_all(chart_objects_text("jupyterhub")) if each]
    rules = {(each["kind"], each["metadata"]["name"]): each["rules"] for each in objects if "rules" in each}
    rows = []
    for binding in objects:
        if binding["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            role = binding["roleRef"]
            where = _WORDS[binding["metadata"].get("namespace", "")]
            switch = next((value for end, value in _SWITCHES.items() if role["name"].endswith(end)), "always")
            for subject in binding["subjects"]:
                for rule in rules[role["kind"], role["name"]]:
                    rows.append((_account(subject["name"]), *_cells(rule), where, switch))
    head = ("account", "resources", "may", "where", "with the value")
    lines = [head, ("---",) * len(head), *sorted(dict.fromkeys(rows))]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _account(name: str) -> str:
    return "the hub" if name == "hub" else "the service"


def _cells(rule: JsonObject) -> tuple[str, str]:
    resources = ", ".join(f"`{each}`" for each in rule["resources"])
    verbs = rule["verbs"]
    done = ["read"] if _READING & {*verbs} else []
    done += [each for each in verbs if each not in _READING]
    only = rule.get("resourceNames", ())
    return resources + (f" named {', '.join(f'`{each}`' for each in only)}" if only else ""), ", ".join(done)


def page_with_table(text: str) -> str:
    """The page with the table of today between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{rights_table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text()))
    sys.stdout.write(f"{PAGE}: written\n")

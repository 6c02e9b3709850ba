"""Names in a cluster, and the type of its objects, are written in one module each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dra_spawner
from dra_spawner import names

PACKAGE = Path(dra_spawner.__file__).parent
#: Kubernetes' and JupyterHub's domains, with the characters before and after them in a name. Prose has spaces.
NAME = re.compile(r"[a-z0-9.-]*\b(k8s\.io|kubernetes\.io|hub\.jupyter\.org)[^\s]*")
NAMES = {value for value in vars(names).values() if isinstance(value, str) and re.search("[-./]", value)}
#: Values that have another meaning elsewhere, and why.
ELSEWHERE = {
    'device.attributes["resource.kubernetes.io"]': "CEL, whose domain is no name by itself",
    "/var/run/secrets/kubernetes.io/serviceaccount": "a directory in containers",
    "/var/run/kubernetes.io/dra-device-attributes": "a directory in containers",
}


def literals(tree: ast.AST) -> Iterator[ast.Constant]:
    """Strings of a module except its docstrings; parts of f-strings too."""
    nodes = list(ast.walk(tree))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node


def names_elsewhere(package: Path) -> list[str]:
    """Names that modules other than ``names.py`` spell out; ``dra/`` imports nothing, so it has its own."""
    return [
        f"{path.relative_to(package)}:{node.lineno}: {node.value!s}"
        for path in sorted(package.rglob("*.py"))
        if path != package / "names.py" and path.relative_to(package).parts[0] != "dra"
        for node in literals(ast.parse(path.read_text()))
        if isinstance(node.value, str)
        and (node.value in NAMES or NAME.fullmatch(node.value))
        and node.value not in ELSEWHERE
    ]


def json_types_elsewhere(package: Path) -> list[str]:
    """Modules other than ``json_types.py`` that define a name for JSON objects."""
    return [
        f"{path.relative_to(package)}:{node.lineno}"
        for path in sorted(package.rglob("*.py"))
        if path != package / "common" / "json_types.py" and path.relative_to(package).parts[0] != "dra"
        if "Json" in (text := path.read_text())
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and node.value is not None
        and "Json" in ast.unparse(node)
        and re.fullmatch(r"(dict|Mapping)\[str, (Any|object)\]", ast.unparse(node.value))
    ]


def test_names_are_in_one_module():
    assert names_elsewhere(PACKAGE) == []


def test_the_type_of_json_objects_is_in_one_module():
    assert json_types_elsewhere(PACKAGE) == []


@pytest.mark.parametrize(
    "text",
    [
        'X = "hub.jupyter.org/new"',
        'X = "resource.k8s.io/v1"',
        'X = "start.hub.jupyter.org/"',
        'X = f"hub.jupyter.org/by-{1}"',
        'X = {"a": ["node.kubernetes.io/some-taint"]}',
        'X = "dra-spawner-vlans"',
        'X = "user-placeholder"',
    ],
)
def test_a_planted_name_is_found(tmp_path: Path, text: str):
    (tmp_path / "module.py").write_text(text)
    assert len(names_elsewhere(tmp_path)) == 1


@pytest.mark.parametrize("text", ['"""hub.jupyter.org/new"""', 'X = "as resource.k8s.io/v1 has it"', 'X = "demo"'])
def test_prose_is_left_alone(tmp_path: Path, text: str):
    (tmp_path / "module.py").write_text(text)
    assert names_elsewhere(tmp_path) == []


@pytest.mark.parametrize("text", ["Json = dict[str, Any]", "JsonObject: TypeAlias = Mapping[str, Any]"])
def test_a_planted_type_is_found(tmp_path: Path, text: str):
    (tmp_path / "module.py").write_text(text)
    assert len(json_types_elsewhere(tmp_path)) == 1


def names_listed_twice(package: Path) -> list[str]:
    """Modules with an ``__all__`` that passes no name of another module on."""
    found = []
    for path in sorted(package.rglob("*.py")):
        if "\n__all__ = " in (text := path.read_text()):
            imports = [node for node in ast.parse(text).body if isinstance(node, ast.ImportFrom)]
            passed_on = {each.asname or each.name for node in imports for each in node.names}
            (listed,) = re.findall(r"^__all__ = (\[.*?\])", text, re.MULTILINE | re.DOTALL)
            if not passed_on & {*ast.literal_eval(listed)}:
                found.append(str(path.relative_to(package)))
    return found


def test_public_names_are_those_without_an_underscore(tmp_path: Path) -> None:
    assert names_listed_twice(PACKAGE) == [], "__all__ is for names of other modules that a module passes on"
    (tmp_path / "a.py").write_text('from b import c\n\n__all__ = ["d"]\n')
    assert names_listed_twice(tmp_path) == ["a.py"]

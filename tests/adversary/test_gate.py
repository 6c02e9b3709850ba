"""Whatever comes in from users, tenants or strangers has its row among the hostile tests: a new one fails here."""

from __future__ import annotations

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator

from dra_spawner.kube.cluster_watch import RESOURCES
from dra_spawner.placeholders.planner.targets import shape_definition
from dra_spawner.profiles.syntax import user_options
from dra_spawner.service.http.api import placement_handler
from dra_spawner.simulator.model.cluster_objects import decode
from tests.adversary.examples import EXAMPLES
from tests.adversary.hostile_objects import LARGEST, NOT_SENT
from tests.adversary.hostile_requests import DEFINITION, PARAMETERS, SENT, hostile_question
from tests.adversary.hostile_values import copies
from tests.adversary.reading import (
    FLOWS,
    ONE_OBJECT,
    ExamplesApi,
    kinds_in,
    kinds_with_rights,
    modules,
    recorded_examples,
)
from tests.adversary.recorded import Json, Recorded, fields_of

NO_FIELDS = {
    r"^devicetaintrules\.spec\.deviceSelector\.(deviceClassName|selectors)$": "of Kubernetes 1.34 alone; such a rule is refused",
    r"^pods\.spec\.template$": "of Deployments and DaemonSets; one function reads both and pods",
    r"\.restart_policy$": "as a hub's configuration writes it",
    r"gpu\.intel\.com/[-a-z]+\d$": "a label goes on in others with numbers, until there is none",
    r"^(deviceclasses|devicetaintrules|nodes|resourceclaims|resourceclaimtemplates)\.spec\.nodeName$": "of what makes no sense, whatever its kind",
    r"firstAvailable\[\]\.adminAccess$": "Kubernetes has none there; one function reads both forms",
}
"""What is looked for, is in no object, and why."""


def test_each_kind_that_is_read_has_its_row() -> None:
    read: dict[str, set[str]] = defaultdict(set)
    for module in modules():
        for plural in kinds_in(module, inspect.getsource(module)):
            read[plural].add(module.__name__)
    for plural in kinds_with_rights():
        read[plural].add("helm-values")
    assert {"pods", "nodes", "leases", "resourceslices"} <= read.keys()
    for plural, where in read.items():
        by = ", ".join(sorted(where))
        assert plural in EXAMPLES, f"{plural} are read ({by}): add objects with all their fields to examples.EXAMPLES."
        is_sent = plural in LARGEST or plural in NOT_SENT
        assert is_sent, f"{plural} are read ({by}): add the largest to hostile_objects.LARGEST, for test_objects."
    for module in set().union(*read.values()) - {"helm-values"} - ONE_OBJECT.keys():
        assert module in FLOWS, f"{module} reads objects: add to reading.FLOWS how it does."


def lacking_something() -> Iterator[tuple[str, Json]]:
    """Each example that a snapshot takes, without one of its fields."""
    for resource in RESOURCES.values():
        for example in EXAMPLES[resource.plural]():
            for changed, container, key in copies(example):
                del container[key]
                yield resource.plural, changed


async def test_each_field_that_is_read_is_in_an_example() -> None:
    objects, missed = recorded_examples()
    async with ExamplesApi(objects) as api:
        for flow in FLOWS.values():
            await flow(api)
    for plural, obj in lacking_something():
        # Fields that are read only where another field is absent.
        decode(Recorded(obj, missed[plural]))
    found = [
        f"{plural}{path}, looked for by {missed[plural][path]}"
        for plural, items in objects.items()
        for path in sorted(missed[plural].keys() - {field for item in items for field in fields_of(item)})
        if not any(re.search(each, f"{plural}{path}") for each in NO_FIELDS)
    ]
    assert not found, "\n".join(("These fields are read: add each to an object in examples.py.", *found))


# --- requests of users and the hub -----------------------------------------------------------------------------------


def test_each_option_of_a_server_has_its_row() -> None:
    """By REST; a form's fields are the same names behind a prefix."""
    option = {"choices": {}, "unlisted_choice": {"enabled": True}}
    sent = {name for options, _ in SENT for name in options}
    for name in ("profile", *user_options.names_of_option("memory", option)):
        assert name in sent, f"option {name} is taken from users: add a hostile value of it to hostile_requests.SENT."


def query_parameters() -> Iterator[tuple[str, str]]:
    """Names that handlers ask the query for, and where; a name that is a variable stands for all texts of its function."""
    for module in modules():
        if not module.__name__.startswith("dra_spawner.service.http."):
            continue
        for function in ast.walk(ast.parse(inspect.getsource(module))):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            where = f"{module.__name__}.{function.name}"
            own = {each.arg for each in function.args.args}
            for call in ast.walk(function):
                if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args):
                    continue
                if not re.fullmatch(r"get_(query_|body_)?arguments?|number", call.func.attr):
                    continue
                if isinstance(call.args[0], ast.Constant):
                    yield str(call.args[0].value), where
                elif not (isinstance(call.args[0], ast.Name) and call.args[0].id in own):
                    tuples = [each for each in ast.walk(function) if isinstance(each, ast.Tuple)]
                    texts = [each for found in tuples for each in found.elts if isinstance(each, ast.Constant)]
                    assert texts, f"{where} asks for a parameter whose name cannot be found: name it there."
                    for each in texts:
                        yield str(each.value), where


def test_each_query_parameter_has_its_row() -> None:
    found = dict(query_parameters())
    assert {"limit", "after", "kind", "state"} <= found.keys()
    for name, where in found.items():
        assert name in PARAMETERS, f"{where} reads ?{name}=: add it to hostile_requests.PARAMETERS, for the fuzzing."


def test_each_part_of_a_question_has_its_row() -> None:
    good = hostile_question("0" * 16, "hub", "{}")
    for key in placement_handler.KEYS:
        assert key in good, f"api/placements takes {key}: add it to hostile_requests.hostile_question."
    for names, where in (
        (shape_definition.PARTS, DEFINITION),
        (shape_definition.NODE_FIELDS_OF_SHAPES, DEFINITION["node_fields"]),
        (shape_definition.CONTAINER_FIELDS, {name for each in DEFINITION["containers"] for name in each}),
    ):
        for name in names:
            assert name in where, f"a definition of a shape may have {name}: add it to hostile_requests.DEFINITION."

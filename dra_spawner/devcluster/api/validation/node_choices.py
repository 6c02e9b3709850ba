"""Checks of the nodes of a slice, a device or an allocation."""

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import FieldError, forbidden_value, invalid_value, required
from dra_spawner.devcluster.api.validation.names import check_dns_subdomain, check_qualified_name

_ONE_NODE_CHOICE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_ONE_DEVICE_NODE_CHOICE = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def check_slice_nodes(spec: JsonObject, field: str) -> list[FieldError]:
    """Check the nodes of a slice: one node, a selector of one term, all nodes, or selection by device."""
    flags = ("allNodes", "perDeviceNodeSelection")
    unnamed = "must be either unset or set to a non-empty string"
    errors, chosen = _check_choices(spec, field, flags, unnamed, one_term=True)
    return errors + _check_one_choice(chosen, field, _ONE_NODE_CHOICE, ", but multiple fields are set")


def check_device_nodes(device: JsonObject, field: str) -> list[FieldError]:
    """Check the nodes of a device, in a slice with node selection by device."""
    errors, chosen = _check_choices(device, field, ("allNodes",), "must not be empty")
    return errors + _check_one_choice(chosen, field, _ONE_DEVICE_NODE_CHOICE)


def _check_choices(
    owner: JsonObject, field: str, flags: tuple[str, ...], when_unnamed: str, *, one_term: bool = False
) -> tuple[list[FieldError], list[str]]:
    """Errors of each field that selects nodes, and the names of the fields that are set."""
    errors: list[FieldError] = []
    chosen = []
    if "nodeName" in owner:
        if owner["nodeName"]:
            chosen.append("`nodeName`")
            errors += check_dns_subdomain(owner["nodeName"], f"{field}.nodeName")
        else:
            errors.append(invalid_value(f"{field}.nodeName", "", when_unnamed))
    if "nodeSelector" in owner:
        chosen.append("`nodeSelector`")
        errors += check_node_selector(owner["nodeSelector"], f"{field}.nodeSelector")
        terms = owner["nodeSelector"].get("nodeSelectorTerms") or []
        if one_term and len(terms) != 1:
            path = f"{field}.nodeSelector.nodeSelectorTerms"
            errors.append(invalid_value(path, terms, "must have exactly one node selector term"))
    for name in flags:
        if owner.get(name) is False:
            errors.append(invalid_value(f"{field}.{name}", False, "must be either unset or set to true"))
        elif owner.get(name):
            chosen.append(f"`{name}`")
    return errors, chosen


def _check_one_choice(chosen: list[str], field: str, rule: str, when_several: str = "") -> list[FieldError]:
    if not chosen:
        return [required(field, rule)]
    if len(chosen) > 1:
        return [invalid_value(field, "{" + ", ".join(chosen) + "}", rule + when_several)]
    return []


def check_node_selector(selector: JsonObject, field: str) -> list[FieldError]:
    """Check a node selector: at least one term, known operators, values where required."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [required(f"{field}.nodeSelectorTerms", "must have at least one node selector term")]
    errors = []
    for index, term in enumerate(terms):
        for kind in ("matchExpressions", "matchFields"):
            for place, expression in enumerate(term.get(kind) or ()):
                path = f"{field}.nodeSelectorTerms[{index}].{kind}[{place}]"
                errors += _check_node_expression(expression, path)
    return errors


def _check_node_expression(expression: JsonObject, field: str) -> list[FieldError]:
    operator, values = expression.get("operator", ""), expression.get("values") or []
    if operator not in _NODE_OPERATORS:
        return [invalid_value(f"{field}.operator", operator, "not a valid selector operator")]
    if operator in ("In", "NotIn") and not values:
        return [required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'")]
    if operator in ("Exists", "DoesNotExist") and values:
        return [
            forbidden_value(f"{field}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        ]
    if operator in ("Gt", "Lt") and len(values) != 1:
        return [required(f"{field}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")]
    return check_qualified_name(expression.get("key", ""), f"{field}.key") if "matchExpressions" in field else []

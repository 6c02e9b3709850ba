"""Label selectors (``metav1.LabelSelector``)."""

from __future__ import annotations

from dra_spawner.dra.model.decoding import Reader
from dra_spawner.dra.model.node_selector import NodeSelectorError, Requirement

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def label_requirements(selector: Reader) -> tuple[Requirement, ...]:
    """Requirements of a selector, which must all hold; an empty selector selects everything.

    Raises
    ------
    ObjectError
        When a requirement is malformed; the API server refuses such objects.
    """
    exact = [Requirement(key, "In", (value,)) for key, value in selector.text_map("matchLabels").items()]
    return (*exact, *(_expression(item) for item in selector.children("matchExpressions")))


def _expression(item: Reader) -> Requirement:
    requirement = Requirement(item.text("key"), item.text("operator"), item.texts("values") or ())
    if requirement.operator not in _OPERATORS:
        item.fail("operator", f"must be one of {', '.join(_OPERATORS)}, not {requirement.operator!r}")
    try:
        requirement.check_label()
    except NodeSelectorError as error:
        item.fail("", str(error))
    return requirement

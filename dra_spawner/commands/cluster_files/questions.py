"""Questions: the cluster's objects, and the claims that should fit. Malformed objects are kept apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, TypeVar

from dra_spawner.commands.cluster_files.documents import Document, PathPart, SourceObject
from dra_spawner.commands.cluster_files.kubernetes_release import kubelet_release
from dra_spawner.commands.cluster_files.object_checks import check_object
from dra_spawner.dra.model.objects import DeviceClass, DeviceTaintRule, Node, ObjectError, ResourceClaim, ResourceSlice
from dra_spawner.dra.scheduler_rules import Release
from dra_spawner.names import RESOURCE_API, RESOURCE_API_BETA, RESOURCE_GROUP, TAINT_RULE_APIS
from dra_spawner.simulator.model.claims import ClaimTemplate
from dra_spawner.simulator.model.pods import Pod

OLD_API: Final = f"{RESOURCE_GROUP}/v1beta1"
_EXACTLY: Final = ("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity")


def as_v1(kind: str, obj: Mapping[str, object]) -> Mapping[str, object]:
    """The object of v1; parts that make no sense stay, so that decoding refuses them."""
    spec = obj.get("spec")
    if not isinstance(spec, Mapping):
        return obj
    match kind:
        case "ResourceSlice":
            return {**obj, "spec": _changed(spec, "devices", _device)}
        case "ResourceClaim":
            return {**obj, "spec": _claim_spec(spec)}
        case "ResourceClaimTemplate":
            inner = spec.get("spec")
            return {**obj, "spec": {**spec, "spec": _claim_spec(inner)}} if isinstance(inner, Mapping) else obj
        case _:
            return obj


def _claim_spec(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    devices = spec.get("devices")
    return {**spec, "devices": _changed(devices, "requests", _request)} if isinstance(devices, Mapping) else spec


def _device(device: Mapping[str, Any]) -> Mapping[str, Any]:
    basic = device.get("basic")
    if not isinstance(basic, Mapping):
        return device
    return {**{key: value for key, value in device.items() if key != "basic"}, **basic}


def _request(request: Mapping[str, Any]) -> Mapping[str, Any]:
    exactly = {key: request[key] for key in _EXACTLY if key in request}
    if not exactly:
        return request
    return {**{key: value for key, value in request.items() if key not in _EXACTLY}, "exactly": exactly}


def _changed(parent: Mapping[str, Any], field: str, change: Any) -> Mapping[str, Any]:
    items = parent.get(field)
    if not isinstance(items, list):
        return parent
    return {**parent, field: [change(each) if isinstance(each, Mapping) else each for each in items]}


_VERSIONS: Final = (RESOURCE_API, RESOURCE_API_BETA, OLD_API)
READABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "Node": ("v1",),
    "ResourceSlice": _VERSIONS,
    "DeviceClass": _VERSIONS,
    "ResourceClaim": _VERSIONS,
    "ResourceClaimTemplate": _VERSIONS,
    "DeviceTaintRule": TAINT_RULE_APIS,
}
"""API versions of the kinds that are read; v1beta2 has the same fields as v1, and v1beta1 is converted."""
_OF_FIT: Final[Mapping[str, tuple[str, ...]]] = {**READABLE, "Pod": ("v1",)}


@dataclass(slots=True)
class ClusterObjects:
    """Objects that decide where claims fit; the last one of a name counts.

    Attributes
    ----------
    broken_nodes, broken_slices, broken_classes
        Problems of objects that the API server would refuse, by name; a slice's also with its node.
    kubelet_release
        Release of the newest kubelet; None if no node tells.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    slices: dict[str, ResourceSlice] = field(default_factory=dict)
    classes: dict[str, DeviceClass] = field(default_factory=dict)
    claims: dict[tuple[str, str], ResourceClaim] = field(default_factory=dict)
    templates: dict[tuple[str, str], ClaimTemplate] = field(default_factory=dict)
    pods: dict[tuple[str, str], Pod] = field(default_factory=dict)
    rules: dict[str, DeviceTaintRule] = field(default_factory=dict)
    broken_nodes: dict[str, str] = field(default_factory=dict)
    broken_slices: list[tuple[str, str]] = field(default_factory=list)
    broken_classes: dict[str, str] = field(default_factory=dict)
    broken_claims: list[str] = field(default_factory=list)
    kubelet_release: Release | None = None
    broken_rules: list[str] = field(default_factory=list)

    def add(self, source: SourceObject) -> None:
        """Add an object; other kinds are ignored.

        Raises
        ------
        InputError
            If its API version is unknown, or the object cannot be identified.
        """
        if not has_kind(source, _OF_FIT):
            return
        source = in_v1(source)
        try:
            match source.kind:
                case "Node":
                    node = Node.from_json(source.value)
                    self.nodes[node.name] = node
                    release = kubelet_release(source.value)
                    if release is not None:
                        self.kubelet_release = max(self.kubelet_release or release, release)
                case "ResourceSlice":
                    item = ResourceSlice.from_json(source.value)
                    check_object(item)
                    self.slices[item.name] = item
                case "DeviceClass":
                    device_class = DeviceClass.from_json(source.value)
                    check_object(device_class)
                    self.classes[device_class.name] = device_class
                case "DeviceTaintRule":
                    rule = DeviceTaintRule.from_json(source.value)
                    self.rules[rule.name] = rule
                case "ResourceClaimTemplate":
                    template = ClaimTemplate.from_json(source.value)
                    check_object(template.pattern)
                    self.templates[template.namespace, template.name] = template
                case "Pod":
                    if not _has_claims(source.value):
                        return
                    pod = Pod.from_json(source.value)
                    self.pods[pod.namespace, pod.name] = pod
                case _:
                    claim = ResourceClaim.from_json(source.value)
                    check_object(claim)
                    self.claims[claim.namespace, claim.name] = claim
        except ObjectError as error:
            self._set_aside(source, error)

    def _set_aside(self, source: SourceObject, error: ObjectError) -> None:
        problem = source.error(error)
        name = _text(source.value, "metadata", "name")
        if not name:
            raise problem from None
        message = f"{error} ({problem.file}, line {problem.line})"
        match source.kind:
            case "Node":
                self.broken_nodes[name] = message
            case "ResourceSlice":
                self.broken_slices.append((_text(source.value, "spec", "nodeName"), message))
            case "DeviceClass":
                self.broken_classes[name] = message
            case "DeviceTaintRule":
                self.broken_rules.append(message)
            case _:
                self.broken_claims.append(message)


@dataclass(frozen=True, slots=True)
class FitQuestion:
    """A question: a name for the answer, and its own objects."""

    name: str
    objects: ClusterObjects


@dataclass(frozen=True, slots=True)
class FitInput:
    """The input: objects for every question, and the questions."""

    common: ClusterObjects
    questions: tuple[FitQuestion, ...]

    @property
    def kubelet_release(self) -> Release | None:
        """Release of the newest kubelet; None if no node tells."""
        found = (self.common.kubelet_release, *(each.objects.kubelet_release for each in self.questions))
        return max((each for each in found if each is not None), default=None)


def read_input(documents: Iterable[Document], name: str) -> FitInput:
    """Sort the input into shared objects and questions.

    Parameters
    ----------
    name
        Name of the only question, where the input has no ``{"name": …, "objects": […]}``.

    Raises
    ------
    InputError
        If a value is no API object.
    """
    common, questions = separate_questions(documents, ClusterObjects)
    asked = tuple(FitQuestion(own_name, own) for own_name, own in questions)
    return FitInput(common, asked or (FitQuestion(name, ClusterObjects()),))


class _Collection(Protocol):
    def add(self, source: SourceObject, /) -> None: ...


C = TypeVar("C", bound=_Collection)


def separate_questions(documents: Iterable[Document], new: Callable[[], C]) -> tuple[C, list[tuple[str, C]]]:
    """Separate shared objects from questions, each with its name and its own objects.

    Parameters
    ----------
    new
        Makes an empty collection of objects.

    Raises
    ------
    InputError
        If a value is no API object.
    """
    common = new()
    questions: list[tuple[str, C]] = []
    for document in documents:
        value = document.value
        if isinstance(value, dict) and "kind" not in value and "objects" in value:
            own = new()
            questions.append((_add_question(document, value, own), own))
            continue
        for source in _objects(document, (), value, ""):
            common.add(source)
    return common, questions


def _add_question(document: Document, value: Mapping[str, object], own: _Collection) -> str:
    name, objects = value.get("name"), value["objects"]
    if not isinstance(name, str):
        raise document.error(("name",), "must be a string")
    if not isinstance(objects, list):
        raise document.error(("objects",), "must be a list of API objects")
    for source in _objects(document, ("objects",), objects, ""):
        own.add(source)
    return name


def _objects(document: Document, path: tuple[PathPart, ...], value: object, kind: str) -> Iterator[SourceObject]:
    """The API objects in a value.

    Parameters
    ----------
    kind
        Kind of an object without one, such as an item of a NodeList.
    """
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _objects(document, (*path, index), item, kind)
        return
    if not isinstance(value, dict):
        raise document.error(path, f"must be an API object, not {_shown(value)}")
    kind_of_object = value.get("kind", kind)
    if not isinstance(kind_of_object, str):
        raise document.error((*path, "kind"), "must be a string")
    if not kind_of_object:
        expected = 'expected an API object, a List, or {"name": …, "objects": […]}'
        raise document.error(path, f"has no kind; {expected}")
    if kind_of_object.endswith("List") and "items" in value:
        items = value["items"]
        if not isinstance(items, list):
            raise document.error((*path, "items"), "must be a list of API objects")
        yield from _objects(document, (*path, "items"), items, kind_of_object.removesuffix("List"))
        return
    yield SourceObject(document, path, value, kind_of_object)


def has_kind(source: SourceObject, kinds: Mapping[str, tuple[str, ...]] = READABLE) -> bool:
    """Whether an object is of one of these kinds.

    Raises
    ------
    InputError
        If it is, in an unknown API version.
    """
    versions = kinds.get(source.kind)
    if versions is None:
        return False
    version = source.value.get("apiVersion", versions[0])
    if version in versions:
        return True
    if isinstance(version, str) and not version.startswith(f"{RESOURCE_GROUP}/"):
        # Another group's kind of that name.
        return False
    raise source.document.error(
        (*source.path, "apiVersion"),
        f"{version!r} cannot be read, only {versions[0]}; ask the cluster for"
        f" {source.kind.lower()}{'es' if source.kind.endswith('s') else 's'}.v1.{RESOURCE_GROUP}",
    )


def in_v1(source: SourceObject) -> SourceObject:
    """The same object, converted where it is of v1beta1."""
    if source.value.get("apiVersion") != OLD_API:
        return source
    return replace(source, value=as_v1(source.kind, source.value))


def _has_claims(pod: Mapping[str, object]) -> bool:
    """Whether a pod names claims; others ask for nothing, whatever is in them."""
    spec = pod.get("spec")
    return isinstance(spec, Mapping) and bool(spec.get("resourceClaims"))


def _text(value: object, *path: str) -> str:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else ""


def _shown(value: object) -> str:
    names = {str: "a string", bool: "a boolean", int: "a number", float: "a number", type(None): "null"}
    return names.get(type(value), type(value).__name__)

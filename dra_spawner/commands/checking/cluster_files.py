"""Facts of a cluster from files that kubectl printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO

from dra_spawner import names
from dra_spawner.commands.cluster_files.documents import SourceObject
from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.cluster_files.object_checks import check_object
from dra_spawner.commands.cluster_files.questions import has_kind, separate_questions
from dra_spawner.commands.cluster_files.reading import Progress, read_files
from dra_spawner.dra.model.objects import DeviceClass, Node, ObjectError, ResourceSlice
from dra_spawner.dra.model.taint_rules import DeviceTaintRule
from dra_spawner.profiles.facts import ClusterFacts, claim_webhooks
from dra_spawner.simulator.model.claims import TrackedClaim
from dra_spawner.versions import kubelet_version

_KINDS = {
    "Node": ("v1",),
    "Namespace": ("v1",),
    "ResourceSlice": (names.RESOURCE_API, names.RESOURCE_API_BETA),
    "DeviceClass": (names.RESOURCE_API, names.RESOURCE_API_BETA),
    "DeviceTaintRule": names.TAINT_RULE_APIS,
    "ResourceClaim": (names.RESOURCE_API,),
    "NetworkAttachmentDefinition": ("k8s.cni.cncf.io/v1",),
    "ValidatingWebhookConfiguration": (names.ADMISSION_API,),
}


class _Objects:
    """Objects by kind; the last one of a name counts."""

    def __init__(self) -> None:
        self.by_kind: dict[str, dict[str, Any]] = {}

    def add(self, source: SourceObject) -> None:
        """Add an object; other kinds are ignored.

        Raises
        ------
        InputError
            If the object is malformed.
        """
        if not has_kind(source, _KINDS):
            return
        decoded: Any = source.value
        metadata = source.value.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(name, str):
            raise source.document.error((*source.path, "metadata", "name"), "must be a string")
        try:
            match source.kind:
                case "ResourceSlice":
                    decoded = ResourceSlice.from_json(source.value)
                    check_object(decoded)
                case "DeviceClass":
                    decoded = DeviceClass.from_json(source.value)
                    check_object(decoded)
                case "DeviceTaintRule":
                    decoded = DeviceTaintRule.from_json(source.value)
                case "ResourceClaim":
                    TrackedClaim.from_json(source.value)
                    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
                    name = f"{namespace or 'default'}/{name}"
                case "Node":
                    Node.from_json(source.value)
                case "NetworkAttachmentDefinition":
                    name = f"{metadata.get('namespace') or 'default'}/{name}" if isinstance(metadata, dict) else name
                case "ValidatingWebhookConfiguration":
                    decoded = claim_webhooks([dict(source.value)])
        except ObjectError as error:
            raise source.error(error) from None
        except (AttributeError, KeyError, TypeError):
            # Only for webhooks: decoding reports every other error by itself.
            if source.kind != "ValidatingWebhookConfiguration":
                raise
            raise source.document.error((*source.path, "webhooks"), "must be a list of webhooks") from None
        self.by_kind.setdefault(source.kind, {})[name] = decoded


def read_objects(files: Sequence[str], namespace: str, standard_input: BinaryIO, progress: Progress) -> ClusterFacts:
    """Read facts of a cluster from files; a kind without any object counts as unknown.

    Raises
    ------
    InputError
        If a file cannot be read.
    """
    objects, questions = separate_questions(read_files(files, standard_input, progress), _Objects)
    progress.clear()
    if questions:
        raise InputError(files[0], 0, "", "has a question for dra-spawner fit; give objects of the cluster only")
    return facts_of_objects(objects.by_kind, namespace)


def facts_of_objects(by_kind: dict[str, dict[str, Any]], namespace: str) -> ClusterFacts:
    """Facts from objects by kind and name; the version is the newest kubelet's, as no API server is older."""
    nodes = by_kind.get("Node")
    slices = by_kind.get("ResourceSlice")
    own = by_kind.get("Namespace", {}).get(namespace)
    definitions = by_kind.get("NetworkAttachmentDefinition")
    webhooks = by_kind.get("ValidatingWebhookConfiguration")
    return ClusterFacts(
        device_classes=by_kind.get("DeviceClass"),
        slices=tuple(slices.values()) if slices is not None else None,
        nodes=tuple(nodes.values()) if nodes is not None else None,
        namespace=namespace,
        namespace_labels=(own["metadata"].get("labels") or {}) if own is not None else None,
        attachment_definitions=frozenset(definitions) if definitions is not None else None,
        webhooks=frozenset().union(*webhooks.values()) if webhooks is not None else None,
        claims={
            key.removeprefix(f"{namespace}/"): claim["spec"]
            for key, claim in by_kind.get("ResourceClaim", {}).items()
            if key.startswith(f"{namespace}/")
        },
        taint_rules=tuple(by_kind.get("DeviceTaintRule", {}).values()),
        kubernetes_version=max(
            (found[0] for node in (nodes or {}).values() if (found := kubelet_version(node))), default=None
        ),
    )

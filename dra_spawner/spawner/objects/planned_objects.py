"""Builds the objects of one start from its plan: names, labels, annotations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from kubespawner.slugs import is_valid_label, safe_slug

from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.names import SERVERNAME, SHARED_BY, SHARED_BY_PREFIX, START, USERNAME
from dra_spawner.profiles import ClaimPlan, template_manifest
from dra_spawner.profiles.compiler.claims import Companion
from dra_spawner.profiles.compiler.shared_claims import Scope, content_digest, scope_of, shared_claim_manifest
from dra_spawner.spawner.objects.api_objects import CLAIMS, COMPANION_LABELS, TEMPLATE_LABELS, ApiObject
from dra_spawner.spawner.objects.shared_objects import SharedObject
from dra_spawner.spawner.objects.start_objects import StartObjects, new_nonce

_SLUG_LENGTH = 32
#: KubeSpawner's labels and annotations about one user's server.
_PERSONAL = (USERNAME, SERVERNAME)


@dataclass(frozen=True, slots=True)
class Server:
    """The server that is started.

    Attributes
    ----------
    groups
        Groups of the user in the hub; only needed for claims that groups share.
    """

    user: str
    groups: Collection[str]
    pod_name: str
    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def plan_objects(
    api: KubernetesApi, plan: ClaimPlan, server: Server, ends: datetime, nonce: str | None = None
) -> StartObjects:
    """All objects of a start except its pod.

    Parameters
    ----------
    ends
        Latest end of the start.
    nonce
        Part of names; None for a new one.

    Raises
    ------
    NotInGroup
        If a claim is for groups, and the user is in none of them.
    """
    nonce = nonce or new_nonce()
    templates = {
        claim.name: template_manifest(
            claim,
            name=f"{server.pod_name}-{claim.name}-{nonce}",
            namespace=server.namespace,
            labels={**server.labels, **TEMPLATE_LABELS},
            annotations={**server.annotations, START: nonce},
        )
        for claim in plan.claims
        if claim.spec is not None and claim.sharing is None
    }
    shared = _shared_claims(plan, server)
    shared |= {each.name: _shared_companion(each, server) for each in plan.companions if each.shared}
    companions = [_own_companion(each, server, nonce) for each in plan.companions if not each.shared]
    return StartObjects(api, server.namespace, nonce, ends, templates, companions, shared)


def names_for_pod(objects: StartObjects) -> dict[str, str]:
    """Name of the template or of the shared claim, by the claim's name in the profile."""
    names = {name: template["metadata"]["name"] for name, template in objects.templates.items()}
    return names | {name: each.object.name for name, each in objects.shared.items() if each.object.plural == CLAIMS}


def _shared_claims(plan: ClaimPlan, server: Server) -> dict[str, SharedObject]:
    shared = {}
    for claim in plan.claims:
        if claim.sharing is None:
            continue
        scope = scope_of(claim.sharing, server.user, server.groups)
        manifest = shared_claim_manifest(
            claim,
            scope,
            slug=safe_slug(scope.name or scope.by.value, max_length=_SLUG_LENGTH),
            labels={**_impersonal(server.labels), **_scope_labels(scope)},
            annotations={**_impersonal(server.annotations), SHARED_BY: str(scope)},
        )
        digest = content_digest(str(scope), claim.name, claim.spec)
        shared[claim.name] = SharedObject(ApiObject(CLAIMS, manifest), digest, claim.sharing.keep_seconds)
    return shared


def _scope_labels(scope: Scope) -> dict[str, str]:
    value = safe_slug(scope.name, is_valid=is_valid_label) if scope.name else ""
    return {f"{SHARED_BY_PREFIX}{scope.by}": value}


def _shared_companion(companion: Companion, server: Server) -> SharedObject:
    digest = content_digest(companion.plural, companion.manifest)
    manifest = _labelled(companion, _impersonal(server.labels), _impersonal(server.annotations))
    return SharedObject(ApiObject(companion.plural, manifest), digest, may_be_foreign=True)


def _own_companion(companion: Companion, server: Server, nonce: str) -> ApiObject:
    manifest = _labelled(companion, {**server.labels, **COMPANION_LABELS}, server.annotations)
    manifest["metadata"]["name"] = f"{server.pod_name}-{companion.name}-{nonce}"
    return ApiObject(companion.plural, manifest)


def _labelled(companion: Companion, labels: Mapping[str, str], annotations: Mapping[str, str]) -> JsonObject:
    metadata = companion.manifest["metadata"]
    marked = {
        **metadata,
        "labels": {**metadata.get("labels", {}), **labels},
        "annotations": {**metadata.get("annotations", {}), **annotations},
    }
    return {**companion.manifest, "metadata": marked}


def _impersonal(marks: Mapping[str, str]) -> dict[str, str]:
    """Labels or annotations without KubeSpawner's ones about the first server."""
    return {key: value for key, value in marks.items() if key not in _PERSONAL}

"""``dra-spawner render``: what would be created for a user who picks a choice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import BinaryIO, TextIO

import yaml
from kubernetes_asyncio.client import (
    ApiClient,
    Configuration,
    V1Container,
    V1ObjectMeta,
    V1Pod,
    V1PodSpec,
)
from kubespawner.slugs import is_valid_label, safe_slug

from dra_spawner.commands.checking.check_outcome import title
from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.cluster_files.reading import Progress
from dra_spawner.commands.hub_files.profile_limits import MAX_RENDERED_VALUES, MAX_VALUES
from dra_spawner.commands.hub_files.profiles_found import ProfilesFound
from dra_spawner.commands.hub_files.sources import read_profiles
from dra_spawner.common.json_types import JsonObject
from dra_spawner.names import PROFILE, START_PREFIX, USERNAME
from dra_spawner.profiles.choices import Choice, ListedChoice, list_choices, pick_choice
from dra_spawner.profiles.compiler.claim_templates import vlan_numbers
from dra_spawner.profiles.compiler.claims import Sharing
from dra_spawner.profiles.compiler.vlan_policy import OwnerKind, VlanPolicy, parse_vlan_policy
from dra_spawner.profiles.compiler.vlans import VlanRefused, vlan_owner
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.intel_gas import changes_for_gas, parse_intel_gas
from dra_spawner.profiles.lint.hub_rules import UNREAD_CODE
from dra_spawner.profiles.profile_list import offered_profiles
from dra_spawner.profiles.profile_names import profile_name_problems
from dra_spawner.profiles.syntax.problems import Problem, ProfileError, on_one_line
from dra_spawner.profiles.syntax.templates import SAMPLE_VALUES, Values
from dra_spawner.spawner.objects.planned_objects import Server, names_for_pod, plan_objects
from dra_spawner.spawner.objects.pod_devices import attach_claims
from dra_spawner.spawner.objects.shared_objects import SharedObject

#: Replaces the server's image where none is configured as plain text.
_IMAGE = "quay.io/jupyterhub/singleuser"
_NOTEBOOK = "notebook"


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """Options of ``dra-spawner render``."""

    profiles: tuple[str, ...] = ()
    profile: str = ""
    picks: Mapping[str, str] = field(default_factory=dict)
    user: str = "user"
    groups: tuple[str, ...] = ()
    namespace: str = ""
    runs_code: bool = True
    as_json: bool = False


def run_render(options: RenderOptions, standard_input: BinaryIO, output: TextIO, messages: TextIO) -> int:
    """Print the objects that a start would create.

    Returns
    -------
    int
        0, 1 when the language refuses a choice, 2 when the input, or code in it, cannot be read.
    """
    progress = Progress(messages)
    try:
        max_values = MAX_VALUES if options.profile or options.picks else MAX_RENDERED_VALUES
        hubs = read_profiles(options.profiles, standard_input, progress, max_values, runs_code=options.runs_code)
        # With a name that stands for two, a user would get another profile than the one that is printed.
        doubled = [problem for found in hubs for problem in _doubled_names(found)]
        listed = [] if doubled else _chosen_of(hubs, options)
    except (InputError, LookupError) as error:
        messages.write(f"dra-spawner render: {error}\n")
        return 2
    finally:
        progress.clear()
    unread = [each for found in hubs for each in found.findings if each.rule == UNREAD_CODE.name]
    refused = [list(_problems(choice)) for _, choice in listed]
    problems = [*doubled, *dict.fromkeys(problem for each in refused for problem in each)]
    for problem in (*problems, *(on_one_line(f"{each.path}: {each.message}") for each in unread)):
        messages.write(f"dra-spawner render: {problem}\n")
    rendered = [
        (choice, list(_objects(choice.choice, found, options)))
        for (found, choice), wrong in zip(listed, refused, strict=True)
        if choice.choice is not None and not wrong
    ]
    if options.as_json:
        items = [each for _, objects in rendered for each in objects]
        output.write(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1) + "\n")
    else:
        output.write("".join(_yaml(choice, objects) for choice, objects in rendered))
    return 1 if problems else 2 if unread else 0


def _doubled_names(found: ProfilesFound) -> list[Problem]:
    return [] if callable(found.profile_list) else profile_name_problems(found.profile_list, found.list_path)


_Chosen = tuple[ProfilesFound, ListedChoice]


def _chosen_of(hubs: Sequence[ProfilesFound], options: RenderOptions) -> list[_Chosen]:
    """The chosen choices, each with its hub.

    Raises
    ------
    LookupError
        If no hub has the profile, or several have.
    """
    chosen: list[list[_Chosen]] = []
    errors: list[LookupError] = []
    for found in hubs:
        try:
            chosen.append([(found, choice) for choice in _chosen(found, options)])
        except LookupError as error:
            errors.append(error)
    if errors and (not chosen or not (options.profile or options.picks)):
        raise errors[0]
    if len(chosen) > 1 and (options.profile or options.picks):
        places = ", ".join(some[0][0].list_path for some in chosen)
        raise LookupError(f"several lists have this choice: {places}; give the values of one hub")
    return [each for some in chosen for each in some]


def _problems(listed: ListedChoice) -> Iterator[Problem]:
    """Problems that the language finds in a choice, including its legacy form for Intel GPUs."""
    yield from listed.problems
    if listed.choice is not None:
        try:
            parse_intel_gas(listed.choice.settings.get("intel_gas"), listed.choice.path_of_setting("intel_gas"))
        except ProfileError as error:
            yield from error.problems


def _chosen(found: ProfilesFound, options: RenderOptions) -> Sequence[ListedChoice]:
    if callable(found.profile_list):
        raise LookupError(f"{found.list_path} is a function, which only a hub can call for a user")
    profiles = offered_profiles(found.profile_list, found.settings, ClusterFacts())
    paths = {"path": found.list_path, "settings_path": found.settings_path}

    def values(vlans: object) -> Values:
        return user_values(options.user, options.groups, _namespace(found, options), vlans)

    def pick(profile: str, picks: Mapping[str, str], vlans: object) -> ListedChoice:
        return pick_choice(profiles, found.settings, profile, picks, values=values(vlans), **paths)

    vlans = found.settings.get("vlans")
    if options.profile or options.picks:
        listed = [pick(options.profile, options.picks, vlans)]
    else:
        listed = list(list_choices(profiles, found.settings, values=values(vlans), **paths))
    # A profile may change `vlans`, too.
    return [
        pick(each.profile, each.picks, each.choice.settings["vlans"])
        if each.choice is not None and each.choice.settings.get("vlans") != found.settings.get("vlans")
        else each
        for each in listed
    ]


def _namespace(found: ProfilesFound, options: RenderOptions) -> str:
    configured = found.settings.get("namespace")
    return options.namespace or (configured if isinstance(configured, str) and configured else "default")


def _objects(choice: Choice, found: ProfilesFound, options: RenderOptions) -> Iterator[JsonObject]:
    """Templates, shared claims, companion objects, and the pod that references them."""
    namespace = _namespace(found, options)
    nonce = hashlib.sha256(f"{choice.profile} {sorted(choice.picks.items())}".encode()).hexdigest()[:8]
    groups = options.groups or tuple(_some_groups(choice))
    labels = {USERNAME: safe_slug(options.user, is_valid=is_valid_label)}
    if choice.profile:
        labels[PROFILE] = safe_slug(choice.profile, is_valid=is_valid_label)
    server = Server(
        user=options.user,
        groups=groups,
        pod_name=f"jupyter-{safe_slug(options.user)}",
        namespace=namespace,
        labels=labels,
        annotations={USERNAME: options.user},
    )
    # No request is made, so there is no client.
    objects = plan_objects(None, choice.plan, server, datetime(1970, 1, 1, tzinfo=UTC), nonce)  # type: ignore[arg-type]
    yield from objects.templates.values()
    manifests = [each.manifest for each in objects.companions]
    manifests += [_shared(each, objects.nonce, objects.ends) for each in objects.shared.values()]
    for manifest in manifests:
        yield {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}
    yield _pod(choice, server, names_for_pod(objects))


def _shared(shared: SharedObject, nonce: str, ends: datetime) -> JsonObject:
    """The shared object as its first user creates it, without the annotation of that start, as it has a time."""
    manifest = shared.manifest(nonce, ends)
    del manifest["metadata"]["annotations"][START_PREFIX + nonce]
    return manifest


def _some_groups(choice: Choice) -> Iterator[str]:
    """A group for each claim that is shared by group, as the user must be in one."""
    for claim in choice.plan.claims:
        if isinstance(claim.sharing, Sharing) and claim.sharing.groups:
            yield claim.sharing.groups[0]


def _pod(choice: Choice, server: Server, object_names: Mapping[str, str]) -> JsonObject:
    """A pod with this project's parts, without KubeSpawner's."""
    image = choice.settings.get("image")
    image = image if isinstance(image, str) and image else _IMAGE
    names = dict.fromkeys([_NOTEBOOK, *choice.plan.container_claims()])
    pod = V1Pod(
        api_version="v1",
        kind="Pod",
        metadata=V1ObjectMeta(name=server.pod_name, namespace=server.namespace, labels=dict(server.labels)),
        spec=V1PodSpec(containers=[V1Container(name=name, image=image) for name in names]),
    )
    if choice.plan.claims:
        attach_claims(pod, choice.plan, object_names)
    client = ApiClient.__new__(ApiClient)  # only its serialization, which needs no connection
    client.configuration = Configuration()
    manifest: JsonObject = client.sanitize_for_serialization(pod)
    for name in ("tolerations", "nodeSelector"):
        value = choice.settings.get({"nodeSelector": "node_selector"}.get(name, name))
        if value:
            manifest["spec"][name] = value
    _add_resources(choice, manifest["spec"]["containers"][0])
    _add_intel_gpus(choice, manifest)
    return manifest


def _add_resources(choice: Choice, notebook: JsonObject) -> None:
    """KubeSpawner's limits and guarantees for extended resources, which Kubernetes may serve with devices."""
    for kind, trait in (("limits", "extra_resource_limits"), ("requests", "extra_resource_guarantees")):
        amounts = choice.settings.get(trait)
        if isinstance(amounts, Mapping) and amounts:
            notebook.setdefault("resources", {})[kind] = {name: str(amount) for name, amount in amounts.items()}


def _add_intel_gpus(choice: Choice, pod: JsonObject) -> None:
    """Limits and annotations of the legacy form that do not depend on free cards."""
    try:
        request = parse_intel_gas(choice.settings.get("intel_gas"))
    except ProfileError:
        return
    if request is None:
        return
    changes = changes_for_gas(request)
    if changes.annotations:
        pod["metadata"].setdefault("annotations", {}).update(changes.annotations)
    for container in pod["spec"]["containers"]:
        limits = changes.limits.get(container["name"], {})
        if limits:
            resources = container.setdefault("resources", {})
            for kind in ("limits", "requests"):
                resources[kind] = {**resources.get(kind, {}), **limits}
        environment = changes.environment.get(container["name"], {})
        container.setdefault("env", []).extend({"name": name, "value": value} for name, value in environment.items())


class _Dumper(yaml.SafeDumper):  # type: ignore[misc] # PyYAML has no types
    """Indents lists, and writes no anchors."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _yaml(choice: ListedChoice, objects: Sequence[JsonObject]) -> str:
    heading = f"# {title(choice)}\n"
    documents = (yaml.dump(each, Dumper=_Dumper, sort_keys=False, width=120) for each in objects)
    return "".join(f"---\n{heading if not number else ''}{text}" for number, text in enumerate(documents))


def user_values(user: str, groups: Collection[str], namespace: str, vlans: object) -> Values:
    """Values of a user's default server.

    Parameters
    ----------
    groups
        The user's groups; empty: the user counts as a member of a group that may have a VLAN.
    vlans
        ``DRASpawner.vlans``. A range gives its first VLAN, as if none were in use.
    """
    slug = safe_slug(user)
    return {
        **SAMPLE_VALUES,
        "username": slug,
        "user_server": slug,
        "servername": "",
        "unescaped_username": user,
        "unescaped_servername": "",
        "pod_name": f"jupyter-{slug}",
        "namespace": namespace,
        **_vlan_values(user, groups, vlans),
    }


def _vlan_values(user: str, groups: Collection[str], vlans: object) -> Mapping[str, str | int]:
    try:
        policy = parse_vlan_policy(vlans)
    except ProfileError:
        return {}  # `dra-spawner check` reports what is wrong
    if policy is None:
        return {}
    name = vlan_owner(policy, user, groups or policy.groups)
    if isinstance(name, VlanRefused):
        return {}
    return _values_of(policy, name)


def _values_of(policy: VlanPolicy, name: str) -> Mapping[str, str | int]:
    mapped = policy.mapping.get(name)
    values: dict[str, str | int] = {**vlan_numbers(mapped.vlan if mapped is not None else policy.vlans[0])}
    if policy.by is OwnerKind.GROUP:
        values["group"] = safe_slug(name)
    return values | dict(mapped.values if mapped is not None else ())

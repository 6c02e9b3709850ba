"""Configurations in the patterns of public hubs, each written for a class that may be KubeSpawner or DRASpawner.

None has claims: a hub that changes one name must get what it had.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tornado import web
from traitlets.config import Config

__all__ = ["PATTERNS", "Pattern", "PatternHub", "pattern"]


@dataclass(frozen=True, slots=True)
class PatternHub:
    """What a configuration file has at hand.

    Attributes
    ----------
    c
        The configuration.
    base
        The class that the hub's own classes are based on.
    call
        Notes that a hook was called, in order.
    directory
        For files of the hub.
    """

    c: Config
    base: type
    call: Callable[[str], None]
    directory: Path


@dataclass(frozen=True, slots=True)
class Pattern:
    """A configuration, and one start with it.

    Attributes
    ----------
    configure
        The configuration file; returns the hub's class if it is not the base.
    user, groups, server
        Who starts which server; the name of the user is by default that of the pattern.
    form
        Fields that a browser posts.
    options
        The JSON of a start by REST, if there is no form.
    saved
        Options of the last start, which the form selects.
    needs_cluster
        Whether a cluster is needed: its hooks make requests.
    internal_ssl
        Whether servers speak TLS with the hub.
    differs
        Why a part of the outcome is not KubeSpawner's, by the part's name.
    """

    configure: Callable[[PatternHub], type | None]
    user: str = ""
    groups: tuple[str, ...] = ()
    server: str = ""
    form: Mapping[str, list[str]] | None = None
    options: Any = None
    saved: Mapping[str, Any] = field(default_factory=dict)
    needs_cluster: bool = False
    internal_ssl: bool = False
    differs: Mapping[str, str] = field(default_factory=dict)


PATTERNS: Final[dict[str, Pattern]] = {}


def pattern(**fields: Any) -> Callable[[Callable[[PatternHub], type | None]], None]:
    """Add a configuration to `PATTERNS`, by the name of its function."""

    def add(configure: Callable[[PatternHub], type | None]) -> None:
        name = configure.__name__
        PATTERNS[name] = Pattern(configure, **{"user": name.replace("_", "-"), **fields})

    return add


# --- Values of zero-to-jupyterhub, which become traits ----------------------------------------------------------


@pattern()
def nothing_set(hub: PatternHub) -> None:
    pass


@pattern()
def chart_defaults(hub: PatternHub) -> None:
    k = hub.c.KubeSpawner
    k.cmd = ["jupyterhub-singleuser"]
    k.image_pull_policy = "IfNotPresent"
    k.image_pull_secrets = [{"name": "image-pull-secret"}]
    k.uid, k.fs_gid = 1000, 100
    k.cpu_guarantee, k.mem_guarantee, k.mem_limit = 0.5, "1G", "2G"
    k.extra_labels = {"hub.jupyter.org/network-access-hub": "true"}
    k.extra_annotations = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    k.storage_pvc_ensure = True
    k.pvc_name_template = "claim-{user_server}"
    k.storage_capacity, k.storage_access_modes = "10Gi", ["ReadWriteOnce"]
    k.volumes = [{"name": "volume-{user_server}", "persistentVolumeClaim": {"claimName": "{pvc_name}"}}]
    k.volume_mounts = [{"mountPath": "/home/jovyan", "name": "volume-{user_server}"}]
    k.priority_class_name = "hub-default-priority"
    k.tolerations = [
        {"key": "hub.jupyter.org/dedicated", "operator": "Equal", "value": "user", "effect": "NoSchedule"},
        {"key": "hub.jupyter.org_dedicated", "operator": "Equal", "value": "user", "effect": "NoSchedule"},
    ]
    term = {"matchExpressions": [{"key": "hub.jupyter.org/node-purpose", "operator": "In", "values": ["user"]}]}
    k.node_affinity_preferred = [{"weight": 100, "preference": term}]
    k.init_containers = [
        {
            "name": "block-cloud-metadata",
            "image": "example/iptables:1",
            "command": ["iptables", "-A", "OUTPUT", "-d", "169.254.169.254", "-j", "DROP"],
            "securityContext": {"privileged": True, "runAsUser": 0, "capabilities": {"add": ["NET_ADMIN"]}},
        }
    ]
    k.lifecycle_hooks = {"postStart": {"exec": {"command": ["sh", "-c", "cp -n /etc/skel/.bashrc ~ || true"]}}}
    k.environment = {"GIT_AUTHOR_NAME": "{username}", "EMPTY": ""}
    k.default_url, k.notebook_dir, k.args = (
        "/lab/tree/{username}",
        "~/work",
        ["--ServerApp.shutdown_no_activity_timeout=60"],
    )


@pattern()
def dictionaries_in_place_of_lists(hub: PatternHub) -> None:
    k = hub.c.KubeSpawner
    k.volumes = {
        "b": {"name": "b", "emptyDir": {}},
        "a": {"name": "a", "secret": {"secretName": "of-{username}", "optional": True}},
    }
    k.volume_mounts = {
        "1-b": {"name": "b", "mountPath": "/b"},
        "0-a": {"name": "a", "mountPath": "/a", "readOnly": True},
    }
    k.tolerations = {"gpu": {"key": "nvidia.com/gpu", "operator": "Exists"}, "all": {"operator": "Exists"}}
    k.init_containers = {"1": {"name": "two", "image": "b"}, "0": {"name": "one", "image": "a", "args": ["{username}"]}}
    k.extra_containers = {
        "proxy": {"name": "proxy", "image": "p", "env": [{"name": "WHO", "value": "{unescaped_username}"}]}
    }
    k.pod_anti_affinity_preferred = {
        "spread": {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname"}}
    }


@pattern(user="Ada.Lovelace+test@Example.org")
def escaping_of_before_7(hub: PatternHub) -> None:
    k = hub.c.KubeSpawner
    k.slug_scheme = "escape"
    k.pod_name_template = "jupyter-{username}--{servername}"
    k.pvc_name_template = "claim-{username}{servername}"
    k.volumes = [{"name": "home", "persistentVolumeClaim": {"claimName": "{pvc_name}"}}]
    k.storage_pvc_ensure = True
    k.extra_annotations = {"who": "{escaped_username} {safe_username} {userid} {hubnamespace}"}


@pattern(user="-Юлия_1@mail-", server="My 2nd course!")
def safe_slugs_of_odd_names(hub: PatternHub) -> None:
    k = hub.c.KubeSpawner
    k.pod_name_template = "{user_server}-{userid}"
    k.dns_name_template = "{name}.{namespace}.svc.cluster.local"
    k.common_labels = {"app.kubernetes.io/part-of": "hub"}
    k.extra_labels = {"course": "{servername}"}


@pattern(server="lab-2")
def named_servers_with_services(hub: PatternHub) -> None:
    k = hub.c.KubeSpawner
    k.services_enabled, k.port = True, 8890
    k.pod_connect_ip = "jupyter-{user_server}.pods"
    k.working_dir = "/home/{username}"


@pattern(options={"profile": "big"}, differs={"namespace": "labels by which the chart's policies know it"})
def namespaces_of_users(hub: PatternHub) -> None:
    k = hub.c.KubeSpawner
    k.enable_user_namespaces = True
    k.user_namespace_template = "user-{username}"
    k.user_namespace_labels, k.user_namespace_annotations = {"team": "{username}"}, {"owner": "{unescaped_username}"}
    k.profile_list = [{"display_name": "Big", "slug": "big", "kubespawner_override": {"mem_limit": "4G"}}]


@pattern(internal_ssl=True)
def internal_tls(hub: PatternHub) -> None:
    hub.c.KubeSpawner.secret_name_template = "tls-{username}"
    hub.c.KubeSpawner.extra_annotations = {"reloader": "false"}


@pattern(user="physics-collaboration", groups=("collaborators",), options={})
def real_time_collaboration(hub: PatternHub) -> None:
    def collaborate(spawner: Any) -> None:
        hub.call("pre_spawn_hook")
        if "collaborators" in {group.name for group in spawner.user.groups}:
            spawner.args = [*spawner.args, "--LabApp.collaborative=True"]
            spawner.server_token_scopes = ["access:servers!server", "users:activity!user"]

    hub.c.JupyterHub.load_roles = [{"name": "collaborators", "scopes": ["access:servers!user=physics-collaboration"]}]
    hub.c.Spawner.pre_spawn_hook = collaborate
    hub.c.Spawner.args = ["--debug"]


@pattern()
def dask_gateway_and_services(hub: PatternHub) -> None:
    k = hub.c.KubeSpawner
    k.extra_labels = {"hub.jupyter.org/network-access-proxy-http": "true"}
    k.environment = {
        "DASK_GATEWAY__ADDRESS": "http://proxy/services/dask-gateway/",
        "DASK_GATEWAY__CLUSTER__OPTIONS__IMAGE": "{{JUPYTER_IMAGE_SPEC}}",
        "DASK_LABELS": lambda spawner: f"user={spawner.user.name}",
    }
    hub.c.JupyterHub.services = [{"name": "idle-culler", "command": ["python3", "-m", "jupyterhub_idle_culler"]}]
    hub.c.Spawner.poll_interval, hub.c.Spawner.http_timeout, hub.c.Spawner.debug = 300, 45, True


@pattern()
def old_names_of_traits(hub: PatternHub) -> None:
    k = hub.c.KubeSpawner
    k.singleuser_image_spec, k.singleuser_uid, k.singleuser_extra_labels = "old/image:1", 1001, {"old": "label"}
    k.image_spec = "newer/image:1"


@pattern()
def more_of_pod_and_container(hub: PatternHub) -> None:
    k = hub.c.KubeSpawner
    k.extra_pod_config = {
        "dnsPolicy": "None",
        "hostname": "{username}",
        "securityContext": {"fsGroupChangePolicy": "Always"},
    }
    k.extra_container_config = {"envFrom": [{"secretRef": {"name": "shared"}}], "workingDir": "/{username}"}
    k.extra_resource_limits, k.extra_resource_guarantees = {"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "1"}
    k.service_account, k.automount_service_account_token = "sa-{username}", True
    k.node_selector, k.scheduler_name, k.privileged = {"pool": "gpu"}, "own-scheduler", False
    k.allow_privilege_escalation = None
    k.storage_selector, k.storage_class = {"matchLabels": {"of": "{username}"}}, "fast"
    k.storage_extra_labels, k.storage_extra_annotations, k.storage_pvc_ensure = {"s": "{username}"}, {"a": "b"}, True


# --- Callables --------------------------------------------------------------------------------------------------


@pattern()
def functions_for_identities(hub: PatternHub) -> None:
    async def later(value: Any) -> Any:
        await asyncio.sleep(0)
        return value

    k = hub.c.KubeSpawner
    k.uid, k.gid = lambda spawner: 2000 + len(spawner.user.name), lambda spawner: later(100)
    k.fs_gid, k.supplemental_gids = lambda spawner: later(200), lambda spawner: [1, 2]
    k.container_security_context = lambda spawner: later({"readOnlyRootFilesystem": True})
    k.pod_security_context = lambda spawner: {"runAsNonRoot": True}


@pattern(groups=("teachers",))
def hooks_of_all_kinds(hub: PatternHub) -> None:
    def remember_token(spawner: Any, auth_state: Any) -> None:
        hub.call(f"auth_state_hook {auth_state}")
        spawner.environment["ACCESS_TOKEN"] = (auth_state or {}).get("access_token", "none")

    async def prepare(spawner: Any) -> None:
        hub.call("pre_spawn_hook")
        spawner.volumes = [*spawner.volumes, {"name": "shared", "emptyDir": {}}]
        if "teachers" in {group.name for group in spawner.user.groups}:
            spawner.mem_limit = "8G"

    def first(spawner: Any, pod: Any) -> Any:
        hub.call("modify_pod_hook 1")
        pod.spec.containers[0].env.append({"name": "FIRST", "value": spawner.user.name})
        pod.spec.containers.append({"name": "sidecar", "image": "sidecar:1"})
        return pod

    async def second(spawner: Any, pod: Any) -> Any:
        hub.call("modify_pod_hook 2")
        pod.metadata.annotations = {**pod.metadata.annotations, "second": str(len(pod.spec.containers))}
        pod.spec.tolerations = [{"operator": "Exists"}]
        return pod

    async def chain(spawner: Any, pod: Any) -> Any:
        return await second(spawner, first(spawner, pod))

    hub.c.Spawner.auth_state_hook = remember_token
    hub.c.KubeSpawner.pre_spawn_hook = prepare
    hub.c.KubeSpawner.modify_pod_hook = chain
    hub.c.KubeSpawner.post_stop_hook = lambda spawner: hub.call("post_stop_hook")
    hub.c.KubeSpawner.after_pod_created_hook = lambda spawner, pod: hub.call(f"after_pod_created_hook {pod['kind']}")


@pattern(needs_cluster=True)
def a_hook_that_makes_a_volume(hub: PatternHub) -> None:
    async def volume(spawner: Any) -> None:
        hub.call("pre_spawn_hook")
        manifest = spawner.get_pvc_manifest()
        manifest.metadata.name = f"shared-{spawner.user.name}"
        await spawner._make_create_pvc_request(manifest, 20)

    hub.c.KubeSpawner.storage_capacity = "1Gi"
    hub.c.KubeSpawner.pre_spawn_hook = volume


@pattern()
def a_hook_that_refuses(hub: PatternHub) -> None:
    def refuse(spawner: Any) -> None:
        hub.call("pre_spawn_hook")
        raise web.HTTPError(403, "Your course has ended.")

    hub.c.KubeSpawner.pre_spawn_hook = refuse
    hub.c.KubeSpawner.post_stop_hook = lambda spawner: hub.call("post_stop_hook")


@pattern()
def a_hook_with_a_defect(hub: PatternHub) -> None:
    def modify(spawner: Any, pod: Any) -> Any:
        hub.call("modify_pod_hook")
        raise KeyError("course")

    hub.c.KubeSpawner.modify_pod_hook = modify


@pattern(needs_cluster=True)
def a_later_hook_with_a_defect(hub: PatternHub) -> None:
    async def created(spawner: Any, pod: Any) -> None:
        hub.call("after_pod_created_hook")
        raise RuntimeError("the accounting does not answer")

    hub.c.KubeSpawner.after_pod_created_hook = created
    hub.c.KubeSpawner.post_stop_hook = lambda spawner: hub.call("post_stop_hook")


@pattern(groups=("gpu", "staff"))
def overrides_of_groups(hub: PatternHub) -> None:
    hub.c.Spawner.group_overrides = {
        "01-gpu": {
            "groups": ["gpu"],
            "spawner_override": {"node_selector": {"pool": "gpu"}, "environment": {"GPU": "1"}},
        },
        "02-staff": {"groups": ["staff"], "spawner_override": {"mem_limit": "16G", "cpu_limit": lambda spawner: 4.0}},
        "03-others": {"groups": ["others"], "spawner_override": {"mem_limit": "1G"}},
    }
    hub.c.KubeSpawner.environment = {"GPU": "0", "KEPT": "yes"}

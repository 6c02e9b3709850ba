"""Settings of the service about placeholders."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from traitlets import Bool, Dict, Float, HasTraits, Integer, List, TraitError, Unicode, default, validate

from dra_spawner import names
from dra_spawner.placeholders.controller.limit_settings import read_groups, read_limits
from dra_spawner.placeholders.controller.settings import ControllerSettings, read_replicas
from dra_spawner.placeholders.planner.placeholder_objects import PlaceholderSettings
from dra_spawner.placeholders.planner.policy import Budget, Grace, Policy, Readiness, Renewal
from dra_spawner.profiles.settings_reader import SettingsError

__all__ = ["PlaceholderTraits"]


class PlaceholderTraits(HasTraits):
    """Mixed into the application, which has `namespace` and `max_staleness_seconds`."""

    placeholders = Dict(
        help="""
        How many placeholders to keep: by profile (its slug, `gpu-slice`), by choice (`gpu-slice/memory=large`), or by
        choices of several options (`gpu-slice/memory=large,image=torch`). `min` is the number at all times, `max`
        the limit (by default twice `min`). Each pending server that needs a node gets a placeholder on top of it.
        `floor` is the number of warm ones that rebalancing leaves (by default half of `min`)::

            c.DRASpawnerService.placeholders = {"gpu-slice": {"min": 2, "max": 20}}

        Without any, nothing in the cluster is changed, and earlier placeholders are removed.
        """
    ).tag(config=True)

    @validate("placeholders")
    def _validate_placeholders(self, proposal: Any) -> Any:
        try:
            read_replicas(proposal["value"])
        except SettingsError as error:
            raise TraitError(str(error)) from None
        return proposal["value"]

    limits = List(
        help="""
        Limits of placeholders, besides `max`: the most `placeholders`, `devices`, and `capacity` of devices, of a
        `device_class` or of what a CEL `selector` selects; for a `profile` (or choice), for a `group` of
        `profile_groups`, or for all placeholders. Users' servers are not limited, nor are placeholders for pending
        servers::

            c.DRASpawnerService.limits = [
                {"name": "a100", "device_class": "gpu.nvidia.com", "devices": 8},
                {"name": "shares", "group": "teaching", "capacity": {"memory": "80Gi"}},
            ]
        """
    ).tag(config=True)

    @validate("limits")
    def _validate_limits(self, proposal: Any) -> Any:
        try:
            read_limits(proposal["value"], read_groups(self.profile_groups))
        except SettingsError as error:
            raise TraitError(str(error)) from None
        return proposal["value"]

    profile_groups = Dict(
        help="""
        Groups of profiles that have limits together, by name: `{"teaching": ["gpu-slice", "gpu-share"]}`.
        """
    ).tag(config=True)

    @validate("profile_groups")
    def _validate_profile_groups(self, proposal: Any) -> Any:
        try:
            read_groups(proposal["value"])
        except SettingsError as error:
            raise TraitError(str(error)) from None
        return proposal["value"]

    most_failed_replacements = Integer(
        5,
        min=1,
        help="""
        After so many replacements in a row that fail on their nodes, too, no more placeholders of the shape are created
        for its target, until an administrator resumes them. Each replacement comes later than the one before: the
        fifth after two and a half minutes at the earliest.
        """,
    ).tag(config=True)

    shapes_config_map = Unicode(
        names.SHAPES_CONFIG_MAP,
        help="""
        Name of the ConfigMap in which the hub publishes what servers of each choice need, as in
        `c.DRASpawner.shapes_config_map`. Two hubs in one namespace need two names, on both sides, and in the roles that
        name it.
        """,
    ).tag(config=True)

    servers_namespace = Unicode(
        help="Namespace of the users' servers and of the placeholders; by default that of the service."
    ).tag(config=True)

    @default("servers_namespace")
    def _default_servers_namespace(self) -> str:
        return str(self.namespace)

    user_namespaces = Bool(
        False,
        help="""
        Whether KubeSpawner's `enable_user_namespaces` is on. A claim cannot change its namespace, so there are no
        handovers then; placeholders are still preempted for servers in all namespaces.
        """,
    ).tag(config=True)

    placeholder_image = Unicode(names.PAUSE_IMAGE, help="Image of placeholders: a container that only waits.").tag(
        config=True
    )

    placeholder_image_pull_secrets = List(
        Unicode(),
        help="Names of Secrets in the servers' namespace to pull that image with, for example from your own registry.",
    ).tag(config=True)

    placeholder_priority_class = Unicode(
        names.PRIORITY_CLASS,
        help="""
        PriorityClass of placeholders: below that of users' servers, and at least the autoscaler's
        `--expendable-pods-priority-cutoff` (-10 by default). helm-values/placeholders.yaml has one. Empty for none.
        """,
    ).tag(config=True)

    capacity_buffers = Bool(
        False,
        help="""
        Whether choices without devices have a CapacityBuffer (autoscaling.x-k8s.io) instead of placeholders, where the
        cluster serves it and its autoscaler heeds it. helm-values/placeholders-capacity-buffers.yaml has the rights.
        """,
    ).tag(config=True)

    most_beside_servers = Integer(
        500,
        min=0,
        help="""
        Limit of placeholders for pending pods, of all profiles together; the servers' namespaces take turns. A lower
        limit requests fewer nodes at once, so that a class that starts together waits longer.
        """,
    ).tag(config=True)

    reservation_seconds = Float(
        30.0, min=5.0, max=600.0, help="Seconds for which a placeholder is reserved for one server."
    ).tag(config=True)

    evictions_per_second = Float(
        1.0,
        min=0.0,
        help="""
        Limit of placeholders evicted by rebalancing and draining, per second on average. Preemption for users is not
        limited by it.
        """,
    ).tag(config=True)
    evictions_burst = Integer(5, min=1, help="Limit of evictions at once, after a quiet time.").tag(config=True)
    evictions_per_node = Integer(2, min=1, help="Limit of evictions from one node at once.").tag(config=True)

    ready_deadline_seconds = Float(
        900.0,
        min=0.0,
        help="""
        Seconds after which a node is open to users although images or devices are missing, so that users do not wait
        for ever. Set it longer than the pull of your largest image takes.
        """,
    ).tag(config=True)
    ready_settle_seconds = Float(
        30.0,
        min=0.0,
        help="Seconds that a node must be ready again before it is open to users, after it was not ready.",
    ).tag(config=True)
    ready_images = List(
        Unicode(),
        help="Images that every node for users needs, besides those of the profiles, for example of injected sidecars.",
    ).tag(config=True)
    node_kind_label = Unicode(
        names.INSTANCE_TYPE,
        help="Nodes with the same value of this label are of one kind: a new one should get the others' drivers.",
    ).tag(config=True)
    node_kinds_are_all = Bool(
        False,
        help="""
        Whether the present kinds of nodes are all, as without an autoscaler, or with one node of each kind at all
        times. Only then is a server refused that no node can ever run.
        """,
    ).tag(config=True)

    most_nodes = Dict(
        key_trait=Unicode(),
        value_trait=Integer(min=0),
        help="""
        The most nodes that the autoscaler makes, by kind of node (value of `node_kind_label`). Users are told that a
        new node comes only where it is certain: by this number, or as there were more nodes in the last days.
        """,
    ).tag(config=True)

    new_node_seconds = Float(
        1200.0, min=0.0, help="Seconds for which a node counts as new; the newest attracts placeholders."
    ).tag(config=True)
    drain_below = Float(
        0.0,
        min=-1.0,
        max=1.0,
        help="""
        A node without users' servers is drained if its utilization (0 to 1, without placeholders) is at most this and
        its placeholders fit elsewhere; the autoscaler can then remove it. Negative: no node is drained.
        """,
    ).tag(config=True)
    drain_after_seconds = Float(
        600.0,
        min=0.0,
        help="Seconds that a node must exist and be without users before it is drained.",
    ).tag(config=True)

    def controller_settings(self) -> ControllerSettings:
        """These settings, for the placeholder controller."""
        drain_after = timedelta(seconds=self.drain_after_seconds)
        policy = Policy(
            budget=Budget(self.evictions_per_second, self.evictions_burst, self.evictions_per_node),
            grace=Grace(
                reservation=timedelta(seconds=self.reservation_seconds), new_node=drain_after, freed_node=drain_after
            ),
            readiness=Readiness(
                deadline=timedelta(seconds=self.ready_deadline_seconds),
                settle=timedelta(seconds=self.ready_settle_seconds),
                images=frozenset(self.ready_images),
                kind_label=self.node_kind_label,
            ),
            newest=timedelta(seconds=self.new_node_seconds),
            drain_below=self.drain_below,
            stale_after=timedelta(seconds=self.max_staleness_seconds),
            node_kinds_are_all=self.node_kinds_are_all,
            most_for_pending_pods=self.most_beside_servers,
            renewal=Renewal(most_failed=self.most_failed_replacements),
            limits=read_limits(self.limits, read_groups(self.profile_groups)),
        )
        placeholders = PlaceholderSettings(
            self.servers_namespace,
            self.placeholder_priority_class,
            self.placeholder_image,
            image_pull_secrets=tuple(self.placeholder_image_pull_secrets),
        )
        return ControllerSettings(
            hub_namespace=self.namespace,
            replicas=read_replicas(self.placeholders),
            policy=policy,
            placeholders=placeholders,
            user_namespaces=self.user_namespaces,
            shapes_config_map=self.shapes_config_map,
            capacity_buffers=self.capacity_buffers,
            most_nodes=dict(self.most_nodes),
        )

"""Settings of the service about placeholders."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from traitlets import Bool, Dict, Enum, Float, HasTraits, Integer, List, Unicode, default, validate

from dra_spawner import names
from dra_spawner.dra.scheduler_rules import GATES
from dra_spawner.placeholders.controller.sources.limit_settings import read_groups, read_limits
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings, read_replicas
from dra_spawner.placeholders.planner.targets.placeholder_objects import PlaceholderSettings
from dra_spawner.placeholders.planner.targets.policy import Budget, Grace, Policy, Readiness, Renewal
from dra_spawner.profiles.drivers import drivers_prepare_for
from dra_spawner.service.traits.checked_traits import checked
from dra_spawner.service.traits.node_kind_settings import max_nodes_by_kind, read_node_kinds
from dra_spawner.service.traits.ticket_traits import TicketTraits

_LONGEST_LABEL: Final = 63


class PlaceholderTraits(TicketTraits, HasTraits):
    """Mixed into the application, which has `namespace`, `lease_name`, `max_staleness_seconds`, and `DemandTraits`."""

    placeholders = Dict(
        help="""
        Number of placeholders: by profile (its slug, `gpu-slice`), by choice (`gpu-slice/memory=large`), or by
        choices of several options (`gpu-slice/memory=large,image=torch`). `min` is the number at all times, `max`
        the limit (by default twice `min`). Each pending server that needs a node gets a further placeholder. `floor`
        is the number of warm placeholders that rebalancing keeps (by default half of `min`)::

            c.DRASpawnerService.placeholders = {"gpu-slice": {"min": 2, "max": 20}}

        If it is empty, the service creates no placeholders, and removes earlier ones.
        """
    ).tag(config=True)

    @validate("placeholders")
    def _validate_placeholders(self, proposal: Any) -> Any:
        return checked(proposal, read_replicas)

    limits = List(
        help="""
        Limits of placeholders, besides `max`: of the number of `placeholders` or `devices`, or of the devices'
        `capacity`; for a `device_class` or a CEL `selector` of devices; for a `profile` (or choice), for a `group` of
        `profile_groups`, or for all placeholders of this hub, or with `all_hubs` of all hubs. Users' servers and
        placeholders for pending servers are not limited::

            c.DRASpawnerService.limits = [
                {"name": "a100", "device_class": "gpu.nvidia.com", "devices": 8},
                {"name": "shares", "group": "teaching", "capacity": {"memory": "80Gi"}},
            ]
        """
    ).tag(config=True)

    @validate("limits")
    def _validate_limits(self, proposal: Any) -> Any:
        return checked(proposal, lambda value: read_limits(value, read_groups(self.profile_groups)))

    profile_groups = Dict(
        help="""
        Groups of profiles with common limits, by name: `{"teaching": ["gpu-slice", "gpu-share"]}`.
        """
    ).tag(config=True)

    @validate("profile_groups")
    def _validate_profile_groups(self, proposal: Any) -> Any:
        return checked(proposal, read_groups)

    max_failed_replacements = Integer(
        5,
        min=1,
        help="""
        Limit of failed replacements in a row. A placeholder that fails on its node is replaced. When this many
        replacements have failed, too, no more placeholders of the shape are created for its target until an
        operator says: try again. The pauses between replacements grow: the fifth is created after two and a half
        minutes at the earliest.
        """,
    ).tag(config=True)

    shapes_config_map = Unicode(
        names.SHAPES_CONFIG_MAP,
        help="""
        Name of the ConfigMap in which the hub publishes the needs of each choice: the same as in
        `c.DRASpawner.shapes_config_map`. Two hubs in one namespace need two names, in both settings and in the roles
        that name the ConfigMap.
        """,
    ).tag(config=True)

    settings_config_map = Unicode(
        names.SETTINGS_CONFIG_MAP,
        help="""
        Name of the ConfigMap with overrides by the API. Two services in one namespace need two names, and their
        roles name them.
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
        Whether KubeSpawner's `enable_user_namespaces` is on. Then there are no handovers, as a claim cannot change its
        namespace; placeholders are still preempted for servers in all namespaces.
        """,
    ).tag(config=True)

    placeholder_image = Unicode(
        names.PAUSE_IMAGE,
        help="Image of placeholders: a container that only waits. After a change, present ones are replaced.",
    ).tag(config=True)

    placeholder_image_pull_secrets = List(
        Unicode(),
        help="""
        Names of Secrets in the servers' namespace with which that image is pulled from a private registry. After a
        change, present placeholders that do not run are replaced.
        """,
    ).tag(config=True)

    placeholder_priority_class = Unicode(
        names.PRIORITY_CLASS,
        help="""
        PriorityClass of placeholders: its value is below that of users' servers, and at least the autoscaler's
        `--expendable-pods-priority-cutoff` (-10 by default). The chart has one. Empty: no class. After a change,
        present placeholders are replaced.
        """,
    ).tag(config=True)

    max_placeholders_for_pending_servers = Integer(
        500,
        min=0,
        help="""
        Limit of placeholders for pending servers, of all profiles together; the servers' namespaces take turns. With a
        lower limit fewer nodes are requested at once, so a class that starts together waits longer.
        """,
    ).tag(config=True)

    reservation_seconds = Float(
        30.0, min=5.0, max=600.0, help="Seconds for which a placeholder is reserved for one server."
    ).tag(config=True)

    evictions_per_second = Float(
        1.0,
        min=0.0,
        help="""
        Limit of placeholders evicted by rebalancing, emptying and draining, per second on average. Preemption for users
        is not limited by it.
        """,
    ).tag(config=True)
    evictions_burst = Integer(5, min=1, help="Limit of evictions at once, after a time without evictions.").tag(
        config=True
    )
    evictions_per_node = Integer(2, min=1, help="Limit of evictions from one node at once.").tag(config=True)

    ready_deadline_seconds = Float(
        900.0,
        min=0.0,
        help="""
        Seconds after which a node is open to users although images or devices are missing, so that no user waits
        without end. It must be longer than the pull of your largest image.
        """,
    ).tag(config=True)
    ready_images = List(
        Unicode(),
        help="Further images that every node for users needs, for example of injected sidecars.",
    ).tag(config=True)
    node_kind_label = Unicode(
        names.INSTANCE_TYPE,
        help="Nodes with the same value of this label are of one kind: a new node is expected to get the same devices.",
    ).tag(config=True)
    node_kinds_complete = Bool(
        False,
        help="""
        Whether no other kinds of nodes than the present ones can exist: there is no autoscaler, or each kind always has
        a node. Only then does the service refuse a server that no node can ever run.
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
        A node without users' servers is emptied if its utilization (0 to 1, without placeholders) is at most this
        value and its placeholders fit elsewhere. The autoscaler can then remove it. Negative: no node is emptied.
        """,
    ).tag(config=True)
    drain_after_seconds = Float(
        600.0,
        min=0.0,
        help="Seconds for which a node must exist and have no users' servers before it is emptied.",
    ).tag(config=True)

    drain_sick_devices = Integer(
        0,
        min=0,
        max=100,
        help="""
        The most devices that the service drains by itself at a time, as the node of a server or placeholder reports
        that its device does not work (KEP-4680, gate `ResourceHealthStatus`). Each stays drained until a person ends
        that. 0: none.
        """,
    ).tag(config=True)

    pack_devices = Bool(
        False,
        help="""
        Whether the node and the devices of a server are chosen so that whole devices and large partitions stay free:
        shares go to the fullest device with capacity, MIG slices to GPUs that are cut up already. Claims then ask for
        these devices first (`firstAvailable`), and for any other after them. New placeholders are packed, too. It needs
        `placeholders` for some choice, at least with `min` 0, as the service answers no start without.
        """,
    ).tag(config=True)

    kubernetes_feature_gates = Dict(
        key_trait=Enum(GATES),
        value_trait=Bool(),
        help="""
        Feature gates of kube-scheduler that your cluster has otherwise than by default, as for its `--feature-gates`:
        `{"DRAFractionalCapacityRange": True}`. What is free is computed with them; the same as in
        `c.DRASpawner.kubernetes_feature_gates`.
        """,
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
                images=frozenset(self.ready_images),
                kind_label=self.node_kind_label,
            ),
            newest=timedelta(seconds=self.new_node_seconds),
            drain_below=self.drain_below,
            stale_after=timedelta(seconds=self.max_staleness_seconds),
            node_kinds_complete=self.node_kinds_complete,
            max_for_pending_pods=self.max_placeholders_for_pending_servers,
            renewal=Renewal(max_failed=self.max_failed_replacements),
            limits=read_limits(self.limits, read_groups(self.profile_groups)),
            # Until the hub has published what it knows.
            drivers_prepare_for=drivers_prepare_for(),
            placeholder_image=self.placeholder_image,
            placeholder_priority_class=self.placeholder_priority_class,
            placeholder_pull_secrets=frozenset(self.placeholder_image_pull_secrets),
            packs_devices=self.pack_devices,
            # Claims are not handed over to another namespace, so nothing could be held.
            tickets=self.ticket_rules() if not self.user_namespaces else None,
        )
        placeholders = PlaceholderSettings(
            self.servers_namespace,
            self.placeholder_priority_class,
            self.placeholder_image,
            {names.INSTALLATION: self.lease_name[:_LONGEST_LABEL].rstrip("-.")},
            image_pull_secrets=tuple(self.placeholder_image_pull_secrets),
        )
        return ControllerSettings(
            hub_namespace=self.namespace,
            replicas=read_replicas(self.placeholders),
            policy=policy,
            placeholders=placeholders,
            user_namespaces=self.user_namespaces,
            shapes_config_map=self.shapes_config_map,
            settings_config_map=self.settings_config_map,
            max_nodes=max_nodes_by_kind(read_node_kinds(self.node_kinds), self.node_kind_label),
            has_autoscaler=self.autoscaler,
            drain_sick_devices=self.drain_sick_devices,
            tickets_namespace=self.tickets_namespace,
        )

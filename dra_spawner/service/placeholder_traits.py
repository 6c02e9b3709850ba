"""Settings of the service about placeholders."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from traitlets import Bool, Dict, Float, HasTraits, Integer, List, TraitError, Unicode, default, validate

from dra_spawner import names
from dra_spawner.placeholders.controller.settings import ControllerSettings, PlaceholderSettingsError, read_replicas
from dra_spawner.placeholders.planner.placeholder_objects import PlaceholderSettings
from dra_spawner.placeholders.planner.policy import Budget, Grace, Policy, Readiness

__all__ = ["PlaceholderTraits"]


class PlaceholderTraits(HasTraits):
    """Mixed into the application, which has `namespace` and `max_staleness_seconds`."""

    placeholders = Dict(
        help="""
        Places kept ready: by profile (its slug, `gpu-slice`), by choice (`gpu-slice/memory=large`), or by choices of
        several options (`gpu-slice/memory=large,image=torch`), how many there are to be at all times (`min`) and how
        many there ever may be, those beside waiting users included (`max`; twice `min` by default). `floor` many warm
        ones are never moved (by default half of `min`)::

            c.DRASpawnerService.placeholders = {"gpu-slice": {"min": 2, "max": 20}}

        Without any, nothing is kept and nothing in the cluster is changed; placeholders of before are removed.
        """
    ).tag(config=True)

    @validate("placeholders")
    def _validate_placeholders(self, proposal: Any) -> Any:
        try:
            read_replicas(proposal["value"])
        except PlaceholderSettingsError as error:
            raise TraitError(str(error)) from None
        return proposal["value"]

    shapes_config_map = Unicode(
        names.SHAPES_CONFIG_MAP,
        help="""
        Name of the ConfigMap in which the hub publishes what servers of each choice need, as in
        `c.DRASpawner.shapes_config_map`. Two hubs in one namespace need two names, on both sides, and in the roles that
        name it.
        """,
    ).tag(config=True)

    servers_namespace = Unicode(
        help="Where the users' servers are, and with them the placeholders; by default that of the service itself."
    ).tag(config=True)

    @default("servers_namespace")
    def _default_servers_namespace(self) -> str:
        return str(self.namespace)

    user_namespaces = Bool(
        False,
        help="""
        Whether KubeSpawner's `enable_user_namespaces` is on. Claims cannot go from one namespace to another, so nothing
        is handed over then, but placeholders make way for servers in all namespaces.
        """,
    ).tag(config=True)

    placeholder_image = Unicode(
        names.PAUSE_IMAGE, help="Image of placeholders; it has nothing to do but to be there."
    ).tag(config=True)

    placeholder_image_pull_secrets = List(
        Unicode(),
        help="Names of Secrets, in the servers' namespace, to pull that image with: from a registry of your own, say.",
    ).tag(config=True)

    placeholder_priority_class = Unicode(
        names.PRIORITY_CLASS,
        help="""
        PriorityClass of placeholders, below that of users' servers and not below what the autoscaler disregards (-10
        by default); helm-values/placeholders.yaml has one. Empty for none: then they stand in nobody's way by priority.
        """,
    ).tag(config=True)

    most_beside_servers = Integer(
        500,
        min=0,
        help="""
        How many placeholders at most wait beside servers for nodes, of all profiles together; the servers' namespaces
        take turns. Lower, it bounds how many nodes are asked for at once: a class that starts together waits longer.
        """,
    ).tag(config=True)

    reservation_seconds = Float(
        30.0, min=5.0, max=600.0, help="Seconds for which a placeholder is reserved for one server."
    ).tag(config=True)

    evictions_per_second = Float(
        1.0,
        min=0.0,
        help="""
        How many placeholders are evicted at most to tidy up, each second in the long run. What users wait for is not
        bounded by it. Nodes do not like more than a few.
        """,
    ).tag(config=True)
    evictions_burst = Integer(5, min=1, help="How many at once, after a quiet time.").tag(config=True)
    evictions_per_node = Integer(2, min=1, help="How many from one node at once.").tag(config=True)

    ready_deadline_seconds = Float(
        900.0,
        min=0.0,
        help="""
        Seconds after which a node is open to users although images or devices are missing there, rather than leave
        users waiting: longer than your largest image takes.
        """,
    ).tag(config=True)
    ready_settle_seconds = Float(
        30.0,
        min=0.0,
        help="Seconds that a node which was not ready for a while must be ready before users go there again.",
    ).tag(config=True)
    ready_images = List(
        Unicode(),
        help="Images that every node for users needs, besides those of the profiles: of sidecars added later, say.",
    ).tag(config=True)
    node_kind_label = Unicode(
        names.INSTANCE_TYPE,
        help="Nodes with the same value of this label are alike: a new one is to have the drivers the others have.",
    ).tag(config=True)
    node_kinds_are_all = Bool(
        False,
        help="""
        Whether no other kinds of nodes than the present ones can come, as without an autoscaler or with one node of
        each kind always there. Only then is a server refused that no node can ever run.
        """,
    ).tag(config=True)

    new_node_seconds = Float(
        1200.0, min=0.0, help="Seconds for which a node counts as new; placeholders are drawn to the newest."
    ).tag(config=True)
    drain_below = Float(
        0.0,
        min=-1.0,
        max=1.0,
        help="""
        A node without users' servers that is used at most so much (0 to 1; placeholders do not count) loses its
        placeholders if others have room for them, so that the autoscaler takes it. Negative: none does.
        """,
    ).tag(config=True)
    drain_after_seconds = Float(
        600.0,
        min=0.0,
        help="Seconds that a node must be there, and be without users, before it loses its placeholders.",
    ).tag(config=True)

    def keeper_settings(self) -> ControllerSettings:
        """All of it, for the rooms below."""
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
        )

"""Traits of `DRASpawner`, which a profile may change for one start."""

from __future__ import annotations

from typing import Any

from kubespawner import KubeSpawner
from traitlets import Any as AnyValue
from traitlets import Bool, Bunch, Dict, Enum, Float, Integer, List, TraitError, Unicode, default, validate

from dra_spawner import names
from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.dra.scheduler_rules import GATES
from dra_spawner.profiles.server_limits import SHORTEST_IDLE, SHORTEST_LIFETIME, SHORTEST_NOTICE, allowed_instead


class SpawnerSettings(KubeSpawner):
    """KubeSpawner with the traits of `DRASpawner`."""

    device_claims = Dict(
        config=True,
        help="""
        The devices of a server: claims by name.

        Usually set by a profile's ``kubespawner_override`` or by a choice of its ``profile_options``; dicts merge
        there, so an option may change a single value. In short form a claim is one request::

            c.DRASpawner.device_claims = {
                "gpu": {
                    "device_class": "gpu.example.com",  # a DeviceClass of the cluster
                    "product": "A100*",                 # optional: the product's name
                    "capacity": {"memory": "10Gi"},     # optional: a share of a shareable device
                    "where": "...",                     # optional: CEL, or a list; all must hold
                    "count": 1,                         # optional: from 1 to 32, or "all"
                }
            }

        In long form a claim has several requests, and states which container gets which (by default the notebook's
        container gets all)::

            {"accelerator": {"requests": {"gpu": {...}, "nic": {...}}, "containers": {"notebook": ["gpu"]}}}

        Each start creates a ResourceClaimTemplate for each claim, which is deleted with the server's pod.
        ``{"template": "name"}`` and ``{"claim": "name"}`` use existing objects instead.
        docs/reference/profiles.md describes everything.
        """,
    )

    common_profile_options = Dict(
        config=True,
        help="""
        Options that each profile of ``profile_list`` has, in the form of KubeSpawner's ``profile_options``::

            c.DRASpawner.common_profile_options = {
                "image": {"display_name": "Image", "choices": {"lab": {"display_name": "Lab", "default": True}}}
            }

        They follow a profile's own options. A profile's own option of the same name wins. Findings of checks name the
        option in each profile.
        """,
    )

    devices_idle_timeout = Integer(
        0,
        min=0,
        config=True,
        help=f"""
        Seconds without activity after which a server with devices is stopped; 0: such servers are treated as others
        are. A profile's ``kubespawner_override`` may set another value.

        The time counts as for JupyterHub's idle culler (``jupyterhub-idle-culler``), which has one limit for all
        servers: since the last activity that JupyterHub knows. The shorter one of the limits counts. JupyterHub learns
        of activity every few minutes, so at least {SHORTEST_IDLE} seconds are allowed. The hub looks at each
        ``poll_interval``.
        """,
    )

    devices_lifetime = Integer(
        0,
        min=0,
        config=True,
        help=f"""
        Seconds after which a server with devices is stopped, used or not; 0: servers run as long as their users like. A
        profile's ``kubespawner_override`` may set another value. At least {SHORTEST_LIFETIME} seconds are allowed.

        Form, home page and the panel *My devices* say from the beginning when a server ends. The time holds that the
        setting had at the server's start. Time for which the hub was away is not counted.
        """,
    )

    devices_lifetime_notice = Integer(
        900,
        min=SHORTEST_NOTICE,
        config=True,
        help="""
        Seconds before the end of ``devices_lifetime`` in which home page and panel warn the user. A profile's
        ``kubespawner_override`` may set another value.
        """,
    )

    instead = List(
        Unicode(),
        config=True,
        help="""
        Choices, equal or smaller, that a user may have while this one is not free, the best first; usually set by the
        ``kubespawner_override`` of a profile or of a choice::

            {"instead": ["gpu-slice/memory=20Gi", "gpu-slice"]}

        The page of a start offers those that would start now before all others. docs/reference/profiles.md.
        """,
    )

    take_instead = Bool(
        False,
        config=True,
        help="""
        Whether a start takes one of ``instead`` by itself while the user's choice is not free: the first that is free,
        else the one whose expected wait is surely shorter. A profile may set it, or a choice that users tick.
        """,
    )

    other_user_options = List(
        Unicode(),
        config=True,
        help="""
        Names of options in ``user_options`` that other code of this hub reads, for example a ``pre_spawn_hook``.
        An option that is neither in this list nor in the chosen profile is refused, since it would have no effect.
        Keys of an ``apply_user_options`` that is a dict need not be in this list.
        A hub without profiles, with a spawner class or an ``options_from_form`` of its own, or with a function as
        ``apply_user_options`` needs no list: it accepts options of any name.
        """,
    )

    vlans = Dict(
        config=True,
        help="""
        The VLAN of each user or group: the value of ``{vlan}`` in claims. For example::

            c.DRASpawner.vlans = {
                "by": "group",                   # or "user", the default
                "groups": ["physics", "maths"],  # the first of these that the user is in counts
                "mapping": {"physics": 42},      # permanent; or {"physics": {"id": 42, "address": "10.42.0.7/24"}}
                "range": "100-199",              # for the others: each VLAN has one owner at a time
                "exclude": [150],
            }

        A ConfigMap lists the VLANs of the range that are in use. A VLAN is free again when the last server that uses it
        has stopped. docs/how-to/vlans.md describes everything.
        """,
    )

    intel_gas = Dict(
        config=True,
        help="""
        Intel GPUs, or parts of them, for clusters with Intel's GPU plugin up to release 0.33 (newer releases give whole
        GPUs only; parts of GPUs by DRA are ``device_claims``).
        Usually set by a profile's ``kubespawner_override``; empty for none. Amounts are for each card::

            c.DRASpawner.intel_gas = {
                "resource": "i915",   # or xe: the kernel driver
                "count": 1,           # different cards
                "millicores": 500,    # thousandths of a card
                "memory": "4Gi",
                "tiles": 1,
            }

        The pod gets the limits ``gpu.intel.com/…``. If GPU Aware Scheduling runs, it chooses the cards; else the hub
        chooses them, and pins the pod to their node. docs/how-to/intel-gas.md describes everything.
        """,
    )

    intel_gas_cleanup_interval_seconds = Integer(
        1200,
        min=10,
        config=True,
        help="""
        Average seconds between searches for cards of servers that are gone. Each search comes after half of this time
        plus a random part of up to the whole time. The searches begin when ``intel_gas`` is used first.
        """,
    )

    form_shows_amounts = Bool(
        True,
        config=True,
        help="""
        Whether the spawn form shows the amount that is really reserved, for example "15 GiB will be reserved". It is
        more than a choice asks for if devices give shares in steps.
        """,
    )

    form_shows_enforcement = Bool(
        True,
        config=True,
        help="""
        Whether the spawn form says what enforces a share of a device: the hardware, a library, a daemon, or nothing.
        The form says nothing about drivers that this project does not know.
        """,
    )

    nodes_may_be_added = Bool(
        None,
        allow_none=True,
        config=True,
        help="""
        Whether nodes with other devices than the present ones may join, for example by an autoscaler. By default
        (None) they may if a cloud provides one of the present nodes (its ``spec.providerID``).
        If not, a choice that no present node could ever satisfy is refused at once, with the reason. If so, the hub
        only logs it at its start, and the choice's server waits for a new node. A problem that no new node solves (a
        missing device class, a field that the API server drops, CEL that fails) is always refused.
        Nothing is refused because of devices while a node is not ready or a driver has not published its devices yet.
        """,
    )

    drivers_prepare_for = Dict(
        key_trait=Unicode(),
        value_trait=Enum([str(each) for each in PreparedFor]),
        config=True,
        help="""
        What DRA drivers prepare a claim's devices for, by the driver's name (``spec.driver`` of its ResourceSlices)::

            c.DRASpawner.drivers_prepare_for = {"gpu.acme.com": "claim"}

        ``claim``: each pod that names the claim gets the devices, as with GPUs. ``container``: only the first container
        that names it. ``pod``: only the pod for which it was prepared, as with network interfaces; a placeholder ends
        before the server that gets its devices starts.
        docs/reference/drivers.md says what is known; other drivers count as ``pod``, with which each driver works. The
        hub tells the service.
        """,
    )

    kubernetes_feature_gates = Dict(
        key_trait=Enum(GATES),
        value_trait=Bool(),
        config=True,
        help="""
        Feature gates of kube-scheduler that your cluster has otherwise than by default::

            c.DRASpawner.kubernetes_feature_gates = {"DRAFractionalCapacityRange": True}

        Sizes in the form, checks and reasons are computed with them. With ``DRAListTypeAttributes`` the word
        ``numa_node`` looks into lists. The service has a setting of the same name.
        """,
    )

    ignored_profile_rules = List(
        Unicode(),
        config=True,
        help="""
        Names of rules whose findings are neither logged nor refused, for example ``driver-parameters`` if your driver
        is newer than the release that this project knows. docs/reference/check.md lists all rules.
        """,
    )

    placeholder_service = Unicode(
        names.HUB_SERVICE,
        config=True,
        help="""
        Name of the JupyterHub service that decides about placements: ``dra-spawner service``. Without this name, or
        without a service of this name in the hub, starts do without it.
        Servers of profiles with placeholders (``c.DRASpawnerService.placeholders``) get a warm claim. Each start asks
        the service once, and never fails because of it.
        """,
    )

    placeholder_service_ca_file = Unicode(
        config=True,
        help="""
        File of CA certificates. The hub checks the service's certificate with them where the service's ``url`` in the
        hub begins with ``https``. Without a file, the hub takes the CA of ``internal_ssl``, or else the system's.
        """,
    )

    placement_wait_seconds = Float(
        1.0,
        min=0.1,
        config=True,
        help="""
        Maximum seconds that a start waits for the service's answer; then it continues as if there were no service. A
        higher value helps if the service's machine is busy, but users wait that much longer if the service hangs.
        """,
    )

    shapes_config_map = Unicode(
        names.SHAPES_CONFIG_MAP,
        config=True,
        help="""
        Name of the ConfigMap in the hub's namespace in which the hub publishes the shapes of all choices for the
        service. The service has the same setting, ``c.DRASpawnerService.shapes_config_map``. Two hubs in one namespace
        need two names: in both settings, and in the Roles that name the ConfigMap.
        """,
    )

    tickets = Bool(
        False,
        config=True,
        help="""
        Whether users can join a queue for a choice whose devices are all in use. ``dra-spawner service`` holds a device
        for the first user, so it needs the same setting, ``c.DRASpawnerService.tickets``. docs/how-to/tickets.md
        describes everything.
        """,
    )

    tickets_namespace = Unicode(
        "",
        config=True,
        help=f"""
        Namespace of the ConfigMap ``{names.TICKETS_CONFIG_MAP}`` with the queue; empty for the hub's namespace. Hubs of
        one cluster that name the same namespace share one queue, if a user has the same name in all of them. The
        service has the same setting.
        """,
    )

    max_tickets_per_user = Integer(
        3,
        min=1,
        max=100,
        config=True,
        help="""
        Choices for which one user can wait at the same time, over all hubs that share the queue.
        """,
    )

    optional_devices_wait_seconds = Integer(
        10,
        min=1,
        config=True,
        help="""
        Seconds that a server waits for optional devices (``optional``, ``none``) that were free at its start but have
        been taken since. Then its pod is created again without them.
        """,
    )

    retry_failed_pod_after_seconds = Integer(
        60,
        min=0,
        config=True,
        help="""
        Seconds for which a node may fail to prepare a server's devices; then the server's pod is created again with
        another device, once in a start. At most a third of ``start_timeout`` counts, so that time is left. This needs
        ``events_enabled``.
        The pod is created again at once if waiting cannot help: the node refuses the pod or has lost its claim, or the
        device is unhealthy or withdrawn. 0: pods are never created again.
        """,
    )

    leftovers_sweep_interval_seconds = Integer(
        300,
        min=10,
        config=True,
        help="""
        Seconds between sweeps for objects that were left behind, for example because a hub was stopped during a start.
        Each sweep makes a few list requests, and changes only objects of starts that are over.
        """,
    )

    #: Unchecked JSON of a user. JupyterHub 5 also stores a list; JupyterHub's own trait, a dict, would refuse it when
    #: the user's spawner is created, and so keep the hub from starting.
    user_options = AnyValue(help="The user's choices, by name.")

    @validate("devices_idle_timeout", "devices_lifetime")
    def _dra_seconds(self, proposal: Bunch) -> int:
        name, seconds = proposal["trait"].name, proposal["value"]
        if allowed := allowed_instead(name, seconds):
            raise TraitError(f"{name}: found {seconds}; allowed: {allowed}")
        return int(seconds)

    @default("user_options")
    def _dra_user_options(self) -> dict[str, Any]:
        return {}

    @default("apply_user_options")
    def _dra_apply_user_options(self) -> Any:
        # ``load_user_options`` applies the options. Without this hook JupyterHub would log the names of all options.
        return applied_later


def applied_later(spawner: KubeSpawner, user_options: object) -> None:
    """Do nothing; ``load_user_options`` applies options."""

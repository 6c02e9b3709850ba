"""The command line of ``dra-spawner rehearse``."""

from __future__ import annotations

import argparse
import re
import sys
from datetime import timedelta

from dra_spawner import names
from dra_spawner.commands.cluster_files.kubernetes_release import add_feature_gate
from dra_spawner.common.command_options import options_of, whole_number

_MAX_MINUTES = 7 * 24 * 60


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``rehearse`` to the commands of ``dra-spawner``."""
    command = commands.add_parser(
        "rehearse",
        help="prove that the users of a class can start at its time, or print the problems",
        description="Answer whether a number of users can start servers at a time: how many fit on present nodes, how\n"
        "many nodes must be ordered and when, which problems exist, and how long users would wait. The simulator\n"
        "places each server, and decides as kube-scheduler does. The cluster is not changed.",
        epilog="examples:\n"
        '  dra-spawner rehearse "350 of gpu-slice at 17:00"\n'
        '  dra-spawner rehearse "350 of gpu-slice in total within 20 min tomorrow at 9:00" --time-zone Europe/Berlin\n'
        '  dra-spawner rehearse "12 of gpu-slice/memory=large now" --no-new-nodes\n'
        '  dra-spawner rehearse "350 of gpu-slice at 2026-11-24 17:00" --nodes cluster.yaml --format json | jq .\n'
        "\n"
        "  kubectl get nodes,pods,resourceslices,deviceclasses,resourceclaims,resourceclaimtemplates,\\\n"
        "resourcequotas -A -o json > cluster.json\n"
        f"  kubectl get configmap {names.SHAPES_CONFIG_MAP} -n jupyterhub -o json > profiles.json\n"
        '  dra-spawner rehearse "350 of gpu-slice at 17:00" --objects cluster.json profiles.json\n'
        "\n"
        "line:\n"
        "  NUMBER of PROFILE [in total | additional] [within MINUTES min] WHEN\n"
        "  PROFILE as the hub publishes it: its slug, or slug/option=choice; in double quotes if it has spaces.\n"
        "  WHEN: now; at 17:00 (today); tomorrow at 9:00; at 2026-11-24 17:00; a time may end in +01:00 or Z.\n"
        "  additional (the default): besides running servers. in total: the number includes running servers.\n"
        "  within: the time in which the users start their servers (15 min).\n"
        "\n"
        "profiles:\n"
        f"  A hub with DRASpawner publishes its profiles in the ConfigMap {names.SHAPES_CONFIG_MAP} when it starts.\n"
        "\n"
        "nodes (--nodes, YAML; the file of `dra-spawner replay`):\n"
        "  nodes:\n"
        "    - {name: a100-8, slots: 8, lead_minutes: [6, 8, 9], image_minutes: 2, max_nodes: 40,\n"
        "       starts_per_minute: 5, labels: {hub.jupyter.org/node-pool: a100}}\n"
        "  Without labels the name is the instance type.\n"
        "  Kinds that are usable in time are used first, then the others, each in this order. Without a file, more\n"
        "  nodes of every present kind are assumed, each usable after --lead-minutes. If no server fits on them, the\n"
        "  answer is not known.\n"
        "\n"
        "exit code:\n"
        "  0 yes, 1 no or not known, 2 the line or the input cannot be read",
    )
    command.add_argument("line", metavar="LINE", help="number of users, profile and time, see below")
    command.add_argument(
        "--kubeconfig", default="", metavar="FILE", help="kubeconfig (default: as kubectl, or the pod's account)"
    )
    command.add_argument("--context", default="", help="context of the kubeconfig (default: its current one)")
    command.add_argument(
        "--objects",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="instead of a cluster: files that kubectl printed, see the examples; - for standard input",
    )
    command.add_argument(
        "--namespace", default="", help="namespace of servers (default: the one with the hub's profiles)"
    )
    command.add_argument(
        "--config-map",
        default=names.SHAPES_CONFIG_MAP,
        metavar="NAME",
        help="the hub's shapes_config_map (%(default)s)",
    )
    command.add_argument("--nodes", default="", metavar="FILE", help="kinds of nodes that can be added, see below")
    command.add_argument("--no-new-nodes", action="store_true", help="no node can be added")
    add_feature_gate(command)
    command.add_argument(
        "--kind-label",
        default=names.INSTANCE_TYPE,
        metavar="LABEL",
        help="nodes with the same value of this label are of one kind (%(default)s)",
    )
    command.add_argument(
        "--lead-minutes",
        type=_minutes,
        default=timedelta(minutes=10),
        metavar="MINUTES",
        help="time from the order of a node until it has its devices, if --nodes and --history do not have it (10)",
    )
    command.add_argument(
        "--image-minutes",
        type=_minutes,
        default=timedelta(0),
        metavar="MINUTES",
        help="time until a node has pulled its missing images (0)",
    )
    command.add_argument(
        "--margin-minutes",
        type=_minutes,
        default=timedelta(minutes=5),
        metavar="MINUTES",
        help="time before the begin at which all nodes should be usable (5)",
    )
    command.add_argument(
        "--mode",
        choices=("observe", "advise", "act"),
        default="",
        help="the service's scale_ahead; with act, a calendar entry is taken to announce the users (not known)",
    )
    command.add_argument(
        "--autoscaler", action="store_true", help="an autoscaler adds nodes for pending pods (not known)"
    )
    command.add_argument(
        "--max-placeholders",
        type=whole_number,
        metavar="NUMBER",
        help="the profile's max in the service's placeholders setting (no limit)",
    )
    command.add_argument("--pack-devices", action="store_true", help="the service has pack_devices on (off)")
    command.add_argument("--history", default="", metavar="URL", help="the service's history, for recorded lead times")
    command.add_argument("--time-zone", default="", help="time zone of the line (default: that of --nodes, else UTC)")
    command.add_argument("--format", choices=("table", "json"), default="table", help="output format (%(default)s)")
    command.set_defaults(run=_rehearse)


def _minutes(text: str) -> timedelta:
    if not re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,6})?", text) or float(text) > _MAX_MINUTES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes from 0 to {_MAX_MINUTES}")
    return timedelta(minutes=float(text))


def _rehearse(options: argparse.Namespace) -> int:
    # Imported here, so that `dra-spawner --help` does not load the Kubernetes client.
    from dra_spawner.commands.rehearsing.rehearse_command import RehearseOptions, run_rehearse

    if options.objects and (options.kubeconfig or options.context):
        sys.stderr.write("dra-spawner rehearse: --objects or a cluster (--kubeconfig, --context), not both\n")
        return 2
    if options.nodes and options.no_new_nodes:
        sys.stderr.write("dra-spawner rehearse: --nodes or --no-new-nodes, not both\n")
        return 2
    asked = options_of(
        RehearseOptions,
        options,
        gates=dict(options.feature_gate),
        lead=options.lead_minutes,
        image_time=options.image_minutes,
        margin=options.margin_minutes,
        has_autoscaler=options.autoscaler,
        packs_devices=options.pack_devices,
        zone=options.time_zone,
    )
    return run_rehearse(asked, sys.stdin.buffer, sys.stdout, sys.stderr)

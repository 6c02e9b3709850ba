"""The command line of ``dra-spawner rehearse``."""

from __future__ import annotations

import argparse
import re
import sys
from datetime import timedelta

from dra_spawner import names

__all__ = ["add_commands"]

_MOST_MINUTES = 7 * 24 * 60


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands of this package."""
    command = commands.add_parser(
        "rehearse",
        help="prove that the users of a class can start at its time, or say what is in the way",
        description="Tell now whether so many users can start servers at a time: how many find capacity on the nodes\n"
        "that are there, how many nodes must be ordered and when, what is in the way, and who would wait. Each\n"
        "server is placed by the simulator, which decides as kube-scheduler does. Nothing is changed.",
        epilog="examples:\n"
        '  dra-spawner rehearse "350 of gpu-slice at 17:00"\n'
        '  dra-spawner rehearse "350 of gpu-slice in total within 20 min tomorrow at 9:00" --zone Europe/Berlin\n'
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
        "  additional (the default): on top of servers that run. in total: servers that run are part of them.\n"
        "  within: the time in which they start their servers (15 min).\n"
        "\n"
        "profiles:\n"
        f"  Those that a hub with DRASpawner publishes in the ConfigMap {names.SHAPES_CONFIG_MAP}, by itself.\n"
        "\n"
        "nodes (--nodes, YAML; the file of `dra-spawner simulate`):\n"
        "  nodes:\n"
        "    - {name: a100-8, slots: 8, lead_minutes: [6, 8, 9], image_minutes: 2, most: 40, starts_per_minute: 5,\n"
        "       labels: {hub.jupyter.org/node-pool: a100}}      without labels: the instance type is the name\n"
        "  Kinds are used in this order; kinds that come in time are used first. Without a file, more nodes of every\n"
        "  present kind are assumed, each useful after --lead-minutes. If none of them will do, it is not known.\n"
        "\n"
        "exit code:\n"
        "  0 yes, 1 no or not known, 2 the line or the input cannot be read",
    )
    command.add_argument("line", metavar="LINE", help="who is expected and when, see below")
    command.add_argument(
        "--kubeconfig", default="", metavar="FILE", help="the cluster (as kubectl finds it; in a pod, by its account)"
    )
    command.add_argument("--context", default="", help="a context of the kubeconfig, if not its current one")
    command.add_argument(
        "--objects",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="instead of a cluster: what kubectl printed of it, see the examples; - for standard input",
    )
    command.add_argument(
        "--namespace", default="", help="where servers run (default: where a hub publishes its profiles)"
    )
    command.add_argument(
        "--config-map",
        default=names.SHAPES_CONFIG_MAP,
        metavar="NAME",
        help="the hub's shapes_config_map, if you set it (%(default)s)",
    )
    command.add_argument("--nodes", default="", metavar="FILE", help="kinds of nodes that can be added, see below")
    command.add_argument("--no-new-nodes", action="store_true", help="no node can be added")
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
        help="from the order of a node until it has its devices, where --nodes and --history do not say it (10)",
    )
    command.add_argument(
        "--image-minutes",
        type=_minutes,
        default=timedelta(0),
        metavar="MINUTES",
        help="until a node has pulled the images that it lacks (0)",
    )
    command.add_argument(
        "--margin-minutes",
        type=_minutes,
        default=timedelta(minutes=5),
        metavar="MINUTES",
        help="time before the begin at which all nodes should be useful (5)",
    )
    command.add_argument(
        "--most-placeholders",
        type=_whole,
        metavar="NUMBER",
        help="the profile's max in the service's placeholders setting (no limit)",
    )
    command.add_argument(
        "--history", default="", metavar="URL", help="the service's history, for lead times that were seen"
    )
    command.add_argument("--zone", default="", help="time zone of the line (that of --nodes, else UTC)")
    command.add_argument("--format", choices=("table", "json"), default="table", help="output format (%(default)s)")
    command.set_defaults(run=_rehearse)


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def _minutes(text: str) -> timedelta:
    if not re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,6})?", text) or float(text) > _MOST_MINUTES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes from 0 to {_MOST_MINUTES}")
    return timedelta(minutes=float(text))


def _rehearse(options: argparse.Namespace) -> int:
    # Imported here, so that `dra-spawner --help` does not load the Kubernetes client.
    from dra_spawner.rehearsal_commands.rehearse_command import RehearseOptions, run_rehearse

    if options.objects and (options.kubeconfig or options.context):
        sys.stderr.write("dra-spawner rehearse: --objects or a cluster (--kubeconfig, --context), not both\n")
        return 2
    if options.nodes and options.no_new_nodes:
        sys.stderr.write("dra-spawner rehearse: --nodes or --no-new-nodes, not both\n")
        return 2
    asked = RehearseOptions(
        line=options.line,
        kubeconfig=options.kubeconfig,
        context=options.context,
        objects=tuple(options.objects),
        namespace=options.namespace,
        config_map=options.config_map,
        nodes=options.nodes,
        no_new_nodes=options.no_new_nodes,
        kind_label=options.kind_label,
        lead=options.lead_minutes,
        image_time=options.image_minutes,
        margin=options.margin_minutes,
        most_placeholders=options.most_placeholders,
        history=options.history,
        zone=options.zone,
        as_json=options.format == "json",
    )
    return run_rehearse(asked, sys.stdin.buffer, sys.stdout, sys.stderr)

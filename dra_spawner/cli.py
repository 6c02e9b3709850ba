"""``dra-spawner``: the commands."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import signal
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from dra_spawner import __version__
from dra_spawner.check import arguments as check


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code (0 done, 1 failed with a sentence on stderr, 2 wrong usage)."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments[:1] == ["service"]:
        # Its settings are traitlets, which read the command line themselves.
        from dra_spawner.service import main as run_service

        return run_service(arguments[1:])
    options = _parser().parse_args(arguments)
    return int(options.run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dra-spawner",
        description="JupyterHub on Kubernetes with shares of devices, by Dynamic Resource Allocation.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    commands.add_parser("service", help="follow the cluster beside a hub: who uses which device, API, metrics")
    _add_demo(commands)
    _add_fit(commands)
    _add_utilization(commands)
    check.add_commands(commands)
    return parser


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "demo",
        help="try it all on this machine: a cluster, JupyterHub, five profiles",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Start a small Kubernetes with four example nodes, and JupyterHub with DRASpawner on it.\n"
        "Nothing but Python is needed; servers run as processes of this machine. Ctrl-C stops everything.",
        epilog="examples:\n"
        "  dra-spawner demo                                  then open the address it prints\n"
        "  dra-spawner demo --port 0 --no-browser            any free port\n"
        "  dra-spawner demo --kubeconfig ~/.kube/config      servers on a cluster you have; its pods must be able to\n"
        "                                                    reach this machine, and this machine its pods",
    )
    command.add_argument(
        "--port", type=_port, default=8000, help="where JupyterHub listens; 0 for any free port (%(default)s)"
    )
    command.add_argument("--kubeconfig", type=Path, metavar="FILE", help="use this existing cluster instead")
    command.add_argument("--namespace", default="default", help="where servers are started (%(default)s)")
    command.add_argument("--image", default="", help="with --kubeconfig: image of the servers (KubeSpawner's default)")
    command.add_argument("--no-browser", action="store_true", help="do not open the address in a browser")
    command.add_argument("--debug", action="store_true", help="show JupyterHub's log instead of keeping it in a file")
    command.set_defaults(run=_demo)


def _add_fit(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "fit",
        help="would these claims fit, where, and if not, why?",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Tell for every node whether all ResourceClaims without allocation would fit there together,\n"
        "in the order given, decided as kube-scheduler 1.36 decides about devices. Needs no cluster: it reads\n"
        "the Nodes, ResourceSlices, DeviceClasses and ResourceClaims that kubectl prints. Only devices are\n"
        "looked at, not CPU, memory or taints of nodes.",
        epilog="examples:\n"
        "  kubectl get nodes,resourceslices,deviceclasses -o json > cluster.json\n"
        "  kubectl get resourceclaims -A -o json > claims.json     what is in use, and what waits\n"
        "  dra-spawner fit cluster.json claims.json wanted.yaml    would wanted.yaml fit, too?\n"
        "  kubectl get nodes,resourceslices,deviceclasses,resourceclaims -A -o json | dra-spawner fit\n"
        "  dra-spawner fit --format json cluster.json questions.jsonl | jq .\n"
        "\n"
        "input:\n"
        "  JSON or YAML: objects, Lists, several documents one after the other, in any number of files. A line\n"
        '  {"name": "q1", "objects": [...]} is a question of its own, asked of all other objects and its own;\n'
        "  every such line gets one answer.\n"
        "\n"
        "output:\n"
        "  A table for people, or one line of JSON for each question:\n"
        '  {"name": "q1", "nodes": {"n1": {"allocations": [{"claim": "team/gpu", "results": [...]}]},\n'
        '                           "n2": {"unavailable": "memory: 7Gi left, 15Gi needed"},\n'
        '                           "n3": {"error": "the scheduler would give up on the pod altogether"}}}\n'
        "\n"
        "exit code:\n"
        "  0 fits on some node, 1 fits nowhere, 2 the input cannot be read",
    )
    command.add_argument("files", nargs="*", metavar="FILE", help="what to read; - or nothing for standard input")
    command.add_argument(
        "--format", choices=("table", "json"), default="table", help="how to print the answer (%(default)s)"
    )
    command.add_argument("--all-names", action="store_true", help="name every node in the table")
    command.add_argument(
        "--list-attributes", action="store_true", help="as if the scheduler knew attributes that are lists"
    )
    command.add_argument(
        "--without-quirks",
        action="store_true",
        help="decide as the API promises, without the peculiarities of kube-scheduler 1.36",
    )
    command.set_defaults(run=_fit)


def _add_utilization(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "utilization",
        help="how full are nodes, for cluster-autoscaler and in fact?",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Tell for every node how full its devices are, twice: as cluster-autoscaler computes it, which\n"
        "counts a device with one small share as full and lets the fullest pool speak for the node, and weighted:\n"
        "by the capacity and counters that are really consumed. Where the two differ strongly (marked !) is why an\n"
        "autoscaler keeps a node that is almost idle. Needs no cluster: it reads what kubectl prints.",
        epilog="examples:\n"
        "  kubectl get nodes,resourceslices,deviceclasses -o json > cluster.json\n"
        "  kubectl get resourceclaims,pods -A -o json > use.json\n"
        "  dra-spawner utilization cluster.json use.json\n"
        "  dra-spawner utilization --weight gpu.nvidia.com=10 --weight nic=0 cluster.json use.json\n"
        "  kubectl get nodes,resourceslices,resourceclaims,pods -A -o json | dra-spawner utilization\n"
        "  dra-spawner utilization --format json cluster.json use.json | jq '.nodes | map_values(.weighted)'\n"
        "\n"
        "input:\n"
        "  As of `dra-spawner fit`, and Pods: cluster-autoscaler counts the claims of the pods on a node. Without\n"
        "  any, every allocated claim counts. Of all namespaces, or what others use is missed.\n"
        "\n"
        "output:\n"
        "  A table for people, busiest nodes first, nodes of which the same is to be said together; or one line of\n"
        "  JSON for each question, figures from 0 to 1, null where there is none:\n"
        '  {"name": "q1", "nodes": {"n1": {"autoscaler": 1.0, "weighted": 0.125, "differsStrongly": true,\n'
        '    "pools": [{"driver": "gpu.example.com", "pool": "n1", "autoscaler": 1.0, "weighted": 0.125}]}}}\n'
        "  A figure is unknown, and said why (autoscalerProblem, weightedProblems), while a pool of the node is\n"
        "  incomplete, or a claim of its pods is missing or not allocated. Strongly means by 25 % or more.\n"
        "\n"
        "exit code:\n"
        "  0, or 2 the input cannot be read",
    )
    command.add_argument("files", nargs="*", metavar="FILE", help="what to read; - or nothing for standard input")
    command.add_argument(
        "--format", choices=("table", "json"), default="table", help="how to print the figures (%(default)s)"
    )
    command.add_argument("--all-names", action="store_true", help="name every node in the table")
    command.add_argument(
        "--weight",
        type=_weight,
        action="append",
        default=[],
        metavar="CLASS=NUMBER",
        help="what a device of this DeviceClass is worth beside others, which are worth 1; may be repeated",
    )
    command.set_defaults(run=_utilization)


def _weight(text: str) -> tuple[str, Fraction]:
    name, _, number = text.rpartition("=")
    if not name or not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,12})?", number):
        raise argparse.ArgumentTypeError(f"{text!r} is not CLASS=NUMBER with a number like 0, 2.5 or 10")
    return name, Fraction(number)


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; a port is a number from 0 to 65535")
    return int(text)


def _demo(options: argparse.Namespace) -> int:
    try:
        return _run_demo(options)
    except KeyboardInterrupt:
        # Before run_demo listens to signals, for example during its imports: nothing has been started yet.
        return 128 + signal.SIGINT


def _run_demo(options: argparse.Namespace) -> int:
    # Imported here: `dra-spawner --help` need not load a web server.
    from dra_spawner.devcluster.demo.demo import DemoError, DemoOptions, run_demo

    def say(text: str) -> None:
        # A terminal that was closed cannot be written to; what was started is still to be stopped.
        with contextlib.suppress(OSError):
            print(text, flush=True)

    demo = DemoOptions(
        port=options.port,
        kubeconfig=options.kubeconfig,
        namespace=options.namespace,
        image=options.image,
        open_browser=not options.no_browser,
        debug=options.debug,
    )
    try:
        asyncio.run(run_demo(demo, say))
    except DemoError as error:
        print(f"dra-spawner demo: {error}", file=sys.stderr)
        return 1
    return 0


def _fit(options: argparse.Namespace) -> int:
    from dra_spawner.fit.command import FitOptions, run_fit

    asked = FitOptions(
        files=tuple(options.files),
        as_json=options.format == "json",
        all_names=options.all_names,
        list_attributes=options.list_attributes,
        without_quirks=options.without_quirks,
    )
    return run_fit(asked, sys.stdin.buffer, sys.stdout, sys.stderr)


def _utilization(options: argparse.Namespace) -> int:
    from dra_spawner.fit.utilization_command import UtilizationOptions, run_utilization

    asked = UtilizationOptions(
        files=tuple(options.files),
        as_json=options.format == "json",
        all_names=options.all_names,
        weights=dict(options.weight),
    )
    return run_utilization(asked, sys.stdin.buffer, sys.stdout, sys.stderr)

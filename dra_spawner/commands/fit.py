"""The command lines of ``dra-spawner fit`` and ``utilization``."""

from __future__ import annotations

import argparse
import re
import sys
from fractions import Fraction

from dra_spawner.commands.cluster_files.kubernetes_release import add_feature_gate, kubernetes_release
from dra_spawner.common.command_options import options_of
from dra_spawner.dra.scheduler_rules import DEFAULT_RULES


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    _add_fit(commands)
    _add_utilization(commands)


def _add_fit(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "fit",
        help="tell where claims would fit, and if nowhere, why",
        description="Tell for every node whether all ResourceClaims without allocation would fit there together,\n"
        "with those that the Pods without a node ask for; a ResourceClaimTemplate that no Pod names counts as one,\n"
        "in the order given, decided as the cluster's kube-scheduler decides about devices. It needs no cluster: it\n"
        "reads the Nodes, ResourceSlices, DeviceClasses, DeviceTaintRules, ResourceClaims, ResourceClaimTemplates\n"
        "and Pods that kubectl prints. It considers devices only, not CPU, memory or taints of nodes.",
        epilog="examples:\n"
        "  kubectl get nodes,resourceslices,deviceclasses -o json > cluster.json\n"
        "  kubectl get resourceclaims -A -o json > claims.json     claims in use, and pending ones\n"
        "  dra-spawner fit cluster.json claims.json wanted.yaml    would wanted.yaml fit, too?\n"
        "  kubectl get nodes,resourceslices,deviceclasses,resourceclaims -A -o json | dra-spawner fit\n"
        "  dra-spawner fit --format json cluster.json questions.jsonl | jq .\n"
        "\n"
        "input:\n"
        "  JSON or YAML: objects, Lists, several documents one after the other, in any number of files. A line\n"
        '  {"name": "q1", "objects": [...]} is a separate question, about all other objects and its own;\n'
        "  every such line gets one answer.\n"
        "\n"
        "output:\n"
        "  A table for people, or one line of JSON for each question:\n"
        '  {"name": "q1", "nodes": {"n1": {"allocations": [{"claim": "team/gpu", "results": [...]}]},\n'
        '                           "n2": {"unavailable": "memory: 7Gi left, 15Gi needed"},\n'
        '                           "n3": {"error": "the scheduler would give up on the pod altogether"},\n'
        '                           "n4": {"stopped": "the search was stopped"}}}\n'
        "\n"
        "exit code:\n"
        "  0 fits on some node, 1 fits nowhere, 2 the input cannot be read, asks for nothing, or an object that the\n"
        "  API server would refuse leaves it open, 3 it is not known whether it fits: the search was stopped",
    )
    _add_files_and_table(command, "the answer")
    command.add_argument(
        "--timeout",
        type=_seconds,
        default=60.0,
        metavar="SECONDS",
        help="time limit of the search of one question (%(default)g); 0: no limit. On one node the search stops"
        " after 1,000,000 steps in any case, about as much as kube-scheduler does before it gives up after 10 s",
    )
    command.add_argument(
        "--list-attributes",
        action="store_true",
        help="decide as a scheduler with the feature gate DRAListTypeAttributes",
    )
    command.add_argument(
        "--without-quirks",
        action="store_true",
        help="decide as the API promises, without the peculiarities of kube-scheduler",
    )
    command.add_argument(
        "--pack-devices",
        action="store_true",
        help="give each node's devices as to a server of a hub whose service has pack_devices on",
    )
    _add_kubernetes_version(command)
    add_feature_gate(command)
    command.set_defaults(run=_fit)


def _add_utilization(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "utilization",
        help="tell how full nodes are, as cluster-autoscaler counts and by real use",
        description="Tell for every node how full its devices are, twice: as cluster-autoscaler computes it, which\n"
        "counts a device with one small share as full and takes the fullest pool's figure for the node, and weighted:\n"
        "by the capacity and counters that are really consumed. A strong difference (marked !) shows why an\n"
        "autoscaler keeps a node that is almost idle. It needs no cluster: it reads what kubectl prints.",
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
        "  Pods, every allocated claim counts. Give the objects of all namespaces: claims in others use devices, too.\n"
        "\n"
        "output:\n"
        "  A table for people, busiest nodes first, nodes with the same figures together; or one line of\n"
        "  JSON for each question, figures from 0 to 1, null where there is none:\n"
        '  {"name": "q1", "nodes": {"n1": {"autoscaler": 1.0, "weighted": 0.125, "differsStrongly": true,\n'
        '    "pools": [{"driver": "gpu.example.com", "pool": "n1", "autoscaler": 1.0, "weighted": 0.125}]}}}\n'
        "  A figure is unknown (autoscalerProblem and weightedProblems say why) while a pool of the node is\n"
        "  incomplete, or a claim of its pods is missing or not allocated. Strongly means by 25 % or more.\n"
        "\n"
        "exit code:\n"
        "  0, or 2 the input cannot be read, or has an object that the API server would refuse",
    )
    _add_files_and_table(command, "the figures")
    command.add_argument(
        "--weight",
        type=_weight,
        action="append",
        default=[],
        metavar="CLASS=NUMBER",
        help="weight of a device of this DeviceClass (1 for every other); may be repeated",
    )
    command.set_defaults(run=_utilization)


def _add_kubernetes_version(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--kubernetes-version",
        type=kubernetes_release,
        metavar="VERSION",
        help="decide as the kube-scheduler of this release, such as 1.36; by default that of the newest kubelet"
        f" among the given nodes, or else {'.'.join(map(str, DEFAULT_RULES.release))}",
    )


def _add_files_and_table(command: argparse.ArgumentParser, printed: str) -> None:
    command.add_argument("files", nargs="*", metavar="FILE", help="files to read; - or nothing for standard input")
    command.add_argument(
        "--format", choices=("table", "json"), default="table", help=f"how to print {printed} (%(default)s)"
    )
    command.add_argument("--all-names", action="store_true", help="name every node in the table")


def _weight(text: str) -> tuple[str, Fraction]:
    name, _, number = text.rpartition("=")
    if not name or not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,12})?", number):
        raise argparse.ArgumentTypeError(f"{text!r} is not CLASS=NUMBER with a number like 0, 2.5 or 10")
    return name, Fraction(number)


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds like 0, 2.5 or 60")
    return float(text)


def _fit(options: argparse.Namespace) -> int:
    from dra_spawner.commands.fitting.fit_command import FitOptions, run_fit

    gates = dict(options.feature_gate)
    fit_options = options_of(
        FitOptions,
        options,
        release=options.kubernetes_version,
        gates=gates,
        packs_devices=options.pack_devices,
    )
    return run_fit(fit_options, sys.stdin.buffer, sys.stdout, sys.stderr)


def _utilization(options: argparse.Namespace) -> int:
    from dra_spawner.commands.fitting.utilization_command import UtilizationOptions, run_utilization

    utilization_options = options_of(UtilizationOptions, options, weights=dict(options.weight))
    return run_utilization(utilization_options, sys.stdin.buffer, sys.stdout, sys.stderr)

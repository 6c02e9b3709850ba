"""The command line of ``dra-spawner doctor``."""

from __future__ import annotations

import argparse
import os
import sys

from dra_spawner.common.command_options import options_of
from dra_spawner.common.project_links import where


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command ``doctor``."""
    command = commands.add_parser(
        "doctor",
        help="examine a cluster, its hub and the service, and say what to fix",
        description="Examine a live cluster: versions, devices and drivers, rights of hub and service, the ways\n"
        "between hub, service and API server, schedulers, settings. Each finding has its fix:\n"
        f"{where('docs/reference/doctor.md')}.\n"
        "Nothing is changed: it reads, and asks the API server whether accounts have rights.",
        epilog="examples:\n"
        "  dra-spawner doctor --kubeconfig ~/.kube/config --namespace jupyterhub\n"
        "  kubectl exec --namespace jupyterhub deployment/hub -- dra-spawner doctor\n"
        "  kubectl exec --namespace jupyterhub deployment/dra-spawner -- dra-spawner doctor\n"
        "  dra-spawner doctor --namespace jupyterhub --bundle report.json        one file for an issue\n"
        "  dra-spawner doctor --namespace jupyterhub --format json | jq '.findings[] | .code + \": \" + .fix'\n"
        "\n"
        "where:\n"
        "  With an administrator's kubeconfig it sees most. In the pods of hub and service it sees less of the\n"
        "  cluster, and tries the addresses that hub and service use. What it cannot see is listed with the\n"
        "  missing right.\n"
        "\n"
        "exit code:\n"
        "  0 nothing is broken (there may be warnings), 1 errors, 2 the cluster cannot be read",
    )
    command.add_argument(
        "--kubeconfig", default="", metavar="FILE", help="the cluster (as kubectl finds it; in a pod, by its account)"
    )
    command.add_argument("--context", default="", help="a context of the kubeconfig, if not its current one")
    command.add_argument(
        "--namespace", default="", metavar="NAME", help="namespace of hub and service (in a pod its own, else default)"
    )
    command.add_argument(
        "--hub-url", default="", metavar="URL", help="the hub with its base URL, for example http://hub:8081/jupyter/"
    )
    command.add_argument(
        "--service-url",
        default="",
        metavar="URL",
        help="the service with its prefix, for example http://dra-spawner:8181/services/dra-spawner/",
    )
    command.add_argument(
        "--as-hub", default="", metavar="ACCOUNT", help="the hub's service account (that of its Deployment, else hub)"
    )
    command.add_argument(
        "--as-service",
        default="",
        metavar="ACCOUNT",
        help="the service's service account (that of its Deployment, else dra-spawner-service)",
    )
    command.add_argument(
        "--bundle",
        default="",
        metavar="FILE",
        help="also write the report into a new file for an issue: without secrets and values of the environment, with\n"
        "other names for users, servers and hosts",
    )
    command.add_argument("--format", choices=("text", "json"), default="text", help="output format (%(default)s)")
    command.set_defaults(run=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    from dra_spawner.commands.cluster_files.reading import Progress

    progress = Progress(sys.stderr)
    progress.begin("loading the Kubernetes client")
    from dra_spawner.commands.doctor_command import DoctorOptions, run_doctor

    progress.clear()
    colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return run_doctor(options_of(DoctorOptions, options, colours=colours), sys.stdout, sys.stderr)

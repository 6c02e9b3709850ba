"""The command line of ``dra-spawner uninstall``."""

from __future__ import annotations

import argparse
import sys

from dra_spawner import names
from dra_spawner.common.command_options import options_of
from dra_spawner.common.project_links import where


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "uninstall",
        help="remove every object, label and annotation of this project from a cluster",
        description="Remove every object, label and annotation of dra-spawner from a cluster: placeholders and warm\n"
        "claims, claims and templates of starts that are over, companion objects, ConfigMaps, the Lease, labels of\n"
        "nodes. What servers use stays, and is listed with what removes it; so is what an administrator applied\n"
        f"(Helm, `kubectl apply`). {where('docs/how-to/uninstall.md')} has the whole procedure.",
        epilog="examples:\n"
        "  dra-spawner uninstall --dry-run                           what would be removed, what would be left\n"
        "  dra-spawner uninstall --kubeconfig ~/.kube/config         from all namespaces\n"
        "  dra-spawner uninstall --namespace jupyterhub              one of several hubs of a cluster\n"
        "  dra-spawner uninstall --dry-run --format json | jq '.left[] | select(.leftTo == \"users\")'\n"
        "\n"
        "before:\n"
        "  Take DRASpawner and the service out of the hub's configuration and restart the hub, or stop it. Servers\n"
        "  may run. While a service leads, nothing is removed: the service would create everything again.\n"
        "\n"
        "rights:\n"
        "  A cluster administrator's. With fewer, the command removes what it can and names each missing right.\n"
        "\n"
        "exit code:\n"
        "  0 nothing is left that could be removed, 1 a service leads, a right is missing or something could not be\n"
        "  removed, 2 the cluster cannot be read",
    )
    command.add_argument(
        "--kubeconfig", default="", metavar="FILE", help="the cluster (as kubectl finds it; in a pod, by its account)"
    )
    command.add_argument("--context", default="", help="a context of the kubeconfig, if not its current one")
    command.add_argument(
        "--namespace",
        action="append",
        default=[],
        help="look in this namespace only; may be repeated (default: all). Leave it out with enable_user_namespaces",
    )
    command.add_argument(
        "--lease", default=names.LEASE, metavar="NAME", help="the service's lease_name, if you set it (%(default)s)"
    )
    command.add_argument("--dry-run", action="store_true", help="change nothing, print what would be done")
    command.add_argument(
        "--force", action="store_true", help="go on although a service leads or servers may be starting"
    )
    command.add_argument(
        "--format", choices=("text", "json"), default="text", help="how to print what was done (%(default)s)"
    )
    command.set_defaults(run=_uninstall)


def _uninstall(options: argparse.Namespace) -> int:
    # Imported here, so that `dra-spawner --help` does not load the Kubernetes client.
    from dra_spawner.commands.removing.uninstall_command import UninstallOptions, run_uninstall

    uninstall_options = options_of(UninstallOptions, options, namespaces=tuple(options.namespace))
    return run_uninstall(uninstall_options, sys.stdout, sys.stderr)

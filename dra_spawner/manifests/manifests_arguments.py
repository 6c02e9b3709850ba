"""The command line of ``dra-spawner manifests``."""

from __future__ import annotations

import argparse

from dra_spawner.project_links import where

__all__ = ["add_commands"]


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command ``manifests``."""
    command = commands.add_parser(
        "manifests",
        help="print the Kubernetes objects of the service and the rights of hub and service",
        description="Print what the Helm chart of dra-spawner installs, for people without Helm: accounts, rights,\n"
        "admission policies, the service with two replicas, its network policy. With the rights for placeholders.",
        epilog="examples:\n"
        "  dra-spawner manifests --namespace jupyterhub --image registry.example.org/hub:1 > dra-spawner.yaml\n"
        "  kubectl apply -f dra-spawner.yaml\n"
        "\n"
        "then:\n"
        "  Put your placeholders and other settings into the ConfigMap, and restart the service:\n"
        "  kubectl rollout restart deployment/dra-spawner --namespace jupyterhub. The hub needs these values:\n"
        f"  {where('helm-values/full.yaml')}\n"
        "\n"
        "exit code:\n"
        "  0 printed, 2 wrong usage",
    )
    command.add_argument("--namespace", required=True, metavar="NAME", help="namespace of the hub")
    command.add_argument("--image", required=True, metavar="IMAGE:TAG", help="an image with dra_spawner in it")
    command.add_argument("--base-url", default="/", metavar="PATH", help="base URL of the hub (default: /)")
    command.add_argument(
        "--hub", default="hub", metavar="NAME", help="name of the hub's Service, account and Secret (default: hub)"
    )
    command.add_argument(
        "--user-namespaces", action="store_true", help="for KubeSpawner's enable_user_namespaces: rights for it"
    )
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from dra_spawner.manifests.manifests_command import run_manifests

    return run_manifests(options)

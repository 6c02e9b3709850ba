"""The command line of ``dra-spawner service``, as shells complete it; traitlets parses it."""

from __future__ import annotations

import argparse


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command ``service``."""
    service = commands.add_parser(
        "service", help="manage warm placeholders for a hub, and show who uses which device: page, API, metrics"
    )
    service.add_argument("-f", "--config", metavar="FILE", help="configuration file")
    service.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig of the cluster")
    service.add_argument("--url", help="where to listen")
    service.add_argument("--log-level", choices=("DEBUG", "INFO", "WARN", "ERROR", "CRITICAL"), help="least level")
    service.add_argument("--debug", action="store_true", help="log more")
    service.add_argument("--generate-config", action="store_true", help="print a configuration file with all defaults")
    service.add_argument("--help-all", action="store_true", help="show every setting")

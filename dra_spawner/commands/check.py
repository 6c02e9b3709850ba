"""The command lines of ``dra-spawner check``, ``render`` and ``schema``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from dra_spawner.common.command_options import options_of
from dra_spawner.common.json_types import JsonObject
from dra_spawner.common.project_links import where
from dra_spawner.versions import minor_version

_PROFILES_HELP = (
    "profiles:\n"
    "  - a hub's jupyterhub_config.py, which is run\n"
    "  - values of the chart zero-to-jupyterhub, or of an umbrella chart; hub.extraConfig is run\n"
    "  - values of the chart dra-spawner, whose settings are judged, too\n"
    "  - YAML or JSON with a profile_list or device_claims; - is standard input\n"
    "  Several files of values are merged as helm -f does it. Without a file: jupyterhub_config.py in this directory.\n"
    "\n"
    "code:\n"
    "  Code runs with your rights, in a process of its own, for at most a minute each piece; its output is discarded.\n"
    "  Check only files that you trust, or use --without-code. The pieces of hub.extraConfig run in one namespace,\n"
    "  sorted, with z2jh.get_config over these values. A piece that needs the hub's image is named, and the check is\n"
    "  not complete.\n"
)


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    _add_check(commands)
    _add_render(commands)
    _add_schema(commands)


def _add_check(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "check",
        help="check every choice of every profile against a cluster",
        description="Check every choice before users see it: whether the language accepts it, the cluster\n"
        "has the classes and devices, shares are given as requested, drivers take their parameters, and no field is\n"
        "dropped because a feature gate is off. The cluster is not changed; gates are detected by dry run.",
        epilog="examples:\n"
        "  dra-spawner check --kubeconfig ~/.kube/config             jupyterhub_config.py of this directory\n"
        "  dra-spawner check values.yaml -f prod.yaml --kubeconfig ~/.kube/config --namespace jupyter\n"
        "  dra-spawner check profiles.yaml                           checks that need no cluster\n"
        "  kubectl get nodes,resourceslices,deviceclasses,namespaces -o json > cluster.json\n"
        "  dra-spawner check profiles.yaml --objects cluster.json    on a machine without access\n"
        "  dra-spawner check values.yaml --format json | jq '.choices[] | select(.findings != [])'\n"
        "\n" + _PROFILES_HELP + "\n"
        "output:\n"
        "  error: the choice cannot work on this cluster; warning: it may not work as intended; info: needs no\n"
        "  action. Each finding has its place in the profiles and its rule. The rules are in\n"
        f"  {where('docs/reference/check.md')}\n"
        "  Each choice of an option is checked with the defaults of the other options, not in every combination.\n"
        "\n"
        "exit code:\n"
        "  0 no errors, 1 errors, 2 the input, or code in it, could not be read: the check is not complete\n"
        "  (--ignore unread-code accepts that)",
    )
    _add_profiles(command)
    _add_code(command)
    command.add_argument("--kubeconfig", default="", metavar="FILE", help="the cluster to check against")
    command.add_argument("--context", default="", help="with --kubeconfig: a context, if not its current one")
    command.add_argument(
        "--objects",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="instead of a cluster: files with kubectl's output of nodes, resourceslices, deviceclasses, namespaces, "
        "validatingwebhookconfigurations, network-attachment-definitions",
    )
    command.add_argument(
        "--kubernetes-version",
        type=_version,
        metavar="VERSION",
        help="the cluster's version, such as 1.36.3, for known defects of Kubernetes (as the API server says)",
    )
    _add_namespace(command)
    command.add_argument(
        "--nodes-may-be-added",
        action="store_true",
        help="an autoscaler may add nodes with other devices: a lack of the present nodes is only a warning",
    )
    command.add_argument(
        "--ignore", action="append", default=[], metavar="RULE", help="ignore the findings of a rule; may be repeated"
    )
    command.add_argument("--format", choices=("table", "json"), default="table", help="output format (%(default)s)")
    command.set_defaults(run=_check)


def _add_render(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "render",
        help="print what would be created for a user who picks a choice",
        description="Print the claim templates and companion objects that a start would create, and this project's\n"
        "parts of the pod: claims, tolerations, annotations. The rest of the pod is KubeSpawner's and is not shown.\n"
        "Random parts of names depend only on the choice here, so that outputs can be compared.",
        epilog="examples:\n"
        "  dra-spawner render profiles.yaml                                        every choice\n"
        "  dra-spawner render values.yaml --profile gpu-slice --choose memory=large --user ada\n"
        "  dra-spawner render --profile gpu-slice | kubectl apply --dry-run=server -f -\n"
        "  dra-spawner render profiles.yaml --format json | jq '.items[].metadata.name'\n"
        "\n" + _PROFILES_HELP + "\n"
        "exit code:\n"
        "  0 done, 1 the profile language refuses a choice, 2 the input, or code in it, could not be read",
    )
    _add_profiles(command)
    _add_code(command)
    command.add_argument("--profile", default="", metavar="SLUG", help="this profile only")
    command.add_argument(
        "--choose",
        action="append",
        type=_pick,
        default=[],
        metavar="OPTION=CHOICE",
        help="the choice of an option (the option's default); may be repeated",
    )
    command.add_argument("--user", default="user", metavar="NAME", help="the user who picks it (%(default)s)")
    command.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="NAME",
        help="a group of that user, for claims shared by group (the first that a claim names); may be repeated",
    )
    _add_namespace(command)
    command.add_argument(
        "--format", choices=("yaml", "json"), default="yaml", help="documents of YAML, or a List as JSON (%(default)s)"
    )
    command.set_defaults(run=_render)


def _add_schema(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "schema",
        help="the profile language as JSON Schema, for editors",
        description="Print a JSON Schema (draft 2020-12), with which editors complete and check profiles.",
        epilog="examples:\n"
        "  dra-spawner schema > profiles.schema.json\n"
        "  # yaml-language-server: $schema=profiles.schema.json      first line of Helm values or a profile_list\n"
        "  dra-spawner schema device_claims                          of claims alone",
    )
    command.add_argument(
        "of",
        nargs="?",
        choices=("profiles", "device_claims", "intel_gas", "vlans"),
        default="profiles",
        help="profiles: Helm values or a list of profiles, which includes the others (default); or one trait",
    )
    command.set_defaults(run=_schema)


def _add_profiles(command: argparse.ArgumentParser) -> None:
    command.add_argument("profiles", nargs="*", metavar="PROFILES", help="files to read, see below")
    command.add_argument(
        "-f", "--values", action="append", default=[], metavar="FILE", help="further Helm values, as with helm -f"
    )


def _add_code(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--without-code", action="store_true", help="do not run code of Helm values; its settings are not read"
    )


def _add_namespace(command: argparse.ArgumentParser) -> None:
    command.add_argument("--namespace", default="", help="namespace of servers (as configured, else default)")


def _pick(text: str) -> tuple[str, str]:
    option, equals, choice = text.partition("=")
    if not option or not equals or not choice:
        raise argparse.ArgumentTypeError(f"{text!r} is not OPTION=CHOICE")
    return option, choice


def _version(text: str) -> str:
    if minor_version(text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no version such as 1.36.3")
    return text


def _check(options: argparse.Namespace) -> int:
    # Imported here, so that `dra-spawner --help` does not load JupyterHub.
    from dra_spawner.commands.checking.check_command import CheckOptions, run_check

    if options.objects and options.kubeconfig:
        sys.stderr.write("dra-spawner check: --objects or --kubeconfig, not both\n")
        return 2
    check_options = options_of(
        CheckOptions,
        options,
        profiles=(*options.profiles, *options.values),
        kubernetes_version=options.kubernetes_version or "",
        ignored=tuple(options.ignore),
        runs_code=not options.without_code,
        colours=sys.stdout.isatty() and not os.environ.get("NO_COLOR"),
    )
    return run_check(check_options, sys.stdin.buffer, sys.stdout, sys.stderr)


def _render(options: argparse.Namespace) -> int:
    from dra_spawner.commands.cluster_files.reading import Progress

    progress = Progress(sys.stderr)
    progress.begin("loading JupyterHub")
    from dra_spawner.commands.checking.render_command import RenderOptions, run_render

    progress.clear()
    render_options = options_of(
        RenderOptions,
        options,
        profiles=(*options.profiles, *options.values),
        picks=dict(options.choose),
        groups=tuple(options.group),
        runs_code=not options.without_code,
    )
    return run_render(render_options, sys.stdin.buffer, sys.stdout, sys.stderr)


def _schema(options: argparse.Namespace) -> int:
    import json

    from dra_spawner.profiles.compiler.vlan_policy import vlans_schema
    from dra_spawner.profiles.intel_gas import intel_gas_schema
    from dra_spawner.profiles.profiles_schema import profiles_schema
    from dra_spawner.profiles.syntax.json_schema import DRAFT, json_schema

    schemas: dict[str, Callable[[], JsonObject]] = {
        "profiles": profiles_schema,
        "device_claims": json_schema,
        "intel_gas": lambda: {"$schema": DRAFT, "title": "intel_gas", **intel_gas_schema()},
        "vlans": lambda: {"$schema": DRAFT, "title": "vlans", **vlans_schema()},
    }
    sys.stdout.write(json.dumps(schemas[options.of](), indent=2, ensure_ascii=False) + "\n")
    return 0

"""``dra-spawner doctor``: read, examine, print."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO
from urllib.parse import urlsplit

from dra_spawner import __version__
from dra_spawner.commands.cluster_files.reading import Progress
from dra_spawner.doctor.bundle import bundle
from dra_spawner.doctor.examination import examine, report_json
from dra_spawner.doctor.facts import Account, DoctorFacts, ServiceSettings
from dra_spawner.doctor.findings import Severity
from dra_spawner.doctor.installation import HUB_API, settings_of
from dra_spawner.doctor.reader import DoctorReader, Questions
from dra_spawner.doctor.report_text import report_text
from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.kube.client.connect import ClusterAddress, ClusterNotFound, connect, own_namespace
from dra_spawner.profiles.drivers import DriverNotUsable
from dra_spawner.profiles.syntax.problems import on_one_line

_EXIT_ERRORS: Final = 1
#: In the working directory of the chart's service.
_SERVICE_CONFIG: Final = "config.json"
_EXIT_INPUT: Final = 2
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """Options of ``dra-spawner doctor``."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    """Empty for the pod's own."""
    hub_url: str = ""
    service_url: str = ""
    as_hub: str = ""
    as_service: str = ""
    bundle: str = ""
    """Name of a new file for an issue; empty for none."""
    as_json: bool = False
    colours: bool = False


def run_doctor(
    options: DoctorOptions, output: TextIO, messages: TextIO, environment: Mapping[str, str] | None = None
) -> int:
    """Examine a cluster.

    Parameters
    ----------
    messages
        Stream for errors, and for the progress, which is shown on a terminal only.
    environment
        By default that of this process.

    Returns
    -------
    int
        0 when nothing is broken, 1 with errors, 2 when an option is wrong or the cluster cannot be read.
    """
    environment = os.environ if environment is None else environment
    if problem := _wrong_option(options):
        messages.write(f"dra-spawner doctor: {on_one_line(problem)}\n")
        return _EXIT_INPUT
    progress = Progress(messages)
    try:
        facts = asyncio.run(_read(options, environment, progress))
        findings = examine(facts)
    except (ClusterNotFound, KubernetesError) as error:
        progress.clear()
        messages.write(f"dra-spawner doctor: the cluster cannot be read: {on_one_line(str(error))}\n")
        return _EXIT_INPUT
    except DriverNotUsable as error:
        progress.clear()
        messages.write(f"dra-spawner doctor: {on_one_line(str(error))}\n")
        return _EXIT_INPUT
    finally:
        progress.clear()
    if options.bundle:
        try:
            with open(options.bundle, "x", opener=_private) as file:
                file.write(bundle(facts, findings, __version__))
        except OSError as error:
            messages.write(f"dra-spawner doctor: --bundle: {on_one_line(str(error))}\n")
            return _EXIT_INPUT
        messages.write(f"Written: {on_one_line(options.bundle)}. Read it before you attach it to an issue.\n")
    if options.as_json:
        # Escaped, as names from the cluster may have characters that control a terminal.
        output.write(json.dumps(report_json(facts, findings), indent=1) + "\n")
    else:
        output.write(report_text(facts, findings, colours=options.colours))
    return _EXIT_ERRORS if any(each.severity is Severity.ERROR for each in findings) else 0


def _private(path: str, flags: int) -> int:
    """Open a file that only its owner may read."""
    return os.open(path, flags, 0o600)


def _wrong_option(options: DoctorOptions) -> str:
    """What is wrong with the options; empty if nothing is."""
    for option, url in (("--hub-url", options.hub_url), ("--service-url", options.service_url)):
        if url and not _is_url(url):
            return f"{option}: {url!r} is no address; allowed: http:// or https://, a host and a path"
    for option, name, pattern in (
        ("--namespace", options.namespace, _NAMESPACE),
        ("--as-hub", options.as_hub, _NAME),
        ("--as-service", options.as_service, _NAME),
    ):
        if name and not pattern.fullmatch(name):
            return f"{option}: {name!r} is no name of Kubernetes; allowed: small letters, digits and hyphens"
    return ""


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


async def _read(options: DoctorOptions, environment: Mapping[str, str], progress: Progress) -> DoctorFacts:
    address = ClusterAddress(kubeconfig=options.kubeconfig, context=options.context)
    is_in_pod = "KUBERNETES_SERVICE_HOST" in environment and not (options.kubeconfig or options.context)
    hub_url, service_url = addresses_in_pod(environment) if is_in_pod else ("", "")
    accounts = {Account.HUB: options.as_hub, Account.SERVICE: options.as_service}
    questions = Questions(
        options.namespace or own_namespace(environment),
        hub_url=options.hub_url or hub_url,
        service_url=options.service_url or service_url,
        accounts={account: name for account, name in accounts.items() if name},
        settings=_own_settings() if is_in_pod and "JUPYTERHUB_SERVICE_NAME" in environment else None,
        is_in_cluster=is_in_pod,
    )
    async with await connect(address) as api:
        return await DoctorReader(api, questions, progress.begin).read()


def _own_settings() -> ServiceSettings | None:
    """The settings of the service in whose pod this is: its account may not read the ConfigMap with them."""
    try:
        return settings_of(Path(_SERVICE_CONFIG).read_text())
    except (OSError, UnicodeDecodeError):
        return None


def addresses_in_pod(environment: Mapping[str, str]) -> tuple[str, str]:
    """The addresses of hub and service as the chart tells them to the service's pod; empty in another pod."""
    api_url = environment.get("JUPYTERHUB_API_URL", "").rstrip("/")
    own_url, prefix = environment.get("JUPYTERHUB_SERVICE_URL", ""), environment.get("JUPYTERHUB_SERVICE_PREFIX", "/")
    if not api_url.endswith(HUB_API):
        return "", ""
    port = urlsplit(own_url).port if _is_url(own_url) else None
    return api_url.removesuffix(HUB_API), f"http://127.0.0.1:{port}{prefix}" if port else ""

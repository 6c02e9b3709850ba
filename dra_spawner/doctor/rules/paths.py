"""Base URL, addresses and leader: whether hub, service and API reach one another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.common.project_links import where
from dra_spawner.doctor.facts import Account, DoctorFacts, HttpAnswer
from dra_spawner.doctor.findings import DoctorFinding, DoctorRule, Severity, Subject, rules_of
from dra_spawner.doctor.node_clocks import seconds_of, written_at
from dra_spawner.doctor.objects import (
    environment_of,
    hub_deployment,
    is_ours,
    name_of,
    pod_spec,
    service_deployment,
)

_SUBJECT: Final = Subject.PATHS
_HEALTH: Final = "/hub/health"
#: Limit of the difference of clocks, in seconds; a larger difference is a finding.
_SKEW_SECONDS: Final = 5.0
_BASE_HINT: Final = "Where the hub has a base URL, --hub-url and --service-url need it."
_UNREACHABLE_HUB: Final = "Look at the hub's pod and its log, and at the address: --hub-url."

BASE_URL: Final = DoctorRule(
    "base-url",
    _SUBJECT,
    (Severity.ERROR,),
    "hub and service have different base URLs",
    "the same value in hub.baseUrl of both charts",
)
HUB_ADDRESS: Final = DoctorRule(
    "hub-address",
    _SUBJECT,
    (Severity.ERROR,),
    "the service's address of the hub names a Service that does not exist",
    "the hub's Service in hub.fullname of the chart dra-spawner",
)
HUB_UNREACHABLE: Final = DoctorRule(
    "hub-unreachable",
    _SUBJECT,
    (Severity.ERROR,),
    "the hub's API does not answer from here",
    "look at the hub, at its address and at network policies",
)
SERVICE_UNREACHABLE: Final = DoctorRule(
    "service-unreachable",
    _SUBJECT,
    (Severity.ERROR,),
    "the service does not answer from here",
    "look at the service's pods, at its address and at network policies",
)
SERVICE_NOT_READY: Final = DoctorRule(
    "service-not-ready",
    _SUBJECT,
    (Severity.WARNING,),
    "the service answers that it is not ready",
    "its page names each problem",
)
SERVICE_MISSING: Final = DoctorRule(
    "service-missing",
    _SUBJECT,
    (Severity.ERROR, Severity.INFO),
    "the service's Deployment or Service is not in the namespace",
    "install the chart dra-spawner",
)
NO_LEADER: Final = DoctorRule(
    "no-leader",
    _SUBJECT,
    (Severity.ERROR,),
    "no replica of the service leads, so nothing is decided",
    "look at the log of the service's pods",
)

PATH_RULES: Final = rules_of(globals())


def path_findings(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """Findings about the ways between hub, service and API server."""
    yield from _installed(facts)
    yield from _base_url(facts)
    yield from _answers(facts)
    yield from _leader(facts)


def _installed(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    if facts.deployments is None:
        return
    answers = facts.service is not None and "ready" in facts.service.body
    if service_deployment(facts.deployments) is None:
        if answers or facts.own_account is Account.SERVICE:
            return  # the hub has started it
        has_hub = hub_deployment(facts.deployments) is not None
        yield SERVICE_MISSING.finding(
            f"There is no Deployment of the service in namespace {facts.namespace}."
            + ("" if has_hub else " There is no hub of zero-to-jupyterhub, either."),
            f"helm install dra-spawner helm-values/chart: {where('docs/how-to/install-with-helm.md')}. "
            "A service that the hub starts itself has no Deployment, and needs no action.",
            f"Namespace {facts.namespace}",
            Severity.INFO,
        )
    elif facts.services is not None and not any(is_ours(each) for each in facts.services):
        yield SERVICE_MISSING.finding(
            f"There is no Service for the service's pods in namespace {facts.namespace}: the hub cannot reach them.",
            "helm upgrade dra-spawner.",
            f"Namespace {facts.namespace}",
        )


def _base_url(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    service, hub = service_deployment(facts.deployments), hub_deployment(facts.deployments)
    if service is None:
        return
    environment, where = environment_of(service), f"Deployment {name_of(service)}"
    own = environment.get("JUPYTERHUB_BASE_URL", "")
    base = _hub_base(hub) if hub is not None else ""
    if own and base and own.rstrip("/") != base.rstrip("/"):
        yield BASE_URL.finding(
            f"The hub's base URL is {base}, and the service has {own}: page and placements answer 404.",
            f"In the values of the chart dra-spawner: hub: {{baseUrl: {base}}}; then helm upgrade dra-spawner.",
            where,
        )
    address = urlsplit(environment.get("JUPYTERHUB_API_URL", ""))
    wanted = f"{own.rstrip('/')}/hub/api"
    if own and address.path and address.path.rstrip("/") != wanted:
        yield BASE_URL.finding(
            f"The service asks the hub at {address.path}, which does not follow from its base URL {own}.",
            f"JUPYTERHUB_API_URL must end in {wanted}.",
            where,
        )
    host = (address.hostname or "").partition(".")[0]
    if host and facts.services is not None and host not in map(name_of, facts.services):
        yield HUB_ADDRESS.finding(
            f"The service asks the hub at {host}, and namespace {facts.namespace} has no Service of this name.",
            "In the values of the chart dra-spawner: hub: {fullname: <name of the hub's Service>}.",
            where,
        )


def _hub_base(hub: JsonObject) -> str:
    """The hub's base URL, from the path of its probes; empty if it is unknown."""
    for container in pod_spec(hub).get("containers") or ():
        for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
            path = ((container.get(probe) or {}).get("httpGet") or {}).get("path") or ""
            if isinstance(path, str) and path.endswith(_HEALTH):
                return path.removesuffix(_HEALTH) + "/"
    return ""


def _answers(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    hub, service = facts.hub, facts.service
    if hub is not None and (not hub.status or hub.status >= 400 or "version" not in hub.body):
        yield HUB_UNREACHABLE.finding(f"The hub's API at {hub.url} {_problem(hub)}.", _hub_fix(facts, hub), hub.url)
    if service is None:
        return
    if service.status == 503 and service.body.get("ready") is False:
        reasons = " ".join(map(str, service.body.get("reasons") or ()))
        yield SERVICE_NOT_READY.finding(
            f"The service at {service.url} is not ready. {reasons}".strip(),
            "Its page and its log name each problem; a missing right is named with its rule.",
            service.url,
        )
    elif service.status != 200 or "ready" not in service.body:
        yield SERVICE_UNREACHABLE.finding(
            f"The service at {service.url} {_problem(service)}.",
            f"{_logs(facts)}; and look at the address and at network policies. {_BASE_HINT}",
            service.url,
        )


def _logs(facts: DoctorFacts) -> str:
    service = service_deployment(facts.deployments)
    name = name_of(service) if service is not None else names.MANAGER
    return f"kubectl logs --namespace {facts.namespace} deployment/{name}"


def _problem(answer: HttpAnswer) -> str:
    if not answer.status:
        return f"does not answer: {answer.problem}"
    if answer.status >= 400:
        return f"answers {answer.status}"
    return "answers something else: this is another program's address, or a wrong base URL"


def _hub_fix(facts: DoctorFacts, answer: HttpAnswer) -> str:
    hub = hub_deployment(facts.deployments)
    base = _hub_base(hub) if hub is not None else ""
    if answer.status in (200, 404) and base not in ("", "/"):
        return f"The hub's base URL is {base}: use --hub-url http://…{base}."
    return f"{_UNREACHABLE_HUB} {_BASE_HINT}" if answer.status == 404 else _UNREACHABLE_HUB


def _leader(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    if facts.lease is None or service_deployment(facts.deployments) is None:
        return
    spec = facts.lease.get("spec") or {}
    # By the API server's clock, if it says when it was written: the leader's own may be wrong.
    renewed, seconds = (
        written_at(facts.lease) or seconds_of(spec.get("renewTime")),
        spec.get("leaseDurationSeconds") or 0,
    )
    ahead = facts.clocks.get("API server", 0.0)
    if not spec.get("holderIdentity"):
        sentence = "No replica of the service leads: nothing is decided, and nobody gets a placeholder."
    elif renewed is not None and facts.now + ahead - renewed > 2 * seconds + _SKEW_SECONDS:
        age = facts.now + ahead - renewed
        sentence = f"The leader {spec['holderIdentity']} has not renewed its Lease for {age:.0f} s (limit {seconds} s)."
    else:
        return
    yield NO_LEADER.finding(sentence, f"{_logs(facts)} tells why.", f"Lease {name_of(facts.lease) or names.LEASE}")

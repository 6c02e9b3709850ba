"""The examination of `dra-spawner doctor` with the service's own rights, at most once a minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from dra_spawner.common.thread_turns import ThreadTurns
from dra_spawner.doctor.examination import examine, report_json
from dra_spawner.doctor.facts import Account, ServiceSettings
from dra_spawner.doctor.reader import DoctorReader, Questions
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.placeholders.planner.targets.published_shapes import RefusedChoice

_KEPT_SECONDS: Final = 60.0
_HUB_API: Final = "hub/api"


@dataclass(frozen=True, slots=True)
class _Report:
    answer: Mapping[str, Any]
    read_at: float


class SelfExamination:
    """Examines on request; callers at the same time, and those of the next minute, share one report.

    Parameters
    ----------
    seconds
        Returns the seconds of a monotonic clock.
    refused
        Returns choices that cannot work, as the hub publishes them.
    problems
        Returns what the service's settings lack, as sentences.
    """

    def __init__(
        self,
        api: KubernetesApi,
        questions: Questions,
        seconds: Callable[[], float] = time.monotonic,
        *,
        refused: Callable[[], Mapping[str, RefusedChoice]] = dict,
        problems: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self._refused = refused
        self._problems = problems
        self._api = api
        self._questions = questions
        self._seconds = seconds
        self._last: _Report | None = None
        self._turns = ThreadTurns()

    async def report(self) -> Mapping[str, Any]:
        """The report as JSON, with the time of the examination.

        Raises
        ------
        KubernetesError
            If the API server does not answer.
        """
        async with self._turns.turn() as turn:
            if self._last is None or self._seconds() - self._last.read_at > _KEPT_SECONDS:
                facts = await DoctorReader(self._api, self._questions).read()
                # The service follows what the hub publishes, and may not list ConfigMaps.
                refused = {**facts.refused_choices, **self._refused()}
                facts = replace(facts, refused_choices=refused, service_problems=self._problems())
                # In a thread: there may be 40,000 devices.
                findings = await turn.run(examine, facts)
                answer = {"examined_at": datetime.now(UTC).isoformat(), **report_json(facts, findings)}
                self._last = _Report(answer, self._seconds())
            return self._last.answer


def questions_of_service(
    settings: ControllerSettings,
    lease_name: str,
    hub_api_url: str,
    gates: Mapping[str, bool],
    *,
    stops_idle_servers: bool = False,
) -> Questions:
    """What a service asks about itself.

    Parameters
    ----------
    hub_api_url
        As in ``$JUPYTERHUB_API_URL``; empty without a hub.
    gates
        The setting `kubernetes_feature_gates`.
    stops_idle_servers
        Whether the setting `idle_servers` has policies.
    """
    hub_url = hub_api_url.rstrip("/")
    return Questions(
        settings.hub_namespace,
        hub_url=hub_url.removesuffix(_HUB_API) if hub_url.endswith(_HUB_API) else "",
        settings=ServiceSettings(
            has_placeholders=settings.has_placeholders,
            user_namespaces=settings.user_namespaces,
            lease_name=lease_name,
            shapes_config_map=settings.shapes_config_map,
            settings_config_map=settings.settings_config_map,
            priority_class=settings.placeholders.priority_class,
            feature_gates=gates,
            packs_devices=settings.policy.packs_devices,
            has_tickets=settings.policy.tickets is not None,
            tickets_namespace=settings.tickets_namespace,
            stops_idle_servers=stops_idle_servers,
        ),
        own_account=Account.SERVICE,
        is_in_cluster=True,
    )

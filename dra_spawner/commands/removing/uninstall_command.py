"""``dra-spawner uninstall``: survey the cluster, plan, remove and print."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, TextIO

from dra_spawner import names
from dra_spawner.commands.cluster_files.reading import Progress
from dra_spawner.commands.removing.leaders import Leader, find_leaders
from dra_spawner.commands.removing.plan import Plan, plan_removal
from dra_spawner.commands.removing.removal_executor import GONE_SECONDS, RemovalExecutor
from dra_spawner.commands.removing.survey import Failures, Survey
from dra_spawner.commands.removing.uninstall_report import UninstallReport
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError
from dra_spawner.kube.client.connect import ClusterAddress, ClusterNotFound, connect

__all__ = ["UninstallOptions", "run_uninstall"]

_ROUNDS: Final = 4
"""Rounds of survey and removal, for objects that change in between."""


@dataclass(frozen=True, slots=True)
class UninstallOptions:
    """Options of ``dra-spawner uninstall``."""

    kubeconfig: str = ""
    context: str = ""
    namespaces: tuple[str, ...] = ()
    """Namespaces to look in; empty for all."""
    lease: str = names.LEASE
    dry_run: bool = False
    force: bool = False
    """Go on although a service leads, and count starts that may be under way as over."""
    as_json: bool = False
    gone_seconds: float = GONE_SECONDS
    """Time that a deleted object may take to disappear."""


def run_uninstall(options: UninstallOptions, output: TextIO, messages: TextIO) -> int:
    """Remove this project's objects, labels and annotations.

    Parameters
    ----------
    messages
        Stream for errors, and for the progress, which is shown on a terminal only.

    Returns
    -------
    int
        0 when nothing removable is left, or after a dry run; 1 when a service leads,
        a right is missing or something could not be removed; 2 when the cluster cannot be read.
    """
    progress = Progress(messages)
    try:
        report = asyncio.run(_uninstall(options, progress))
    except (ClusterNotFound, KubernetesError) as error:
        progress.clear()
        messages.write(f"dra-spawner uninstall: the cluster cannot be read: {error}\n")
        return 2
    finally:
        progress.clear()
    refused = report.leaders and not (options.force or options.dry_run)
    if options.as_json:
        output.write(json.dumps(report.to_json(), ensure_ascii=False, indent=1) + "\n")
    elif not refused:
        output.write(report.text())
    for sentence in (*report.leaders, *report.problems):
        messages.write(f"dra-spawner uninstall: {sentence}\n")
    return 1 if refused or report.problems else 0


async def _uninstall(options: UninstallOptions, progress: Progress) -> UninstallReport:
    address = ClusterAddress(kubeconfig=options.kubeconfig, context=options.context)
    async with await connect(address) as api:
        return await _Uninstallation(options, api, progress).run()


class _Uninstallation:
    def __init__(self, options: UninstallOptions, api: KubernetesApi, progress: Progress) -> None:
        self._options = options
        self._failures = Failures()
        self._survey = Survey(api, options.namespaces, options.lease, self._failures, progress.show)
        self._executor = RemovalExecutor(api, self._failures, progress.show, options.gone_seconds)

    async def run(self) -> UninstallReport:
        options = self._options
        try:
            found = await find_leaders(self._survey, _now())
        except KubernetesError as error:
            if error.status != 403:
                raise
            self._failures.note(error)
            found = []
        own = [each for each in found if not options.namespaces or each.lease.found.namespace in options.namespaces]
        elsewhere = [each for each in found if each not in own]
        leaders = [each.sentence(_now()) for each in own]
        if leaders and not (options.force or options.dry_run):
            return self._report(Plan(), leaders)
        plan = await self._plan(elsewhere)
        if plan is None:
            return self._report(Plan(), () if options.force else leaders)
        if options.dry_run:
            report = self._report(plan, leaders)
            return replace(report, removed=plan.removals, unmarked=plan.unmarkings)
        for _ in range(_ROUNDS):
            await self._executor.execute(plan, self._survey)
            if not self._executor.contested:
                break
            plan = await self._plan(elsewhere) or plan
        else:
            titles = ", ".join(sorted(each.title for each in self._executor.contested))
            self._failures.sentences.append(
                f"Servers begin to use objects while they are removed: {titles}. Stop the hub."
            )
        return self._report(plan, ())

    async def _plan(self, elsewhere: list[Leader]) -> Plan | None:
        surveyed = await self._survey.find_objects()
        if surveyed is None:
            return None
        used_by = elsewhere[0].name if elsewhere else ""
        return plan_removal(surveyed, _now(), force=self._options.force, nodes_used_by=used_by)

    def _report(self, plan: Plan, leaders: list[str] | tuple[str, ...]) -> UninstallReport:
        return UninstallReport(
            dry_run=self._options.dry_run,
            removed=self._executor.removed,
            unmarked=self._executor.unmarked,
            left=plan.left,
            leaders=leaders,
            problems=(*self._failures.missing_rights, *dict.fromkeys(self._failures.sentences)),
        )


def _now() -> datetime:
    return datetime.now(UTC)

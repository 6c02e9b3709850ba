"""``dra-spawner uninstall``: survey the cluster, plan, remove and print."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TextIO

from dra_spawner import names
from dra_spawner.commands.cluster_files.reading import Progress
from dra_spawner.commands.removing.found_objects import FoundLease, FoundObject
from dra_spawner.commands.removing.plan import LeftObject, Plan, Removal, Unmarking, plan_removal
from dra_spawner.commands.removing.removal_executor import GONE_SECONDS, RemovalExecutor
from dra_spawner.commands.removing.survey import Failures, Survey
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError
from dra_spawner.kube.client.connect import ClusterAddress, ClusterNotFound, connect

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


_WATCH_SECONDS: Final = 3.0
"""A leader renews its Lease every 2 s to 2.4 s."""


@dataclass(frozen=True, slots=True)
class Leader:
    """A service that leads, or that led until a moment ago.

    Attributes
    ----------
    until
        Time at which its Lease expires without a renewal; None if this machine's clock cannot tell.
    """

    lease: FoundLease
    until: datetime | None

    @property
    def name(self) -> str:
        """Namespace and name of its Lease."""
        return f"{self.lease.found.namespace}/{self.lease.found.name}"

    def sentence(self, now: datetime) -> str:
        """The reason why nothing is removed, and what to do."""
        left = f"; if it has just been stopped, wait {(self.until - now).total_seconds():.0f} s" if self.until else ""
        return (
            f"A service leads (Lease {self.name}, held by {self.lease.holder}): it would create removed objects again. "
            f"Stop it first{left}. To go on nevertheless, use --force."
        )


async def find_leaders(survey: Survey, now: datetime) -> list[Leader]:
    """The services that lead, in all namespaces that the account may read.

    A Lease that is valid by this machine's clock counts. The leader of an expired Lease may have a slow clock, so the
    Lease is observed for long enough to see a renewal.

    Raises
    ------
    KubernetesError
        If Leases cannot be listed.
    """
    held = [each for each in await survey.leases(everywhere=True) if each.holder]
    leaders = [Leader(each, until) for each in held if (until := _fresh_until(each, now))]
    stale = [each for each in held if all(each is not leader.lease for leader in leaders)]
    if stale:
        await asyncio.sleep(_WATCH_SECONDS)
        again = await survey.leases(everywhere=True)
        leaders += [Leader(each, None) for each in again if each.holder and _was_renewed(each, stale)]
    return leaders


def _fresh_until(lease: FoundLease, now: datetime) -> datetime | None:
    try:
        until = datetime.fromisoformat(lease.renewed) + timedelta(seconds=lease.seconds)
    except (ValueError, OverflowError):
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return until if until > now else None


def _was_renewed(lease: FoundLease, before: Sequence[FoundLease]) -> bool:
    return any(each.found.uid == lease.found.uid and each.found.version != lease.found.version for each in before)


_NOTES = (
    "The hub, servers' pods, home volumes and the namespaces that the hub created are not changed.",
    "A hub that still uses DRASpawner creates claims at every start, and publishes its profiles (ConfigMap "
    f"{names.SHAPES_CONFIG_MAP}): remove DRASpawner from the hub's configuration first.",
)


@dataclass(frozen=True, slots=True)
class UninstallReport:
    """The result of an uninstallation, or of a dry run.

    Attributes
    ----------
    leaders
        A sentence for each service that leads.
    problems
        A sentence for each failure, missing rights first.
    """

    dry_run: bool
    removed: Sequence[Removal]
    unmarked: Sequence[Unmarking]
    left: Sequence[LeftObject]
    leaders: Sequence[str] = ()
    problems: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """The report as JSON, which docs/how-to/uninstall.md describes."""
        return {
            "dryRun": self.dry_run,
            "removed": [{**_named(each.object), "reason": each.reason} for each in self.removed],
            "unmarked": [
                {**_named(each.object), "labels": list(each.labels), "annotations": list(each.annotations)}
                for each in self.unmarked
            ],
            "left": [
                {
                    **_named(each.object),
                    "leftTo": "administrators" if each.is_administrators else "users",
                    "reason": each.reason,
                    "advice": each.advice,
                }
                for each in self.left
            ],
            "leaders": list(self.leaders),
            "problems": list(self.problems),
            "notes": list(_NOTES),
        }

    def text(self) -> str:
        """The report for people, in several lines."""
        would = "would be " if self.dry_run else ""
        users = [each for each in self.left if not each.is_administrators]
        by_hand = [each for each in self.left if each.is_administrators]
        parts = [
            _part(f"{would}removed", [(each.object.title, each.reason) for each in self.removed]),
            _part(
                f"labels and annotations that {would or 'were '}removed",
                [(each.object.title, ", ".join((*each.labels, *each.annotations))) for each in self.unmarked],
            ),
            _part("left to users", [(each.object.title, f"{each.reason}. {each.advice}") for each in users]),
            _part("left to administrators", [(each.object.title, f"{each.reason}: {each.advice}") for each in by_hand]),
        ]
        if not (self.removed or self.unmarked):
            nothing = "There is nothing of dra-spawner to remove."
            parts.insert(0, f"{nothing}\n" if not self.left else f"{nothing[:-1]}; what is left is below.\n")
        parts.append("".join(f"{note}\n" for note in _NOTES))
        return "\n".join(part for part in parts if part)


def _named(found: FoundObject) -> dict[str, str]:
    return {
        "apiVersion": found.kind.api_version,
        "kind": found.kind.name,
        "namespace": found.namespace,
        "name": found.name,
    }


def _part(heading: str, rows: Iterable[tuple[str, str]]) -> str:
    rows = list(rows)
    if not rows:
        return ""
    width = min(max(len(title) for title, _ in rows), 72)
    return f"{heading} ({len(rows):,}):\n" + "".join(f"  {title:{width}}  {text}\n" for title, text in rows)

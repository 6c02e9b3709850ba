"""``dra-spawner rehearse``: reads the input, rehearses, and prints the answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import BinaryIO, TextIO
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dra_spawner import names
from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.cluster_files.kubernetes_release import rules_of_objects
from dra_spawner.commands.cluster_files.reading import Progress
from dra_spawner.commands.history_files.opening import CommandError, DatabaseOptions, opened
from dra_spawner.commands.rehearsing.cluster_sources import ReadCluster, cluster_of_api, cluster_of_files
from dra_spawner.commands.rehearsing.described_nodes import read_description
from dra_spawner.commands.replaying.cluster_file import ClusterFile
from dra_spawner.history.seen_lead_times import seen_lead_times
from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.kube.client.connect import ClusterAddress, ClusterNotFound, connect
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.scale_ahead.rehearsal.nodes.node_supply import (
    NodeSupply,
    SeenLeads,
    described_supplies,
    supplies_of_known_kinds,
)
from dra_spawner.scale_ahead.rehearsal.rehearsal_line import read_rehearsal_line
from dra_spawner.scale_ahead.rehearsal.rehearsal_problems import ProblemCode, RehearsalProblem
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import (
    ExpectedUsers,
    Rehearsal,
    RehearsalSettings,
    expected_by_line,
)
from dra_spawner.scale_ahead.rehearsal.rehearsal_table import rehearsal_json, rehearsal_text
from dra_spawner.scale_ahead.rehearsal.rehearse import rehearse
from dra_spawner.simulator.snapshot import Snapshot


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class RehearseOptions:
    """Options of the command line."""

    line: str
    kubeconfig: str = ""
    context: str = ""
    objects: tuple[str, ...] = ()
    """Paths of files instead of a cluster, or ``-`` for standard input."""
    namespace: str = ""
    """Namespace of servers; empty for the namespace with the hub's profiles."""
    config_map: str = names.SHAPES_CONFIG_MAP
    nodes: str = ""
    """Path of a description of kinds of nodes."""
    no_new_nodes: bool = False
    gates: Mapping[str, bool] = field(default_factory=dict)
    """Feature gates of kube-scheduler."""
    kind_label: str = names.INSTANCE_TYPE
    lead: timedelta = timedelta(minutes=10)
    """Lead time of kinds whose lead time is neither described nor recorded."""
    image_time: timedelta = timedelta(0)
    margin: timedelta = RehearsalSettings().margin
    mode: str = ""
    """Mode of scale-ahead; empty if it is not known."""
    has_autoscaler: bool = False
    """Whether an autoscaler is known."""
    max_placeholders: int | None = None
    packs_devices: bool = False
    """Whether the service packs devices."""
    history: str = ""
    """URL of the service's database with lead times; empty for none."""
    zone: str = ""
    as_json: bool = False
    now: Callable[[], datetime] = _now


def run_rehearse(options: RehearseOptions, standard_input: BinaryIO, output: TextIO, messages: TextIO) -> int:
    """Rehearse one line.

    Returns
    -------
    int
        0 if all users can start at once, 1 if not, 2 if the line or the input cannot be read.
    """
    progress = Progress(messages)
    try:
        description = read_description(options.nodes) if options.nodes else None
        # The line is read first, so that its mistakes are reported at once.
        line = read_rehearsal_line(options.line, options.now(), _zone(options.zone, description))
        seen = _seen_leads(options)
        cluster = _cluster(options, standard_input, progress)
        expected = expected_by_line(line, cluster.published)
        found = _rehearse(options, expected, cluster, description, seen, progress)
    except (InputError, ValueError, CommandError, ClusterNotFound) as error:
        progress.clear()
        messages.write(f"dra-spawner rehearse: {error}\n")
        return 2
    except KubernetesError as error:
        progress.clear()
        messages.write(f"dra-spawner rehearse: the cluster cannot be read: {error}\n")
        return 2
    finally:
        progress.clear()
    if options.as_json:
        output.write(json.dumps(rehearsal_json(found), ensure_ascii=False) + "\n")
    else:
        output.write(rehearsal_text(found))
    return 0 if found.is_possible else 1


def _zone(name: str, description: ClusterFile | None) -> tzinfo:
    if not name:
        return description.zone if description is not None else UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"--time-zone: found {name[:100]!r}; allowed is a time zone like Europe/Berlin") from None


def _not_prepared(mode: str) -> str:
    """Why no placeholders are created before the users come; empty if scale-ahead does it."""
    if mode == "act":
        return ""
    return f"scale-ahead only {mode}s" if mode else "it is not known whether scale-ahead acts (--mode)"


def _seen_leads(options: RehearseOptions) -> SeenLeads:
    if not options.history:
        return {}
    with opened(DatabaseOptions(url=options.history)) as database:
        return seen_lead_times(database)


def _cluster(options: RehearseOptions, standard_input: BinaryIO, progress: Progress) -> ReadCluster:
    if options.objects:
        return cluster_of_files(options.objects, options.namespace, options.config_map, standard_input, progress)
    return asyncio.run(_cluster_of_api(options, progress))


async def _cluster_of_api(options: RehearseOptions, progress: Progress) -> ReadCluster:
    address = ClusterAddress(kubeconfig=options.kubeconfig, context=options.context)
    async with await connect(address) as api:
        return await cluster_of_api(api, options.namespace, options.config_map, progress)


def _rehearse(
    options: RehearseOptions,
    expected: ExpectedUsers,
    cluster: ReadCluster,
    description: ClusterFile | None,
    seen: SeenLeads,
    progress: Progress,
) -> Rehearsal:
    progress.begin("building the model of the cluster")
    snapshot = Snapshot.from_objects(cluster.objects, rules=rules_of_objects(cluster.objects, options.gates))
    view = View(snapshot, options.now(), namespaces={cluster.namespace})
    settings = RehearsalSettings(
        margin=options.margin,
        image_time=options.image_time,
        max_placeholders=options.max_placeholders,
        quotas=cluster.quotas,
        kinds_are_all=description is not None or options.no_new_nodes,
        not_prepared=_not_prepared(options.mode),
        has_autoscaler=options.has_autoscaler or None,
        packs_devices=options.packs_devices,
    )
    progress.begin(f"placing {expected.users:,} servers")
    supplies: tuple[NodeSupply, ...] = ()
    if options.no_new_nodes:
        pass
    elif description is not None:
        supplies = described_supplies(view, description.kinds, expected.profile, options.kind_label, seen)
    else:
        supplies = supplies_of_known_kinds(view, options.kind_label, options.lead, options.image_time, seen)
    found = rehearse(expected, view, cluster.namespace, supplies, settings)
    messages = [
        *cluster.notes,
        *(f"{each.kind} {each.key} is left out of the model: {each.problem}" for each in view.snapshot.broken),
    ]
    notes = tuple(RehearsalProblem(ProblemCode.NOT_KNOWN, each, blocks=False) for each in messages)
    return replace(found, problems=(*found.problems, *notes))

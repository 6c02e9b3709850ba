"""``dra-spawner check``: read, check, print."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, TextIO

from dra_spawner.commands.checking.chart_findings import chart_findings
from dra_spawner.commands.checking.check_outcome import NODES_MAY_BE_ADDED, CheckOutcome, title
from dra_spawner.commands.checking.cluster_files import read_objects
from dra_spawner.commands.checking.hub_setting_findings import hub_setting_findings
from dra_spawner.commands.checking.service_setting_findings import service_setting_findings
from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.cluster_files.limits import PROFILE_FILES
from dra_spawner.commands.cluster_files.reading import Progress, read_files
from dra_spawner.commands.hub_files.profiles_found import ProfilesFound
from dra_spawner.commands.hub_files.sources import kind_of_object, read_profiles
from dra_spawner.common.counted_text import counted
from dra_spawner.profiles.choices import ListedChoice, list_choices
from dra_spawner.profiles.drivers import DriverNotUsable, configured_drivers, names_of_fixed_claims
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.findings import Finding, Level
from dra_spawner.profiles.lint import CheckReport, Inventory, check_choices, problem_finding, rules, unknown_rules
from dra_spawner.profiles.profile_list import free_texts, offered_profiles, problems_around_claims
from dra_spawner.profiles.profile_names import profile_name_problems
from dra_spawner.profiles.syntax.problems import on_one_line
from dra_spawner.versions import minor_version, patch_number


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """Options of ``dra-spawner check``."""

    profiles: tuple[str, ...] = ()
    """Paths, or ``-`` for standard input."""
    kubeconfig: str = ""
    context: str = ""
    objects: tuple[str, ...] = ()
    namespace: str = ""
    """Namespace of servers; empty: as configured, else ``default``."""
    kubernetes_version: str = ""
    """Version of the cluster, such as ``1.36.3``; empty: as the cluster says."""
    nodes_may_be_added: bool = False
    ignored: tuple[str, ...] = ()
    """Names of rules to ignore; the hub's configuration may name more."""
    runs_code: bool = True
    """Whether code of Helm values is run."""
    as_json: bool = False
    colours: bool = False


def run_check(options: CheckOptions, standard_input: BinaryIO, output: TextIO, messages: TextIO) -> int:
    """Check profiles, against a cluster if one is given.

    Returns
    -------
    int
        0 without errors; 1 with errors; 2 when the input, or code in it, cannot be read, or an installed driver cannot
        be used.
    """
    progress = Progress(messages)
    try:
        if unknown := unknown_rules(options.ignored):
            messages.write(f"dra-spawner check: --ignore: {unknown[0]}\n")
            return 2
        if options.kubeconfig:
            _check_kubeconfig(options.kubeconfig, standard_input, progress)
        hubs = read_profiles(options.profiles, standard_input, progress, runs_code=options.runs_code)
        configured = next((name for each in hubs if isinstance(name := each.settings.get("namespace"), str)), "default")
        namespace = options.namespace or configured
        facts = _facts(options, namespace, hubs, standard_input, progress)
        progress.begin("checking all choices")
        known = facts if facts is not None else ClusterFacts(namespace=namespace)
        known = replace(known, nodes_may_be_added=options.nodes_may_be_added)
        if options.kubernetes_version:
            minor, patch = minor_version(options.kubernetes_version), patch_number(options.kubernetes_version)
            known = replace(known, kubernetes_version=minor, kubernetes_patch=patch)
        outcome = check_profiles(hubs, known, facts is not None, options.ignored)
    except (InputError, DriverNotUsable) as error:
        progress.clear()
        messages.write(f"dra-spawner check: {error}\n")
        return 2
    finally:
        progress.clear()
    if options.as_json:
        output.write(json.dumps(outcome.to_json(), ensure_ascii=False, indent=1) + "\n")
    else:
        output.write(check_table(outcome, colours=options.colours))
    if outcome.report.count(Level.ERROR):
        return 1
    if outcome.unread:
        places = on_one_line(", ".join(outcome.unread))
        messages.write(
            f"dra-spawner check: not complete: {places} could not be run (--ignore unread-code accepts that)\n"
        )
        return 2
    return 0


def check_profiles(
    hubs: Sequence[ProfilesFound], facts: ClusterFacts, has_cluster: bool, ignored: Collection[str] = ()
) -> CheckOutcome:
    """Check all choices of some hubs against the facts of a cluster.

    Parameters
    ----------
    hubs
        One hub or more.
    has_cluster
        Whether the facts are a cluster's; else only what needs no cluster is checked.
    ignored
        Names of rules to ignore.
    """
    checked = [_check_hub(each, facts, ignored) for each in hubs]
    general = [finding for report, _ in checked for finding in report.general]
    report = CheckReport(
        tuple(sorted(dict.fromkeys(general), key=lambda finding: list(Level).index(finding.level))),
        tuple(choice for report, _ in checked for choice in report.choices),
    )
    return CheckOutcome(tuple(hubs), report, checked[0][1], has_cluster)


def _check_hub(found: ProfilesFound, facts: ClusterFacts, ignored: Collection[str]) -> tuple[CheckReport, Inventory]:
    gates = found.settings.get("kubernetes_feature_gates")
    prepare_for = configured_drivers(found.settings.get("drivers_prepare_for"))
    inventory = Inventory(
        replace(
            facts,
            drivers_prepare_for=prepare_for,
            gates=gates if isinstance(gates, dict) else facts.gates,
            nodes_may_be_added=facts.nodes_may_be_added or found.settings.get(NODES_MAY_BE_ADDED) is True,
        )
    )
    profiles = None
    if not callable(found.profile_list):
        profiles = offered_profiles(found.profile_list, found.settings, inventory.facts)
    listed = tuple(list_choices(profiles, found.settings, path=found.list_path, settings_path=found.settings_path))
    configured = found.settings.get("ignored_profile_rules")
    ignored = {*ignored, *(configured if isinstance(configured, list) else ())}
    if found.is_service_alone:
        listed = ()
    drivers = inventory.drivers if facts.slices is not None else None
    return check_choices(listed, inventory, _general(found, listed, drivers), ignored), inventory


def _general(
    found: ProfilesFound, listed: Sequence[ListedChoice], drivers: Collection[str] | None
) -> Iterator[Finding]:
    yield from found.findings
    yield from chart_findings(found, listed)
    yield from hub_setting_findings(found, listed)
    yield from service_setting_findings(found, listed, drivers)
    if found.is_filtered:
        message = "is a function, which only a hub can call for a user: it is checked at each spawn, not here"
        if not callable(found.profile_list):
            message = (
                "is replaced by a function, which only a hub can call for a user: this list is checked as it stands"
            )
        yield rules.PROFILE_FUNCTION.finding(found.list_path, message)
        if callable(found.profile_list):
            return
    problems = problems_around_claims(found.profile_list, found.settings, _KnownTraits(), found.list_path)
    # A function may give each user but one of two profiles of one name.
    uncertain = profile_name_problems(found.profile_list, found.list_path) if found.is_filtered else []
    for problem in problems:
        if problem not in uncertain:
            yield problem_finding(problem)
    for path in free_texts(found.profile_list, found.list_path):
        yield rules.FREE_TEXT.finding(path, "what users type here is checked at each spawn, not here")


class _KnownTraits(Container[str]):
    """Names of the spawner's traits. JupyterHub is loaded only for a name that is looked up, which takes a second."""

    def __contains__(self, name: object) -> bool:
        from dra_spawner.spawner import DRASpawner

        return name in DRASpawner.class_trait_names()


def _facts(
    options: CheckOptions,
    namespace: str,
    hubs: Iterable[ProfilesFound],
    standard_input: BinaryIO,
    progress: Progress,
) -> ClusterFacts | None:
    if options.objects:
        return read_objects(options.objects, namespace, standard_input, progress)
    if options.kubeconfig:
        progress.begin("reading the cluster")
        return asyncio.run(_facts_of_cluster(options.kubeconfig, options.context, namespace, _named_claims(hubs)))
    return None


def _named_claims(hubs: Iterable[ProfilesFound]) -> tuple[str, ...]:
    """Names of claims that others made, in all choices."""
    named: dict[str, None] = {}
    for found in hubs:
        is_function = callable(found.profile_list)
        profiles = None if is_function else offered_profiles(found.profile_list, found.settings, ClusterFacts())
        for each in list_choices(profiles, found.settings):
            named |= dict.fromkeys(names_of_fixed_claims(each.choice)) if each.choice is not None else {}
    return tuple(named)


def _check_kubeconfig(file: str, standard_input: BinaryIO, progress: Progress) -> None:
    """Raise for a kubeconfig with which the Kubernetes client would fail without a message, or never end."""
    paths = [path for each in file.split(os.pathsep) if (path := Path(each).expanduser()).exists()]
    if not paths:
        raise InputError(file, 0, "", "there is no such file; --kubeconfig names the kubeconfig of a cluster")
    for name in map(str, paths):
        documents = list(read_files((name,), standard_input, progress, PROFILE_FILES))
        value = documents[0].value
        kind = kind_of_object(value)
        if kind not in ("", "Config"):
            raise InputError(name, 0, "", f"this is a {kind}, not a kubeconfig")
        if len(documents) > 1 or not isinstance(value, Mapping):
            problem = "is not a kubeconfig; a kubeconfig is one mapping with clusters, users and contexts"
            raise InputError(name, 0, "", problem)
        if len(paths) == 1 and not value.get("clusters"):
            raise InputError(name, 0, "", "is not a kubeconfig: it names no clusters")


async def _facts_of_cluster(kubeconfig: str, context: str, namespace: str, claims: tuple[str, ...]) -> ClusterFacts:
    from kubernetes_asyncio.config import ConfigException

    from dra_spawner.kube.client.api import KubernetesApi, KubernetesError
    from dra_spawner.spawner.devices.facts_reading import read_facts
    from dra_spawner.spawner.devices.reader import DeviceReader

    try:
        connection = await KubernetesApi.from_kubeconfig(kubeconfig, context=context or None)
    except (ConfigException, OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        # The client does not check types in a kubeconfig, so it raises any of these.
        raise InputError(kubeconfig, 0, "", f"cannot be used: {error}") from None
    try:
        async with connection as api:
            return await read_facts(DeviceReader(api), namespace, claims)
    except KubernetesError as error:
        raise InputError(kubeconfig, 0, "", f"the cluster cannot be read: {error}") from None


_COLOURS = {Level.ERROR: "\x1b[31m", Level.WARNING: "\x1b[33m", Level.INFO: "\x1b[36m"}
_BOLD, _FAINT, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_LEVEL_WIDTH = max(map(len, Level))


def check_table(outcome: CheckOutcome, *, colours: bool = False) -> str:
    """The findings as lines; the last line sums up.

    Parameters
    ----------
    colours
        Whether to use the colours of a terminal.
    """
    lines: list[str] = []
    for heading, findings, elsewhere in _groups(outcome):
        lines += [f"{_BOLD}{heading}{_PLAIN}" if colours else heading]
        for finding in findings:
            lines += _lines(finding, elsewhere[finding] - 1, colours)
        lines.append("")
    lines += [f"note: {on_one_line(text)}" for text in outcome.not_checked()]
    lines.append(_summary(outcome))
    return "\n".join(lines) + "\n"


def _groups(outcome: CheckOutcome) -> Iterator[tuple[str, list[Finding], Counter[Finding]]]:
    """Headings with the findings that are new there, and the number of choices that share each."""
    report = outcome.report
    times = Counter(finding for choice in report.choices for finding in choice.findings)
    listed: set[Finding] = set()
    if report.general:
        yield outcome.source, list(dict.fromkeys(report.general)), Counter(dict.fromkeys(report.general, 1))
        listed.update(report.general)
    for choice in report.choices:
        new = [finding for finding in choice.findings if finding not in listed]
        if new:
            yield title(choice.listed), new, times
            listed.update(new)


def _lines(finding: Finding, others: int, colours: bool) -> Iterable[str]:
    level = f"{finding.level:{_LEVEL_WIDTH}}"
    also = f"; also in {counted(others, 'other choice')}" if others > 0 else ""
    message, place = on_one_line(finding.message), f"{on_one_line(finding.path)} ({finding.rule}{also})"
    if colours:
        level, place = f"{_COLOURS[finding.level]}{level}{_PLAIN}", f"{_FAINT}{place}{_PLAIN}"
    return f"  {level}  {message}", f"  {'':{_LEVEL_WIDTH}}  {place}"


def _summary(outcome: CheckOutcome) -> str:
    report = outcome.report
    counts = [counted(report.count(level), level.value) for level in Level if report.count(level)]
    if [*counts] and not report.count(Level.ERROR):
        counts = ["no errors", *counts]
    where = "a hub without profiles" if outcome.is_empty else counted(len(report.choices), "choice")
    text = f"{', '.join(counts) or 'nothing found'} in {where}"
    if outcome.unread:
        text += "; not complete"
    if not outcome.has_cluster:
        return f"{text}; checked without a cluster"
    facts = outcome.inventory.facts
    version = facts.kubernetes_version
    kubernetes = f"Kubernetes {'.'.join(map(str, version))}" if version is not None else "the cluster"
    if facts.slices is None:
        return f"{text}; checked against {kubernetes}"
    devices = counted(len(outcome.inventory.devices), "device")
    return f"{text}; checked against {kubernetes} with {devices} of {counted(len(outcome.inventory.drivers), 'driver')}"

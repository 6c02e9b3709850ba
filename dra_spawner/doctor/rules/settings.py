"""Settings that hub and service, or two parts of one configuration, have twice and differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dra_spawner import names
from dra_spawner.common.project_links import where
from dra_spawner.doctor.facts import DoctorFacts, ServiceSettings, of_users
from dra_spawner.doctor.findings import DoctorFinding, DoctorRule, Severity, Subject, rules_of
from dra_spawner.doctor.objects import component_of, labels_of, name_of
from dra_spawner.dra import scheduler_rules

_SUBJECT: Final = Subject.SETTINGS
_HUB_SECTIONS: Final = ("KubeSpawner", "DRASpawner")

TWO_PLACEHOLDERS: Final = DoctorRule(
    "two-placeholders",
    _SUBJECT,
    (Severity.WARNING,),
    "the chart's own placeholders run beside the service's",
    "scheduling.userPlaceholder.enabled: false in the hub's values",
)
SHAPES_CONFIG_MAP: Final = DoctorRule(
    "shapes-config-map",
    _SUBJECT,
    (Severity.ERROR,),
    "the hub publishes its choices under another name than the service reads, or not at all",
    "the same shapes_config_map in both, or setup(c) in the hub",
)
USER_NAMESPACES: Final = DoctorRule(
    "user-namespaces",
    _SUBJECT,
    (Severity.WARNING,),
    "servers are in namespaces of their users, and the service does not know it",
    "userNamespaces: true in the chart dra-spawner",
)
NAMESPACE_LABELS: Final = DoctorRule(
    "namespace-labels",
    _SUBJECT,
    (Severity.WARNING,),
    "a user's namespace lacks the hub's label or a Pod Security Standard: by policy no server starts there",
    "kubectl label namespaces, before an upgrade",
)
PRIORITY_CLASS: Final = DoctorRule(
    "priority-class",
    _SUBJECT,
    (Severity.ERROR,),
    "the PriorityClass of placeholders does not exist",
    "priorityClass.create: true, or the name of an existing class",
)

CHOICE_REFUSED: Final = DoctorRule(
    "choice-refused",
    _SUBJECT,
    (Severity.ERROR,),
    "a choice cannot work on this cluster: the hub refuses each of its servers",
    "the key of the profile that the finding names",
)
SETTING_WITHOUT_EFFECT: Final = DoctorRule(
    "setting-without-effect",
    _SUBJECT,
    (Severity.WARNING,),
    "a setting of the service lacks what it needs: groups or servers of the hub, answers of Prometheus, the history",
    "what the finding names",
)
NOT_PACKED: Final = DoctorRule(
    "devices-not-packed",
    _SUBJECT,
    (Severity.WARNING,),
    "pack_devices is on, and this cluster's scheduler has no lists of alternatives",
    "turn on the gate DRAPrioritizedList, upgrade Kubernetes 1.34, or leave the setting off",
)

SETTING_RULES: Final = rules_of(globals())

_MAX_NAMED: Final = 5
_STANDARD: Final = f"kubectl label namespaces {{names}} {names.POD_SECURITY}=baseline."
_BOTH_LABELS: Final = (
    f"kubectl label namespaces {{names}} {names.HUB_NAMESPACE}={{namespace}} {names.POD_SECURITY}=baseline."
)


def setting_findings(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """Findings about settings of hub and service that do not fit together, and choices that cannot work."""
    for choice, refused in sorted(facts.refused_choices.items()):
        yield CHOICE_REFUSED.finding(
            f"Servers of {choice} cannot start: {refused.message.rstrip('.')}.",
            "Change this key, or add such a device. `dra-spawner check` examines profiles before the hub has them.",
            refused.path,
        )
    for sentence in facts.service_problems:
        yield SETTING_WITHOUT_EFFECT.finding(
            sentence,
            f"Mend what the sentence names, or turn the setting off: {where('docs/reference/check.md')}.",
            "dra-spawner service",
        )
    settings = facts.settings
    if settings is None:
        return
    if settings.packs_devices:
        yield from _packing(facts, settings)
    if settings.has_placeholders:
        yield from _placeholders(facts)
        if (
            settings.priority_class
            and facts.priority_classes is not None
            and settings.priority_class not in facts.priority_classes
        ):
            yield PRIORITY_CLASS.finding(
                f"The PriorityClass {settings.priority_class} does not exist: no placeholder can be created.",
                "In the values of the chart dra-spawner: priorityClass: {create: true}; or set the name of an "
                "existing class in both priorityClass.name and placeholder_priority_class.",
                f"PriorityClass {settings.priority_class}",
            )
        yield from _shapes(facts, settings.shapes_config_map)
    # Other namespaces are those of other hubs: the chart's admission policy allows these only.
    strange = of_users(facts.namespace, facts.server_namespaces or ())
    if strange and not settings.user_namespaces:
        yield USER_NAMESPACES.finding(
            f"Servers run in namespace {strange[0]}, and the service has user_namespaces off: it reserves claims that "
            "these servers cannot use.",
            "In the values of the chart dra-spawner: userNamespaces: true; then helm upgrade dra-spawner. It needs no "
            "action if another hub has this namespace.",
            f"Namespace {strange[0]}",
        )
    yield from _namespace_labels(facts)


def _packing(facts: DoctorFacts, settings: ServiceSettings) -> Iterator[DoctorFinding]:
    """Why no device is packed."""
    gates = {**settings.feature_gates, **(facts.gates or {})}
    if facts.kubernetes is None:
        return
    rules = scheduler_rules.rules_of(
        facts.kubernetes, {name: gates[name] for name in scheduler_rules.GATES if name in gates}
    )
    if not rules.features.prioritized_list:
        why = "the feature gate DRAPrioritizedList is off"
    elif rules.quirks.incomplete_pools_used:
        why = f"the scheduler of Kubernetes {facts.kubernetes[0]}.{facts.kubernetes[1]} looks at incomplete pools"
    else:
        return
    yield NOT_PACKED.finding(
        f"pack_devices of the service does nothing: {why}.",
        f"Mend it, or remove pack_devices from service.config: {where('docs/explanation/packing.md')}.",
        "pack_devices",
    )


def _namespace_labels(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """Namespaces in which the hub may make no pod, by the chart's policies."""
    labels = facts.labels_of_namespaces or {}
    own = {name for name, each in labels.items() if each.get(names.HUB_NAMESPACE) == facts.namespace}
    alike = of_users(facts.namespace, labels)
    unlabelled = [each for each in alike if names.HUB_NAMESPACE not in labels[each]]
    for what, found, fix in (
        ("have no label of a hub, and names like those of this hub's users", unlabelled, _BOTH_LABELS),
        ("have no Pod Security Standard", sorted(e for e in own if names.POD_SECURITY not in labels[e]), _STANDARD),
    ):
        if found:
            first = ", ".join(found[:_MAX_NAMED]) + (", …" if len(found) > _MAX_NAMED else "")
            yield NAMESPACE_LABELS.finding(
                f"{len(found)} namespaces {what}: {first}. With userNamespaces, the chart's policies let the hub start "
                "no server there, and the service counts no server there as soon as another namespace has the label.",
                f"{fix.format(names=' '.join(found[:_MAX_NAMED]), namespace=facts.namespace)} See "
                f"{where('docs/how-to/upgrade.md')}. It needs no action for a namespace that is not of this hub.",
                f"Namespace {found[0]}",
            )


def _placeholders(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    for pod in facts.hub_namespace_pods or ():
        if component_of(pod) == names.PLACEHOLDER and labels_of(pod).get(names.MANAGED_BY) != names.MANAGER:
            yield TWO_PLACEHOLDERS.finding(
                "The chart's own placeholders run, too: they ignore devices and duplicate the service's.",
                "In the values of the hub: scheduling: {userPlaceholder: {enabled: false}}; then helm upgrade.",
                f"Pod {name_of(pod)}",
            )
            return


def _shapes(facts: DoctorFacts, wanted: str) -> Iterator[DoctorFinding]:
    if facts.shapes_config_maps is None or wanted in facts.shapes_config_maps:
        return
    published = ", ".join(sorted(facts.shapes_config_maps))
    if published:
        yield SHAPES_CONFIG_MAP.finding(
            f"The hub publishes its choices in ConfigMap {published}, and the service reads {wanted}: no choice gets "
            "placeholders.",
            f"Set one name in both: c.DRASpawner.shapes_config_map, and service: {{config: {{shapes_config_map: "
            f"{published}}}}} in the chart dra-spawner.",
            f"ConfigMap {published}",
        )
    else:
        yield SHAPES_CONFIG_MAP.finding(
            f"The hub has not published its choices: there is no ConfigMap {wanted} in namespace {facts.namespace}. "
            "No choice gets placeholders.",
            "Call setup(c) of dra_spawner.hub in hub.extraConfig, name the service in hub.services, and restart the "
            f"hub: {where('docs/how-to/install-with-helm.md')}.",
            f"ConfigMap {wanted}",
        )


def doubled_settings(config: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each setting of the spawner that a hub's configuration has twice, with different values.

    Parameters
    ----------
    config
        The configuration: settings by section.
    """
    first, second = ({**config.get(each, {})} for each in _HUB_SECTIONS)
    for name in sorted(first.keys() & second.keys()):
        # A value like c.KubeSpawner.volumes.append(…) adds to the other one.
        grows = any(hasattr(each[name], "get_value") for each in (first, second))
        if not grows and first[name] != second[name]:
            yield (
                f"c.KubeSpawner.{name} and c.DRASpawner.{name} have different values: only c.DRASpawner.{name} counts. "
                "Remove one of them."
            )

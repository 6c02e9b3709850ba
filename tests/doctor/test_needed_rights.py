"""The needed rights are those of the chart's roles, for the settings of an installation."""

from dra_spawner import names
from dra_spawner.doctor.facts import Account, NeededRight, ServiceSettings
from dra_spawner.doctor.needed_rights import needed_rights
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.placeholders.planner.targets.policy import Policy, TicketRules
from dra_spawner.service.self_examination import questions_of_service
from tests.cluster.access import manifests
from tests.presence import present


def rights(**settings: object) -> set[NeededRight]:
    return set(needed_rights("hub", ServiceSettings(**settings)))  # type: ignore[arg-type]


def test_with_all_settings_the_rights_of_all_roles_are_needed() -> None:
    found = rights(user_namespaces=True)
    granted = {
        (group, resource, verb, name, obj["metadata"].get("namespace", ""))
        for obj in manifests("hub")
        for rule in (obj["rules"] if obj["kind"] in ("Role", "ClusterRole") else ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames") or ("",)
    }
    assert {(each.group, each.resource, each.verb, each.name, each.namespace) for each in found} == granted
    assert {each.account for each in found} == set(Account)


def test_a_hub_with_one_namespace_needs_its_rights_there() -> None:
    hub = [each for each in rights() if each.account is Account.HUB]
    assert NeededRight(Account.HUB, "", "pods", "create", "hub") in hub
    assert not [each for each in hub if each.resource == "namespaces" and each.verb == "create"]
    assert not [each for each in hub if not each.namespace and each.verb != "list"]


def test_a_service_without_placeholders_only_watches() -> None:
    service = [each for each in rights(has_placeholders=False) if each.account is Account.SERVICE]
    written = {each.resource for each in service if each.verb not in ("get", "list", "watch")}
    assert written == {"leases", "pods"}
    assert not [each for each in service if each.resource == "pods" and each.verb == "create"]


def test_a_queue_needs_its_config_map_in_its_namespace() -> None:
    """The chart grants these rights only with ``tickets``, so they are in none of the other roles."""
    more = rights(has_tickets=True, tickets_namespace="queue") - rights()
    assert {(each.account, each.verb, each.name) for each in more if each.namespace == "queue"} == {
        *((Account.SERVICE, verb, names.TICKETS_CONFIG_MAP) for verb in ("get", "list", "watch", "update")),
        *((Account.HUB, verb, names.TICKETS_CONFIG_MAP) for verb in ("get", "update")),
        (Account.HUB, "create", ""),
    }
    assert {each.namespace for each in rights(has_tickets=True) if each.name == names.TICKETS_CONFIG_MAP} == {"hub"}
    queue_alone = ControllerSettings("hub", {}, policy=Policy(tickets=TicketRules()))
    asked = present(questions_of_service(queue_alone, names.LEASE, "", {}).settings)
    assert (asked.has_placeholders, asked.has_tickets) == (True, True), "it creates placeholders for tickets"


def test_names_are_those_of_the_settings() -> None:
    found = rights(lease_name="b", shapes_config_map="shapes-b", settings_config_map="settings-b")
    assert {each.name for each in found if each.name} == {"b", "shapes-b", "settings-b", "dra-spawner-vlans"}


def test_without_the_settings_only_rights_of_every_installation_are_needed() -> None:
    found = needed_rights("hub", None)
    for settings in (
        ServiceSettings(False),
        ServiceSettings(lease_name="b", shapes_config_map="s", settings_config_map="t"),
    ):
        assert set(found) < set(needed_rights("hub", settings))
    assert NeededRight(Account.HUB, "", "pods", "create", "hub") in found

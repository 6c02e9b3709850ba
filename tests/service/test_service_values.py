"""The Helm values of hub and service are valid, and fit the objects of the service."""

from typing import Any

import pytest
import yaml
from traitlets.config import Config

from dra_spawner import names
from dra_spawner.history.settings import DEFAULT_DIRECTORY
from dra_spawner.service.application import DRASpawnerService
from tests.chart_values import ROOT, needs_schema, problems
from tests.cluster.access import manifests

SERVICE_SCOPES = {f"custom:dra-spawner:{each}" for each in ("announce", "read", "operate", "admin")}


def documents(name):
    return [each for each in yaml.safe_load_all((ROOT / "helm-values" / name).read_text()) if each]


@pytest.fixture
def service_values():
    return documents("full.yaml")[0]


@needs_schema
def test_values_of_the_service_fit_the_chart(service_values):
    assert problems(service_values) == []


def test_scopes_of_the_service_are_defined_before_they_are_used(service_values):
    hub = service_values["hub"]
    defined = hub["config"]["JupyterHub"]["custom_scopes"]
    assert set(defined) == SERVICE_SCOPES
    used = {scope for role in hub["loadRoles"].values() for scope in role["scopes"]}
    used |= set(hub["services"]["dra-spawner"]["oauth_client_allowed_scopes"])
    assert {scope for scope in used if scope.startswith("custom:")} == SERVICE_SCOPES
    known = DRASpawnerService()
    checked = known.read_scopes | known.operate_scopes | known.admin_scopes | {names.ANNOUNCE_SCOPE}
    assert {scope for scope in checked if scope.startswith("custom:")} == SERVICE_SCOPES


def test_values_and_configuration_file_of_the_service_say_the_same(service_values):
    config = Config()
    code = (ROOT / "jupyterhub_config.d" / "20-dra-spawner-service.py").read_text()
    exec(code, {"c": config})
    hub = config.JupyterHub
    (service,) = hub.services.get_value([])
    values = service_values["hub"]
    for name in ("oauth_no_confirm", "oauth_client_allowed_scopes", "display"):
        assert service[name] == values["services"]["dra-spawner"][name]
    assert hub.custom_scopes.get_value({}) == values["config"]["JupyterHub"]["custom_scopes"]
    roles = {role.pop("name"): role for role in hub.load_roles.get_value([])}
    assert roles == values["loadRoles"]


def test_the_configuration_file_leaves_what_the_hub_has_set() -> None:
    """Whether the hub has assigned its lists or only added to them; what it has by the same name stays."""
    code = (ROOT / "jupyterhub_config.d" / "20-dra-spawner-service.py").read_text()
    own: dict[str, list[dict[str, Any]]] = {"services": [{"name": "cull"}, {"name": "dra-spawner", "url": "http://elsewhere"}], "load_roles": [{"name": "cull"}, {"name": "dra-spawner-admin", "scopes": []}]}  # fmt: skip
    added, assigned = Config(), Config()
    for name, entries in own.items():
        added.JupyterHub[name].extend(entries)
        assigned.JupyterHub[name] = list(entries)
    for config in (added, assigned):
        for _ in range(2):
            exec(code, {"c": config})
        hub = {name: config.JupyterHub[name] for name in own}
        lists = {name: each if isinstance(each, list) else each.get_value([]) for name, each in hub.items()}
        assert lists["services"] == own["services"]
        assert lists["load_roles"][:2] == own["load_roles"]
        assert [role["name"] for role in lists["load_roles"][2:]] == [
            "dra-spawner-reader",
            "dra-spawner-operator",
            "dra-spawner-teacher",
            "user",
            "dra-spawner-service",
        ]


def test_the_service_is_reached_and_finds_its_token(service_values):
    objects = manifests("jupyterhub")
    (service,) = [each for each in objects if (each["kind"], each["metadata"]["name"]) == ("Service", "dra-spawner")]
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]
    labels = pod["metadata"]["labels"]
    # The leader adds the second label itself.
    assert service["spec"]["selector"] == {**deployment["spec"]["selector"]["matchLabels"], names.LEADER: names.TRUE}
    assert names.LEADER not in labels
    (container,) = pod["spec"]["containers"]
    port = container["ports"][0]["containerPort"]
    for policy in (service_values["hub"]["networkPolicy"], service_values["proxy"]["chp"]["networkPolicy"]):
        (rule,) = policy["egress"]
        assert rule["to"][0]["podSelector"]["matchLabels"].items() <= labels.items()
        assert (service["spec"]["ports"][0]["port"], rule["ports"][0]["port"]) == (port, port)
    url = service_values["hub"]["services"]["dra-spawner"]["url"]
    assert url == f"http://{service['metadata']['name']}:{port}"
    environment = {each["name"]: each.get("value") or each["valueFrom"] for each in container["env"]}
    (name,) = service_values["hub"]["services"]
    assert environment["JUPYTERHUB_API_TOKEN"] == {
        "secretKeyRef": {"name": "hub", "key": f"hub.services.{name}.apiToken"}
    }
    assert environment["POD_NAME"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert environment["JUPYTERHUB_SERVICE_NAME"] == name
    assert environment["JUPYTERHUB_SERVICE_PREFIX"] == f"/services/{name}/"
    mounted = {each["mountPath"] for each in container["volumeMounts"]}
    assert mounted == {container["workingDir"], str(DEFAULT_DIRECTORY), "/tmp"}

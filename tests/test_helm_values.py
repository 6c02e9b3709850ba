"""What an administrator copies is valid, and grants no more than is used."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from traitlets.config import Config

from dra_spawner.cluster.cluster_watch import RESOURCES
from dra_spawner.profiles import profile_list_problems
from dra_spawner.service import DRASpawnerService

ROOT = Path(__file__).parents[1]
SCHEMA = ROOT.parent / "shared" / "data" / "z2jh-values.schema.json"


def problems(values):
    """What the chart's schema has against values; what the chart's own defaults supply may be missing."""
    schema = json.loads(SCHEMA.read_text())
    errors = jsonschema.Draft7Validator(schema).iter_errors(values)
    return [f"{'/'.join(map(str, error.path))}: {error.message}" for error in errors if error.validator != "required"]


@pytest.fixture
def values():
    return yaml.safe_load((ROOT / "helm-values" / "minimal.yaml").read_text())


@pytest.fixture
def schema():
    if not SCHEMA.exists():
        pytest.skip("the schema of zero-to-jupyterhub's values is not beside this checkout")


@pytest.mark.usefixtures("schema")
def test_values_fit_the_chart(values):
    assert problems(values) == []


@pytest.mark.usefixtures("schema")
def test_the_schema_would_find_a_typo(values):
    values["singleuser"]["profilelist"] = []
    assert any("profilelist" in problem for problem in problems(values))


def test_profiles_of_the_values_are_sound(values):
    profiles = values["singleuser"]["profileList"]
    assert len(profiles) == 2
    assert profile_list_problems(profiles) == []


def test_values_set_the_spawner_up(values):
    (code,) = values["hub"]["extraConfig"].values()
    compile(code, "extraConfig", "exec")
    assert "setup(c)" in code


def granted(file: str) -> list[tuple[str, str, str]]:
    """Group, resource and verb of all that a file's rules grant."""
    return sorted(
        (group, resource, verb)
        for document in yaml.safe_load_all((ROOT / "helm-values" / file).read_text())
        for rule in document.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def test_rules_of_user_namespaces_are_those_of_the_chart_and_of_what_starts_make():
    chart = ("create", "delete", "get", "list", "watch")
    assert granted("rbac-user-namespaces.yaml") == sorted(
        [
            ("", "namespaces", "create"),
            *(("", "events", verb) for verb in ("get", "list", "watch")),
            *(("", kind, verb) for kind in ("persistentvolumeclaims", "pods", "secrets", "services") for verb in chart),
            *(
                ("resource.k8s.io", kind, verb)
                for kind in ("resourceclaims", "resourceclaimtemplates")
                for verb in ("create", "delete", "list", "patch")
            ),
        ]
    )


def test_rules_are_the_ones_that_are_used():
    assert granted("rbac.yaml") == [
        *(("", "configmaps", verb) for verb in ("create", "get", "update")),
        ("", "namespaces", "get"),
        ("", "nodes", "list"),
        ("", "pods", "patch"),
        *(("resource.k8s.io", "deviceclasses", "list"),),
        # Listed in all namespaces to explain waiting, in the hub's own to sweep.
        *(("resource.k8s.io", "resourceclaims", verb) for verb in ("create", "delete", "list", "list", "patch")),
        *(("resource.k8s.io", "resourceclaimtemplates", verb) for verb in ("create", "delete", "list", "patch")),
        *(("resource.k8s.io", "resourceslices", "list"),),
    ]


SERVICE_SCOPES = {"custom:dra-spawner:read", "custom:dra-spawner:manage"}


def documents(name):
    return [each for each in yaml.safe_load_all((ROOT / "helm-values" / name).read_text()) if each]


@pytest.fixture
def service_values():
    return documents("service.yaml")[0]


@pytest.mark.usefixtures("schema")
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
    assert {scope for scope in known.read_scopes | known.manage_scopes if scope.startswith("custom:")} == SERVICE_SCOPES


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


def test_deployment_of_the_service_is_reached_and_finds_its_token(service_values):
    deployment, service = documents("service-deployment.yaml")
    pod = deployment["spec"]["template"]
    labels = pod["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (rule,) = service_values["proxy"]["chp"]["networkPolicy"]["egress"]
    assert rule["to"][0]["podSelector"]["matchLabels"].items() <= labels.items()
    (container,) = pod["spec"]["containers"]
    port = container["ports"][0]["containerPort"]
    url = service_values["hub"]["services"]["dra-spawner"]["url"]
    assert url == f"http://{service['metadata']['name']}:{port}"
    assert (service["spec"]["ports"][0]["port"], rule["ports"][0]["port"]) == (port, port)
    environment = {each["name"]: each.get("value") or each["valueFrom"] for each in container["env"]}
    (name,) = service_values["hub"]["services"]
    assert environment["JUPYTERHUB_API_TOKEN"] == {
        "secretKeyRef": {"name": "hub", "key": f"hub.services.{name}.apiToken"}
    }
    assert environment["JUPYTERHUB_SERVICE_NAME"] == name
    assert environment["JUPYTERHUB_SERVICE_PREFIX"] == f"/services/{name}/"
    account = next(each for each in documents("service-rbac.yaml") if each["kind"] == "ServiceAccount")
    assert pod["spec"]["serviceAccountName"] == account["metadata"]["name"]


def test_rules_of_the_service_are_the_ones_that_are_used():
    rules = {
        (kind, group, resource, verb, *rule.get("resourceNames", ()))
        for document in documents("service-rbac.yaml")
        for kind in [document["kind"]]
        for rule in document.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    followed = {
        ("ClusterRole", resource.group, resource.plural, verb)
        for resource in RESOURCES.values()
        for verb in ("list", "watch")
    }
    lease = {("Role", "coordination.k8s.io", "leases", "create")}
    lease |= {
        ("Role", "coordination.k8s.io", "leases", verb, DRASpawnerService().lease_name) for verb in ("get", "update")
    }
    assert rules == followed | lease

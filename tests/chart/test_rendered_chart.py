"""The chart, as Helm renders it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra_spawner import __version__, names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.service.application import DRASpawnerService
from tests.all_of_them import all_of_them
from tests.chart.rendering import (
    CHART,
    EVERYTHING,
    IMAGE,
    RenderingFailed,
    objects_of,
    of_kind,
    parent_chart,
    rendered,
    run_helm,
)
from tests.chart.settings_schema import settings_schema
from tests.cluster.object_paths import has_namespace


def name_of(obj: JsonObject) -> tuple[str, str, str]:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def settings_of(objects: list[JsonObject], tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> DRASpawnerService:
    """The service with the configuration of the ConfigMap."""
    for name, text in of_kind(objects, "ConfigMap", "-service")["data"].items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    service = DRASpawnerService()
    service.initialize([])
    return service


@all_of_them("values", [pytest.param(IMAGE, id="defaults"), pytest.param(EVERYTHING, id="everything")])
def test_lint_finds_nothing(values: JsonObject) -> None:
    run_helm("lint", "--strict", str(CHART), values=values)


def test_releases_share_no_name() -> None:
    """Two hubs in two namespaces, and two in one; also where namespace and release could be read in two ways."""
    releases = [
        ("dra-spawner", "a"),
        ("dra-spawner", "b"),
        ("second", "a"),
        ("b-dra-spawner", "a"),
        ("dra-spawner", "a-b"),
    ]
    found = [
        name_of(obj) for release, space in releases for obj in rendered(EVERYTHING, release=release, namespace=space)
    ]
    assert len(found) == len(set(found))
    for kind, namespace, name in found:
        assert has_namespace(kind) == (namespace != ""), name
    # So that `dra-spawner uninstall` finds them.
    assert all(name.startswith("dra-spawner-") for kind, namespace, name in found if not namespace)


def test_the_service_reads_its_settings(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    more = {"service": {"config": {"scale_ahead": "act", "drain_below": 0.5, "read_scopes": ["admin-ui"]}}}
    objects = rendered({**EVERYTHING, **more}, release="gpus", namespace="hub")
    service = settings_of(objects, tmp_path, monkeypatch)
    assert service.unknown == ()
    assert service.placeholders == {"gpu-slice": {"min": 2, "max": 20}}
    assert (service.scale_ahead, service.drain_below, service.read_scopes) == ("act", 0.5, {"admin-ui"})
    assert service.user_namespaces
    assert service.history == {"keep_days": 365}
    # The settings that the other objects rely on.
    assert service.placeholder_priority_class == of_kind(objects, "PriorityClass")["metadata"]["name"]
    rules = of_kind(objects, "Role", "-service")["rules"]
    assert [
        each["resourceNames"] for each in rules if each["resources"] == ["leases"] and "update" in each["verbs"]
    ] == [[service.lease_name]]
    makes_pods = of_kind(objects, "ValidatingAdmissionPolicy", "-makes-pods")["spec"]["variables"]
    expressions = {each["name"]: each["expression"] for each in makes_pods}
    assert expressions["images"] == f"['{service.placeholder_image}']"
    assert expressions["priorityClasses"] == f"['{service.placeholder_priority_class}']"


def test_names_of_digits_stay_texts() -> None:
    """YAML would read a number, which the API server refuses. An empty setting is as good as none."""
    values = {
        **EVERYTHING,
        "fullnameOverride": "2025",
        "hub": {"fullname": "7", "serviceAccountName": "8", "secretName": "9"},
        "service": {"extraConfig": None, "replicas": 1, "priorityClassName": "10", "config": {"tickets": True}},
        "history": {
            "url": "sqlite:////tmp/history.sqlite",
            "passwordSecret": {"name": "11", "key": "12"},
            "persistence": {"enabled": True, "existingClaim": "13"},
        },
        "serviceAccount": {"name": "14"},
        "priorityClass": {"name": "15"},
    }
    texts = {"name", "namespace", "key", "claimName", "serviceAccountName", "priorityClassName", "secretName"}
    wrong = []

    def look(value: Any, where: str) -> None:
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            is_text = key in texts or where.endswith(("abels", "annotations"))
            if isinstance(each, dict | list):
                look(each, f"{where}.{key}")
            elif is_text and not isinstance(each, str):
                wrong.append(f"{where}.{key}: {each!r}")

    for obj in rendered(values, release="2024", namespace="2026", with_tests=True):
        look({key: each for key, each in obj.items() if key != "data"}, obj["kind"])
    assert wrong == []


@all_of_them("is_part", [pytest.param(False, id="alone"), pytest.param(True, id="part-of-a-chart")])
def test_a_key_with_nothing_below_it_is_as_good_as_none(is_part: bool, tmp_path: Path) -> None:
    """As where all lines below `placeholders:` are commented out; Helm takes the key out of the values."""
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    #: None is a choice of its own, or what the test needs.
    kept = {"image", "enabled", "replicas", "resources", "tolerations"}

    def emptied(values: JsonObject, levels: int) -> JsonObject:
        """With nothing below the keys of a level."""
        return {
            key: emptied(value, levels - 1) if levels and isinstance(value, dict) and "abels" not in key else None
            for key, value in values.items()
            if key not in kept
        }

    chart = parent_chart(tmp_path) if is_part else CHART

    def text_of(values: JsonObject) -> str:
        mine = {**IMAGE, **values}
        return run_helm("template", "a", str(chart), values={"dra-spawner": mine} if is_part else mine)

    expected = text_of({})
    assert [each for each in (0, 1, 2) if text_of(emptied(defaults, each)) != expected] == []
    # What is taken out of a part of one's own stays out.
    fewer = text_of({"service": {"resources": {"limits": None}, "tolerations": None}})
    assert ("768Mi" in expected, "768Mi" in fewer, "tolerations:" in fewer) == (True, False, False)


def test_the_policies_take_what_administrators_allow_besides() -> None:
    more = {"placeholderAnnotations": ["mesh.example.com/inject"], "podSecurityLevels": ["restricted", "privileged"]}
    objects = rendered({**IMAGE, "userNamespaces": True, "admissionPolicy": more})
    found = {
        each["name"]: each["expression"]
        for ending in ("-makes-pods", "-hub-users")
        for each in of_kind(objects, "ValidatingAdmissionPolicy", ending)["spec"]["variables"]
    }
    assert found["levels"] == "['restricted', 'privileged']"
    assert found["annotations"].endswith(", 'mesh.example.com/inject']")
    assert not [each for each in rendered({**IMAGE, "userNamespaces": False}) if "of-users" in each["metadata"]["name"]]


@all_of_them(
    "image, expected",
    [
        pytest.param({"name": "r.example.org/a"}, f"r.example.org/a:{__version__}", id="as-the-chart"),
        pytest.param({"name": "r.example.org/a", "tag": 7}, "r.example.org/a:7", id="tag"),
        pytest.param(
            {"name": "r.example.org/a", "digest": f"sha256:{'0' * 64}"},
            f"r.example.org/a@sha256:{'0' * 64}",
            id="digest",
        ),
    ],
)
def test_the_image(image: JsonObject, expected: str) -> None:
    objects = rendered({"image": image}, with_tests=True)
    pods = [of_kind(objects, "Deployment")["spec"]["template"], of_kind(objects, "Pod")]
    assert [each["spec"]["containers"][0]["image"] for each in pods] == [expected, expected]


def test_placeholders_may_have_an_image_by_its_digest() -> None:
    image = f"registry.k8s.io/pause@sha256:{'0' * 64}"
    config = {"placeholder_image": image}
    objects = rendered({**IMAGE, "placeholders": {"enabled": True}, "service": {"config": config}})
    policy = of_kind(objects, "ValidatingAdmissionPolicy", "-makes-pods")
    allowed = {each["name"]: each["expression"] for each in policy["spec"]["variables"]}["images"]
    assert (allowed, DRASpawnerService(**config).placeholder_image) == (f"['{image}']", image)


def test_the_settings_need_no_role_of_the_chart() -> None:
    objects = rendered({**IMAGE, "placeholders": {"enabled": True}, "rbac": {"create": False}})
    assert of_kind(objects, "ConfigMap", names.SETTINGS_CONFIG_MAP)


def test_extra_python_and_volumes(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        **IMAGE,
        "service": {"replicas": 1, "extraConfig": "c.DRASpawnerService.decisions_kept = 7\n"},
        "history": {"persistence": {"enabled": True}, "passwordSecret": {"name": "db", "key": "password"}},
    }
    objects = rendered(values)
    assert settings_of(objects, tmp_path, monkeypatch).decisions_kept == 7
    claim = of_kind(objects, "PersistentVolumeClaim")
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    spec = of_kind(objects, "Deployment")["spec"]
    assert spec["strategy"] == {"type": "Recreate"}
    assert spec["template"]["spec"]["volumes"][1]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert "PGPASSWORD" in {each["name"] for each in spec["template"]["spec"]["containers"][0]["env"]}


@all_of_them(
    "values",
    [
        pytest.param({"placeholders": {"enabled": False}}, id="no-placeholders"),
        pytest.param({"userNamespaces": False, "rbac": {}}, id="one-namespace"),
        pytest.param({"rbac": {"create": False}}, id="no-roles"),
        pytest.param({"admissionPolicy": {"create": False}}, id="no-policy"),
        pytest.param({"networkPolicy": {"enabled": False}, "podDisruptionBudget": {"enabled": False}}, id="no-limits"),
        pytest.param({"serviceAccount": {"create": False, "name": "mine"}}, id="own-account"),
        pytest.param({"priorityClass": {"create": False, "name": "mine"}}, id="own-priority"),
        pytest.param({"image": {**IMAGE["image"], "pullSecrets": [{"name": "r"}], "pullPolicy": "Always"}}, id="image"),
        pytest.param(
            {"service": {"tolerations": [], "nodeSelector": {"a": "b"}, "extraEnv": [{"name": "A"}]}}, id="pods"
        ),
    ],
)
def test_each_switch_by_itself(values: JsonObject) -> None:
    """Every object is complete, and no name that an object mentions is of one that is left out."""
    objects = rendered({**EVERYTHING, **values})
    found = {(each["kind"], each["metadata"]["name"]) for each in objects}
    assert len(found) == len(objects)
    for each in objects:
        if "roleRef" in each:
            assert (each["roleRef"]["kind"], each["roleRef"]["name"]) in found
        if "policyName" in each.get("spec", {}):
            assert ("ValidatingAdmissionPolicy", each["spec"]["policyName"]) in found
    account = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
    assert ("ServiceAccount", account) in found or account == "mine"


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__


def test_as_part_of_another_chart(tmp_path: Path) -> None:
    """Beside zero-to-jupyterhub, whose values it does not see."""
    parent = str(parent_chart(tmp_path / "parent"))
    for is_enabled in (True, False):
        values = {"global": {"a": 1}, "dra-spawner": {**IMAGE, "enabled": is_enabled}}
        objects = objects_of(run_helm("template", "jhub", parent, "--namespace", "hub", values=values))
        assert bool(objects) == is_enabled
        assert not is_enabled or of_kind(objects, "Deployment")["metadata"]["name"] == "jhub-dra-spawner"


def test_an_upgrade_leaves_the_number_of_replicas() -> None:
    assert "replicas" not in of_kind(rendered({**IMAGE, "service": {"replicas": None}}), "Deployment")["spec"]


def test_without_placeholders_there_is_no_priority_for_them() -> None:
    assert "PriorityClass" not in {each["kind"] for each in rendered(IMAGE)}


@all_of_them(
    "values, message",
    [
        pytest.param({**IMAGE, "placeholder": {}}, "placeholder", id="a-typo"),
        pytest.param(
            {**IMAGE, "service": {"config": {"scale_a_head": "act"}}}, "scale_a_head", id="an-unknown-setting"
        ),
        pytest.param({**IMAGE, "service": {"config": {"lease_name": "x"}}}, "lease_name", id="a-setting-of-the-chart"),
        pytest.param({**IMAGE, "service": {"config": {"scale_ahead": "maybe"}}}, "advise", id="a-wrong-value"),
        pytest.param(
            {**IMAGE, "placeholders": {"enabled": True, "targets": {"gpu": {"minimum": 1}}}}, "minimum", id="a-target"
        ),
        pytest.param({**IMAGE, "hub": {"baseUrl": "jupyter"}}, "baseUrl", id="a-base-url-without-slash"),
        pytest.param({}, "image.name is required", id="no-image"),
        pytest.param({"image": {"name": "r.example.org/a", "digest": "sha256:1"}}, "digest", id="short-digest"),
        pytest.param(
            {**IMAGE, "history": {"persistence": {"enabled": True}}}, "set service.replicas: 1", id="two-of-one-volume"
        ),
    ],
)
def test_wrong_values_are_refused(values: JsonObject, message: str) -> None:
    with pytest.raises(RenderingFailed, match=message):
        rendered(values)


def test_the_schema_knows_every_setting() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    expected = settings_schema()
    found = schema["properties"]["service"]["properties"]["config"]
    assert found == expected, f"put this into values.schema.json:\n{json.dumps(expected, indent=2)}"


@all_of_them("given, base", [("/", "/"), ("/jupyter/", "/jupyter/"), ("/a/b", "/a/b/")])
def test_addresses_follow_the_base_url(given: str, base: str) -> None:
    objects = rendered({**IMAGE, "hub": {"baseUrl": given, "fullname": "z-hub", "serviceName": "gpus"}})
    (container,) = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    environment = {each["name"]: each.get("value") for each in container["env"]}
    assert environment["JUPYTERHUB_API_URL"] == f"http://z-hub:8081{base}hub/api"
    assert environment["JUPYTERHUB_BASE_URL"] == base
    assert environment["JUPYTERHUB_SERVICE_PREFIX"] == f"{base}services/gpus/"
    secrets = [each["valueFrom"]["secretKeyRef"] for each in container["env"] if each["name"] == "JUPYTERHUB_API_TOKEN"]
    assert secrets == [{"name": "z-hub", "key": "hub.services.gpus.apiToken"}]


def test_a_pod_on_a_busy_node_is_not_ended() -> None:
    """Until its modules are imported it answers 503; a pod that is ended then would be ended again and again."""
    (container,) = of_kind(rendered(IMAGE), "Deployment")["spec"]["template"]["spec"]["containers"]
    start, alive = (container[each] for each in ("startupProbe", "livenessProbe"))
    assert start["httpGet"] == alive["httpGet"]
    assert start["periodSeconds"] * start["failureThreshold"] >= 300
    assert alive["periodSeconds"] * alive["failureThreshold"] >= 120


def test_services_and_the_pods_they_select() -> None:
    objects = rendered(IMAGE)
    labels = of_kind(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    leader = of_kind(objects, "Service", "dra-spawner")["spec"]
    assert leader["selector"].items() <= {**labels, names.LEADER: names.TRUE}.items()
    assert leader["selector"][names.LEADER] == names.TRUE
    assert leader["publishNotReadyAddresses"]
    replicas = of_kind(objects, "Service", "-replicas")["spec"]
    assert replicas["selector"].items() <= labels.items()
    assert of_kind(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_a_queue_without_placeholders_is_refused() -> None:
    with pytest.raises(RenderingFailed, match="tickets has no effect without placeholders"):
        rendered({**IMAGE, "service": {"config": {"tickets": True}}})

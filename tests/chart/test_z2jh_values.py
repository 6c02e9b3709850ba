"""Documented values for zero-to-jupyterhub render there, and fit the objects of our chart."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml
from traitlets.config import Config

from dra_spawner.common.json_types import JsonObject
from tests.all_of_them import all_of_them
from tests.chart.network_model import Endpoint, Network
from tests.chart.rendering import IMAGE, ROOT, RenderingFailed, hub_values, of_kind, rendered
from tests.chart.z2jh import VERSIONS, documented_values, merged, z2jh_objects

FILES = sorted((ROOT / "helm-values").glob("*.yaml"))
#: Closed as far as zero-to-jupyterhub can close it.
CLOSED = {
    "hub": {"networkPolicy": {"egressAllowRules": {"privateIPs": False, "nonPrivateIPs": False}}},
    "proxy": {"chp": {"networkPolicy": {"egressAllowRules": {"privateIPs": False, "nonPrivateIPs": False}}}},
}


@all_of_them("version", VERSIONS)
def test_documented_values_render(version: str) -> None:
    documented = documented_values()
    assert len(documented) > 2
    files = {path.name: yaml.safe_load(path.read_text()) for path in FILES if path.name != "rbac.yaml"}
    more = {"nvidia.yaml", "amd.yaml", "intel.yaml", "hami.yaml", "hub-without-image.yaml"}
    assert {"minimal.yaml", "full.yaml", *more} == files.keys()
    for values in documented:
        assert z2jh_objects(version, values)
    # One rendering for each vendor: over the full values, as the files say.
    for name, values in files.items():
        assert z2jh_objects(version, values if name == "minimal.yaml" else merged(files["full.yaml"], values))


@all_of_them("version", VERSIONS)
def test_a_hub_without_an_image_of_its_own(version: str) -> None:
    values = yaml.safe_load((ROOT / "helm-values" / "hub-without-image.yaml").read_text())
    pod = of_kind(z2jh_objects(version, values), "Deployment", "hub")["spec"]["template"]["spec"]
    (install,) = pod["initContainers"]
    (hub,) = pod["containers"]
    # The same Python: another one would not load compiled modules.
    assert install["image"].split(":")[0] == hub["image"].split(":")[0]
    assert install["securityContext"]["runAsUser"] == hub["securityContext"]["runAsUser"]
    (folder,) = install["volumeMounts"]
    assert {**folder, "readOnly": True} in hub["volumeMounts"]
    assert folder["name"] in {each["name"] for each in pod["volumes"]}
    bases = [
        next(each["value"] for each in container["env"] if each["name"] == "PYTHONUSERBASE")
        for container in (install, hub)
    ]
    assert bases == [folder["mountPath"]] * 2


def test_the_word_from_policy_alone_does_not_render() -> None:
    """So the documentation has the mapping. If this fails, zero-to-jupyterhub accepts the word."""
    option = {"memory": {"display_name": "Memory", "choices": "from_policy"}}
    with pytest.raises(RenderingFailed):
        z2jh_objects("main", {"singleuser": {"profileList": [{"display_name": "x", "profile_options": option}]}})


OTHER_NAMES: JsonObject = {
    "hub": {"baseUrl": "/jupyter/", "fullname": "z2jh-hub", "serviceName": "gpus"},
    "userNamespaces": True,
    "serviceMonitor": {"enabled": True},
}


@all_of_them(
    "version, chart, theirs",
    [
        pytest.param(version, chart, theirs, id=f"{version}, {name}")
        for version in VERSIONS
        for name, chart, theirs in (("defaults", {}, {}), ("other names", OTHER_NAMES, {"fullnameOverride": "z2jh"}))
    ],
)
def test_both_charts_fit(version: str, chart: JsonObject, theirs: JsonObject) -> None:
    ours_values = {**IMAGE, **chart}
    printed = hub_values(ours_values, release="gpus")
    ours = rendered(ours_values, release="gpus", namespace="hub")
    z2jh = z2jh_objects(version, merged(CLOSED, theirs, printed))
    hub = theirs.get("fullnameOverride", "")
    hub_name, proxy_name = (f"{hub}-{part}" if hub else part for part in ("hub", "proxy"))
    service_pod = of_kind(ours, "Deployment")["spec"]["template"]
    (container,) = service_pod["spec"]["containers"]
    environment = {each["name"]: each.get("value") or each["valueFrom"] for each in container["env"]}
    # The token, and the hub's address.
    token = environment["JUPYTERHUB_API_TOKEN"]["secretKeyRef"]
    secret = named(z2jh, "Secret", token["name"])
    assert token["key"] in secret["data"]
    settings = yaml.safe_load(base64.b64decode(secret["data"]["values.yaml"]))
    base = settings["hub"]["baseUrl"]
    port = named(z2jh, "Service", hub_name)["spec"]["ports"][0]["port"]
    assert environment["JUPYTERHUB_API_URL"] == f"http://{hub_name}:{port}{base}hub/api"
    name = chart.get("hub", {}).get("serviceName", "dra-spawner")
    service = settings["hub"]["services"][name]
    for monitor in [each for each in ours if each["kind"] == "ServiceMonitor"]:
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["authorization"]["credentials"]["key"] in secret["data"]
        chosen = monitor["spec"]["selector"]["matchLabels"].items()
        services = [each for each in [*ours, *z2jh] if each["kind"] == "Service"]
        (selected,) = [each for each in services if chosen <= each["metadata"].get("labels", {}).items()]
        assert endpoint["port"] in [each["name"] for each in selected["spec"]["ports"]]
    assert environment["JUPYTERHUB_SERVICE_PREFIX"] == f"{base}services/{name}/"
    assert service["url"] == "http://gpus-dra-spawner:8181"
    # The hub's account has our rights.
    account = named(z2jh, "Deployment", hub_name)["spec"]["template"]["spec"]["serviceAccountName"]
    assert of_kind(ours, "RoleBinding", "-hub")["subjects"][0]["name"] == account
    # Their pods reach ours and the reverse, though both have closed policies.
    for obj in z2jh:
        obj["metadata"].setdefault("namespace", "hub")
    network = Network([each for each in [*ours, *z2jh] if each["kind"] == "NetworkPolicy"])
    service = Endpoint.of(service_pod, "hub")
    hub_pod, proxy_pod = (
        Endpoint.of(named(z2jh, "Deployment", name)["spec"]["template"], "hub") for name in (hub_name, proxy_name)
    )
    assert network.lets_through(hub_pod, service, 8181)
    assert network.lets_through(proxy_pod, service, 8181)
    assert network.lets_through(service, hub_pod, 8081)
    assert not network.lets_through(Endpoint("10.42.0.8", "hub", {"app": "thief"}), service, 8181)
    if settings["hub"]["config"].get("KubeSpawner", {}).get("enable_user_namespaces"):
        policy = named(z2jh, "NetworkPolicy", hub_name)
        peers = [peer for rule in policy["spec"]["ingress"] for peer in rule["from"]]
        label = {"matchLabels": {"hub.jupyter.org/network-access-hub": "true"}}
        assert {"podSelector": label, "namespaceSelector": {"matchLabels": {}}} in peers
        config = Config()
        exec("\n".join(settings["hub"]["extraConfig"].values()), {"c": config})
        assert config.JupyterHub.hub_connect_url == f"http://{hub_name}.hub:8081"
        assert settings["hub"]["config"]["KubeSpawner"]["user_namespace_template"] == "hub-{username}"
        labels = {"hub.jupyter.org/hub-namespace": "hub", "pod-security.kubernetes.io/enforce": "baseline"}
        assert settings["hub"]["config"]["KubeSpawner"]["user_namespace_labels"] == labels
        assert settings["singleuser"]["cloudMetadata"]["blockWithIptables"] is False


def named(objects: list[JsonObject], kind: str, name: str) -> Any:
    """The object of this kind and name."""
    return next(each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name))


def test_the_notes_agree_with_full_yaml() -> None:
    full = yaml.safe_load((ROOT / "helm-values" / "full.yaml").read_text())
    printed = hub_values(IMAGE)
    for role in printed["hub"]["loadRoles"].values():
        role["description"] = "Count the servers that the hub is starting"
    # The values have profiles and roles of users besides.
    assert merged(full, printed) == full

"""The objects that ``dra-spawner manifests`` prints, for any names."""

from __future__ import annotations

import pytest
import yaml

from dra_spawner.cli import main
from dra_spawner.json_types import JsonObject
from dra_spawner.manifests.manifest_text import Installation, manifest_text


def objects(installation: Installation) -> list[JsonObject]:
    return [each for each in yaml.safe_load_all(manifest_text(installation)) if each]


def test_names_and_addresses_are_those_of_the_installation() -> None:
    found = objects(Installation("gpu-hub", "registry.example.org/hub@sha256:0123", "/jupyter", "z2jh-hub"))
    (deployment,) = [each for each in found if each["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.org/hub@sha256:0123"
    environment = {each["name"]: each.get("value") or each["valueFrom"] for each in container["env"]}
    assert environment["JUPYTERHUB_API_URL"] == "http://z2jh-hub:8081/jupyter/hub/api"
    assert environment["JUPYTERHUB_BASE_URL"] == "/jupyter/"
    assert environment["JUPYTERHUB_SERVICE_PREFIX"] == "/jupyter/services/dra-spawner/"
    assert environment["JUPYTERHUB_API_TOKEN"]["secretKeyRef"]["name"] == "z2jh-hub"
    elsewhere = {
        each["metadata"]["name"] for each in found if each["metadata"].get("namespace", "gpu-hub") != "gpu-hub"
    }
    assert elsewhere == {"dra-spawner-gpu-hub.dra-spawner-node-events"}, (
        "Kubernetes has events about nodes in the namespace default"
    )
    subjects = {each["name"] for obj in found for each in obj.get("subjects", ())}
    assert subjects == {"z2jh-hub", "dra-spawner-service"}
    assert "the-" not in "".join(each["metadata"]["name"] for each in found)


def test_only_requested_rights_are_granted() -> None:
    least = {each["metadata"]["name"] for each in objects(Installation("hub", "hub:1"))}
    users = {each["metadata"]["name"] for each in objects(Installation("hub", "hub:1", user_namespaces=True))}
    prefix = "dra-spawner-hub.dra-spawner"
    assert users - least == {
        f"{prefix}-hub-users",
        f"{prefix}-namespaces-of-users",
        f"{prefix}-placeholders-users",
        f"{prefix}-pods-of-users",
    }
    assert least < users


def test_names_that_have_placeholder_words_in_them() -> None:
    found = objects(Installation("the-hub", "r.example.org/the-hub:1", hub="the-namespace"))
    (deployment,) = [each for each in found if each["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "r.example.org/the-hub:1"
    assert deployment["metadata"]["namespace"] == "the-hub"
    subjects = {each["name"] for obj in found for each in obj.get("subjects", ())}
    assert subjects == {"the-namespace", "dra-spawner-service"}


def test_a_base_url_of_the_root() -> None:
    text = manifest_text(Installation("hub", "hub:1"))
    assert 'value: "http://hub:8081/hub/api"' in text
    assert 'value: "/services/dra-spawner/"' in text


def test_the_command_prints_the_manifests(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manifests", "--namespace", "hub", "--image", "hub:1", "--user-namespaces"]) == 0
    assert capsys.readouterr().out == manifest_text(Installation("hub", "hub:1", user_namespaces=True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--namespace", "Hub", "--image", "hub:1"), "'Hub' is not the name of a namespace"),
        (("--namespace", "hub", "--image", 'a"b'), "is not an image like registry.example.org/hub:1"),
        (("--namespace", "hub", "--image", "hub:1", "--base-url", "jupyter"), "is not a base URL like /jupyter/"),
        (("--namespace", "hub", "--image", "hub:1", "--hub", "a b"), "is not the name of the hub's Service"),
    ],
)
def test_wrong_names_are_refused(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    assert main(["manifests", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err

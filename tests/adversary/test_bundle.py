"""What may not leave a cluster with the file that people attach to an issue: secrets, and names of people and hosts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from dra_spawner import names
from dra_spawner.doctor.bundle import Pseudonyms, bundle
from dra_spawner.doctor.facts import DoctorFacts, Unseen
from dra_spawner.doctor.findings import DoctorFinding, Severity, Subject

JWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl0123456789"
#: What is planted, and the sentence of a finding with it.
PLANTED = {
    "9b9e47025c9a1a2d241d3091c9dcfee0": "GET /hub/api with token 9b9e47025c9a1a2d241d3091c9dcfee0 was refused",
    "s3cr3t-pw": "postgresql://hub:s3cr3t-pw@db.internal.example.org/history cannot be reached",
    "db.internal.example.org": "http://db.internal.example.org:5432/x does not answer",
    "hunter2": 'the answer was {"password": "hunter2"}',
    "correct-horse": "Authorization: Bearer correct-horse",
    "AKIAIOSFODNN7EXAMPLEKEYXYZ": "found AKIAIOSFODNN7EXAMPLEKEYXYZ in the log",
    "kept-in-env": "the hub said kept-in-env",
    "kept-in-init": "an init container said kept-in-init",
    "ada.lovelace": "Pod jupyter-ada.lovelace is pending",
    "Ada.Lovelace@example.org": "user Ada.Lovelace@example.org has no server",
    "grace": "namespace jupyterhub-grace has no label",
    "10.42.7.19": "10.42.7.19:8888 refused the connection",
    "behind-a-slash": "postgresql://hub:half/behind-a-slash@db/history cannot be reached",
    "behind-an-at": "postgresql://hub:half@/behind-an-at@db/history cannot be reached",
    "fd00:10:244::1f": "Connect call failed ('fd00:10:244::1f', 8081, 0, 0)",
    "2001:DB8:0:0:1:0:0:7": "[2001:DB8:0:0:1:0:0:7]:8081 refused the connection at 10:42:07",
    "bobby": "claim shared-bobby-gpu is lost",
    JWT.split(".")[0]: f"the token was {JWT}",
}


def container(value: str) -> dict[str, object]:
    return {"name": "c", "env": [{"name": "A", "value": value}, {"name": "B"}, {"name": "C", "valueFrom": {}}]}


def facts() -> DoctorFacts:
    pods = (
        {"metadata": {"name": "hub-1"}, "spec": {"containers": [container("x"), container("kept-in-env")]}},
        {"metadata": {"name": "hub-2"}, "spec": {"initContainers": [container("kept-in-init")]}},
        {"metadata": {"name": "jupyter-x", "annotations": {names.USERNAME: "bobby"}}, "spec": None},
        {"metadata": {"name": "jupyter-y", "labels": {names.USERNAME: "ada.lovelace"}}},
        {"metadata": {}, "spec": {"containers": None}},
    )
    return DoctorFacts(
        "jupyterhub",
        kubernetes=(1, 37),
        hub_namespace_pods=pods,
        server_namespaces=frozenset({"jupyterhub-grace"}),
        unseen=(Unseen("the address http://db.internal.example.org/", "password: hunter2"),),
        packages={"jupyterhub": "5.4.0"},
    )


def findings() -> tuple[DoctorFinding, ...]:
    return tuple(
        DoctorFinding("code", Subject.PATHS, Severity.ERROR, sentence, f"fix: {sentence}", f"where {sentence}")
        for sentence in PLANTED.values()
    )


def test_nothing_that_was_planted_leaves_the_cluster() -> None:
    text = bundle(facts(), findings(), "0.1.0")
    assert [each for each in PLANTED if each.lower() in text.lower()] == []
    found = json.loads(text)
    assert (found["report"]["errors"], found["report"]["kubernetes"]) == (len(PLANTED), "1.37")
    assert found["packages"] == {"jupyterhub": "5.4.0"}
    assert ("does not answer" in text, "at 10:42:07" in text) == (True, True), "the sentences stay"


def test_the_same_person_has_the_same_other_name_in_one_file_only() -> None:
    two = tuple(DoctorFinding("c", Subject.PATHS, Severity.INFO, f"{n} bobby waits") for n in range(2))
    first, second = (json.loads(bundle(facts(), two, "0.1.0")) for _ in range(2))
    said = [each["sentence"].split()[1] for each in first["report"]["findings"]]
    assert said[0] == said[1] != second["report"]["findings"][0]["sentence"].split()[1]
    assert said[0].startswith("user-")
    assert Pseudonyms(b"k").of("user", "bobby") == Pseudonyms(b"k").of("user", "bobby")


def test_strange_objects_make_no_bundle_fail() -> None:
    strange: tuple[dict[str, Any], ...] = (
        {"spec": {"containers": [None, 3, {"env": [None, {"value": 7}]}]}, "metadata": None},
        {},
    )
    text = bundle(replace(facts(), hub_namespace_pods=strange, daemon_sets=strange), (), "0.1.0")
    assert json.loads(text)["format"] == 1

"""``dra-spawner check`` from the command line to its exit code: input and output."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from dra_spawner.cli import main
from dra_spawner.commands.checking.check_command import CheckOptions, run_check
from dra_spawner.devcluster.demo.example_nodes import example_objects
from dra_spawner.devcluster.demo.profiles import EXAMPLE_PROFILES
from tests.all_of_them import all_of_them
from tests.commands.checking.output_schema import OUTPUT_SCHEMA
from tests.commands.cluster_files.inputs import Terminal

ROOT = Path(__file__).parents[3]
GPU = {"device_class": "gpu.example.com"}
SHARE = {"device_class": "gpu-share.example.com", "capacity": {"memory": "10Gi"}}


def profile(claims, name="gpu", **more):
    return {"display_name": name, "slug": name, "kubespawner_override": {"device_claims": claims}, **more}


@pytest.fixture
def cluster(tmp_path):
    path = tmp_path / "cluster.json"
    items = [dict(each) for each in example_objects()]
    for item in items:
        if item["kind"] == "Node":
            item["status"] = {**item.get("status", {}), "nodeInfo": {"kubeletVersion": "v1.36.3"}}
    items.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {}}})
    items.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}})
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    def run(*arguments, profiles=None, stdin=None):
        if profiles is not None:
            path = tmp_path / "profiles.yaml"
            path.write_text(profiles if isinstance(profiles, str) else yaml.safe_dump(profiles, sort_keys=False))
            arguments = (str(path), *arguments)
        if stdin is not None:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = main(["check", *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def paths(output):
    return [finding["path"] for choice in json.loads(output)["choices"] for finding in choice["findings"]]


@pytest.mark.promise("`dra-spawner check` finds nothing wrong where nothing is wrong.")
def test_the_demos_profiles_are_sound_on_its_cluster(run, cluster):
    code, output, _ = run("--objects", cluster, "--format", "json", profiles=list(EXAMPLE_PROFILES))
    assert (code, json.loads(output)["errors"]) == (0, 0)


def test_a_table_for_people(run, cluster):
    sizes = {
        size: {"display_name": size, "kubespawner_override": {"device_claims": {"gpu": {"capacity": {"memory": size}}}}}
        for size in ("10Gi", "12Gi", "42Gi")
    }
    profiles = [
        profile({"gpu": SHARE}, profile_options={"memory": {"display_name": "Memory", "choices": sizes}}),
        profile({"gpu": {"device_class": "gpu.exampel.com"}}, "typo"),
    ]
    code, output, messages = run("--objects", cluster, "--ignore", "share-not-enforced", profiles=profiles)
    assert (code, messages) == (1, "")
    assert output.splitlines() == [
        "gpu, memory=12Gi",
        "  info     15Gi of memory will be reserved: devices round 12Gi up",
        "           profile_list[0].profile_options.memory.choices.12Gi.kubespawner_override.device_claims.gpu.capacity."
        "memory (share-rounded)",
        "",
        "gpu, memory=42Gi",
        "  error    45Gi of memory is more than any device gives; most is 40Gi",
        "           profile_list[0].profile_options.memory.choices.42Gi.kubespawner_override.device_claims.gpu.capacity."
        "memory (share-too-large)",
        "",
        "typo",
        "  error    the cluster has no device class gpu.exampel.com; there are gpu.example.com, mig.example.com, "
        "gpu-share.example.com, vlan-nic.example.com",
        "           profile_list[1].kubespawner_override.device_claims.gpu.device_class (device-class)",
        "",
        "note: not known, so not checked: feature gates",
        "2 errors, 1 info in 4 choices; checked against Kubernetes 1.36 with 34 devices of 2 drivers",
    ]


def test_rules_that_close_devices_count(run, cluster, tmp_path):
    rule = {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "power"},
        "spec": {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "power", "effect": "NoSchedule"}},
    }
    file, profiles = tmp_path / "rule.json", [profile({"gpu": GPU})]
    file.write_text(json.dumps(rule))
    arguments = ("--objects", cluster, "--objects", str(file), "--ignore", "share-not-enforced")
    assert "never-fits" not in run("--objects", cluster, profiles=profiles)[1]
    code, output, _ = run(*arguments, profiles=profiles)
    assert code == 0, "a rule may go"
    assert [each for each in ("warning", "power", "(never-fits)") if each not in output] == []
    file.write_text(json.dumps({**rule, "spec": {"taint": "power"}}))
    code, _, messages = run(*arguments, profiles=profiles)
    assert (code, "rule.json" in messages, "taint" in messages) == (2, True, True)


def test_findings_shared_by_choices_are_listed_once(run, cluster):
    images = {name: {"display_name": name, "kubespawner_override": {"image": name}} for name in ("a", "b", "c")}
    profiles = [profile({"gpu": {"device_class": "x"}}, profile_options={"image": {"choices": images}})]
    _, output, _ = run("--objects", cluster, profiles=profiles)
    assert output.count("has no device class x") == 1
    assert "(device-class; also in 2 other choices)" in output
    assert "1 error in 3 choices" in output


def test_a_guess_of_the_hub_about_new_nodes_is_said(run, cluster):
    """A choice that no present node can serve: with a cloud's nodes the hub lets its servers wait."""
    objects = json.loads(Path(cluster).read_text())
    for item in objects["items"]:
        if item["kind"] == "Node":
            item["spec"] = {**item.get("spec", {}), "providerID": "aws:///eu-1/i-1"}
    on_cloud = Path(cluster).with_name("cloud.json")
    on_cloud.write_text(json.dumps(objects))
    claims = {"gpu": {"device_class": "gpu.example.com", "count": 32}}
    found = {}
    cases = {
        "own nodes": (cluster, None),
        "guessed": (on_cloud, None),
        "yes": (on_cloud, True),
        "no": (on_cloud, False),
    }
    for name, (objects, setting) in cases.items():
        settings = {} if setting is None else {"nodes_may_be_added": setting}
        source = {"hub": {"config": {"DRASpawner": {"profile_list": [profile(claims)], **settings}}}}
        code, output, _ = run("--objects", str(objects), "--format", "json", profiles=source)
        found[name] = (code, any("the hub guesses" in each for each in json.loads(output)["notChecked"]))
    assert found == {"own nodes": (1, False), "guessed": (1, True), "yes": (0, False), "no": (1, False)}


def test_limits_that_no_server_could_have_are_found(run):
    profiles = [{**profile({"gpu": SHARE}), "kubespawner_override": {"devices_lifetime": "8h"}}]
    settings = {"profile_list": profiles, "devices_lifetime_notice": 5, "devices_lifetime": 28_800}
    code, output, _ = run(profiles={"hub": {"config": {"DRASpawner": settings}}})
    assert code == 1
    assert "error    found 5; allowed: at least 120 seconds" in output
    assert "hub.config.DRASpawner.profile_list[0].kubespawner_override.devices_lifetime" in output


def test_known_defects_of_another_version(run, cluster):
    profiles = [profile({"gpu": SHARE, "own": {"template": "made-by-others"}})]
    ignored = ("--ignore", "share-not-enforced")
    for arguments, programs in (
        (("--objects", cluster), []),
        (("--objects", cluster, "--kubernetes-version", "1.35.0"), ["kube-scheduler", "kube-controller-manager"]),
        (("--kubernetes-version", "v1.35.1-eks-7"), ["kube-controller-manager"]),
        (("--kubernetes-version", "1.37"), []),
    ):
        code, output, _ = run(*arguments, *ignored, profiles=profiles)
        found = [line.split()[1] for line in output.splitlines() if "has a known defect" in line]
        assert (code, found) == (0, programs), arguments
    with pytest.raises(SystemExit):
        run("--kubernetes-version", "newest", profiles=profiles)


def test_without_a_cluster_the_unchecked_parts_are_listed(run):
    code, output, _ = run(profiles=[profile({"gpu": {"device_class": "x"}})])
    note = "note: no cluster was given: device classes, devices, nodes and feature gates were not checked"
    assert (code, note in output) == (0, True)
    assert output.endswith("nothing found in 1 choice; checked without a cluster\n")


@all_of_them("objects", [True, False])
def test_json_for_programs(run, cluster, objects):
    profiles = [profile({"gpu": SHARE}), profile({"gpu": {"device_class": "x", "count": 0}}, "bad"), {"slug": "odd"}]
    arguments = ("--objects", cluster) if objects else ()
    code, output, _ = run("--format", "json", *arguments, profiles=profiles)
    answer = json.loads(output)
    jsonschema.validate(answer, OUTPUT_SCHEMA)
    assert (code, answer["errors"]) == (1, 2)
    assert [choice["profile"] for choice in answer["choices"]] == ["gpu", "bad", "odd"]
    assert [finding["path"] for finding in answer["general"]] == ["profile_list[2].display_name"]
    assert (answer["cluster"] is not None) is objects


@all_of_them(
    "text, path",
    {
        "list": ("- {display_name: x, kubespawner_override: {device_claims: {g: {}}}}", "profile_list[0].kubespawner_override.device_claims.g.device_class"),
        "profile_list": ("profile_list: [{display_name: x, kubespawner_override: {device_claims: {g: {}}}}]", "profile_list[0].kubespawner_override.device_claims.g.device_class"),
        "profileList": ("profileList: [{display_name: x, kubespawner_override: {device_claims: {g: {}}}}]", "profileList[0].kubespawner_override.device_claims.g.device_class"),
        "device_claims": ("device_claims: {g: {}}", "device_claims.g.device_class"),
        "claims alone": ("g: {}", "device_claims.g.device_class"),
        "JSON": ('{"g": {}}', "device_claims.g.device_class"),
        "a claim with the name of a section": ("hub: {count: 1}", "device_claims.hub.device_class"),
        "an empty section beside": ("hub: {}\nsingleuser: {profileList: [{display_name: x, kubespawner_override: {device_claims: {g: {}}}}]}", "singleuser.profileList[0].kubespawner_override.device_claims.g.device_class"),
        "Helm values": ("singleuser: {profileList: [{display_name: x, kubespawner_override: {device_claims: {g: {}}}}]}", "singleuser.profileList[0].kubespawner_override.device_claims.g.device_class"),
        "Helm values of a chart around it": ("jupyterhub: {singleuser: {profileList: [{display_name: x, kubespawner_override: {device_claims: {g: {}}}}]}}", "jupyterhub.singleuser.profileList[0].kubespawner_override.device_claims.g.device_class"),
        "hub.config": ("hub: {config: {DRASpawner: {device_claims: {g: {}}}}}", "hub.config.DRASpawner.device_claims.g.device_class"),
        "hub.config of KubeSpawner": ("hub: {config: {KubeSpawner: {profile_list: [{display_name: x, kubespawner_override: {device_claims: {g: {}}}}]}}}", "hub.config.KubeSpawner.profile_list[0].kubespawner_override.device_claims.g.device_class"),
        "hub.extraConfig": ("hub: {extraConfig: {a: 'c.DRASpawner.device_claims = {\"g\": {}}'}}", "device_claims.g.device_class"),
    },
)  # fmt: skip
def test_where_profiles_are_configured(run, text, path):
    for code, output, _ in (run("--format", "json", profiles=text), run("-", "--format", "json", stdin=text)):
        assert (code, paths(output)) == (1, [path])


def test_common_options_are_checked_in_each_profile(run):
    choices = {"small": {"kubespawner_override": {"device_claims": {"gpu": {"capcity": {"memory": "5Gi"}}}}}}
    common = {"size": {"display_name": "Size", "choices": choices}}
    profiles = [profile({"gpu": SHARE}, name) for name in ("a", "b")]
    hub = {"config": {"DRASpawner": {"common_profile_options": common}}}
    for source in (
        {"profile_list": profiles, "common_profile_options": common},
        {"singleuser": {"profileList": profiles}, "hub": hub},
    ):
        code, output, _ = run("--format", "json", profiles=source)
        assert code == 1
        assert {path[path.index("profile_options") :] for path in paths(output)} == {
            "profile_options.size.choices.small.kubespawner_override.device_claims.gpu.capcity"
        }


@pytest.mark.promise("`dra-spawner check` reads several files of Helm values as Helm does.")
def test_helm_values_are_merged_as_helm_does(run, tmp_path):
    first, second = tmp_path / "values.yaml", tmp_path / "prod.yaml"
    first.write_text(
        "singleuser: {nodeSelector: {a: b, c: d}, profileList: [{display_name: first}]}\n"
        "hub: {config: {DRASpawner: {device_claims: {g: {device_class: x}, h: {}}}}}\n"
    )
    second.write_text(
        "singleuser: {nodeSelector: {a: null}, profileList: [{display_name: second}]}\n"
        "hub: {config: {DRASpawner: {device_claims: {h: null}}}}\n"
    )
    code, output, _ = run(str(first), "-f", str(second), "--format", "json")
    assert (code, [choice["profile"] for choice in json.loads(output)["choices"]]) == (0, ["second"])


CONFIG = """
c = get_config()
c.KubeSpawner.tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
c.DRASpawner.profile_list = [{"display_name": "one", "kubespawner_override": {"device_claims": {"g": {"device_class": "x"}}}}]
c.DRASpawner.profile_list += [{"display_name": "two", "kubespawner_override": {"device_claims": {"g": {}}}}]
c.DRASpawner.ignored_profile_rules = ["device-class"]
"""


def test_a_hubs_configuration(run, tmp_path, cluster, monkeypatch):
    path = tmp_path / "jupyterhub_config.py"
    path.write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    code, output, _ = run("--format", "json", "--objects", cluster)
    assert (code, paths(output)) == (1, ["profile_list[1].kubespawner_override.device_claims.g.device_class"])


def test_the_shipped_configurations_are_sound(run):
    shipped = {
        "jupyterhub_config.d/10-dra-spawner.py": 2,
        "helm-values/minimal.yaml": 2,
        "helm-values/full.yaml": 2,
        "helm-values/nvidia.yaml": 3,
        "helm-values/amd.yaml": 2,
        "helm-values/intel.yaml": 2,
        "helm-values/hami.yaml": 1,
    }
    for path, count in shipped.items():
        code, output, _ = run(str(ROOT / path))
        assert (code, f"{count} choice" in output, "does not render" in output) == (0, True, False), path


def test_choices_that_helm_cannot_render_are_reported(run):
    claims = {"gpu": {"device_class": "gpu.example.com", "capacity": {"memory": "10Gi"}}}
    options = {"memory": {"display_name": "Memory", "choices": "from_policy"}}
    listed = [profile(claims, profile_options=options)]
    _, output, _ = run(profiles={"jupyterhub": {"singleuser": {"profileList": listed}}})
    assert (
        "note: jupyterhub.singleuser.profileList[0].profile_options.memory.choices: zero-to-jupyterhub does not render the "
        "word from_policy alone; write choices: {from_policy: {}}"
    ) in " ".join(output.split())


def test_a_profile_list_that_is_a_function(run, tmp_path):
    path = tmp_path / "config.py"
    path.write_text("c.DRASpawner.profile_list = lambda spawner: []\n")
    code, output, _ = run(str(path))
    assert (code, "(profile-function)" in output) == (0, True)


def test_free_text_is_remarked(run):
    unlisted = {"enabled": True, "validation_regex": r"\d+Gi", "kubespawner_override": {"image": "{value}"}}
    options = {"memory": {"choices": {"a": {"display_name": "a"}}, "unlisted_choice": unlisted}}
    code, output, _ = run("--format", "json", profiles=[profile({}, profile_options=options)])
    found = [(each["rule"], each["path"]) for each in json.loads(output)["general"]]
    assert (code, found) == (0, [("free-text", "profile_list[0].profile_options.memory.unlisted_choice")])


@all_of_them(
    "name, text, part",
    {
        "no YAML": ("p.yaml", "a: [", "p.yaml, line 2: is not YAML"),
        "no JSON": ("p.json", '{"a": ', "p.json, line 1"),
        "a number": ("p.yaml", "5", "is neither a profile_list nor device_claims nor Helm values"),
        "documents": ("p.yaml", "a: {}\n---\nb: {}\n", "only Helm values can be several documents"),
        "code that fails": ("p.py", "c.X.y = 1\n1 / 0\n", "p.py, line 2: ends with ZeroDivisionError"),
        "no Python": ("p.py", "c.X.y = (\n", "p.py, line 1: ends with SyntaxError"),
        "empty": ("p.yaml", "", "has no objects in it"),
    },
)
def test_input_that_cannot_be_read(run, tmp_path, name, text, part):
    path = tmp_path / name
    path.write_text(text)
    code, output, messages = run(str(path))
    assert (code, output) == (2, "")
    assert part in messages
    assert messages.startswith("dra-spawner check: ")


def test_rules_that_do_not_exist_cannot_be_ignored(run):
    code, output, messages = run("--ignore", "share-to-large", profiles=[profile({})])
    assert (code, output) == (2, "")
    assert messages == "dra-spawner check: --ignore: there is no rule share-to-large; did you mean share-too-large\n"
    assert "docs/reference/check.md has their names" in run("--ignore", "x", profiles=[profile({})])[2]


def test_hostile_names_do_nothing_to_a_terminal(run):
    options = {
        "a\x1b[2J": {"choices": {"b\n\x1b": {"display_name": "b", "kubespawner_override": {"device_claims": {"x": 1}}}}}
    }
    _, output, _ = run(profiles=[profile({}, slug="p\x1b[31m\nerror", profile_options=options)])
    assert "\\x1b[2J" in output
    assert all(line.isprintable() for line in output.splitlines())
    assert not any(line.startswith("error") for line in output.splitlines())


def test_progress_is_shown_on_a_terminal_alone(tmp_path):
    (tmp_path / "p.yaml").write_text("profile_list: []")
    shown = {}
    for stream in (Terminal(), io.StringIO()):
        assert run_check(CheckOptions((str(tmp_path / "p.yaml"),)), io.BytesIO(), io.StringIO(), stream) == 0
        shown[stream.isatty()] = stream.getvalue()
    assert "loading JupyterHub" in shown[True]
    assert "checking all choices" in shown[True]
    assert shown[True].endswith("\r"), "erased"
    assert shown[False] == ""


def test_other_input_that_cannot_be_read(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run()[0] == 2
    assert "jupyterhub_config.py: the file does not exist" in run()[2]
    assert "No such file" in run("missing.yaml")[2]
    assert "not both" in run("x.yaml", "--objects", "a", "--kubeconfig", "b")[2]
    (tmp_path / "kubeconfig").write_text("{}")
    code, _, messages = run("--kubeconfig", str(tmp_path / "kubeconfig"), profiles=[profile({})])
    assert (code, "it names no clusters" in messages) == (2, True)
    (tmp_path / "objects.json").write_text('{"kind": "ResourceSlice", "metadata": {"name": "x"}}')
    code, _, messages = run("--objects", str(tmp_path / "objects.json"), profiles=[profile({})])
    assert (code, "objects.json, line 1: spec" in messages) == (2, True)


def vfio_profile():
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "VfioDeviceConfig"}
    config = [{"driver": "gpu.nvidia.com", "parameters": parameters}]
    return profile({"gpu": {"requests": {"gpu": {"device_class": "vfio.gpu.nvidia.com"}}, "config": config}})


def webhooks_file(directory, *webhooks):
    """A file with a configuration of each of these webhooks."""
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    items = [{**kind, "metadata": {"name": f"a{number}"}, "webhooks": each} for number, each in enumerate(webhooks)]
    path = directory / "webhooks.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


@all_of_them(
    "rules, is_found",
    {
        "claims": ([{"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"]}], True),
        "both": ([{"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaimtemplates"]}], True),
        "everything": ([{"apiGroups": ["*"], "resources": ["*"]}], True),
        "pods": ([{"apiGroups": ["*"], "resources": ["pods"]}], False),
        "the core group": ([{"apiGroups": [""], "resources": ["*"]}], False),
        "no rules": (None, False),
    },
)
def test_webhooks_in_files(run, tmp_path, rules, is_found):
    path = webhooks_file(tmp_path, [{"name": "gpu.nvidia.com", "rules": rules}], None)
    _, output, _ = run("--objects", path, "--format", "json", profiles=[vfio_profile()])
    (choice,) = json.loads(output)["choices"]
    assert ("vfio-beside-webhook" in [finding["rule"] for finding in choice["findings"]]) is is_found


@all_of_them("webhooks", [5, [5], [{"rules": [{"apiGroups": ["*"], "resources": ["*"]}]}]])
def test_webhooks_that_make_no_sense(run, tmp_path, webhooks):
    path = webhooks_file(tmp_path, webhooks)
    code, _, messages = run("--objects", path, profiles=[vfio_profile()])
    assert (code, "webhooks: must be a list of webhooks" in messages) == (2, True)


def test_extra_config_that_needs_the_hubs_image_is_said(run):
    text = "hub: {extraConfig: {a: 'import z2jh_is_not_here'}}\nsingleuser: {profileList: [{display_name: x}]}\n"
    code, output, _ = run(profiles=text)
    assert code == 2
    assert re.search(r"warning .*ModuleNotFoundError.*not checked\n *hub\.extraConfig\.a \(unread-code\)", output)
    assert "note: the check is not complete: hub.extraConfig.a could not be run" in output
    assert "1 warning in 1 choice; not complete" in output


def test_colours_are_for_terminals_only(run, monkeypatch):
    profiles = [profile({"gpu": {}})]
    assert "\x1b" not in run(profiles=profiles)[1]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert "\x1b[31merror" in run(profiles=profiles)[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run(profiles=profiles)[1]


def test_what_takes_long_to_import_is_imported_only_for_its_use() -> None:
    """The hub itself would take most of the time of a check."""
    program = (
        "import sys, dra_spawner.commands.checking.check_command\n"
        "assert not any(each.startswith(('jupyterhub', 'kubespawner', 'kubernetes')) for each in sys.modules)\n"
        "import dra_spawner.spawner\n"
        "sys.exit('jupyterhub.app' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

"""``dra-spawner render`` and ``schema``."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import jsonschema
import pytest
import yaml

from dra_spawner import names
from dra_spawner.cli import main
from dra_spawner.devcluster.api import resource_types as types
from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.profiles.profiles_schema import profiles_schema
from dra_spawner.profiles.syntax.json_schema import json_schema
from dra_spawner.profiles.syntax.templates import SAMPLE_VALUES
from dra_spawner.spawner.objects.api_objects import SHARED_LABELS
from tests.all_of_them import all_of_them

SIZES = {
    size: {"display_name": size, "kubespawner_override": {"device_claims": {"gpu": {"capacity": {"memory": size}}}}}
    for size in ("5Gi", "10Gi")
}
PROFILES = [
    {
        "display_name": "GPU slice",
        "kubespawner_override": {"device_claims": {"gpu": {"device_class": "gpu-share.example.com"}}},
        "profile_options": {"memory": {"display_name": "Memory", "choices": SIZES}},
    },
    {
        "display_name": "Two",
        "slug": "two",
        "kubespawner_override": {
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "device_claims": {
                "team": {"claim": "team-gpu"},
                "accelerator": {
                    "requests": {"a": {"device_class": "x"}, "b": {"device_class": "z"}},
                    "containers": {"notebook": ["a"], "sidecar": ["b"]},
                },
            },
        },
    },
    {"display_name": "No device", "slug": "cpu"},
]


@pytest.fixture
def render(tmp_path, capsys):
    path = tmp_path / "profiles.yaml"
    path.write_text(yaml.safe_dump(PROFILES, sort_keys=False))

    def render(*arguments):
        code = main(["render", str(path), *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return render


def documents(text):
    return list(yaml.safe_load_all(text))


@pytest.mark.promise("`dra-spawner render` prints the objects that a choice would create.")
def test_one_choice(render):
    code, output, _ = render("--profile", "gpu-slice", "--choose", "memory=10Gi", "--user", "ada", "--namespace", "hub")
    template, pod = documents(output)
    assert code == 0
    assert template["kind"] == "ResourceClaimTemplate"
    assert template["metadata"]["namespace"] == "hub"
    assert template["metadata"]["labels"]["hub.jupyter.org/username"] == "ada"
    assert template["metadata"]["labels"]["hub.jupyter.org/profile"] == "gpu-slice"
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["capacity"] == {"requests": {"memory": "10Gi"}}
    name = template["metadata"]["name"]
    assert pod["metadata"]["name"] == "jupyter-ada"
    assert pod["spec"]["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": name}]
    assert pod["spec"]["containers"][0]["resources"] == {"claims": [{"name": "gpu"}]}
    assert (
        render("--profile", "gpu-slice", "--choose", "memory=10Gi", "--user", "ada", "--namespace", "hub")[1] == output
    )


def test_the_defaults_of_a_profile(render):
    template, _ = documents(render("--profile", "gpu-slice")[1])
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["capacity"] == {"requests": {"memory": "5Gi"}}


def test_containers_claims_of_others_and_tolerations(render):
    template, pod = documents(render("--profile", "two")[1])
    assert pod["spec"]["resourceClaims"] == [
        {"name": "team", "resourceClaimName": "team-gpu"},
        {"name": "accelerator", "resourceClaimTemplateName": template["metadata"]["name"]},
    ]
    claims = {each["name"]: each["resources"]["claims"] for each in pod["spec"]["containers"]}
    assert claims == {
        "notebook": [{"name": "team"}, {"name": "accelerator", "request": "a"}],
        "sidecar": [{"name": "accelerator", "request": "b"}],
    }
    assert pod["spec"]["tolerations"] == [{"key": "gpu", "operator": "Exists"}]


@all_of_them("arguments", [(), ("--profile", "gpu"), ("--profile", "large")])
def test_names_of_two_profiles_render_nothing(tmp_path, capsys, arguments):
    """A user of one would get the other's device."""
    names = [{"display_name": "Large", "slug": "gpu"}, {"display_name": "B", "slug": "gpu"}, {"display_name": "Large"}]
    path = tmp_path / "names.yaml"
    path.write_text(yaml.safe_dump(names))
    assert main(["render", str(path), *arguments]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "[1].slug: found 'gpu'; allowed: a slug of its own" in printed.err


def test_several_hubs(tmp_path, capsys):
    """All are printed; a profile that several have is not picked from one of them."""
    path = tmp_path / "hubs.yaml"
    path.write_text(yaml.safe_dump({name: {"singleuser": {"profileList": PROFILES}} for name in ("prod", "staging")}))
    assert main(["render", str(path), "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["items"]) == 14
    assert main(["render", str(path), "--profile", "cpu"]) == 2
    assert "prod.singleuser.profileList, staging.singleuser.profileList" in capsys.readouterr().err
    assert main(["render", str(path), "--profile", "gpu"]) == 2
    assert "there is no profile gpu" in capsys.readouterr().err


def test_code_that_could_not_be_run_is_said(tmp_path, capsys):
    path = tmp_path / "values.yaml"
    path.write_text(
        yaml.safe_dump({"hub": {"extraConfig": {"a": "import of_the_image"}}, "singleuser": {"profileList": PROFILES}})
    )
    assert main(["render", str(path)]) == 2
    printed = capsys.readouterr()
    assert len(documents(printed.out)) == 7
    assert "hub.extraConfig.a: line 1 ends with ModuleNotFoundError" in printed.err


def test_an_api_server_accepts_the_objects_of_every_choice(render):
    code, output, _ = render("--format", "json")
    items = json.loads(output)["items"]
    assert code == 0
    assert [item["kind"] for item in items] == [*["ResourceClaimTemplate", "Pod"] * 3, "Pod"]
    for item in items:
        store = Store(lambda: datetime(2030, 1, 1, tzinfo=UTC))
        kind = {"Pod": types.PODS, "ResourceClaimTemplate": types.RESOURCECLAIMTEMPLATES}[item["kind"]]
        store.create(kind, item, "default")
    assert len(documents(render()[1])) == len(items)


@all_of_them(
    "arguments, message",
    [
        (("--profile", "x"), "there is no profile x; there are: gpu-slice, two, cpu"),
        (("--profile", "two", "--choose", "a=b"), "profile two has no option a"),
        (("--choose", "memory=1"), "option memory has no choice 1; there are: 5Gi, 10Gi"),
    ],
)
def test_choices_that_cannot_be_picked(render, arguments, message):
    code, output, messages = render(*arguments)
    assert (code, output) == (2, "")
    assert message in messages


def test_render_reports_claims_that_the_language_refuses(tmp_path, capsys):
    path = tmp_path / "claims.yaml"
    path.write_text("gpu: {device_class: x, count: 0}")
    assert main(["render", str(path)]) == 1
    assert "device_claims.gpu.count: found 0" in capsys.readouterr().err


def test_placeholders_have_the_users_values(tmp_path, capsys):
    config = [{"driver": "other.example.org", "parameters": {"user": "{unescaped_username}", "vlan": "{vlan}"}}]
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump({"x": {"requests": {"a": {"device_class": "z"}}, "config": config}}))
    assert main(["render", str(path), "--user", "ada"]) == 0
    template, _ = documents(capsys.readouterr().out)
    assert template["spec"]["spec"]["devices"]["config"][0]["opaque"]["parameters"] == {"user": "ada", "vlan": 42}


@pytest.mark.promise("`dra-spawner schema` prints the schema of the profile language.")
def test_the_schema_is_that_of_the_language(capsys):
    assert main(["schema", "device_claims"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == profiles_schema()
    for trait, right, wrong in (
        ("intel_gas", {"millicores": 500, "tiles": None}, {"millicore": 500}),
        ("vlans", {"mapping": {"ada": 42}, "range": "100-199"}, {"mapping": {"ada": "x"}}),
    ):
        assert main(["schema", trait]) == 0
        validator = jsonschema.Draft202012Validator(json.loads(capsys.readouterr().out))
        assert (validator.is_valid(right), validator.is_valid(wrong)) == (True, False)


def test_refused_profiles_are_not_rendered(tmp_path, capsys):
    path = tmp_path / "profiles.yaml"
    path.write_text("- {display_name: x, kubespawner_override: {intel_gas: {millicore: 5}}}\n- {display_name: z}\n")
    assert main(["render", str(path)]) == 1
    printed = capsys.readouterr()
    assert "profile_list[0].kubespawner_override.intel_gas.millicore: found 'millicore'" in printed.err
    assert [document["metadata"]["labels"]["hub.jupyter.org/profile"] for document in documents(printed.out)] == ["z"]


RANGE, ADA = {"range": "100-199"}, ("--user", "ada")
ADDRESS = {"mapping": {"ada": {"id": 7, "address": "10.0.0.7/24"}}}
GROUPS = {"by": "group", "mapping": {"physics": 7, "maths": 8}}


@all_of_them(
    "vlans, own, arguments, wanted",
    {
        "anything": (None, None, (), {}),
        "the first of a range": (RANGE, None, (), {"vlan": 100}),
        "but for an exception": ({**RANGE, "exclude": [100]}, None, (), {"vlan": 101}),
        "of the profile's own": (RANGE, {"range": "200-299"}, (), {"vlan": 200}),
        "mapped": ({**RANGE, "mapping": {"ada": 7}}, None, ADA, {"vlan": 7}),
        "of nobody's": ({"mapping": {"bob": 7}}, None, ADA, {}),
        "wrong": ({"mapping": {"bob": "x"}}, None, (), {}),
        "with its address": (ADDRESS, None, ADA, {"vlan": 7, "address": "10.0.0.7/24"}),
        "of some group's": (GROUPS, None, (), {"vlan": 7, "group": "physics"}),
        "of the user's group": (GROUPS, None, ("--group", "maths"), {"vlan": 8, "group": "maths"}),
    },
)
def test_vlans_are_those_that_the_user_would_get(tmp_path, capsys, vlans, own, arguments, wanted):
    parameters = {name: f"{{{name}}}" for name in ("vlan", "address", "group")}
    claim = {
        "requests": {"a": {"device_class": "z"}},
        "config": [{"driver": "o.example.org", "parameters": parameters}],
    }
    override = {"device_claims": {"x": claim}} | ({"vlans": own} if own else {})
    path = tmp_path / "profiles.yaml"
    profile_list = [{"display_name": "p", "kubespawner_override": override}]
    settings = {"profile_list": profile_list} | ({"vlans": vlans} if vlans else {})
    path.write_text(yaml.safe_dump(settings, sort_keys=False))
    assert main(["render", str(path), *arguments]) == 0
    template, _ = documents(capsys.readouterr().out)
    (config,) = template["spec"]["spec"]["devices"]["config"]
    assert config["opaque"]["parameters"] == {name: SAMPLE_VALUES[name] for name in parameters} | wanted


def test_extended_resources_are_shown(tmp_path, capsys):
    override = {"extra_resource_limits": {"example.com/gpu": 1}, "extra_resource_guarantees": {"example.com/gpu": "1"}}
    path = tmp_path / "profiles.yaml"
    path.write_text(yaml.safe_dump([{"display_name": "p", "kubespawner_override": override}]))
    assert main(["render", str(path)]) == 0
    (pod,) = documents(capsys.readouterr().out)
    (container,) = pod["spec"]["containers"]
    assert container["resources"] == {"limits": {"example.com/gpu": "1"}, "requests": {"example.com/gpu": "1"}}
    assert "resourceClaims" not in pod["spec"]


def test_shared_claims_are_as_their_first_user_makes_them(tmp_path, capsys):
    path = tmp_path / "claims.yaml"
    path.write_text("gpu: {device_class: x, shared: {by: user, keep: 8h}}")
    assert main(["render", str(path), "--user", "ada"]) == 0
    claim, pod = documents(capsys.readouterr().out)
    assert claim["kind"] == "ResourceClaim"
    assert claim["metadata"]["labels"] | SHARED_LABELS == claim["metadata"]["labels"]
    annotations = claim["metadata"]["annotations"]
    assert (annotations[names.KEEP_SECONDS], names.DIGEST in annotations) == ("28800", True)
    assert not [name for name in annotations if name.startswith(names.START_PREFIX)]
    assert pod["spec"]["resourceClaims"][0]["resourceClaimName"] == claim["metadata"]["name"]

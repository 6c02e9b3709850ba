"""Values as public hubs have them: umbrella charts, code that reads values, files, filters. No text of theirs is here."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest
import yaml

from dra_spawner.cli import main
from tests.all_of_them import all_of_them

WRONG = {"display_name": "GPU", "slug": "gpu", "kubespawner_override": {"device_claims": {"gpu": {"device_clas": "x"}}}}
BELOW = "kubespawner_override.device_claims.gpu.device_clas"
OFF = {"scheduling": {"userScheduler": {"enabled": False}}}


def hub(*pieces, **more):
    return {"hub": {"extraConfig": {f"{number:02}": dedent(piece) for number, piece in enumerate(pieces)}, **more}}


def singleuser(*profiles, **more):
    return {"singleuser": {"profileList": list(profiles), **more}}


@pytest.fixture
def check(tmp_path, capsys):
    def check(*files, arguments=()):
        names = []
        for number, content in enumerate(files):
            path = tmp_path / f"{number}.yaml"
            path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
            names.append(str(path))
        code = main(["check", *names, "--format", "json", *arguments])
        printed = capsys.readouterr()
        return code, json.loads(printed.out) if printed.out else None, printed.err

    return check


def errors(answer):
    findings = [*answer["general"], *(each for choice in answer["choices"] for each in choice["findings"])]
    return [each["path"] for each in findings if each["level"] == "error" and each["path"].endswith(BELOW)]


GROUP_FILTER = """
    from functools import partial
    from tornado import web
    async def allowed(original, spawner):
        return [each for each in original if not each.get("allowed_groups")]
    c.KubeSpawner.profile_list = partial(allowed, c.KubeSpawner.profile_list)
"""
ATTRIBUTES = """
    from z2jh import get_config
    from dra_spawner.spawner import DRASpawner
    class AttributeSpawner(DRASpawner):
        def start(self):
            self.mem_limit = get_config("custom.memory", {}).get(self.user.name)
            return super().start()
    c.JupyterHub.spawner_class = AttributeSpawner
    c.AttributeSpawner.profile_list = [get_config("custom.profiles.gpu")]
"""
IN_FILES = {
    "settings": {
        "mountPath": "/usr/local/etc/jupyterhub/jupyterhub_config.d/50-lists.py",
        "stringData": "import yaml, os, our_lists\nassert os.path.exists('/etc/lists/gpu.yaml')\n"
        "c.KubeSpawner.profile_list = our_lists.named(yaml.safe_load(open('/etc/lists/gpu.yaml')))\n",
    },
    "list": {"mountPath": "/etc/lists/gpu.yaml", "data": {"gpu": [WRONG]}},
    "module": {
        "mountPath": "/usr/local/etc/jupyterhub/our_lists.py",
        "stringData": "def named(lists): return lists['gpu']",
    },
}


@all_of_them(
    "values, paths",
    {
        "one chart around": ({"jupyterhub": singleuser(WRONG)}, ["jupyterhub.singleuser.profileList[0]"]),
        "two charts around": (
            {"basehub": {"nfs": {"enabled": True}, "jupyterhub": singleuser(WRONG)}, "dask-gateway": {"gateway": {}}},
            ["basehub.jupyterhub.singleuser.profileList[0]"],
        ),
        "a renamed chart, several hubs": (
            {"prod": singleuser({"display_name": "CPU"}), "a": {"staging": singleuser(WRONG)}, "b": {"jupyterhub": singleuser(WRONG)}},
            ["a.staging.singleuser.profileList[0]", "b.jupyterhub.singleuser.profileList[0]"],
        ),
        "BinderHub's, beside a chart with a hub of its own": (
            {"binderhub": {"config": {"BinderHub": {"use_registry": True}}, "jupyterhub": {"hub": {"config": {"KubeSpawner": {"profile_list": [WRONG]}}}}},
             "traefik": {"hub": {"token": "x"}}},
            ["binderhub.jupyterhub.hub.config.KubeSpawner.profile_list[0]"],
        ),
        "a list below any key": ({"data": {"config": {"KubeSpawner": {"profile_list": [WRONG]}}}}, ["data.config.KubeSpawner.profile_list[0]"]),
        "code with values of our own": ({**hub(ATTRIBUTES), "custom": {"profiles": {"gpu": WRONG}}, **OFF}, ["profile_list[0]"]),
        "global values of a chart around": (
            {"global": {"gpus": [WRONG]}, "basehub": {"jupyterhub": hub("c.KubeSpawner.profile_list = get_config('global.gpus')")}},
            ["basehub.jupyterhub.hub.extraConfig: profile_list[0]"],
        ),
        "a filter by group": ({**hub(GROUP_FILTER), **singleuser({"display_name": "GPU", "slug": "gpu"}, WRONG)}, ["singleuser.profileList[1]"]),
        "one namespace, sorted": (
            {"hub": {"extraConfig": {"20": "add()", "10": f"profiles = [{WRONG!r}]\ndef add():\n  c.KubeSpawner.profile_list = profiles"}}},
            ["profile_list[0]"],
        ),
        "what the chart's file imports, and prints": (
            hub(
                f"""
                import sys
                print("in the hub's log"); sys.stdout.flush()
                assert client.V1Pod and url_path_join("a", "b") == "a/b" and get_name("hub") == "hub" and os and re
                assert get_secret_value("x", None) is None and get_config("singleuser.storage.type") == "dynamic"
                set_config_if_not_none(c.KubeSpawner, "cmd", "singleuser.cmd")
                assert open("/var/run/secrets/kubernetes.io/serviceaccount/namespace").read() == "default"
                c.KubeSpawner.environment["A"] = get_name_env("proxy-api", "_SERVICE_PORT")
                c.JupyterHub.services.append({{"name": os.environ["WHO"]}}); c.KubeSpawner.profile_list += [{WRONG!r}]
                """,
                extraEnv={"WHO": "ours"},
            ),
            ["profile_list[0]"],
        ),
        "files of the hub": (hub(extraFiles=IN_FILES), ["profile_list[0]"]),
        "keys that are numbers, as Helm reads them": ("hub: {extraConfig: {1: 'x = 5'}, extraLabels: {true: a}}\nsingleuser: {profileList: [WRONG]}", ["singleuser.profileList[0]"]),
        "anchors": ("custom: {gpu: &gpu WRONG}\nsingleuser: {profileList: [*gpu]}", ["singleuser.profileList[0]"]),
        "JSON": (json.dumps({"jupyterhub": singleuser(WRONG)}), ["jupyterhub.singleuser.profileList[0]"]),
    },
)  # fmt: skip
def test_profiles_are_found(check, values, paths):
    code, answer, _ = check(values.replace("WRONG", json.dumps(WRONG)) if isinstance(values, str) else values)
    assert (code, errors(answer)) == (1, [f"{path}.{BELOW}" for path in paths])
    assert not any(each["rule"] == "unread-code" for each in answer["general"])


def test_files_are_merged_as_helm_does(check):
    """A part without profiles counts, a list replaces, null removes, and a single value and a mapping replace each other."""
    first = {"basehub": {"jupyterhub": {**singleuser(WRONG, extraEnv="x"), "hub": {"config": {"X": None}}}}}
    second = {
        "basehub": {"jupyterhub": {"singleuser": {"extraEnv": {"A": "b"}, "profileList": [{"display_name": "P"}]}}}
    }
    third = {"basehub": {"jupyterhub": {"proxy": {"https": {}}}}, "nfs": {"pv": {}}}
    assert check(first)[0] == 1
    code, answer, _ = check(first, second, third)
    assert (code, [choice["profile"] for choice in answer["choices"]]) == (0, ["p"])
    code, answer, _ = check(f"{yaml.safe_dump(first)}---\n{yaml.safe_dump(second)}")
    assert (code, [each["rule"] for each in answer["general"]]) == (0, ["hub-values"])
    assert "Helm 3 reads only the first" in answer["general"][0]["message"]


@all_of_them(
    "values, part",
    {
        "another chart's values": ({"grafana": {"ingress": {}}, "prometheus": {"server": {}}}, "a mapping with grafana, prometheus, in which"),
        "a template": ("singleuser:\n  image: {{ .Values.image }}\n", "line 2: is a template with {{ }}"),
        "lines of a template": ("hub: {}\n{{- if .Values.a }}\nsingleuser: {}\n{{- end }}\n", "is a template with {{ }}"),
    },
)  # fmt: skip
def test_values_that_cannot_be_checked(check, values, part):
    code, answer, messages = check(values)
    assert (code, answer) == (2, None)
    assert part in messages


@all_of_them(
    "piece, code, message",
    {
        "a module of the hub's image": ("import of_the_hubs_image\nc.KubeSpawner.profile_list = []", 2, "line 1 ends with ModuleNotFoundError"),
        "a file of it": ("\nopen('/etc/of-the-hubs-image')", 2, "line 2 ends with FileNotFoundError"),
        "an exit": ("import sys; sys.exit(0)", 2, "line 1 ends with SystemExit"),
        "the process ends": ("import os; os._exit(0)", 2, "ended the process"),
        "no Python": ("c.KubeSpawner.x = (", 1, "ends with SyntaxError"),
        "too many settings": ("x = []\nfor _ in range(40): x = [x, x]\nc.KubeSpawner.profile_list = x", 2, "leaves too many settings"),
        "output, modules and directory of the command": (
            "import json, os; json.dumps = None; os.chdir('/'); os.environ.clear(); print('x'); c.KubeSpawner.environment = {}", 0, "",
        ),
    },
)  # fmt: skip
def test_code_that_cannot_be_run_is_never_nothing_found(check, piece, code, message):
    values = {**hub(piece), **singleuser({"display_name": "CPU"})}
    ended, answer, _ = check(values)
    found = [each["message"] for each in answer["general"] if each["rule"] == "unread-code"]
    assert (ended, [message in each for each in found]) == (code, [True] if message else [])
    assert any("not complete" in each for each in answer["notChecked"]) is bool(message)
    if code == 2:
        assert check(values, arguments=("--ignore", "unread-code"))[0] == 0


def test_code_runs_only_if_it_is_wanted(check, tmp_path):
    values = {**hub(f"open({str(tmp_path / 'trace')!r}, 'w')"), **singleuser({"display_name": "CPU"})}
    code, answer, _ = check(values, arguments=("--without-code",))
    assert (code, [each["rule"] for each in answer["general"]]) == (2, ["unread-code"])
    assert not (tmp_path / "trace").exists()
    assert check(values)[0] == 0
    assert (tmp_path / "trace").exists()


def test_a_list_that_another_one_overrides(check):
    other = {"hub": {"config": {"DRASpawner": {"profile_list": [{"display_name": "CPU"}]}}}}
    code, answer, _ = check({"jupyterhub": {**singleuser(WRONG), **other}})
    (finding,) = answer["general"]
    assert (code, finding["level"], finding["path"]) == (0, "warning", "jupyterhub.singleuser.profileList")
    assert "overridden by jupyterhub.hub.config.DRASpawner.profile_list" in finding["message"]


@all_of_them(
    "values, path",
    {
        "Python's name": ({"singleuser": {"profile_list": [WRONG]}}, "singleuser.profile_list"),
        "claims where the chart has none": ({"singleuser": {"device_claims": {"a": {}}}}, "singleuser.device_claims"),
        "a mapping": ({"singleuser": {"profileList": {"a": {"display_name": "A"}}}}, "singleuser.profileList"),
        "the chart's name": ({"hub": {"config": {"KubeSpawner": {"profileList": []}}}}, "hub.config.KubeSpawner.profileList"),
        "people's roles beside an authenticator that gives them": ({"hub": {"config": {"GenericOAuthenticator": {"manage_roles": True}}, "loadRoles": {"a": {"groups": ["b"]}, "service": {"services": ["c"]}}}}, "hub.loadRoles.a.groups"),
        "a section that is no class": ({"hub": {"config": {"kubeSpawner": {"profile_list": []}}}}, "hub.config.kubeSpawner"),
    },
)  # fmt: skip
def test_values_that_the_chart_does_not_take(check, values, path):
    code, answer, _ = check(values)
    assert code == 1
    assert [each["path"] for each in answer["general"] if each["rule"] == "hub-values"] == [path]

"""Volumes as directories, and paths that lead there."""

from pathlib import Path
from typing import Any

import pytest

from dra_spawner.devcluster.kubelet.pod_volumes import (
    Mount,
    NodeDirectories,
    VolumeProblem,
    container_mounts,
    prepare_volumes,
    translate,
    volume_references,
    working_directory,
)
from tests.all_of_them import all_of_them

HOME = Mount("/home/jovyan", Path("/data/home"), persistent=True, read_only=False)
DEEPER = Mount("/home/jovyan/shared", Path("/data/shared"), persistent=False, read_only=False)


def pod_with(*volumes: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "user", "namespace": "hub", "uid": "u1"}, "spec": {"volumes": list(volumes)}}


@all_of_them(
    "text, expected",
    {
        "the mount itself": ("/home/jovyan", "/data/home"),
        "below": ("/home/jovyan/a.txt", "/data/home/a.txt"),
        "the longest mount wins": ("/home/jovyan/shared/a", "/data/shared/a"),
        "after an equals sign": ("--dir=/home/jovyan", "--dir=/data/home"),
        "in a list": ("/usr/bin:/home/jovyan/bin", "/usr/bin:/data/home/bin"),
        "another name": ("/home/jovyan2", "/home/jovyan2"),
        "another name with a dash": ("/home/jovyan-old", "/home/jovyan-old"),
        "within another path": ("/srv/home/jovyan", "/srv/home/jovyan"),
        "in a URL": ("http://host/home/jovyan", "http://host/home/jovyan"),
        "no path": ("text", "text"),
    },
)
def test_translate(text: str, expected: str):
    assert translate(text, [DEEPER, HOME]) == expected


def test_translate_without_mounts_changes_nothing():
    assert translate("/home/jovyan", []) == "/home/jovyan"


@pytest.mark.parametrize(
    ("container", "mounts", "expected"),
    [
        pytest.param({}, [], "private", id="no volume"),
        pytest.param({}, [HOME, DEEPER], "/data/home", id="the claim's directory"),
        pytest.param({}, [DEEPER], "private", id="a volume that does not last"),
        pytest.param(
            {}, [HOME, Mount("/x", Path("/data/x"), persistent=True, read_only=False)], "private", id="two claims"
        ),
        pytest.param({}, [Mount("/x", Path("/x"), persistent=True, read_only=True)], "private", id="read only"),
        pytest.param({"workingDir": "/srv"}, [HOME], "/data/home", id="a path that does not exist"),
    ],
)
def test_working_directory(container: dict[str, Any], mounts: list[Mount], expected: str):
    assert working_directory(container, mounts, Path("private")) == Path(expected)


def test_working_directory_below_a_mount_is_made(tmp_path: Path):
    mount = Mount("/home/jovyan", tmp_path, persistent=False, read_only=False)
    directory = working_directory({"workingDir": "/home/jovyan/work"}, [mount], Path("private"))
    assert directory == tmp_path / "work"
    assert directory.is_dir()


def test_volumes_are_filled_from_their_sources(tmp_path: Path):
    pod = pod_with(
        {"name": "cache", "emptyDir": {}},
        {"name": "settings", "configMap": {"name": "c", "items": [{"key": "a", "path": "etc/a.conf"}]}},
        {"name": "keys", "secret": {"secretName": "s"}},
        {"name": "maybe", "secret": {"secretName": "none", "optional": True}},
        {"name": "home", "persistentVolumeClaim": {"claimName": "home"}},
    )
    sources = {
        ("configmaps", "c"): {"data": {"a": "1", "b": "2"}},
        ("secrets", "s"): {"data": {"token": "czNjcmV0"}},
        ("persistentvolumeclaims", "home"): {"metadata": {"namespace": "hub", "name": "home", "uid": "12345678-90"}},
    }
    assert volume_references(pod) == {*sources, ("secrets", "none")}
    directories = NodeDirectories(tmp_path)
    paths = prepare_volumes(pod, directories, sources)
    assert list(paths) == ["cache", "settings", "keys", "maybe", "home"]
    assert [path.name for path in paths["settings"].iterdir()] == ["etc"]
    assert (paths["settings"] / "etc" / "a.conf").read_text() == "1"
    assert (paths["keys"] / "token").read_text() == "s3cret"
    assert paths["home"] == tmp_path / "volumes" / "hub" / "home-12345678"

    (paths["home"] / "notes").touch()
    directories.remove_pod(pod)
    assert not paths["cache"].exists()
    assert (paths["home"] / "notes").exists()


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        pytest.param(
            {"persistentVolumeClaim": {"claimName": "home"}}, 'persistentvolumeclaim "home" not found', id="claim"
        ),
        pytest.param({"configMap": {"name": "c"}}, 'configmap "c" not found', id="config map"),
        pytest.param(
            {"secret": {"secretName": "s", "items": [{"key": "k", "path": "p"}]}},
            "references non-existent secret key: k",
            id="key",
        ),
        pytest.param({"csi": {"driver": "x"}}, "a development node does not support volumes of kind csi", id="kind"),
    ],
)
def test_problems_are_worded_for_the_event(tmp_path: Path, volume: dict[str, Any], message: str):
    pod = pod_with({"name": "v", **volume})
    with pytest.raises(VolumeProblem) as raised:
        prepare_volumes(pod, NodeDirectories(tmp_path), {("secrets", "s"): {"data": {}}})
    assert str(raised.value) == f'MountVolume.SetUp failed for volume "v" : {message}'


def test_mounts_with_sub_paths(tmp_path: Path):
    pod = pod_with({"name": "home", "persistentVolumeClaim": {"claimName": "h"}}, {"name": "tmp", "emptyDir": {}})
    container = {
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/t/"},
            {"name": "home", "mountPath": "/home/jovyan", "subPathExpr": "users/$(NAME)"},
        ]
    }
    volumes = {"home": tmp_path / "home", "tmp": tmp_path / "tmp"}
    mounts = container_mounts(container, volumes, {"NAME": "ada"}, pod)
    assert [(each.mount_path, each.directory, each.persistent) for each in mounts] == [
        ("/home/jovyan", tmp_path / "home" / "users" / "ada", True),
        ("/t", tmp_path / "tmp", False),
    ]
    assert mounts[0].directory.is_dir()


def test_sub_path_may_be_a_file(tmp_path: Path):
    pod = pod_with({"name": "config", "configMap": {"name": "c"}})
    volumes = prepare_volumes(pod, NodeDirectories(tmp_path), {("configmaps", "c"): {"data": {"a.py": "1"}}})
    container = {"volumeMounts": [{"name": "config", "mountPath": "/etc/a.py", "subPath": "a.py"}]}
    (mount,) = container_mounts(container, volumes, {}, pod)
    assert mount.directory.read_text() == "1"


@pytest.mark.parametrize("below", ["../other", "/etc", "a/../../b"])
def test_sub_path_may_not_lead_out(tmp_path: Path, below: str):
    container = {"volumeMounts": [{"name": "tmp", "mountPath": "/t", "subPath": below}]}
    with pytest.raises(VolumeProblem, match="must be a relative path without"):
        container_mounts(container, {"tmp": tmp_path}, {}, pod_with({"name": "tmp", "emptyDir": {}}))

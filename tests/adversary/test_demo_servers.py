"""A server of the demo reaches nothing of the hub's as another user, and no variable of the hub's anywhere."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from traitlets.config import Config

from dra_spawner.devcluster.demo import demo, server_users
from dra_spawner.devcluster.kubelet.process_user import ProcessUser, can_switch_users, process_user
from tests.all_of_them import all_of_them
from tests.cluster.example_objects import pod
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.kubelet_pods import NODE, container_status

#: Variables in the environment of the hub's side that no server needs.
SECRETS = {
    "KUBECONFIG": "/hub/kubeconfig",
    "JUPYTERHUB_API_TOKEN": "hub-token",
    "JUPYTERHUB_CRYPT_KEY": "crypt-key",
    "CONFIGPROXY_AUTH_TOKEN": "proxy-token",
    "DRA_SPAWNER_DEMO": '{"password": "demo-password"}',
    "AWS_SECRET_ACCESS_KEY": "cloud-key",
    "SSH_AUTH_SOCK": "/agent",
    "LD_PRELOAD_NOT": "x",
    "PYTHONPATH_NOT": "x",
    "OAUTH_CLIENT_SECRET": "oauth",
}
#: Of the machine's variables.
NEEDED = {"PATH", "LANG", "SHELL", "HOME", "TMPDIR", "HOSTNAME", "USER", "LOGNAME"}
#: Set by the shell itself.
OF_THE_SHELL = {"PWD", "OLDPWD", "SHLVL", "_"}
UID = server_users.FIRST_UID + 7


@pytest.fixture
def readable():
    """A directory that every user may enter, as the demo's of servers; pytest's own are private."""
    path = Path(tempfile.mkdtemp(prefix="dra-spawner-test-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


async def output_of(cluster: ClusterUnderTest, name: str, script: str, *arguments: str, **spec: Any) -> str:
    """Output of a shell in a pod."""
    body = pod(name, ["/bin/sh", "-c", script, "sh", *arguments], **{"restartPolicy": "Never", **spec})
    await cluster.publish(body)
    ended = await cluster.wait_for(
        cluster.path("pods", name), lambda obj: obj["status"]["phase"] in ("Succeeded", "Failed")
    )
    assert container_status(ended)["state"]["terminated"]["exitCode"] == 0, ended["status"]
    return await cluster.admin.get_text(cluster.path("pods", name, "log"))


@pytest.mark.parametrize("context", [{}, {"runAsUser": UID}], ids=["same user", "another user"])
async def test_no_variable_reaches_a_server(embedded_cluster, monkeypatch, context):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    await embedded_cluster.publish(NODE)
    said = await output_of(embedded_cluster, "server", "env", securityContext=context)
    variables = dict(line.split("=", 1) for line in said.splitlines())
    assert set(variables) <= NEEDED | OF_THE_SHELL
    assert not set(SECRETS.values()) & set(variables.values())


TRY = """
try() { if "$@" >/dev/null 2>&1; then echo "CAN $*"; else echo "cannot $*"; fi; }
id -u; id -g; id -G
touch "$HOME/own" "$TMPDIR/own" && echo home
try cat "$1/hub/cookie_secret"
try ls "$1/hub"
try cat "$2"
try cat "/proc/$3/environ"
try ls "/proc/$3/cwd/"
try cat "$4/containers/main/own"
try ls "$4"
try ls "$5"
try touch "$HOME/../evil"
try rm -rf "$5/pods"
try ln -s /etc "$4/logs"
try kill -0 "$3"
try chroot / true
"""


async def test_a_server_with_a_user_of_its_own_reaches_nothing_of_the_hubs(embedded_cluster, readable):
    await embedded_cluster.start_kubelet(directory=readable)
    await embedded_cluster.publish(NODE)
    hub = Path(tempfile.mkdtemp(prefix="dra-spawner-test-hub-", dir=readable))  # 0700, as the demo's
    (hub / "cookie_secret").write_text("secret")
    (hub / "cookie_secret").chmod(0o600)
    (readable / "hub").symlink_to(hub)
    other = pod("other", ["/bin/sh", "-c", "touch own; exec sleep 1000"], securityContext={"runAsUser": UID + 1})
    await embedded_cluster.publish(other)
    await embedded_cluster.wait_running("other")
    running = await embedded_cluster.admin.get(embedded_cluster.path("pods", "other"))
    theirs = readable / "pods" / f"{embedded_cluster.namespace}_other_{running['metadata']['uid']}"
    arguments = [str(readable), str(embedded_cluster.admin_kubeconfig), str(os.getpid()), str(theirs), str(readable)]
    said = await output_of(embedded_cluster, "eve", TRY, *arguments, securityContext={"runAsUser": UID})
    uid, gid, groups, *tried = said.splitlines()
    if not can_switch_users():
        # Nobody but root can run them as others; the demo says so when it starts.
        assert int(uid) == os.geteuid()
        return
    assert (uid, gid, groups) == (str(UID), str(UID), str(UID))
    assert tried[0] == "home"
    assert [line for line in tried if line.startswith("CAN")] == []
    assert len(tried) == 14


async def test_links_left_by_a_server_do_not_lead_root_elsewhere(embedded_cluster, readable):
    """A container that starts again: its directories are still its own, and nothing that it linked to becomes its."""
    target = readable / "target"
    target.mkdir()
    await embedded_cluster.start_kubelet(directory=readable)
    await embedded_cluster.publish(NODE)
    script = f"""
if [ -e "$HOME/again" ]; then id -u; cat "$HOME/again"; exit 0; fi
echo kept > "$HOME/again"
rm -rf "$TMPDIR" "$HOME"/../main; ln -s {target} "$TMPDIR" ; ln -s {target} "$HOME/link"; ln -s {target} /volume/below
exit 1
"""
    volumes = [{"name": "v", "emptyDir": {}}]
    body = pod("eve", ["/bin/sh", "-c", script], volumes=volumes, securityContext={"runAsUser": UID})
    body["spec"]["restartPolicy"] = "OnFailure"
    body["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/volume"}]
    await embedded_cluster.publish(body)
    await embedded_cluster.wait_for(
        embedded_cluster.path("pods", "eve"), lambda obj: container_status(obj).get("restartCount", 0) >= 1
    )
    assert target.stat().st_uid == os.geteuid()


async def test_a_volume_belongs_to_the_user_of_its_server(embedded_cluster, readable):
    await embedded_cluster.start_kubelet(directory=readable)
    await embedded_cluster.publish(NODE)
    body = pod("ada", ["/bin/sh", "-c", "touch /work/file && ls /work"], volumes=[{"name": "v", "emptyDir": {}}])
    body["spec"] |= {"restartPolicy": "Never", "securityContext": {"runAsUser": UID}}
    body["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/work"}]
    await embedded_cluster.publish(body)
    ended = await embedded_cluster.wait_for(
        embedded_cluster.path("pods", "ada"), lambda obj: obj["status"]["phase"] in ("Succeeded", "Failed")
    )
    assert ended["status"]["phase"] == "Succeeded"


@all_of_them(
    "of_pod, of_container, expected",
    [
        ({}, {}, None),
        ({"runAsUser": 0}, {}, None),
        ({"runAsUser": 5}, {"runAsUser": 0}, None),
        ({"runAsUser": 5}, {}, ProcessUser(5, 5)),
        ({"runAsUser": 5, "runAsGroup": 6}, {"runAsUser": 7}, ProcessUser(7, 6)),
        ({"runAsUser": 5}, {"runAsUser": None, "runAsGroup": 0}, ProcessUser(5, 0)),
        ({"runAsUser": 5, "fsGroup": 9, "supplementalGroups": [8, 9]}, {}, ProcessUser(5, 5, (8, 9))),
    ],
)
def test_the_user_of_a_container(of_pod, of_container, expected):
    container = {"name": "main", "securityContext": of_container}
    found = process_user({"spec": {"securityContext": of_pod, "containers": [container]}}, container)
    assert found == (expected if can_switch_users() else None)


# --- the demo --------------------------------------------------------------------------------------------------------


def test_the_demo_asks_whether_servers_can_have_users_of_their_own(readable, monkeypatch):
    sentence = server_users.why_same_user(readable)
    assert not list(readable.iterdir())
    if not can_switch_users():
        assert sentence == "Only root on Linux can run them as separate users."
        return
    # Where Python is below a private home, as often on machines of developers, they cannot.
    assert sentence in (
        "",
        f"Another user cannot run {sys.executable}.",
        f"Another user cannot read what is installed in {sys.prefix}.",
    )
    private = Path(tempfile.mkdtemp(prefix="dra-spawner-test-"))
    try:
        (private / "python").symlink_to("/bin/sh")
        monkeypatch.setattr(sys, "executable", str(private / "python"))
        assert server_users.why_same_user(readable) == f"Another user cannot run {private}/python."
    finally:
        shutil.rmtree(private)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert server_users.why_same_user(readable) == f"Another user cannot read what is installed in {sys.prefix}."
    monkeypatch.setattr(sys, "executable", "/bin/true")
    assert server_users.why_same_user(readable) == ""


def test_users_of_the_hub_have_users_of_the_machine():
    numbers = [server_users.uid_of(number) for number in range(1, 1000)]
    assert len(set(numbers)) == server_users.NUMBER_OF_UIDS
    assert all(60_578 <= number <= 61_183 for number in numbers), "the range that systemd leaves unused"


@pytest.mark.parametrize("apart", [True, False])
def test_the_hub_of_the_demo_gives_each_user_another(tmp_path, monkeypatch, apart):
    options = demo.DemoOptions()
    settings = demo.hub_settings(options, tmp_path, 8000)
    settings |= {"profiles": [], "hub_address": "127.0.0.1", "own_users": apart}
    monkeypatch.setenv("DRA_SPAWNER_DEMO", json.dumps(settings))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    config = Config()
    source = Path(demo.__file__).with_name("hub_config.py").read_text()
    exec(compile(source, "hub_config.py", "exec"), {"get_config": lambda: config})
    section = config.DRASpawner
    if apart:
        ada, bob = (type("Spawner", (), {"user": type("User", (), {"id": number})}) for number in (1, 2))
        assert section.uid(ada) != section.uid(bob)
        assert "args" not in section
    else:
        assert "uid" not in section


@pytest.mark.parametrize("why", ["", "Only root on Linux can run them as separate users."])
def test_the_demo_shows_the_rights_of_a_server(tmp_path, why):
    running = demo.Running("http://x", "admin", "p", "t", tmp_path, None, about_servers=server_users.about_servers(why))
    text = " ".join(demo.welcome(running).split())
    if why:
        assert "each user of a server can read your files, the hub's token and its database." in text
        assert why in text
    else:
        assert "They run as separate users, which cannot read the hub's token" in text

"""Claims that several servers use together, from the first start to the last stop, with faults in between."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from dra_spawner.spawner.objects.shared_objects import users_of
from tests.cluster.fault_proxy import Fault
from tests.integration.devices import node_with, whole
from tests.integration.faulty_hub import Faulty, faults_at, faulty_on, with_a_user_each, without_patience
from tests.polling import eventually

CLAIMS = "resourceclaims"
GPU = {"device_class": "gpu-share.example.com"}


@pytest.fixture
def team(embedded_faulty: Faulty) -> Faulty:
    return of_physicists(embedded_faulty)


@pytest.fixture
def team_on_either(faulty: Faulty) -> Faulty:
    """Where Kubernetes itself ends the use of claims, and removes them."""
    return of_physicists(faulty)


def of_physicists(faulty: Faulty) -> Faulty:
    """Servers of a group share a claim; ada and bob are in the same group."""
    shared = {"by": "group", "group": ["physics", "chemistry"]}
    faulty.side.spawner_config.device_claims = {"gpu": {**GPU, "shared": shared}}
    for user in ("ada", "bob"):
        faulty.user(user, "physics")
    return faulty


async def the_claim(team: Faulty) -> dict[str, Any]:
    (claim,) = await team.items(CLAIMS)
    return claim


async def one_user_is_left(team: Faulty) -> None:
    """Wait until one server uses the claim: what takes longer than a few seconds is cleaned up in the background."""

    async def is_left() -> bool:
        return len(users_of(await the_claim(team))) == 1

    await eventually(is_left, "one user is left")


@pytest.mark.promise("Servers of a group share one device until the last of them has gone.")
async def test_servers_of_a_group_share_one_claim_until_the_last_has_gone(team_on_either):
    ada, bob = team_on_either.user("ada"), team_on_either.user("bob")
    await ada.spawn("", {})
    assert sorted(team_on_either.requests()) == sorted([f"create {CLAIMS}", "create pods", f"patch {CLAIMS}"])
    await bob.spawn("", {})
    assert sorted(team_on_either.requests()[3:]) == sorted(["create pods", f"patch {CLAIMS}"])
    claim = await the_claim(team_on_either)
    assert claim["metadata"]["name"].startswith("shared-physics-gpu-")
    assert claim["metadata"]["labels"]["hub.jupyter.org/shared-by-group"] == "physics"
    assert "hub.jupyter.org/username" not in claim["metadata"]["labels"]
    pods = {entry["name"] for entry in claim["status"]["reservedFor"]}
    assert pods == {"jupyter-ada", "jupyter-bob"}
    for name in pods:
        pod = await team_on_either.cluster.admin.get(team_on_either.cluster.path("pods", name))
        assert pod["spec"]["resourceClaims"] == [{"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}]

    await ada.stop("")
    assert (await the_claim(team_on_either))["metadata"]["uid"] == claim["metadata"]["uid"]
    await bob.stop("")
    await team_on_either.nothing_is_left()


async def test_a_user_shares_with_oneself_and_everybody_with_all(team):
    team.side.spawner_config.device_claims["gpu"] |= {"shared": {"by": "user"}, "capacity": {"memory": "5Gi"}}
    ada, bob = team.user("ada"), team.user("bob")
    team.side.spawner(ada, "second")
    for user, server in ((ada, ""), (ada, "second"), (bob, "")):
        await user.spawn(server, {})
    by_scope = {c["metadata"]["annotations"]["hub.jupyter.org/dra-shared-by"]: c for c in await team.items(CLAIMS)}
    assert {scope: len(claim["status"]["reservedFor"]) for scope, claim in by_scope.items()} == {
        "user:ada": 2,
        "user:bob": 1,
    }
    for user, server in ((ada, ""), (ada, "second"), (bob, "")):
        await user.stop(server)
    await team.nothing_is_left()


@pytest.mark.promise("A user in no group gets no device that groups share.")
async def test_a_user_in_no_group_is_refused(team):
    with pytest.raises(Exception, match="The device of this choice is for members of physics or chemistry") as caught:
        await team.user("eve", "history").spawn("", {})
    assert getattr(caught.value, "status_code", None) == 403
    assert team.requests() == []


async def test_each_group_has_a_claim_of_its_own_and_a_changed_profile_a_new_one(team):
    await team.cluster.publish(*node_with("node-b", whole("gpu-9")))
    team.side.spawner_config.device_claims["gpu"]["capacity"] = {"memory": "5Gi"}
    users = [team.user("ada"), team.user("eve", "chemistry"), team.user("cem", "chemistry", "physics")]
    for user in users:
        await user.spawn("", {})
    scopes = [claim["metadata"]["annotations"]["hub.jupyter.org/dra-shared-by"] for claim in await team.items(CLAIMS)]
    assert sorted(scopes) == ["group:chemistry", "group:physics"]
    team.side.spawner_config.device_claims["gpu"]["capacity"] = {"memory": "10Gi"}
    users.append(team.user("dan", "physics"))
    await users[-1].spawn("", {})
    assert len(await team.items(CLAIMS)) == 3
    for user in users:
        await user.stop("")
    await team.nothing_is_left()


async def test_first_starts_at_the_same_time(team_on_either):
    users = [team_on_either.user(f"u{number}", "physics") for number in range(5)]
    await asyncio.gather(*(user.spawn("", {}) for user in users))
    assert len((await the_claim(team_on_either))["status"]["reservedFor"]) == 5
    await asyncio.gather(*(user.stop("") for user in users))
    await team_on_either.nothing_is_left()


@pytest.mark.promise("A shared device stays when the last server stops while another starts.")
async def test_the_last_stops_while_another_starts(team):
    """The pod does not exist yet, only the note of its start on the claim: the claim must stay."""
    ada, bob = team.user("ada"), team.user("bob")
    await ada.spawn("", {})
    uid = (await the_claim(team))["metadata"]["uid"]
    reached = asyncio.Event()

    def later(_) -> bool:
        reached.set()
        return True

    team.proxy.fail(Fault.refuse(), verb="create", resource="pods", matching=later, times=None)
    starting = asyncio.create_task(bob.spawn("", {}))
    await reached.wait()
    await ada.stop("")
    assert (await the_claim(team))["metadata"]["uid"] == uid
    await one_user_is_left(team)
    team.proxy.heal()
    await starting
    await bob.stop("")
    await team.nothing_is_left()


async def test_a_start_right_after_the_last_stop(team_on_either):
    """The claim may be terminating: Kubernetes removes it after its deallocation."""
    ada, bob = team_on_either.user("ada"), team_on_either.user("bob")
    for user in (ada, bob, ada):
        await user.spawn("", {})
        await user.stop("")
    await team_on_either.nothing_is_left()


async def test_a_claim_that_somebody_deletes_is_made_anew_for_a_pending_pod(team_on_either):
    team_on_either.side.spawner_config.device_claims["gpu"]["device_class"] = "gpu.example.com"
    ada = team_on_either.user("ada")
    starting = asyncio.create_task(ada.spawn("", {}))
    await team_on_either.cluster.wait_event("jupyter-ada", "FailedScheduling")
    claim = await the_claim(team_on_either)
    await team_on_either.cluster.admin.delete(team_on_either.cluster.path(CLAIMS, claim["metadata"]["name"]))
    await team_on_either.cluster.publish(*node_with("node-b", whole("gpu-9")))
    await starting
    assert (await the_claim(team_on_either))["metadata"]["uid"] != claim["metadata"]["uid"]
    await ada.stop("")
    await team_on_either.nothing_is_left()


FAULTS = {
    "refused connection": Fault.refuse(),
    "lost answer": Fault.lose_answer(),
    "no answer": Fault.hold(),
    "done without answer": Fault.hold_answer(),
    "forbidden": Fault.answer(403, "Forbidden", "no"),
    "internal error": Fault.answer(500),
}


@pytest.fixture
async def teams(real_cluster):
    """Each user is a group, which has the user's name. On the real control plane alone, as requests to it fail here."""
    async with faulty_on(real_cluster, gpus=8) as found:
        without_patience(found.side)
        groups = [f"user-{number:02}" for number in range(20)]
        shared = {"by": "group", "group": groups}
        found.side.spawner_config.device_claims = {"gpu": {**GPU, "capacity": {"memory": "10Gi"}, "shared": shared}}
        for group in groups:
            found.user(group, group)
        yield found


async def test_one_failed_request_of_the_first_start(teams):
    async def start(user, fault, verb, resource):
        met = teams.fail_for(user, fault, verb, resource)
        await teams.start_and_stop(user)
        assert met, "the fault has to be met"

    await with_a_user_each(faults_at(FAULTS, [("patch", CLAIMS), ("create", CLAIMS), ("create", "pods")]), start)
    await teams.nothing_is_left()


async def test_one_failed_request_of_the_last_stop(teams):
    async def stop(user, fault, verb, resource):
        assert await teams.spawn(user) is None
        teams.fail_for(user, fault, verb, resource, times=2)
        with contextlib.suppress(Exception):
            await teams.stop(user)

    faults = {name: FAULTS[name] for name in ("refused connection", "lost answer", "internal error")}
    await with_a_user_each(faults_at(faults, [("patch", CLAIMS), ("delete", CLAIMS)]), stop)
    await teams.nothing_is_left()


async def test_a_failed_start_leaves_the_claim_to_the_other_servers(team):
    ada, bob = team.user("ada"), team.user("bob")
    await ada.spawn("", {})
    team.proxy.fail(Fault.answer(403, "Forbidden", "exceeded quota: pods"), verb="create", resource="pods")
    with pytest.raises(Exception, match="A quota of the cluster is used up"):
        await bob.spawn("", {})
    await one_user_is_left(team)
    await ada.stop("")
    await team.nothing_is_left()


async def test_a_node_without_capacity_beside_the_shared_device_is_explained(team):
    await team.cluster.publish(*node_with("node-b", whole("gpu-9")))
    await team.user("ada").spawn("", {})
    team.side.spawner_config.cpu_guarantee = 4000
    error = await team.give_up("bob", "must run on their machine")
    assert "must run on their machine" in str(error)
    await team.stop("ada")
    await team.nothing_is_left()

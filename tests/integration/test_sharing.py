"""Claims that several servers use together, from the first start to the last stop, with faults in between."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from dra_spawner.spawner.objects.standing_objects import users_of
from tests.cluster.fault_proxy import Fault
from tests.integration.devices import node_with, whole
from tests.integration.faulty_hub import Faulty, without_patience
from tests.polling import eventually

CLAIMS = "resourceclaims"
PHYSICS = {"by": "group", "group": ["physics", "chemistry"]}


class Team:
    """Users that share one claim, and their starts."""

    def __init__(self, faulty: Faulty, shared: dict[str, Any] = PHYSICS) -> None:
        self.faulty = faulty
        self.cluster = faulty.cluster
        self.config = faulty.side.spawner_config
        self.config.device_claims = {"gpu": {"device_class": "gpu-share.example.com", "shared": shared}}

    def user(self, name: str, *groups: str):
        return self.faulty.side.user(name, *(groups or ("physics",)))

    async def claims(self) -> list[dict[str, Any]]:
        return (await self.cluster.admin.list(self.cluster.path(CLAIMS)))["items"]

    async def the_claim(self) -> dict[str, Any]:
        (claim,) = await self.claims()
        return claim

    async def one_user_is_left(self) -> None:
        """Wait until one server uses the claim: what takes longer than a few seconds is cleaned up in the background."""

        async def is_left() -> bool:
            return len(users_of(await self.the_claim())) == 1

        await eventually(is_left, "one user is left")


@pytest.fixture
def team(faulty):
    return Team(faulty)


async def test_servers_of_a_group_share_one_claim_until_the_last_has_gone(team):
    ada, bob = team.user("ada"), team.user("bob")
    await ada.spawn("", {})
    assert sorted(team.faulty.requests()) == sorted([f"create {CLAIMS}", "create pods", f"patch {CLAIMS}"])
    await bob.spawn("", {})
    assert sorted(team.faulty.requests()[3:]) == sorted(["create pods", f"patch {CLAIMS}"])
    claim = await team.the_claim()
    assert claim["metadata"]["name"].startswith("shared-physics-gpu-")
    assert claim["metadata"]["labels"]["hub.jupyter.org/shared-by-group"] == "physics"
    assert "hub.jupyter.org/username" not in claim["metadata"]["labels"]
    pods = {entry["name"] for entry in claim["status"]["reservedFor"]}
    assert pods == {"jupyter-ada", "jupyter-bob"}
    for name in pods:
        pod = await team.cluster.admin.get(team.cluster.path("pods", name))
        assert pod["spec"]["resourceClaims"] == [{"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}]

    await ada.stop("")
    assert (await team.the_claim())["metadata"]["uid"] == claim["metadata"]["uid"]
    await bob.stop("")
    await team.faulty.nothing_is_left()


async def test_a_user_shares_with_oneself_and_everybody_with_all(team):
    team = Team(team.faulty, {"by": "user"})
    ada, bob = team.user("ada"), team.user("bob")
    team.faulty.side.spawner(ada, "second")
    for user, server in ((ada, ""), (ada, "second"), (bob, "")):
        user.spawners[server].device_claims["gpu"]["capacity"] = {"memory": "5Gi"}
        user.spawners[server].configured["device_claims"] = user.spawners[server].device_claims
        await user.spawn(server, {})
    by_scope = {c["metadata"]["annotations"]["hub.jupyter.org/dra-shared-by"]: c for c in await team.claims()}
    assert {scope: len(claim["status"]["reservedFor"]) for scope, claim in by_scope.items()} == {
        "user:ada": 2,
        "user:bob": 1,
    }
    for user, server in ((ada, ""), (ada, "second"), (bob, "")):
        await user.stop(server)
    await team.faulty.nothing_is_left()


async def test_a_user_in_no_group_is_refused(team):
    with pytest.raises(Exception, match="The device of this choice is for members of physics or chemistry") as caught:
        await team.user("eve", "history").spawn("", {})
    assert getattr(caught.value, "status_code", None) == 403
    assert team.faulty.requests() == []


async def test_each_group_has_a_claim_of_its_own_and_a_changed_profile_a_new_one(team):
    await team.cluster.publish(*node_with("node-b", whole("gpu-9")))
    team.config.device_claims["gpu"]["capacity"] = {"memory": "5Gi"}
    users = [team.user("ada"), team.user("bob", "chemistry"), team.user("cem", "chemistry", "physics")]
    for user in users:
        await user.spawn("", {})
    scopes = [claim["metadata"]["annotations"]["hub.jupyter.org/dra-shared-by"] for claim in await team.claims()]
    assert sorted(scopes) == ["group:chemistry", "group:physics"]
    team.config.device_claims["gpu"]["capacity"] = {"memory": "10Gi"}
    users.append(team.user("dan"))
    await users[-1].spawn("", {})
    assert len(await team.claims()) == 3
    for user in users:
        await user.stop("")
    await team.faulty.nothing_is_left()


async def test_first_starts_at_the_same_time(team):
    users = [team.user(f"u{number}") for number in range(5)]
    await asyncio.gather(*(user.spawn("", {}) for user in users))
    assert len((await team.the_claim())["status"]["reservedFor"]) == 5
    await asyncio.gather(*(user.stop("") for user in users))
    await team.faulty.nothing_is_left()


async def test_the_last_stops_while_another_starts(team):
    """The pod does not exist yet, only the note of its start on the claim: the claim must stay."""
    ada, bob = team.user("ada"), team.user("bob")
    await ada.spawn("", {})
    uid = (await team.the_claim())["metadata"]["uid"]
    reached = asyncio.Event()

    def later(_) -> bool:
        reached.set()
        return True

    team.faulty.proxy.fail(Fault.refuse(), verb="create", resource="pods", matching=later, times=None)
    starting = asyncio.create_task(bob.spawn("", {}))
    await reached.wait()
    await ada.stop("")
    assert (await team.the_claim())["metadata"]["uid"] == uid
    await team.one_user_is_left()
    team.faulty.proxy.heal()
    await starting
    await bob.stop("")
    await team.faulty.nothing_is_left()


async def test_a_start_right_after_the_last_stop(team):
    """The claim may be terminating: Kubernetes removes it after its deallocation."""
    ada, bob = team.user("ada"), team.user("bob")
    for user in (ada, bob, ada):
        await user.spawn("", {})
        await user.stop("")
    await team.faulty.nothing_is_left()


async def test_a_claim_that_somebody_deletes_is_made_anew_for_a_pending_pod(team):
    team.config.device_claims["gpu"]["device_class"] = "gpu.example.com"
    team.config.start_timeout = 90
    ada = team.user("ada")
    starting = asyncio.create_task(ada.spawn("", {}))
    await team.cluster.wait_event("jupyter-ada", "FailedScheduling")
    claim = await team.the_claim()
    await team.cluster.admin.delete(team.cluster.path(CLAIMS, claim["metadata"]["name"]))
    await team.cluster.publish(*node_with("node-b", whole("gpu-9")))
    await starting
    assert (await team.the_claim())["metadata"]["uid"] != claim["metadata"]["uid"]
    await ada.stop("")
    await team.faulty.nothing_is_left()


STARTS = [("patch", CLAIMS), ("create", CLAIMS), ("create", "pods")]
FAULTS = {
    "refused connection": Fault.refuse(),
    "lost answer": Fault.lose_answer(),
    "no answer": Fault.hold(),
    "done without answer": Fault.hold_answer(),
    "forbidden": Fault.answer(403, "Forbidden", "no"),
    "internal error": Fault.answer(500),
}


@pytest.mark.parametrize(("verb", "resource"), STARTS, ids=lambda value: value)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_one_failed_request_of_the_first_start(team, verb, resource, fault):
    without_patience(team.faulty.side)
    team.faulty.user = team.user("ada")
    team.faulty.proxy.fail(fault, verb=verb, resource=resource)
    error = await team.faulty.spawn()
    if error is None:
        await team.faulty.stop()
    else:
        assert getattr(error, "jupyterhub_message", ""), f"no sentence for the user: {error!r}"
    assert team.faulty.proxy.count(verb, resource), "the fault has to be met"
    await team.faulty.nothing_is_left()


@pytest.mark.parametrize("verb", ["patch", "delete"])
@pytest.mark.parametrize(
    "fault", [Fault.refuse(), Fault.lose_answer(), Fault.answer(500)], ids=["refused", "lost", "500"]
)
async def test_one_failed_request_of_the_last_stop(team, verb, fault):
    ada = team.user("ada")
    await ada.spawn("", {})
    team.faulty.proxy.fail(fault, verb=verb, resource=CLAIMS, times=2)
    with contextlib.suppress(Exception):
        await ada.stop("")
    await team.faulty.nothing_is_left()


async def test_a_failed_start_leaves_the_claim_to_the_other_servers(team):
    ada, bob = team.user("ada"), team.user("bob")
    await ada.spawn("", {})
    team.faulty.proxy.fail(Fault.answer(403, "Forbidden", "exceeded quota: pods"), verb="create", resource="pods")
    with pytest.raises(Exception, match="A quota of the cluster is used up"):
        await bob.spawn("", {})
    await team.one_user_is_left()
    await ada.stop("")
    await team.faulty.nothing_is_left()


async def test_a_node_without_capacity_beside_the_shared_device_is_explained(team):
    await team.cluster.publish(*node_with("node-b", whole("gpu-9")))
    ada, bob = team.user("ada"), team.user("bob")
    await ada.spawn("", {})
    team.config.start_timeout = 15
    team.config.cpu_guarantee = 4000
    with pytest.raises(Exception, match="must run on their node"):
        await bob.spawn("", {})
    await ada.stop("")
    await team.faulty.nothing_is_left()

"""Whichever request of a start or stop fails: the user gets a server or a sentence, and nothing stays behind."""

from __future__ import annotations

import asyncio
import contextlib

import jupyterhub
import pytest

from tests.cluster.fault_proxy import Fault
from tests.integration.faulty_hub import TEMPLATES, without_patience
from tests.polling import PATIENCE_SECONDS
from tests.spawner.hub_side import cancel_start


@pytest.fixture
def cluster(real_cluster):
    """The real control plane alone: only the requests to it fail here."""
    return real_cluster


async def test_without_faults_a_start_makes_two_requests_more_than_kubespawner(faulty):
    assert await faulty.spawn() is None
    assert sorted(faulty.requests()) == sorted([f"create {TEMPLATES}", "create pods", f"patch {TEMPLATES}"])
    await faulty.stop()
    assert faulty.requests()[3:] == ["delete pods"]
    await faulty.nothing_is_left()


STARTS = [("create", TEMPLATES), ("create", "pods"), ("patch", TEMPLATES)]


@pytest.mark.parametrize(("verb", "resource"), STARTS, ids=lambda value: value)
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault.refuse(), id="refused connection"),
        pytest.param(Fault.lose_answer(), id="lost answer"),
        pytest.param(Fault.hold(), id="no answer"),
        pytest.param(Fault.hold_answer(), id="done without answer"),
        pytest.param(Fault.answer(403, "Forbidden", "exceeded quota: two-pods"), id="forbidden"),
        pytest.param(Fault.answer(422, "Invalid", "is invalid: spec: Required value"), id="invalid"),
        pytest.param(Fault.answer(429, "TooManyRequests"), id="too many requests"),
        pytest.param(Fault.answer(500, "InternalError"), id="internal error"),
    ],
)
async def test_one_failed_request_of_a_start(faulty, verb, resource, fault):
    without_patience(faulty.side)
    faulty.user = faulty.side.user("bob")
    faulty.proxy.fail(fault, verb=verb, resource=resource)
    error = await faulty.spawn()
    assert faulty.proxy.count(verb, resource), "the fault has to be met"
    if error is None:
        await faulty.stop()
    else:
        assert getattr(error, "jupyterhub_message", ""), f"no sentence for the user: {error!r}"
    await faulty.nothing_is_left()

    assert await faulty.spawn() is None, "the next start works"
    await faulty.stop()
    await faulty.nothing_is_left()


@pytest.mark.parametrize(("verb", "resource"), STARTS[:2], ids=lambda value: value)
@pytest.mark.parametrize(
    "fault", [Fault.refuse(), Fault.hold_answer(), Fault.answer(500)], ids=["refused", "no answer", "500"]
)
async def test_a_request_that_goes_on_failing(faulty, verb, resource, fault):
    faulty.user.spawner.k8s_api_request_timeout, faulty.user.spawner.k8s_api_request_retry_timeout = 1, 4
    faulty.proxy.fail(fault, verb=verb, resource=resource, times=None)
    assert await faulty.spawn() is not None
    faulty.proxy.heal()
    await faulty.nothing_is_left()


@pytest.mark.parametrize(
    ("verb", "resource"), [("get", "pods"), ("delete", "pods"), ("delete", TEMPLATES)], ids=lambda value: value
)
@pytest.mark.parametrize("fault", [Fault.answer(500), Fault.lose_answer()], ids=["500", "lost answer"])
async def test_a_failed_request_of_the_clean_up(faulty, verb, resource, fault):
    """The pod is made but the answer never comes, so the start fails; one request of its clean-up fails as well."""
    faulty.proxy.fail(Fault.answer(500), verb="create", resource="pods", nth=2, times=None)
    faulty.proxy.fail(Fault.lose_answer(), verb="create", resource="pods")
    faulty.proxy.fail(fault, verb=verb, resource=resource)
    assert await faulty.spawn() is not None
    assert faulty.proxy.count(verb, resource), "the fault has to be met"
    faulty.proxy.heal()
    await faulty.stop()
    await faulty.nothing_is_left()


@pytest.mark.parametrize(
    "resource", ["deviceclasses", "resourceslices", "resourceclaims", "nodes", TEMPLATES], ids=lambda value: value
)
async def test_lists_that_fail_do_no_harm(faulty, resource):
    """Lists of the explanation and of the sweep fail: the start waits, gives up with a sentence, and leaves nothing."""
    faulty.side.spawner_config.start_timeout = 20
    faulty.side.spawner_config.device_claims = {"gpu": {"device_class": "gpu-share.example.com", "product": "Other*"}}
    faulty.user = faulty.side.user("bob")
    faulty.proxy.fail(Fault.answer(500), verb="list", resource=resource, times=None)
    error = await faulty.spawn()
    assert faulty.proxy.count("list", resource), "the fault has to be met"
    assert "Gave up after 20 seconds." in error.jupyterhub_message
    await faulty.nothing_is_left()


async def test_a_clean_up_that_takes_longer_than_jupyterhub_waits(faulty):
    """The user still reads why the start has failed."""
    without_patience(faulty.side)
    faulty.side.spawner_config.start_timeout = 8
    faulty.side.spawner_config.device_claims = {"gpu": {"device_class": "gpu-share.example.com", "product": "Other*"}}
    faulty.user = faulty.side.user("bob")
    faulty.proxy.fail(Fault.hold(), verb="delete", resource="pods", times=None)
    error = await faulty.spawn()
    assert error is not None
    if jupyterhub.version_info >= (6,):  # 5 does not wait for the end of a late start
        assert "Gave up after 8 seconds." in error.jupyterhub_message
    faulty.proxy.heal()
    await faulty.nothing_is_left()


async def test_an_api_server_that_goes_away_during_the_clean_up(faulty):
    """The pod is refused; then nothing answers for a while; then the clean-up is done all the same."""
    faulty.proxy.fail(Fault.answer(403, "Forbidden", "no"), verb="create", resource="pods")
    faulty.proxy.fail(Fault.refuse(), verb="delete", resource=TEMPLATES, times=6)
    assert await faulty.spawn() is not None
    await faulty.nothing_is_left()


@pytest.mark.parametrize(("verb", "resource"), STARTS, ids=lambda value: value)
async def test_a_start_that_is_cancelled_at_a_request(faulty, verb, resource):
    spawning = asyncio.create_task(faulty.spawn())
    reached = asyncio.Event()

    def cancel(_) -> bool:
        reached.set()
        cancel_start(faulty.user.spawner)
        return True

    faulty.proxy.fail(Fault.lose_answer(), verb=verb, resource=resource, matching=cancel)
    await asyncio.wait_for(reached.wait(), PATIENCE_SECONDS)
    with contextlib.suppress(asyncio.CancelledError):
        await spawning
    await faulty.nothing_is_left()


async def test_a_pod_of_that_name_is_there_already(faulty):
    """KubeSpawner removes it and tries again; the templates of this start must survive that."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "jupyter-ada", "labels": {"component": "singleuser-server"}},
        "spec": {"containers": [{"name": "notebook", "image": "example/notebook:1", "command": ["x"]}]},
    }
    await faulty.cluster.publish(pod)
    assert await faulty.spawn() is None
    await faulty.stop()
    await faulty.nothing_is_left()


async def test_start_timeout_names_what_it_waited_for(faulty):
    faulty.side.spawner_config.device_claims = {
        "gpu": {"device_class": "gpu-share.example.com", "capacity": {"memory": "10Gi"}, "product": "Other*"}
    }
    faulty.side.spawner_config.start_timeout = 20  # a tenth of the time is for the clean-up
    faulty.user = faulty.side.user("bob")
    error = await faulty.spawn()
    assert error.jupyterhub_message == (
        "Gave up after 20 seconds. No node has a device such as this choice asks for now. The server does not wait any "
        "more."
    )
    await faulty.nothing_is_left()


@pytest.mark.parametrize(
    "fault",
    [Fault.refuse(), Fault.lose_answer(), Fault.hold(), Fault.answer(500)],
    ids=["refused", "lost", "hold", "500"],
)
async def test_a_stop_that_fails_once_is_made_good_by_the_next(faulty, fault):
    without_patience(faulty.side)
    faulty.user = faulty.side.user("bob")
    assert await faulty.spawn() is None
    faulty.proxy.fail(fault, verb="delete", resource="pods", times=2)
    with contextlib.suppress(Exception):
        await faulty.stop()
    faulty.proxy.heal()
    await faulty.stop()
    await faulty.nothing_is_left()


async def test_for_an_account_without_our_rules_the_log_says_which_file_to_apply(faulty, caplog):
    message = (
        'resourceclaimtemplates.resource.k8s.io is forbidden: User "x" cannot create resource "resourceclaimtemplates" '
        'in API group "resource.k8s.io" in the namespace "hub"'
    )
    faulty.proxy.fail(Fault.answer(403, "Forbidden", message), verb="create", resource=TEMPLATES)
    error = await faulty.spawn()
    assert "JupyterHub lacks a right in the cluster" in error.jupyterhub_message
    assert "helm-values/rbac.yaml" in caplog.text
    await faulty.nothing_is_left()

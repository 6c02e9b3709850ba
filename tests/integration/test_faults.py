"""Whichever request of a start or stop fails: the user gets a server or a sentence, and nothing stays behind.

The faults of a table hit users of one hub, at the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial

import jupyterhub
import pytest

from dra_spawner.spawner.hub_parts.hub_wide import forget_hub
from tests.cluster.fault_proxy import Fault
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.faulty_hub import (
    OLDER_POD,
    TEMPLATES,
    Faulty,
    advance_clock,
    faults_at,
    faulty_on,
    with_a_user_each,
    without_patience,
)
from tests.polling import PATIENCE_SECONDS
from tests.spawner.hub_side import cancel_start


@pytest.fixture
async def faulty(real_cluster: ClusterUnderTest) -> AsyncIterator[Faulty]:
    """On the real control plane alone, as only the requests to it fail here; each user may have a share of a GPU."""
    async with faulty_on(real_cluster, gpus=8) as found:
        without_patience(found.side)
        yield found


@pytest.fixture
def waiting(faulty: Faulty) -> Faulty:
    """Servers ask for a device that no node has."""
    faulty.side.spawner_config.device_claims = {"gpu": {"device_class": "gpu-share.example.com", "product": "Other*"}}
    return faulty


@pytest.mark.promise("A start with one claim makes two requests more than KubeSpawner.")
async def test_without_faults_a_start_makes_two_requests_more_than_kubespawner(faulty):
    assert await faulty.spawn() is None
    assert sorted(faulty.requests()) == sorted([f"create {TEMPLATES}", "create pods", f"patch {TEMPLATES}"])
    await faulty.stop()
    assert faulty.requests()[3:] == ["delete pods"]
    await faulty.nothing_is_left()


STARTS = [("create", TEMPLATES), ("create", "pods"), ("patch", TEMPLATES)]
FAILED_ONCE = {
    "refused connection": Fault.refuse(),
    "lost answer": Fault.lose_answer(),
    "no answer": Fault.hold(),
    "done without answer": Fault.hold_answer(),
    "forbidden": Fault.answer(403, "Forbidden", "exceeded quota: two-pods"),
    "invalid": Fault.answer(422, "Invalid", "is invalid: spec: Required value"),
    "too many requests": Fault.answer(429, "TooManyRequests"),
    "internal error": Fault.answer(500, "InternalError"),
}


@pytest.mark.promise(
    "Whichever request of a start fails: the user gets a server or a sentence, and nothing stays behind."
)
async def test_one_failed_request_of_a_start(faulty):
    rows = faults_at(FAILED_ONCE, STARTS)

    async def start(user, fault, verb, resource):
        met = faulty.fail_for(user, fault, verb, resource)
        await faulty.start_and_stop(user)
        assert met, "the fault has to be met"

    async def start_again(user, *_):
        assert await faulty.spawn(user) is None, "the next start works"
        await faulty.stop(user)

    for work in (start, start_again):
        await with_a_user_each(rows, work)
        await faulty.nothing_is_left()


async def test_a_request_that_goes_on_failing(faulty):
    faults = {"refused": Fault.refuse(), "no answer": Fault.hold_answer(), "500": Fault.answer(500)}
    config = faulty.side.spawner_config
    config.k8s_api_request_timeout, config.k8s_api_request_retry_timeout = 1, 4

    async def start(user, fault, verb, resource):
        faulty.fail_for(user, fault, verb, resource, times=None)
        assert await faulty.spawn(user) is not None

    await with_a_user_each(faults_at(faults, STARTS[:2]), start)
    faulty.proxy.heal()
    await faulty.nothing_is_left()


@pytest.mark.promise("A failed request of a clean-up leaves nothing behind.")
async def test_a_failed_request_of_the_clean_up(faulty):
    """The pod is made but the answer never comes, so the start fails; one request of its clean-up fails as well."""
    faults = {"500": Fault.answer(500), "lost answer": Fault.lose_answer()}

    async def start(user, fault, verb, resource):
        faulty.fail_for(user, Fault.answer(500), "create", "pods", nth=2, times=None)
        faulty.fail_for(user, Fault.lose_answer(), "create", "pods")
        met = faulty.fail_for(user, fault, verb, resource)
        assert await faulty.spawn(user) is not None
        assert met, "the fault has to be met"

    rows = faults_at(faults, [("get", "pods"), ("delete", "pods"), ("delete", TEMPLATES)])
    await with_a_user_each(rows, start)
    faulty.proxy.heal()
    await with_a_user_each(rows, lambda user, *_: faulty.stop(user))
    await faulty.nothing_is_left()


async def test_lists_that_fail_do_no_harm(waiting):
    """Lists of the explanation and of the sweep fail: the start waits, gives up with a sentence, and leaves nothing."""
    for resource in ("deviceclasses", "resourceslices", "resourceclaims", "nodes", TEMPLATES):
        forget_hub()  # and what it has read
        waiting.proxy.requests.clear()
        waiting.proxy.fail(Fault.answer(500), verb="list", resource=resource, times=None)
        error = await waiting.give_up(f"without-{resource}", when=partial(waiting.proxy.count, "list", resource))
        assert "Gave up after 90 seconds." in error.jupyterhub_message, resource
        await waiting.nothing_is_left()
        waiting.proxy.heal()


async def test_a_clean_up_that_takes_longer_than_jupyterhub_waits(waiting):
    """The user still reads why the start has failed."""

    def is_impatient() -> bool:
        """From here on: before, the start would end because one of its requests is slow."""
        spawner = waiting.user().spawner
        spawner.k8s_api_request_timeout, spawner.k8s_api_request_retry_timeout = 1, 2
        return True

    waiting.proxy.fail(Fault.hold(), verb="delete", resource="pods", times=None)
    error = await waiting.give_up(when=is_impatient)
    assert error is not None
    if jupyterhub.version_info >= (6,):  # 5 does not wait for the end of a late start
        assert "Gave up after 90 seconds." in error.jupyterhub_message
    waiting.proxy.heal()
    advance_clock(60)  # requests without an answer end
    await waiting.nothing_is_left()


async def test_an_api_server_that_goes_away_during_the_clean_up(faulty):
    """The pod is refused; then nothing answers for a while; then the clean-up is done all the same."""
    faulty.proxy.fail(Fault.answer(403, "Forbidden", "no"), verb="create", resource="pods")
    faulty.proxy.fail(Fault.refuse(), verb="delete", resource=TEMPLATES, times=6)
    assert await faulty.spawn() is not None
    await faulty.nothing_is_left()


@pytest.mark.promise("A start that is cancelled at any request leaves nothing behind.")
async def test_a_start_that_is_cancelled_at_a_request(faulty):
    async def start(user, fault, verb, resource):
        spawning = asyncio.create_task(faulty.spawn(user))
        reached = asyncio.Event()

        def cancel(request) -> bool:
            if user not in request.name:
                return False
            reached.set()
            cancel_start(faulty.user(user).spawner)
            return True

        faulty.proxy.fail(fault, verb=verb, resource=resource, matching=cancel)
        await asyncio.wait_for(reached.wait(), PATIENCE_SECONDS)
        with contextlib.suppress(asyncio.CancelledError):
            await spawning

    faults = {"done before the clean-up": Fault.lose_answer(), "done after it": Fault.late()}
    await with_a_user_each(faults_at(faults, STARTS), start)
    assert await faulty.proxy.carry_out_late() == len(STARTS)
    advance_clock(60)  # until the last look for such requests
    await faulty.nothing_is_left()


async def test_a_pod_of_that_name_is_there_already(faulty):
    """KubeSpawner removes it and tries again; the templates of this start must survive that."""
    await faulty.cluster.publish(OLDER_POD)
    assert await faulty.spawn() is None
    await faulty.stop_last()


async def test_start_timeout_names_what_it_waited_for(waiting):
    error = await waiting.give_up(text="No machine has such a device now.")
    assert error.jupyterhub_message == (
        "Gave up after 90 seconds. No machine has such a device now. The server does not wait any more."
    )
    await waiting.nothing_is_left()


async def test_a_stop_that_fails_once_is_made_good_by_the_next(faulty):
    faults = {name: FAILED_ONCE[name] for name in ("refused connection", "lost answer", "no answer", "internal error")}

    async def stop(user, fault, verb, resource):
        assert await faulty.spawn(user) is None
        spawner = faulty.user(user).spawner
        spawner.k8s_api_request_timeout, spawner.k8s_api_request_retry_timeout = 1, 4
        faulty.fail_for(user, fault, verb, resource, times=2)
        with contextlib.suppress(Exception):
            await faulty.stop(user)
        spawner.k8s_api_request_timeout, spawner.k8s_api_request_retry_timeout = 20, 60

    rows = faults_at(faults, [("delete", "pods")])
    await with_a_user_each(rows, stop)
    faulty.proxy.heal()
    await with_a_user_each(rows, lambda user, *_: faulty.stop(user))
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

"""Users get a plain sentence; the log gets the object, the rule and Kubernetes' own words."""

from __future__ import annotations

import asyncio
import logging
import re
from types import SimpleNamespace

import aiohttp
import pytest
from kubernetes_asyncio.client.exceptions import ApiException
from prometheus_client import REGISTRY

from dra_spawner.spawner.spawn_refusal import (
    FAILED_STARTS,
    OptionsRefused,
    RefusalReason,
    SpawnRefused,
    UnexpectedFailure,
    count_failed_start,
    explain_missing_answer,
    refusal_of_error,
    refusal_of_kubernetes_error,
)
from tests.all_of_them import all_of_them
from tests.log_messages import log_messages

FORBIDDEN = (
    'resourceclaims.resource.k8s.io "shared-lab-gpu" is forbidden: User "system:serviceaccount:hub:hub" cannot patch '
    'resource "resourceclaims" in API group "resource.k8s.io" in the namespace "hub"'
)
QUOTA = 'pods "jupyter-ada" is forbidden: exceeded quota: gpus'


CLUSTER = RefusalReason.CLUSTER


@all_of_them(
    "status, message, sentence, reason, code, hint",
    {
        "right": (403, FORBIDDEN, "lacks a right", RefusalReason.PERMISSION, 403, "helm-values/rbac.yaml"),
        "quota": (403, QUOTA, "quota of the cluster is used up", CLUSTER, 400, "gpus"),
        "old": (404, "could not find the requested resource", "refused", CLUSTER, 400, "1.34"),
        "invalid": (422, "matchAttribute: Invalid", "refused", CLUSTER, 400, "matchAttribute"),
        "failing": (500, "etcd is away", "try again later", CLUSTER, 503, "etcd"),
        "no answer": (0, "no answer", "try again later", CLUSTER, 503, "no answer"),
    },
)
def test_an_error_of_kubernetes(caplog, status, message, sentence, reason, code, hint):
    refused = refusal_of_kubernetes_error("template gpu", status, message, logging.getLogger("hub"))
    assert sentence in str(refused)
    assert not re.search(r"Kubernetes|forbidden|resource|API|ConfigMap", str(refused))
    assert (refused.reason, refused.status_code) == (reason, code)
    (logged,) = log_messages(caplog, "hub")
    assert "template gpu" in logged
    assert message in logged
    assert hint in logged
    caplog.clear()


@all_of_them("words", ["", "Could not create pod test/jupyter-ada"])
def test_a_cluster_that_does_not_answer_in_time(caplog: pytest.LogCaptureFixture, words: str) -> None:
    error = refusal_of_error(TimeoutError(words), "", None, logging.getLogger("hub"))
    assert isinstance(error, SpawnRefused)
    assert error.jupyterhub_message == "The cluster does not answer. Please try again later."
    assert words in caplog.text


def test_a_start_that_both_limits_end_at_once() -> None:
    error = refusal_of_error(asyncio.CancelledError(), "All are in use.", 300, logging.getLogger("hub"))
    assert str(error) == "Gave up after 5 min. All are in use. The server does not wait any more."
    queued = refusal_of_error(TimeoutError(), "", 300, logging.getLogger("hub"), held_back="Servers start in turn.")
    assert str(queued) == "Gave up after 5 min. Servers start in turn. The server does not wait any more."
    cancelled = asyncio.CancelledError()
    assert refusal_of_error(cancelled, "All are in use.", None, logging.getLogger("hub")) is cancelled


def test_a_shared_device_that_is_not_removed_in_time(caplog: pytest.LogCaptureFixture) -> None:
    terminating = "ResourceClaim shared-lab-gpu is being removed"
    error = refusal_of_error(TimeoutError("Could not create pod"), "", None, logging.getLogger("hub"), terminating)
    assert isinstance(error, SpawnRefused)
    assert error.jupyterhub_message.startswith("The shared device of this choice is being removed")
    assert terminating in caplog.text


@all_of_them(
    "error",
    [ApiException(403, "quota of a service"), TimeoutError("the directory"), aiohttp.ClientError("the registry")],
)
def test_an_error_of_the_hubs_own_code_is_not_told_as_the_clusters(error: Exception) -> None:
    def hook() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        hook()
    assert refusal_of_error(raised.value, "", None, logging.getLogger("hub")) is error


def test_failed_starts_are_counted_by_reason() -> None:
    """Every reason has a series from the begin, so that Prometheus sees the first failure; a start that is ended is none."""

    def counted() -> dict[str, float]:
        (family,) = FAILED_STARTS.collect()
        return {each.labels["reason"]: each.value for each in family.samples if each.name.endswith("_total")}

    before = counted()
    assert set(before) == {*RefusalReason, "other-error"}
    for error in (
        OptionsRefused("No such choice."),
        SpawnRefused("No device.", RefusalReason.NO_DEVICE),
        UnexpectedFailure(),
        asyncio.CancelledError(),
    ):
        count_failed_start(error)
    changed = {reason: value - before[reason] for reason, value in counted().items() if value != before[reason]}
    assert changed == {"invalid-options": 1, "no-device-in-time": 1, "other-error": 1}


def late_servers() -> float:
    return REGISTRY.get_sample_value("dra_spawner_failed_starts_total", {"reason": RefusalReason.TIMEOUT}) or 0.0


async def test_a_server_that_never_answers_is_explained_without_its_address() -> None:
    """JupyterHub shows ``jupyterhub_message`` of the error with which the start ends."""
    late = TimeoutError("Server at http://10.1.2.3:8888/user/ada/api didn't respond in 30 seconds")
    refused = SpawnRefused("The cluster is full.", RefusalReason.NO_DEVICE)
    before, sentences = late_servers(), []
    for error in (late, refused, ValueError("a hook")):
        start = asyncio.get_running_loop().create_future()
        spawner = SimpleNamespace(_spawn_future=start, http_timeout=30)
        explain_missing_answer(spawner)
        if error is late:
            explain_missing_answer(spawner, is_counted=False)
        start.set_exception(error)
        await asyncio.wait((start,))
        explain_missing_answer(spawner)  # has ended
        sentences.append(getattr(error, "jupyterhub_message", ""))
    explain_missing_answer(SimpleNamespace(http_timeout=30))
    assert sentences == [
        "Your server was started, but did not answer within 30 seconds, and was stopped. "
        "Please try again, or tell your administrator.",
        "The cluster is full.",
        "",
    ]
    assert late_servers() == before + 1

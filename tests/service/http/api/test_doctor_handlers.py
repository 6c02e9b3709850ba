"""The report of `dra-spawner doctor` in API and page of the service."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from dra_spawner.doctor.facts import Account, ServiceSettings
from dra_spawner.doctor.reader import Questions
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.api.doctor_handlers import DoctorHandler, DoctorPage
from dra_spawner.service.self_examination import SelfExamination
from tests.cluster.under_test import ClusterUnderTest
from tests.local_server import get
from tests.service.open_service import open_to_all, web_service

EVIL = "<script>x</script>"


@pytest.fixture
async def url(context: ServiceContext) -> AsyncIterator[str]:
    pages = {"open/doctor": DoctorPage, "open/api/doctor": DoctorHandler}
    async with web_service(context, *((name, open_to_all(each)) for name, each in pages.items())) as found:
        yield found


async def test_before_the_cluster_is_found(url: str) -> None:
    for address in ("open/doctor", "open/api/doctor"):
        status, text = await get(f"{url}/{address}")
        assert status == 503
        assert "The cluster is not found yet." in text


async def test_findings_are_shown_for_a_minute(
    url: str, context: ServiceContext, embedded_cluster: ClusterUnderTest
) -> None:
    now = 0.0
    settings = ServiceSettings(priority_class=EVIL)
    questions = Questions(embedded_cluster.namespace, settings=settings, own_account=Account.SERVICE)
    context.examination = SelfExamination(embedded_cluster.admin, questions, lambda: now)
    status, page = await get(f"{url}/open/doctor")
    assert status == 200
    assert "<h2>Devices and drivers</h2>" in page
    assert "Install the DRA driver of your devices" in page
    assert "PriorityClass &lt;script&gt;x&lt;/script&gt; does not exist" in page
    assert "<script>" not in page
    _, first = await get(f"{url}/open/api/doctor")
    now = 59.0
    assert (await get(f"{url}/open/api/doctor"))[1] == first
    now = 61.0
    assert (await get(f"{url}/open/api/doctor"))[1] != first


async def test_a_cluster_that_does_not_answer(
    url: str, context: ServiceContext, embedded_cluster: ClusterUnderTest
) -> None:
    async with embedded_cluster.fault_proxy() as proxy:
        kubeconfig = embedded_cluster.admin_kubeconfig_for(proxy.url)
    async with await type(embedded_cluster.admin).from_kubeconfig(kubeconfig) as api:
        context.examination = SelfExamination(api, Questions(embedded_cluster.namespace))
        status, text = await get(f"{url}/open/api/doctor")
    assert status == 503
    assert "The cluster cannot be examined: get /version" in text

"""The queue for devices on a real scheduler: nobody is passed, nobody starves, no device is idle, and no hold is long."""

from __future__ import annotations

import pytest

from tests.cluster.under_test import ClusterUnderTest
from tests.virtual_time.ticket_days import Sizes, TicketFigures, ticket_days


def check(found: TicketFigures, sizes: Sizes) -> None:
    assert found.overtaken == []
    assert found.unserved == 0
    assert found.longest_idle <= 60
    assert found.longest_hold <= 330
    assert found.taken + found.expired + found.left == sizes.users * sizes.days


async def test_a_morning(real_cluster: ClusterUnderTest) -> None:
    sizes = Sizes(users=12, devices=3, hours=0.5)
    found = await ticket_days(real_cluster, sizes)
    check(found, sizes)
    assert found.refused > 0


@pytest.mark.timeout(2400)
async def test_three_days_of_200_users(real_cluster: ClusterUnderTest) -> None:
    sizes = Sizes(users=200, devices=20, days=3)
    found = await ticket_days(real_cluster, sizes, report=print)
    print(found)
    check(found, sizes)
    # Waits of one day are wrong together; many days are in `tests.bench.queue_hubs`.
    assert 0.65 <= found.share_inside <= 0.95

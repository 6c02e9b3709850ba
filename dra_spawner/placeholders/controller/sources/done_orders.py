"""Removes orders of people that are done."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from operator import methodcaller
from typing import Final

from dra_spawner.kube.leader import NotLeading
from dra_spawner.placeholders.controller.sources.override_store import OverrideStore, OverridesUnavailable
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.decisions.orders import is_order_done

__all__ = ["forget_done_orders"]

_LOOK_SECONDS: Final = 2.0


async def forget_done_orders(store: OverrideStore, view: Callable[[], View], may_act: Callable[[], None]) -> None:
    """Delete finished orders until cancelled; a failed write is retried in the next pass.

    Parameters
    ----------
    may_act
        Called before each write; raises `NotLeading` if this process must not act.
    """
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        orders = store.present.orders
        if not orders:
            continue
        present = view()
        done = [each for each in orders if is_order_done(present, each.order)]
        if done:
            with contextlib.suppress(NotLeading, OverridesUnavailable):  # the store logs why
                may_act()
                await store.change(methodcaller("without_orders", done))

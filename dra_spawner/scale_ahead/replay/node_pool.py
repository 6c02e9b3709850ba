"""Nodes of one kind and their servers, minute by minute."""

from __future__ import annotations

import heapq
import random
from bisect import insort
from collections import deque
from collections.abc import Callable
from typing import Final

from dra_spawner.scale_ahead.demand.hold import RunningMaximum
from dra_spawner.scale_ahead.demand.minutes import whole_minutes
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind

_NEVER: Final = -1


class NodePool:
    """Model of an autoscaler, and of a scheduler that packs servers on the busiest node.

    A launch gets a free slot of a node with the image; the slot is free again when the server ends. With `as_z2jh` the
    placeholders are those of zero-to-jupyterhub: a node counts as soon as it is ready, and a launch preempts the
    youngest placeholder, also on a node that does not have the image yet.

    Parameters
    ----------
    seed
        Seed of the drawn lead times.
    on_lead
        Called with the lead time of each ordered node, in minutes.
    """

    def __init__(self, kind: NodeKind, seed: int, on_lead: Callable[[int], None], *, as_z2jh: bool = False) -> None:
        self._slots = kind.slots
        self._most = kind.max_nodes
        self._starts = kind.starts_per_minute
        self._unneeded = whole_minutes(kind.unneeded)
        self._image = whole_minutes(kind.image_time)
        self._leads = tuple(whole_minutes(each) for each in kind.lead_times)
        self._random = random.Random(seed)  # noqa: S311  # no secret
        self._on_lead = on_lead
        self._as_z2jh = as_z2jh
        self._due: list[tuple[int, int]] = []
        """Heap of ordered nodes: the minute at which each becomes usable, and its number."""
        self._used: dict[int, int] = {}
        """Number of servers by node; nodes that stay full for ever are left out."""
        self._by_use: list[dict[int, None]] = [{} for _ in range(kind.slots)]
        """Nodes with a free slot, by their number of servers, in the order in which they got it."""
        self._youngest: list[int] = []
        """The same nodes, the youngest last; for `as_z2jh` only."""
        self._image_at: dict[int, int] = {}
        self._leaving: dict[int, list[int]] = {}
        self._waiting: deque[tuple[int, int]] = deque()
        """Minute of the launch and duration of each waiting server."""
        self._next = 0
        self._tokens = 0.0 if self._starts is None else max(self._starts, 1.0)
        self._surplus = RunningMaximum()
        self._removed = 0
        self.free = 0
        """Free slots of usable nodes."""
        self.nodes = 0
        """Nodes that were ordered and not removed; nodes that stay full for ever are left out."""
        self.running = 0
        """Servers on these nodes."""
        self.starts = 0
        """Number of all ordered nodes."""
        self.departed = 0
        """Servers that have ended in this minute."""
        self.is_at_limit = False
        """Whether the limit of nodes prevents orders now."""
        self.is_throttled = False
        """Whether the limit of node starts prevents orders now."""

    @property
    def waiting(self) -> int:
        """Servers that wait for a node."""
        return len(self._waiting)

    @property
    def free_beside_servers(self) -> int:
        """Free slots of nodes on which servers run; empty nodes are left out."""
        return self.free - len(self._by_use[0]) * self._slots

    def begin(self, minute: int, on_wait: Callable[[int, int], None]) -> None:
        """Begin a minute: nodes become usable, servers end, and waiting servers get free slots.

        Parameters
        ----------
        on_wait
            Called with the minute of a launch, and with its wait in minutes.
        """
        due = self._due
        while due and due[0][0] <= minute:
            _, node = heapq.heappop(due)
            self._used[node] = 0
            self._offer(node, 0)
            self.free += self._slots
        left = self._leaving.pop(minute, ())
        self.departed = len(left)
        for node in left:
            self._leave(node)
        waiting = self._waiting
        while waiting and self.free:
            since, length = waiting.popleft()
            on_wait(since, minute - since + self._place(minute, length))

    def launch(self, minute: int, length: int) -> int | None:
        """Start a server.

        Parameters
        ----------
        length
            Duration in minutes; -1 if the server never ends.

        Returns
        -------
        int or None
            Minutes until its node has the image, mostly 0; None if it waits for a node.
        """
        if self.free:
            return self._place(minute, length)
        self._waiting.append((minute, length))
        return None

    def order(self, minute: int, placeholders: int) -> None:
        """Order the nodes that placeholders and waiting servers need, and remove the others."""
        slots = self._slots
        position = self.free + len(self._due) * slots - len(self._waiting)
        nodes = -((position - placeholders) // slots)
        self.is_at_limit = self.is_throttled = False
        if self._starts is not None:
            self._tokens = min(self._tokens + self._starts, max(self._starts, 1.0))
        if nodes > 0:
            self._order(minute, nodes)
        # A node is removed when it was not needed for the time `unneeded`.
        idle = min(len(self._by_use[0]), max((position - placeholders) // slots, 0))
        self._surplus.add(minute, -(idle + self._removed))
        removable = -int(self._surplus.held(minute, self._unneeded + 1)) - self._removed
        for _ in range(min(removable, idle)):
            self._remove()

    def _order(self, minute: int, nodes: int) -> None:
        if self._most is not None and self.nodes + nodes > self._most:
            nodes = max(self._most - self.nodes, 0)
            self.is_at_limit = True
        if self._starts is not None:
            allowed = int(self._tokens)
            self.is_throttled = nodes > allowed
            nodes = min(nodes, allowed)
            self._tokens -= nodes
        for _ in range(nodes):
            lead = self._leads[0] if len(self._leads) == 1 else self._random.choice(self._leads)
            self._on_lead(lead + self._image)
            ready = minute + lead
            self._image_at[self._next] = ready + self._image
            heapq.heappush(self._due, (ready if self._as_z2jh else ready + self._image, self._next))
            self._next += 1
        self.nodes += nodes
        self.starts += nodes

    def _place(self, minute: int, length: int) -> int:
        node, used = self._chosen()
        del self._by_use[used][node]
        used += 1
        self.free -= 1
        if used < self._slots:
            self._by_use[used][node] = None
        elif self._as_z2jh:
            self._youngest.remove(node)
        missing = max(self._image_at[node] - minute, 0) if self._as_z2jh else 0
        self._used[node] = used
        self.running += 1
        if length != _NEVER:
            self._leaving.setdefault(minute + length, []).append(node)
        elif used == self._slots and not self._leaving:
            # No server on this node ever ends, so the node is dropped from the model.
            del self._used[node], self._image_at[node]
            self.nodes -= 1
            self.running -= used
        return missing

    def _chosen(self) -> tuple[int, int]:
        if self._as_z2jh:
            node = self._youngest[-1]
            return node, self._used[node]
        for used in range(self._slots - 1, -1, -1):
            nodes = self._by_use[used]
            if nodes:
                return next(reversed(nodes)), used
        raise AssertionError("no node has a free slot")

    def _leave(self, node: int) -> None:
        used = self._used[node]
        if used < self._slots:
            del self._by_use[used][node]
        self._used[node] = used - 1
        self.running -= 1
        self._offer(node, used - 1, is_new=used == self._slots)
        self.free += 1

    def _offer(self, node: int, used: int, *, is_new: bool = True) -> None:
        self._by_use[used][node] = None
        if self._as_z2jh and is_new:
            insort(self._youngest, node)

    def _remove(self) -> None:
        node = next(iter(self._by_use[0]))
        del self._by_use[0][node], self._used[node], self._image_at[node]
        if self._as_z2jh:
            self._youngest.remove(node)
        self.free -= self._slots
        self.nodes -= 1
        self._removed += 1

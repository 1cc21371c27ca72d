"""A layout brought to life: replicas, the ports between them, and their threads.

A network is never changed. Another configuration is another network: the flow is
drained from the old one, the states move over, and the flow goes on in the new one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from anabranch.engines.local.build import Build, build_replicas
from anabranch.engines.local.layout import Layout
from anabranch.graph.graph import Edge
from anabranch.plan.plan import Region
from anabranch.runtime.batch import Batch
from anabranch.runtime.element import Replica
from anabranch.runtime.ordering.by_position import in_order_of_positions
from anabranch.runtime.ports import AbortedError, End, Inlet
from anabranch.runtime.routing import Router
from anabranch.runtime.split import Slot, SplitOutlet

Fail: TypeAlias = Callable[
    [BaseException], None
]  # told once about an error in a thread


class Network:
    """The running replicas of a layout."""

    def __init__(self, layout: Layout, build: Build, fail: Fail) -> None:
        self.layout = layout
        self.replicas = build_replicas(layout, build)
        self._fail = fail
        owner_of: dict[Inlet, Replica] = {
            replica.inlet: replica
            for replicas in self.replicas.values()
            for replica in replicas
            if replica.inlet is not None
        }
        self._inlets = tuple(owner_of)
        self._inline: dict[str, tuple[Replica, ...]] = {}
        self._reach: dict[str, tuple[Slot, ...]] = {}
        for name in reversed(self.replicas):
            for replica in self.replicas[name]:
                self._look_ahead(replica, owner_of)
        self._threads = [
            threading.Thread(
                target=self._work, args=(replica,), name=replica.name, daemon=True
            )
            for replica in owner_of.values()
            if replica.inlet is not None and replica.inlet.threaded
        ]

    @property
    def threads(self) -> dict[str, threading.Thread]:
        """The threads of all ports, by the name of the replica that each runs."""
        return {thread.name: thread for thread in self._threads}

    def run_by_thread_of(self, replica: Replica) -> list[Replica]:
        """Return all replicas that the thread of a replica may go on with."""
        found = [replica]
        for one in found:
            found += [r for r in self._inline[one.name] if r not in found]
        return found

    def start(self) -> None:
        """Start the threads of all ports."""
        for thread in self._threads:
            thread.start()

    def feed(self, source: str, batch: Batch) -> None:
        """Send a batch of a source on its way; never waits for other threads."""
        (replica,) = self.replicas[source]
        self._flow(replica, batch)
        replica.settle()
        self._run_inline(replica)

    def await_room(self, source: str) -> None:
        """Wait until there is room for the next batch of a source."""
        (replica,) = self.replicas[source]
        for inlet, queue in self._reach[replica.name]:
            inlet.await_room(queue)

    def close(self, source: str, *, final: bool) -> None:
        """End the stream of a source, or cut it off here."""
        (replica,) = self.replicas[source]
        replica.close(final=final)
        self._run_inline(replica)

    def join(self) -> None:
        """Wait until everything that came in has gone through."""
        for thread in self._threads:
            thread.join()

    def lift_bounds(self) -> None:
        """Let nobody wait for room any more; what is under way goes through."""
        for inlet in self._inlets:
            inlet.lift_bound()

    def abort(self) -> None:
        """Send everybody home, wherever they wait."""
        for inlet in self._inlets:
            inlet.abort()

    def left_over(self) -> dict[Edge, list[Batch]]:
        """Take out, once it is at rest, what waits for another source to catch up."""
        found: dict[Edge, list[Batch]] = {}
        for name, element in self.layout.elements.items():
            edges = [e for e in element.inputs for _ in range(self.layout.queues(e))]
            for replica in self.replicas[name]:
                if replica.inlet is not None:
                    for queue, batch in replica.inlet.left_over().items():
                        found.setdefault(edges[queue], []).append(batch)
        return found

    def resume(self, left_over: Mapping[Edge, list[Batch]]) -> None:
        """Put what another network left over where it belongs; before the start."""
        for edge, batches in left_over.items():
            producer = self.layout.element_of(edge.producer.operator)
            outlet = self.replicas[producer.name][0].outlets[edge]
            outlet.put(in_order_of_positions(batches))

    def _edges_into(self, region: Region) -> list[Edge]:
        elements = self.layout.elements.values()
        edges = [edge for element in elements for edge in element.outputs]
        return [e for e in edges if e.consumer.operator in region.operators]

    def router_of(self, region: Region) -> Router | None:
        """Return who deals the items of a region out, if it has replicas."""
        for edge in self._edges_into(region):
            producer = self.layout.element_of(edge.producer.operator)
            outlet = self.replicas[producer.name][0].outlets.get(edge)
            if isinstance(outlet, SplitOutlet):
                return outlet.router
        return None

    def limit(self, source: str) -> int:
        """Return how many items of a source should come at a time."""
        (replica,) = self.replicas[source]
        return replica.limit

    def _look_ahead(self, replica: Replica, owner_of: Mapping[Inlet, Replica]) -> None:
        """Find what a thread goes on with, and where it may have to wait for room."""
        behind = [owner_of[slot.inlet] for slot in replica.slots]
        inline = [r for r in behind if r.inlet is not None and not r.inlet.threaded]
        self._inline[replica.name] = tuple(dict.fromkeys(inline))
        reach = dict.fromkeys(replica.slots)
        for other in self._inline[replica.name]:
            reach.update(dict.fromkeys(self._reach[other.name]))
        self._reach[replica.name] = tuple(reach)

    def _work(self, replica: Replica) -> None:
        """Run a replica that has a thread of its own, until its streams end."""
        inlet = replica.inlet
        assert inlet is not None  # noqa: S101 - only ports have such threads
        try:
            while True:
                due = inlet.poll()
                if due is None:
                    replica.settle()
                    self._run_inline(replica)
                    due = inlet.take()
                if isinstance(due, End):
                    replica.close(final=due.final)
                    self._run_inline(replica)
                    return
                self._flow(replica, due)
                self._await_room(replica)
        except AbortedError:
            return
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            self._fail(error)

    def _flow(self, replica: Replica, batch: Batch) -> None:
        replica.run(batch)
        self._run_inline(replica)

    def _run_inline(self, replica: Replica) -> None:
        """Go on through the locks behind a replica, as far as something is due."""
        pending = list(self._inline[replica.name])
        while pending:
            following = pending.pop(0)
            if self._pass_lock(following):
                pending += self._inline[following.name]

    def _pass_lock(self, replica: Replica) -> bool:
        """Run what is due behind a lock, unless another thread is doing so."""
        inlet = replica.inlet
        assert inlet is not None  # noqa: S101 - it stands behind its lock
        due = inlet.claim()
        if due is None:
            return False
        while due is not None:
            if isinstance(due, End):
                replica.close(final=due.final)
            else:
                replica.run(due)
            due = inlet.poll()
            if due is None:
                replica.settle()
                due = inlet.more()
        return True

    def _await_room(self, replica: Replica) -> None:
        reach = self._reach[replica.name]
        if all(inlet.has_room(queue) for inlet, queue in reach):
            return
        replica.settle()
        self._run_inline(replica)
        for inlet, queue in reach:
            inlet.await_room(queue)

    def counters(self) -> dict[str, Any]:
        """Return how many items went into each element, and how many wait there."""
        return {
            name: {
                "replicas": len(replicas),
                "received": [replica.received for replica in replicas],
                "waiting": [
                    0 if replica.inlet is None else replica.inlet.waiting
                    for replica in replicas
                ],
                "limit": [replica.limit for replica in replicas],
            }
            for name, replicas in self.replicas.items()
        }

"""A simulated world."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import numpy as np
import torch

from partkit.cluster import Cluster
from partkit.communicator import Communicator, RankContext, current
from partkit.diagnosis import RankState, explain
from partkit.mesh import Mesh
from partkit.tracing import Recorder, Trace
from partkit.transport.simulated import Simulation, Stopped
from partkit.transport.turns import RandomState
from partkit.worlds.errors import Failure, name_sites, pack_failure, rank_error, ranks_stuck, site_name
from partkit.worlds.results import Results
from partkit.worlds.travel import pack_result, pack_task, unpack

STACK_BYTES = 1 << 20


class SimulatedWorld:
    """Ranks of one process, in virtual time.

    Example:
        >>> with SimulatedWorld(3) as world:
        ...     world.run(lambda comm, x: x + comm.rank, 10)
        [10, 11, 12]
    """

    def __init__(self, size: int | Mesh, cluster: Cluster | None = None, numbers: bool = True, *, trace: bool = True) -> None:
        self.mesh = size if isinstance(size, Mesh) else None
        self.size = size.size if isinstance(size, Mesh) else size
        self.cluster = Cluster() if cluster is None else cluster
        self.numbers = numbers
        self._traced = trace
        self._random = [RandomState(rank) for rank in range(self.size)]
        self.trace = Trace.from_events([], size=self.size, clock="virtual")

    def run(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Results:
        return Run(self, pack_task(fn, args, kwargs)).results()

    @property
    def pids(self) -> list[int]:
        return [os.getpid()] * self.size

    def close(self) -> None:
        """Nothing stays behind."""

    def __enter__(self) -> SimulatedWorld:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Run:
    """One run."""

    def __init__(self, world: SimulatedWorld, payload: bytes) -> None:
        self.world = world
        self.payload = payload
        link = world.cluster.link
        self.simulation = Simulation(world.size, lambda src, dst, nbytes, start: link.seconds(nbytes), world._random)
        self.contexts = [RankContext(wire, Recorder(wire.rank, enabled=world._traced), world.cluster) for wire in self.simulation.wires]
        self.values: dict[int, bytes] = {}
        self.failures: dict[int, Failure] = {}

    def results(self) -> Results:
        with one_math_thread():
            threads = self._start()
            self.simulation.run()
            stuck = self._states() if self.simulation.unfinished else []
            if stuck:
                self.simulation.stop()
            for thread in threads:
                thread.join()
        self.simulation.engine.run()
        self.world.trace = self._trace()
        if self.failures:
            raise rank_error(list(self.failures.values()), sorted(state.rank for state in stuck if state.status == "blocked"))
        if stuck:
            raise ranks_stuck(explain(stuck))
        return Results(unpack(self.values[rank]) for rank in range(self.world.size))

    def _start(self) -> list[threading.Thread]:
        threads = [threading.Thread(target=self._live, args=(rank,), name=f"partkit rank {rank}", daemon=True) for rank in range(self.world.size)]
        before = threading.stack_size(STACK_BYTES)
        try:
            for thread in threads:
                thread.start()
        finally:
            threading.stack_size(before)
        return threads

    def _live(self, rank: int) -> None:
        self.simulation.begin(rank)
        comm = Communicator(self.contexts[rank], mesh=self.world.mesh)
        current.set(comm)
        try:
            if self.simulation.stopping:
                raise Stopped
            fn, args, kwargs = unpack(self.payload)
            self.values[rank] = pack_result(fn(comm, *args, **kwargs))
        except Stopped:
            pass
        except BaseException as error:
            self.failures[rank] = unpack(pack_failure(rank, error))
        self.simulation.finish(rank)

    def _states(self) -> list[RankState]:
        unfinished = self.simulation.unfinished
        return [
            name_sites(c.state()) if r in unfinished else c.state()._replace(status="finished", blocked_on=None, posted=()) for r, c in enumerate(self.contexts)
        ]

    def _trace(self) -> Trace:
        trace = Trace(self.world.size, clock="virtual")
        for context, wire in zip(self.contexts, self.simulation.wires, strict=True):
            batch = context.recorder.drain()
            if batch is not None:
                times = np.array(wire.times())
                last = len(times) - 1  # a rank that was stuck never got to the end of its wait: what was open then ends where it stands
                for column in ("start", "end"):
                    batch.records[column] = times[np.minimum(batch.records[column].astype(np.int64), last)]
                trace.append(batch._replace(new_sites=[site_name(site) for site in batch.new_sites]))
        trace.finished.set()
        return trace


@contextmanager
def one_math_thread() -> Iterator[None]:
    """The same order of additions as on a live rank."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

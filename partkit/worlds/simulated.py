"""A world of simulated ranks: hundreds of them in one process, with real numbers, in exact virtual time.

    with pk.SimulatedWorld(512, cluster) as world:
        results = world.run(step, batch)      # step(comm, batch) on every rank, as on live ranks
        world.trace                           # the same on every machine and in every run, to the last bit
        run = world.start(step, batch)        # returns at once; run.wait(), await run, run.stop()

    live                                      simulated
    a process a rank                          a thread a rank, of which one runs at a time
    gloo or NCCL                              mailboxes; nobody waits for a wire (`partkit.transport.simulated`)
    the machine's clock                       the one-port alpha-beta model of a cluster (`partkit.virtual_time`)
    a watcher thread finds deadlocks          when nothing can move, that is known at once

What is the same: the function, its arguments (each rank gets a copy of its own), the numbers it computes to the last bit where
the live run is deterministic, its random numbers by rank, what it prints, how errors are told. What is not: ranks share the
process, so what a module keeps in a global is everybody's; ``torch.distributed`` has no group here; and a computation takes no
time unless it is told how much, by ``comm.compute`` or by counting (``compute="counted"``).

How far it goes, with time and memory in proportion to messages (`python3 -m partkit bench simulate` measures both):

    1,024 ranks   any collective with real numbers; a ring all-reduce, the longest, has 4.2 million events
    4,096 ranks   ``numbers=False``: trees, recursive doubling, halving and doubling, two trees: up to 200,000 events. A ring
                  all-reduce has 67 million there: what such a run costs, `partkit.cluster.COSTS` says without running it; a run that
                  would fill the memory ends with MemoryError

When to trust which time of a computation:

    stated      ``comm.compute("f", seconds=...)``: as good as the number; for schedules, and for what was measured elsewhere
    counted     FLOPs and bytes of every operation over the device's rates (a roofline): right in proportion where operations are
                large; too fast for small ones, whose launch costs more than their arithmetic
    measured    `Trace.replay` of a live run: its own durations between messages, as crowded as the machine was
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, get_args

from partkit.cluster import Cluster
from partkit.communicator import current
from partkit.mesh import Mesh
from partkit.tracing import Trace
from partkit.transport.simulated import RandomState
from partkit.worlds.results import Results
from partkit.worlds.simulated_background import BackgroundRun
from partkit.worlds.simulated_run import SimulatedRun
from partkit.worlds.travel import pack_task

Compute = Literal["stated", "counted"]


class SimulatedWorld:
    """Ranks of this process, in virtual time.

    Args:
        size: number of ranks, or a `Mesh` with named axes over them.
        cluster: what they run on; sets how long things take. `Cluster()` by default; more: `partkit.clusters`.
        numbers: False moves shapes only: tensors live on torch's "meta" device, so that thousands of ranks fit.
        trace: whether runs are traced.
        compute: how long computations take: "stated" by ``comm.compute`` only, or "counted" for each operation of torch too.

    Attributes:
        size: number of ranks.
        mesh: the mesh, if one was given.
        trace: of the last run; its clock is "virtual".

    Raises:
        ValueError: no ranks, or more than the cluster has places or devices for.
        RuntimeError: called inside a rank.

    Example:
        >>> import torch, partkit as pk
        >>> def step(comm):
        ...     comm.compute("forward", seconds=0.5)
        ...     return pk.all_reduce(torch.ones(2), comm, algorithm="ring").tolist()
        >>> cluster = pk.Cluster(link=pk.Link(latency=0.125, bandwidth=1e9))
        >>> with SimulatedWorld(64, cluster) as world:
        ...     world.run(step)[63], round(world.trace.makespan, 3)
        ([64.0, 64.0], 16.25)
    """

    def __init__(self, size: int | Mesh, cluster: Cluster | None = None, numbers: bool = True, *, trace: bool = True, compute: Compute = "stated") -> None:
        self.mesh = size if isinstance(size, Mesh) else None
        self.size = size.size if isinstance(size, Mesh) else size
        _check(self.size, compute)
        self.cluster = Cluster() if cluster is None else cluster
        self.cluster.network(self.size)  # raises if the ranks do not fit
        self.numbers = numbers
        self.traced = trace
        self.compute: Compute = compute
        self.random = [RandomState(rank) for rank in range(self.size)]
        self.trace = Trace.from_events([], size=self.size, clock="virtual")
        self._busy = False
        self._background: BackgroundRun | None = None
        self.closed = False

    def run(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Results:
        """Call ``fn(comm, *args, **kwargs)`` on every rank.

        Args:
            fn: any function, lambda or closure; it gets this rank's `Communicator`.
            *args: further arguments; each rank gets a copy of its own.
            **kwargs: the same, by name.

        Returns:
            What the ranks returned, by rank; of a rank that died as the cluster's conditions say, when it did.

        Raises:
            RankError: a rank raised; `RanksStuck`: nothing can move; `RankDied`: others wait for a rank that died.
            TypeError: ``fn`` or an argument can't be copied; the message names it.
            MemoryError: there is no memory for the times and events of so many messages.
            KeyboardInterrupt: the stop button was pressed.
        """
        self._check_free()
        self._busy = True
        try:
            run = SimulatedRun(self, pack_task(fn, args, kwargs))
            try:
                run.carry_out()
            finally:
                self.trace = run.trace
                run.show(over=True)
            return run.results()
        finally:
            self._busy = False

    def start(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> BackgroundRun:
        """Like `run`, but return at once: ``run.wait()``, ``await run``, ``run.stop()``.

        The times of simulated events are known when nothing can change them any more, so ``run.trace`` is filled when the run is over.
        Meanwhile the ranks share this process: its random numbers are theirs (draw yours before or after), and torch uses one
        thread for mathematics.

        Raises:
            RuntimeError: another run goes on.
            RankError: the last background run failed and nobody has looked at its end.

        Example:
            >>> import partkit as pk
            >>> with pk.SimulatedWorld(64) as world:
            ...     run = world.start(lambda comm: comm.rank ** 2)
            ...     run.wait()[63]
            3969
        """
        self._check_free()
        run = self._background = BackgroundRun(self, SimulatedRun(self, pack_task(fn, args, kwargs)))
        self.trace = run.trace
        return run

    def _check_free(self) -> None:
        if self.closed:
            raise RuntimeError("this world is closed; start a new one: SimulatedWorld(n)")
        if self.busy:
            raise RuntimeError("a run goes on in this world: wait for it, or end it with the stop button or run.stop()")
        if self._background is not None and not self._background.seen:
            self._background.results()  # a failure in the background must not go unnoticed

    @property
    def busy(self) -> bool:
        """Whether a run goes on."""
        return self._busy or (self._background is not None and not self._background.done)

    @property
    def pids(self) -> list[int]:
        """Process ids by rank: all the same."""
        return [os.getpid()] * self.size

    def close(self) -> None:
        """Run nothing more; end a run in the background. Threads live as long as a run."""
        if self._background is not None:
            self._background.stop()
        self.closed = True

    def __enter__(self) -> SimulatedWorld:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "running" if self.busy else "idle"
        return f"SimulatedWorld({self.mesh if self.mesh is not None else self.size}, {self.cluster.name}, {state})"


def _check(size: object, compute: object) -> None:
    if current.get() is not None:
        raise RuntimeError(f"SimulatedWorld({size}) called inside a rank: a rank can't start ranks of its own; start the world in the notebook or script")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(f"SimulatedWorld({size!r}): give the number of ranks, at least 1, or a Mesh")
    if compute not in get_args(Compute):
        raise ValueError(f"SimulatedWorld(compute={compute!r}): compute is one of {', '.join(map(repr, get_args(Compute)))}")

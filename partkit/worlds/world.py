"""A world of live ranks: processes of this machine that stay, and run one function after another.

    with pk.World(4) as world:
        results = world.run(step, batch)      # step(comm, batch) on every rank; results[2] is rank 2's
        world.trace                           # what they sent each other

    kernel                                    ranks
    World.run      -- Task (pickled fn) -->   main thread: fn(comm, *args)
    Collector      <-- Events, output ----    while it goes on
                   <-- Done | Failed ------   its end
    Supervisor     -- Look, Abort -------->   watcher thread, even while the main thread is stuck

Ranks keep their state between runs: what a function leaves in a global of its module, or a ``%%ranks`` cell in a variable,
is there in the next. After a failure connections are built anew and ended ranks are started again; the others keep theirs.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Any, Literal

from partkit.diagnosis import name_ranks
from partkit.mesh import Mesh
from partkit.tracing import Trace
from partkit.worlds.cells import lookup, names
from partkit.worlds.collector import Collector
from partkit.worlds.messages import Connect, Leave, Task
from partkit.worlds.process import RankProcess
from partkit.worlds.results import Results
from partkit.worlds.run import Run
from partkit.worlds.travel import pack_task

StartMethod = Literal["forkserver", "spawn"]
JOIN_SECONDS = 60.0


class World:
    """Live ranks on this machine, connected by torch.distributed over gloo.

    Args:
        size: number of ranks, or a `Mesh` with named axes over them.
        trace: whether runs are traced.
        start_method: "forkserver" (Linux: 0.1 s, memory shared) or "spawn" (elsewhere); chosen by platform.
        timeout: seconds that a rank may wait for one message; a deadlock is found without. May be changed between runs.

    Attributes:
        size: number of ranks.
        mesh: the mesh, if one was given.

    Raises:
        ValueError: no ranks, or more than ``PARTKIT_MAX_RANKS`` of the environment allows.
        RuntimeError: called inside a rank, or the ranks could not start.

    Example:
        >>> with World(2) as world:
        ...     world.run(lambda comm, x: x + comm.rank, 10)
        [10, 11]
    """

    def __init__(self, size: int | Mesh, *, trace: bool = True, start_method: StartMethod | None = None, timeout: float | None = None) -> None:
        self.mesh = size if isinstance(size, Mesh) else None
        self.size = size.size if isinstance(size, Mesh) else size
        _check(self.size)
        self._traced, self.timeout = trace, timeout
        self._start_method = start_method or default_start_method()
        self._folder = tempfile.mkdtemp(prefix="partkit-")  # 0700: only this user can reach the rendezvous
        self._generation = 0
        self._num_runs = 0
        self._setting: tuple[str, tuple[str, ...]] = _setting()
        self._lock = threading.RLock()
        self._no_run = Trace.from_events([], size=self.size)
        self._last: Run | None = None  # the last that the user started
        self._current: Run | None = None  # the last of all
        self._collector = Collector([])
        self._processes = self._collector.processes
        self._closer = weakref.finalize(self, _shut_down, self._collector, self._folder)
        atexit.register(self._closer)
        try:
            for rank in range(self.size):
                self._start_rank(rank)
            self._connect()
        except BaseException:
            self.close()
            raise

    # -- running -------------------------------------------------------------------------------------------------

    def run(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Results:
        """Call ``fn(comm, *args, **kwargs)`` on every rank and wait.

        Args:
            fn: any function, lambda or closure, defined in a notebook or a module; it gets this rank's `Communicator`.
            *args: further arguments, the same for every rank.
            **kwargs: the same, by name.

        Returns:
            What the ranks returned, by rank.

        Raises:
            RankError: a rank raised; `RankDied`: a rank's process ended; `RanksStuck`: mismatched calls or a deadlock.
            TypeError: ``fn`` or an argument can't be sent; the message names it.
            KeyboardInterrupt: the stop button was pressed; the ranks keep their variables.
        """
        self._last = self._launch(fn, args, kwargs)
        return self._last.wait()

    def start(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Run:
        """Like `run`, but return at once: ``run.wait()``, ``await run``, ``run.stop()``.

        Raises:
            RuntimeError: another run goes on.
            RankError: the last background run failed and nobody has looked at its end.
        """
        run = self._last = self._launch(fn, args, kwargs)
        run.to_background()
        return run

    def ask(self, fn: Callable[..., Any], *args: Any, timeout: float | None = None) -> Results:
        """Like `run`, for a look at the ranks in between: untraced, and ``trace`` stays that of the last run."""
        return self._launch(fn, args, {}, traced=False).wait(timeout)

    def __getitem__(self, name: str) -> Results:
        """The variable ``name`` that ``%%ranks`` cells have left on each rank."""
        return self.ask(lookup, name)

    def _ipython_key_completions_(self) -> list[str]:
        return [] if self.busy else list(dict.fromkeys(name for found in self.ask(names) for name in found))

    def _launch(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, traced: bool | None = None) -> Run:
        payload = pack_task(fn, args, kwargs)
        with self._lock:
            self._check_free()
            setting = _setting()
            self._repair()
            self._num_runs += 1
            run = self._current = Run(self, self._num_runs, self._collector.nudge, self._collector.tell)
            task = Task(run.number, payload, self._traced if traced is None else traced, setting if setting != self._setting else None)
            self._setting = setting
            self._collector.say(task, run)
        return run

    @property
    def trace(self) -> Trace:
        """The trace of the last run, or of the one that goes on."""
        return self._no_run if self._last is None else self._last.trace

    @property
    def pids(self) -> list[int]:
        """Process ids by rank."""
        return [process.pid for process in self._processes]

    @property
    def busy(self) -> bool:
        """Whether a run goes on."""
        return self._current is not None and not self._current.done

    # -- starting and ending -------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the ranks; also done by the ``with`` statement, by garbage collection and at the end of the kernel."""
        if self._current is not None and not self._current.done:
            self._current.stop()
        self._closer()
        atexit.unregister(self._closer)

    @property
    def closed(self) -> bool:
        return not self._closer.alive

    def __enter__(self) -> World:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "running" if self.busy else "idle"
        return f"World({self.mesh if self.mesh is not None else self.size}, {state})"

    def _check_free(self) -> None:
        if self.closed:
            raise RuntimeError("this world is closed; start a new one: World(n)")
        if self._collector.problem is not None:
            raise RuntimeError(f"this world can't go on, by a defect of partkit: {self._collector.problem}; start a new one: World(n)")
        if self._current is not None and self._current.stopped:
            self._current.stop()  # it may not be over yet, if the stop button was pressed twice
        if self.busy:
            raise RuntimeError("a run goes on in this world: wait for it with run.wait(), or end it with run.stop()")
        if self._last is not None and not self._last.seen:
            self._last.results()  # a failure in the background must not go unnoticed

    def _start_rank(self, rank: int) -> None:
        config = {
            "rank": rank,
            "size": self.size,
            "mesh": None if self.mesh is None else dict(self.mesh.axes),
            "environment": _rank_environment(rank, self.size),
            "directory": self._setting[0],
            "path": list(self._setting[1]),
            "folder": self._folder,
        }
        process = RankProcess(rank, config, self._start_method)
        self._processes[rank : rank + 1] = [process]
        self._collector.watch(process)

    def _repair(self) -> None:
        """Before a run: start ranks that have ended, connect all if any connection is not clean."""
        dead = [process for process in self._processes if not process.alive]
        for process in dead:
            self._collector.forget(process)
            self._start_rank(process.rank)
        if not all(process.connected for process in self._processes):
            self._connect()

    def _connect(self) -> None:
        self._generation += 1
        self._collector.ready.clear()
        store = os.path.join(self._folder, f"rendezvous-{self._generation}")
        self._collector.say(Connect(store, tuple(self.pids)))
        try:
            self._await_ready(store)
        except BaseException:
            self._end_all_but(self._collector.joined(store))  # they wait for somebody who will not come
            raise
        problems = [ready.problem for ready in self._collector.ready.values() if ready.problem]
        if problems:
            raise RuntimeError("; ".join(problems))
        for process in self._processes:
            process.connected = True

    def _await_ready(self, store: str) -> None:
        deadline = time.monotonic() + JOIN_SECONDS
        while len(joined := self._collector.joined(store)) < self.size:
            gone = [p.rank for p in self._processes if not p.alive]
            if gone or self._collector.problem or time.monotonic() > deadline:
                reason = self._collector.problem or (f"{name_ranks(gone)} ended" if gone else f"no answer in {JOIN_SECONDS:.0f} s")
                raise RuntimeError(f"{name_ranks(sorted(set(range(self.size)) - joined))} could not join the others: {reason}")
            self._collector.changed.wait(0.1)

    def _end_all_but(self, ranks: Collection[int]) -> None:
        """End some ranks' processes, and see them gone."""
        for process in self._processes:
            if process.rank not in ranks and process.alive:
                process.kill()
        self._collector.changed.wait_for(lambda: not any(p.alive for p in self._processes if p.rank not in ranks), timeout=2.0)


def default_start_method() -> StartMethod:
    """Forking a process with torch in it is safe on Linux."""
    return "forkserver" if sys.platform == "linux" else "spawn"


def _check(size: object) -> None:
    inside = os.environ.get("PARTKIT_RANK")
    if inside is not None:
        raise RuntimeError(f"World({size}) called inside rank {inside}: a rank can't start ranks of its own; start the world in the notebook or script")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(f"World({size!r}): give the number of ranks, at least 1, or a Mesh")
    most = int(os.environ.get("PARTKIT_MAX_RANKS", "1024"))
    if size > most:
        raise ValueError(f"World({size}): at most {most} ranks here (PARTKIT_MAX_RANKS is set to {most})")


def _setting() -> tuple[str, tuple[str, ...]]:
    try:
        return os.getcwd(), tuple(sys.path)
    except FileNotFoundError as problem:  # what the system says names no directory
        raise RuntimeError("the notebook's working directory has been removed; change to another one: os.chdir(...)") from problem


def _rank_environment(rank: int, size: int) -> dict[str, str]:
    """The kernel's environment as it is now, and what torch.distributed and partkit expect in a rank."""
    loopback = {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {"GLOO_SOCKET_IFNAME": "lo0"}
    place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "PARTKIT_RANK": str(rank)}
    return {**os.environ, **place, **loopback, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def _shut_down(collector: Collector, folder: str) -> None:
    """End the ranks of a world: ask, then insist. Also runs at the exit of the kernel."""
    for process in collector.processes:
        process.send(Leave())
    collector.changed.wait_for(lambda: not any(process.alive for process in collector.processes), timeout=1.0)
    for process in collector.processes:
        if process.alive:
            process.kill()
    collector.close()
    for process in collector.processes:
        process.close()
    shutil.rmtree(folder, ignore_errors=True)

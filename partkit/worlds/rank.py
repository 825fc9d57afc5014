"""The life of a live rank: two threads, one that works and one that watches.

    kernel  == control channel ==>  watcher thread     hands on tasks, answers "what are you doing?", carries out aborts,
                                       |               sends the events of a run while it goes on; leaves with the kernel
                                       v  tasks
                                    main thread        joins the group, runs functions, sends back results

The watcher answers while the main thread sits in gloo's C++ wait. To abort a run it first raises in the main thread (a
signal whose handler raises: user code may ignore SIGINT, and a signal also ends a sleep); if the main thread is in C++, it
then shuts down the connections to the other ranks (`partkit.worlds.sockets`), which makes the wait raise.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist

from partkit.communicator import Communicator, RankContext, current
from partkit.diagnosis import RankState, Status
from partkit.mesh import Mesh
from partkit.tracing import Recorder
from partkit.tracing.recorder import CpuClock
from partkit.transport.process_group import ProcessGroupTransport, c10d, gloo_group
from partkit.worlds.awake import is_awake
from partkit.worlds.cells import fresh_main
from partkit.worlds.errors import pack_failure
from partkit.worlds.gate import Gate
from partkit.worlds.messages import Abort, Allow, Connect, Done, Events, Failed, Leave, Look, Ready, State, Task
from partkit.worlds.sockets import shut_down_connections
from partkit.worlds.travel import pack_result, unpack

ABORT_SIGNAL = signal.SIGUSR1
FLUSH_SECONDS = 0.04
"""How often a running rank sends its events."""
GRACE_SECONDS = 0.03
"""How long an aborted main thread has to raise by itself before its connections are shut down."""


class Aborted(BaseException):
    """Raised in a rank's main thread to end its run; not an `Exception`, so that user code does not swallow it."""


class Rank:
    """One live rank.

    Args:
        control: this end of the control channel.
        config: rank, size, mesh, environment, working directory (`partkit.worlds.world` makes it).
    """

    def __init__(self, control: Connection, config: dict[str, Any]) -> None:
        self.rank: int = config["rank"]
        self.size: int = config["size"]
        self.mesh = None if config["mesh"] is None else Mesh(**config["mesh"])
        self._control = control
        self._sending = threading.Lock()
        self._tasks: queue.SimpleQueue[Connect | Task | Leave] = queue.SimpleQueue()
        self._recorder = Recorder(self.rank, enabled=False, cpu=CpuClock())
        self._gate = Gate()
        self._context: RankContext | None = None
        self._comm: Communicator | None = None
        self._pids: tuple[int, ...] = ()
        self._expected: int | None = None  # the run that the watcher has handed on and that is not answered yet
        self._run: int | None = None  # the run whose function the main thread is in
        self._aborting: int | None = None
        self._answered: int | None = None
        self._main = threading.main_thread().ident

    # -- the main thread -----------------------------------------------------------------------------------------

    def live(self) -> None:
        """Work until the world closes."""
        signal.signal(ABORT_SIGNAL, self._on_abort_signal)
        threading.Thread(target=self._watch, name="partkit watcher", daemon=True).start()
        while True:
            task = self._tasks.get()
            if isinstance(task, Leave):
                return
            if isinstance(task, Connect):
                self._connect(task)
            else:
                self._execute(task)

    def _connect(self, to: Connect) -> None:
        """Build the process groups: one for torch.distributed's own functions, one for partkit's messages."""
        try:
            if dist.is_initialized():
                dist.destroy_process_group()
            self._pids = to.pids
            store = c10d.FileStore(to.store, self.size)
            dist.init_process_group("gloo", store=c10d.PrefixStore("torch", store), rank=self.rank, world_size=self.size)
            group = gloo_group(store, self.rank, self.size, "partkit")

            def make_group(ranks: tuple[int, ...]) -> Any:
                name = "native " + ",".join(map(str, ranks))
                return gloo_group(store, ranks.index(self.rank), len(ranks), name)

            transport = ProcessGroupTransport(group, make_group)
            if self._context is None:
                self._context = RankContext(transport, self._recorder)
                self._context.gate = self._gate
                self._comm = Communicator(self._context, mesh=self.mesh)
            self._context.transport = transport
            self._send(Ready(to.store))
        except Exception as problem:
            self._send(Ready(to.store, f"rank {self.rank} could not join: {problem}"))

    def _execute(self, task: Task) -> None:
        assert self._context is not None and self._comm is not None
        self._context.begin_run()
        self._recorder.enabled = task.traced
        token = current.set(self._comm)
        answer: Done | Failed
        try:
            self._run = task.run
            if self._aborting == task.run:
                raise Aborted(f"rank {self.rank} was stopped before it began")
            try:
                if task.setting is not None:
                    os.chdir(task.setting[0])
                    sys.path[:] = task.setting[1]
                fn, args, kwargs = unpack(task.payload)
                answer = Done(task.run, pack_result(fn(self._comm, *args, **kwargs)))
            finally:
                self._run = None  # from here on an abort comes too late
        except BaseException as error:
            self._run = None
            answer = self._failed(task.run, error)
        current.reset(token)
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        self._flush_events(task.run)
        self._recorder.enabled = False
        self._expected, self._answered = None, task.run
        self._send(answer._replace(posted=self._context.state().posted))

    def _failed(self, run: int, error: BaseException) -> Failed:
        aborted = self._aborting == run or isinstance(error, Aborted) or _lost_a_peer(error)
        return Failed(run, pack_failure(self.rank, error), aborted)

    def _on_abort_signal(self, *_: object) -> None:
        if self._aborting is not None and self._aborting == self._run:
            raise Aborted(f"rank {self.rank} was stopped")

    # -- the watcher ---------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while True:
            try:
                run = self._expected
                if run is not None:
                    self._flush_events(run)
                if not self._control.poll(None if run is None else FLUSH_SECONDS):
                    continue
                message = pickle.loads(self._control.recv_bytes())
            except (EOFError, OSError):
                os._exit(0)  # the kernel is gone, or has closed this world
            self._obey(message)

    def _obey(self, message: Any) -> None:
        if isinstance(message, Look):
            self._send(State(message.run, self._look(message.run)))
        elif isinstance(message, Abort):
            self._abort(message.run)
        elif isinstance(message, Allow):
            if message.run == self._expected:
                self._gate.allow(message.numbers)
        else:
            self._gate.close()
            self._expected = message.run if isinstance(message, Task) else None
            self._tasks.put(message)

    def _look(self, run: int) -> RankState:
        assert self._context is not None
        state = self._context.state()._replace(awake=is_awake())
        if self._expected == run:
            return state
        status: Status = "finished" if self._answered == run else "running"  # it may not even have heard of the run yet
        return state._replace(status=status, blocked_on=None, posted=(), call=None)

    def _abort(self, run: int) -> None:
        if self._expected != run or self._main is None:
            return
        self._aborting = run
        signal.pthread_kill(self._main, ABORT_SIGNAL)
        deadline = time.monotonic() + GRACE_SECONDS
        while self._run == run and time.monotonic() < deadline:
            time.sleep(0.002)
        if self._run == run:
            shut_down_connections(self._pids)

    def _flush_events(self, run: int) -> None:
        with self._sending:  # so that batches leave in the order in which they were drained
            batch = self._recorder.drain()
            if batch is not None:
                self._control.send_bytes(pickle.dumps(Events(run, batch), pickle.HIGHEST_PROTOCOL))

    def _send(self, message: object) -> None:
        with self._sending:
            self._control.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))


def _lost_a_peer(error: BaseException) -> bool:
    """Whether an error only says that another rank went away: gloo's words for a closed connection."""
    if not isinstance(error, RuntimeError):
        return False
    text = repr(error.args)
    return any(words in text for words in ("Connection closed by peer", "Connection reset by peer", "Socket closed"))


def rank_main(control: int, config: dict[str, Any]) -> None:
    """Be rank ``config["rank"]``; returns when the world closes. ``control`` is a descriptor."""
    os.environ.clear()
    os.environ.update(config["environment"])
    os.chdir(config["directory"])
    sys.path[:] = config["path"]
    with suppress(OSError):
        os.nice(5)  # the kernel and the browser stay fluid
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for name in ("stdout", "stderr"):
        stream = open(1 if name == "stdout" else 2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    fresh_main()
    Rank(Connection(control), config).live()

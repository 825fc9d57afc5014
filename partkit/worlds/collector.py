"""The kernel's one thread that listens to all ranks: results, events, output, exits. It also carries out the supervisor's
decisions, so that a run in the background is supervised like one that somebody waits for."""

from __future__ import annotations

import os
import pickle
import select
import selectors
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from partkit.worlds.bell import Bell
from partkit.worlds.errors import name_site, name_sites, site_name
from partkit.worlds.messages import Abort, Done, Events, Failed, Look, Ready, State
from partkit.worlds.output import StreamName
from partkit.worlds.process import RankProcess
from partkit.worlds.run import Run
from partkit.worlds.travel import unpack


class Source(NamedTuple):
    """What became readable, and whose it is."""

    rank: int
    what: str
    descriptor: int


class Collector:
    """Listens until the world closes.

    Args:
        processes: the ranks, by rank; the list may be changed through `watch` and `forget` only.
    """

    def __init__(self, processes: list[RankProcess]) -> None:
        self.processes = processes
        self.run: Run | None = None
        self.ready: dict[int, Ready] = {}
        self.changed = Bell()
        self.problem: str | None = None
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, Source(-1, "wake", self._wake_read))
        self._orders: list[Callable[[], None]] = []
        self._closing = False
        self._thread = threading.Thread(target=self._listen, name="partkit collector", daemon=True)
        self._thread.start()

    # -- orders from other threads -------------------------------------------------------------------------------

    def order(self, action: Callable[[], None]) -> None:
        """Have the collector's thread do something."""
        self._orders.append(action)
        self.nudge()

    def nudge(self) -> None:
        """Make the collector look at the supervisor now."""
        with suppress(OSError):
            os.write(self._wake_write, b"x")

    def say(self, message: object, run: Run | None = None) -> None:
        """Tell all ranks something; with ``run``, it begins that run.

        Only the collector's thread writes to ranks: a stop button can't cut a message in two, nor two threads mix theirs.
        """
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)

        def send() -> None:
            self.run = run
            for process in self.processes:
                process.send_bytes(data)

        self.order(send)

    def tell(self, messages: dict[int, object]) -> None:
        """Tell some ranks something each, by rank."""

        def send() -> None:
            for rank, message in messages.items():
                self.processes[rank].send(message)

        self.order(send)

    def watch(self, process: RankProcess) -> None:
        """Listen to a new rank."""

        def register() -> None:
            for what, descriptor in process.readable().items():
                self._selector.register(descriptor, selectors.EVENT_READ, Source(process.rank, what, descriptor))

        self.order(register)

    def joined(self, store: str) -> set[int]:
        """The ranks that have answered about this rendezvous."""
        return {rank for rank, ready in list(self.ready.items()) if ready.store == store}

    def forget(self, process: RankProcess) -> None:
        """Stop listening to a rank that is gone, and close its descriptors."""
        forgotten: list[RankProcess] = []

        def unregister() -> None:
            for descriptor in process.readable().values():
                with suppress(KeyError):  # what has come to its end is unregistered already
                    self._selector.unregister(descriptor)
            process.close()
            forgotten.append(process)
            self.changed.ring()

        self.order(unregister)
        self.changed.wait_for(lambda: bool(forgotten), timeout=5)

    def close(self) -> None:
        """Stop listening and end the thread."""
        self._closing = True
        self.nudge()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5)

    # -- the thread ----------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        try:
            while not self._closing:
                run = self.run
                for key, _ in self._selector.select(None if run is None else 0.05):
                    self._read(key.data)
                while self._orders:
                    self._orders.pop(0)()
                if self.run is not None:
                    self.run.show_in_background()
                    self._supervise(self.run)
        except Exception as problem:  # a defect of ours must not leave the user waiting
            self.problem = f"{type(problem).__name__}: {problem}"
            if self.run is not None:
                self.run.defect = self.problem
                self._finish(self.run)
        finally:
            self._selector.close()
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _read(self, source: Source) -> None:
        if source.what == "wake":
            os.read(self._wake_read, 4096)
        elif source.what == "control":
            self._read_message(source)
        elif source.what == "status":
            self._read_status(source)
        else:
            self._read_output(source)

    def _read_message(self, source: Source) -> None:
        try:
            message = pickle.loads(self.processes[source.rank].control.recv_bytes())
        except (EOFError, OSError):
            self._selector.unregister(source.descriptor)  # its exit status tells the rest
            return
        if isinstance(message, Ready):
            self.ready[source.rank] = message
            self.changed.ring()
        elif self.run is not None and message.run == self.run.number:
            self._of_run(self.run, source.rank, message)

    def _of_run(self, run: Run, rank: int, message: Any) -> None:
        now = time.monotonic()
        if isinstance(message, State):
            state = name_sites(message.state)
            if run.supervisor.waits(state, now) or run.supervisor.saw(state, run.unfinished):
                run.supervisor.stop(now)
            return
        run.supervisor.heard(now)
        if isinstance(message, Events):
            run.trace.append(message.batch._replace(new_sites=[site_name(site) for site in message.batch.new_sites]))
            return
        self._drain_output(rank)
        if message.posted:
            self._disconnect()
        if isinstance(message, Done):
            run.posted[rank] = [name_site(operation) for operation in message.posted]
            run.payloads[rank] = message.payload
        elif isinstance(message, Failed):
            if message.aborted:
                run.suffered[rank] = message.payload
            else:
                run.failures[rank] = unpack(message.payload)
            run.supervisor.failed(now)
        self._tell(run)

    def _read_status(self, source: Source) -> None:
        self._selector.unregister(source.descriptor)
        data = os.read(source.descriptor, 4)
        process = self.processes[source.rank]
        process.ended(int.from_bytes(data, "big", signed=True) if data else None)
        self._disconnect()
        self._drain_output(source.rank)
        self.changed.ring()
        if self.run is not None and source.rank in self.run.unfinished:
            self.run.died[source.rank] = process.exit_code
            self.run.supervisor.failed(time.monotonic())
            self._tell(self.run)

    def _read_output(self, source: Source) -> None:
        try:
            data = os.read(source.descriptor, 65536)
        except BlockingIOError:
            return
        if not data:
            with suppress(KeyError):
                self._selector.unregister(source.descriptor)
        elif self.run is not None:
            stream: StreamName = "stdout" if source.what == "stdout" else "stderr"
            self.run.new_lines.extend(self.run.output.feed(source.rank, stream, data))
            self.run.changed.ring()

    def _drain_output(self, rank: int) -> None:
        """Read what a rank wrote before it answered: the pipes hold it already, and one read takes all that a pipe can hold.

        No more than that: a thread that a rank's function has left behind may print for ever.
        """
        process = self.processes[rank]
        for what in ("stdout", "stderr"):
            descriptor = process.readable().get(what)
            if descriptor is not None and self._has_more(descriptor):
                self._read_output(Source(rank, what, descriptor))
        if self.run is not None:
            self.run.new_lines.extend(self.run.output.finish(rank))  # before its turn to be shown is over

    def _has_more(self, descriptor: int) -> bool:
        if descriptor not in self._selector.get_map():
            return False
        return bool(select.select([descriptor], [], [], 0)[0])

    # -- supervision ---------------------------------------------------------------------------------------------

    def _supervise(self, run: Run) -> None:
        if not run.unfinished:
            self._finish(run)
            return
        step = run.supervisor.step(time.monotonic())
        unfinished = [self.processes[rank] for rank in sorted(run.unfinished)]
        if step == "look":
            for process in self.processes:
                process.send(Look(run.number))
        elif step == "abort":
            for process in unfinished:
                process.send(Abort(run.number))
            self._disconnect()
        elif step == "kill":
            for process in unfinished:
                if process.rank not in run.killed and process.alive:
                    run.killed.add(process.rank)
                    process.kill()

    def _disconnect(self) -> None:
        """Messages may be left on the way: the groups must be built anew before the next run."""
        for process in self.processes:
            process.connected = False

    def _finish(self, run: Run) -> None:
        self.run = None
        run.finish()
        run.changed.ring()

    def _tell(self, run: Run) -> None:
        if not run.unfinished:
            self._finish(run)
        else:
            run.changed.ring()

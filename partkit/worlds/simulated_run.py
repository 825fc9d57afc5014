"""One run of a function on simulated ranks: its threads, its end, its trace."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from partkit.communicator import Communicator, RankContext, current, describe
from partkit.counting import CountedOperations
from partkit.diagnosis import Operation, RankState, explain, name_ranks
from partkit.tracing import Batch, Recorder, Trace
from partkit.transport.simulated import Died, RandomState, Simulation, Stopped, random_state_of_the_kernel
from partkit.worlds.errors import MOST_LINES, Failure, RankDied, name_sites, pack_failure, rank_error, ranks_stuck, warn_of_posted
from partkit.worlds.output import Output, StreamName, make_screen
from partkit.worlds.results import Results
from partkit.worlds.simulated_trace import fill, room_for_exchanges
from partkit.worlds.travel import pack_result, unpack

if TYPE_CHECKING:
    from partkit.worlds.simulated import SimulatedWorld

STACK_BYTES = 1 << 20
"""Of a rank's thread: only what it touches takes memory."""
FEW_EVENTS = 500
"""Of a rank that stands still: so many are not worth an array of their own."""


class Dead(NamedTuple):
    """In place of a result: the rank died, as the cluster's conditions say."""

    rank: int
    at: float

    def __repr__(self) -> str:
        return f"died at {self.at:g} s"


class SimulatedRun:
    """A function on all ranks of a simulated world.

    Args:
        world: where it runs.
        payload: the function and its arguments, pickled: each rank unpacks a copy of its own.
    """

    def __init__(self, world: SimulatedWorld, payload: bytes) -> None:
        self.world = world
        self._payload = payload
        self._simulation = Simulation(world.size, world.cluster.network(world.size), world.random, self._pack_events)
        self._simulation.most_exchanges = room_for_exchanges(traced=world.traced)
        self._contexts = [RankContext(wire, Recorder(wire.rank, enabled=world.traced), world.cluster) for wire in self._simulation.wires]
        self._batches: list[list[Batch]] = [[] for _ in range(world.size)]
        self._values: dict[int, bytes] = {}
        self._failures: dict[int, Failure] = {}
        self._dead: dict[int, Dead] = {}
        self._output = Output(world.size)
        self.screen = make_screen(self._output)
        self._states_at_end: list[RankState] = []
        self.trace = Trace(world.size, clock="virtual")

    def carry_out(self, meanwhile: Callable[[], object] | None = None) -> None:
        """Run until no rank can go on; `results` says how it went.

        Args:
            meanwhile: called ten times a second, and may end the run by raising; by default ranks' output is shown.
        """
        try:
            self._carry_out(self.show if meanwhile is None else meanwhile)
        finally:
            self.trace.finished.set()

    def _carry_out(self, meanwhile: Callable[[], object]) -> None:
        with one_math_thread(), rare_collections(), random_state_of_the_kernel(), rank_output(self._output):
            threads = self._start()
            try:
                self._simulation.run(meanwhile)
            except BaseException:
                self._simulation.break_off(threads)
                self.world.random = [RandomState(rank) for rank in range(self.world.size)]
                raise
            self._states_at_end = self._states()
            if self._simulation.unfinished:
                self._simulation.stop()
            for thread in threads:
                thread.join()
        for rank in range(self.world.size):
            self._pack_events(rank, few=0)
        fill(self.trace, self._simulation, self._batches, exchanges=self.world.traced)

    def results(self) -> Results:
        """When it is over: what the ranks returned; raises what went wrong."""
        self._raise_problem(self._states_at_end)
        warn_of_posted({rank: name_sites(context.state()).posted for rank, context in enumerate(self._contexts) if rank not in self._dead})
        return Results(self._dead[rank] if rank in self._dead else unpack(self._values[rank]) for rank in range(self.world.size))

    def _raise_problem(self, states: list[RankState]) -> None:
        """The cause comes before what followed from it."""
        waiting = [state for state in states if state.status == "blocked"]
        if self._failures:
            raise rank_error(list(self._failures.values()), sorted(state.rank for state in waiting))
        deaths = self._simulation.engine.deaths
        for state in waiting:  # also those who died waiting, and whose deaths nobody was there to see
            if deaths[state.rank] < float("inf"):
                self._dead[state.rank] = Dead(state.rank, deaths[state.rank])
        waiting = [state for state in waiting if state.rank not in self._dead]
        if waiting and self._dead:
            raise _died(list(self._dead.values()), waiting)
        if waiting:
            raise ranks_stuck(explain(states))

    # -- threads -------------------------------------------------------------------------------------------------

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
        """What a rank's thread does."""
        _here.rank = rank
        try:
            self._simulation.begin(rank)
            self._execute(rank)
        except Stopped:
            pass
        except Died:
            self._dead[rank] = Dead(rank, self._simulation.engine.deaths[rank])
        except BaseException as error:
            self._failures[rank] = unpack(pack_failure(rank, error))
        self._pack_events(rank, few=0)
        self._contexts[rank].num_messages.clear()  # as large as the run is long
        self._simulation.finish(rank)

    def _execute(self, rank: int) -> None:
        comm = Communicator(self._contexts[rank], mesh=self.world.mesh)
        current.set(comm)
        with ExitStack() as around:
            if not self.world.numbers:
                around.enter_context(torch.device("meta"))
            if self.world.compute == "counted":
                around.enter_context(CountedOperations(comm))
            fn, args, kwargs = unpack(self._payload)
            if not self.world.numbers:
                args, kwargs = without_numbers(args), without_numbers(kwargs)
            self._values[rank] = pack_result(fn(comm, *args, **kwargs))

    def show(self, *, over: bool = False) -> None:
        """Show what the ranks have printed so far; from the thread that waits for the run."""
        if over:
            self._output.finish()
        if len(self._output):
            self.screen.arrived(self._output.lines())
            self.screen.ended(set(range(self.world.size)) - self._simulation.unfinished)
        if over:
            self.screen.close()

    # -- its end -------------------------------------------------------------------------------------------------

    def _states(self) -> list[RankState]:
        """What each rank is doing when nothing can move any more."""
        states = [self._with_send(context.state()) for context in self._contexts]
        over = set(range(self.world.size)) - self._simulation.unfinished
        return [name_sites(s._replace(status="finished", blocked_on=None, posted=()) if s.rank in over else s) for s in states]

    def _with_send(self, state: RankState) -> RankState:
        """A rank that has run ahead of its sends stands at the end of its collective for one that nobody has taken."""
        wire = self._simulation.wires[state.rank]
        work = wire.standing_for
        if state.status == "blocked":
            return state
        if work is not None and work.tensor is not None:
            peer, wire_tag, what, kind = work.peer, work.tag, describe(work.tensor), f"{work.tensor.dtype}|{work.tensor.numel()}"
        elif wire.ledger.awaited and (untaken := self._simulation.lanes.untaken(state.rank)) is not None:
            peer, wire_tag, numel, dtype = untaken
            what, kind = f"{str(dtype).removeprefix('torch.')}[{numel}]", f"{dtype}|{numel}"
        else:
            return state
        site, tag = "" if state.call is None else state.call.site, wire_tag.rpartition("|")[2]
        send = Operation("send", peer, tag, what, site, f"{wire_tag}|{kind}")
        return state._replace(status="blocked", blocked_on=send, posted=(*state.posted, send))

    def _pack_events(self, rank: int, *, few: int = FEW_EVENTS) -> None:
        """Put a rank's events into arrays, which take a third of the memory, unless there are few."""
        if len(self._contexts[rank].recorder) > few:
            batch = self._contexts[rank].recorder.drain()
            if batch is not None:
                self._batches[rank].append(batch)


def _died(dead: list[Dead], waiting: list[RankState]) -> RankDied:
    """The exception for ranks that wait for others who have died."""
    lines = [f"rank {rank} died at {at:g} s, as the cluster's conditions say" for rank, at in sorted(dead)]
    lines += [f"  rank {state.rank} still waits in {state.blocked_on}" for state in waiting[:MOST_LINES]]
    others = [state.rank for state in waiting[MOST_LINES:]]
    lines += [f"  {name_ranks(others)} wait too"] if others else []
    return RankDied("\n".join(lines), sorted(rank for rank, _ in dead), [state.rank for state in waiting])


# -- what all ranks share --------------------------------------------------------------------------------------------


@contextmanager
def one_math_thread() -> Iterator[None]:
    """The same order of additions as on a live rank."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Python looks for dead cycles less often: what a run leaves grows steadily and stays alive, and looking through it took half the time."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], 100_000), 50, 1000) if before[0] else None
    try:
        yield
    finally:
        gc.set_threshold(*before)


def without_numbers(value: Any) -> Any:
    """The same with each tensor, and each module's parameters, on the "meta" device."""
    if isinstance(value, torch.Tensor | torch.nn.Module):
        return value.to("meta")
    if isinstance(value, dict):
        return {key: without_numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(map(without_numbers, value))
    return value


class _Here(threading.local):
    rank: int | None = None


_here = _Here()
"""Which rank's thread this is."""


class _RankStream:
    """Stands for stdout or stderr during a run: what a rank's thread writes is that rank's output."""

    def __init__(self, stream: Any, output: Output, name: StreamName) -> None:
        self._stream, self._output, self._name = stream, output, name

    def write(self, text: str) -> int:
        if _here.rank is None:
            return int(self._stream.write(text))
        self._output.feed(_here.rank, self._name, text.encode("utf-8", errors="backslashreplace"))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def rank_output(output: Output) -> Iterator[None]:
    """What ranks print goes to ``output``."""
    before = sys.stdout, sys.stderr
    streams: tuple[Any, Any] = _RankStream(sys.stdout, output, "stdout"), _RankStream(sys.stderr, output, "stderr")
    sys.stdout, sys.stderr = streams
    try:
        yield
    finally:  # unless somebody has put others there meanwhile
        sys.stdout = before[0] if sys.stdout is streams[0] else sys.stdout
        sys.stderr = before[1] if sys.stderr is streams[1] else sys.stderr

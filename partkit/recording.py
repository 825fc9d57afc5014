"""Record what messages carry: the values of small tensors, and whose data is in them. And hold messages, to let them go one by one.

    with pk.record(comm):                     on every rank
        total = pk.all_reduce(x, comm)           each message leaves sights in the trace (`partkit.tracing.sights`)
    pk.MessageStepper(world)                     in the kernel: step through them

Nothing in an algorithm or in the communicator knows of it: while it goes on, another transport stands before the rank's own.

    Communicator -> Pending -> RecordingTransport.isend(chunk, dst, tag)
                                 [1] a sight: what this rank holds, which elements are about to go
                                 [2] if messages are held: that is all, until somebody lets this one go
                                 [3] the sets of ranks whose data is in the chunk go first, under a tag of their own
                                 [4] the chunk goes, as it would without recording

Which rank's data is in which element is known from a `TorchDispatchMode` (`partkit.contributions`) and, for what has arrived, from
[3]. A message between a rank that records and one that does not never meets its other side; the supervisor then says so.

Cost: a second message with each, 8 bytes an element of small ones, and some tenths of a millisecond. Bytes and messages in the trace
are those of the algorithm alone; times are not, so measure without recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from queue import SimpleQueue
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from partkit.communicator import Communicator, Pending, RankContext, describe
from partkit.contributions import Contributions, Memory, union
from partkit.tracing.sights import MAX_RANKS, Moment, Sight, Strip
from partkit.transport.base import Combine, Transport, Work

MOST_VALUES = 64
"""Elements up to which a tensor counts as small."""
MOST_MEMORIES = 48
"""Small tensors of a rank that are looked at, the first in sight."""


@contextmanager
def record(comm: Communicator, *, values: int = MOST_VALUES, held: bool = False) -> Iterator[None]:
    """Record what the messages inside carry. Every rank of the world enters it, so that both sides of each message are recorded.

    Whose data a message holds travels before it in a message of its own. That one is in no trace, but takes time: look for times, virtual
    ones too, in a run that is not recorded.

    Args:
        comm: any communicator of this rank; messages of all of them are recorded.
        values: tensors of up to so many elements are recorded with their values.
        held: messages stay with their sender until the kernel lets them go (`partkit.MessageStepper.pause` does). A rank goes on
            until it needs what does not come.

    Raises:
        ValueError: the world is too large, ``values`` is negative, or messages cannot be held in this world.
        RuntimeError: this rank is being recorded already.

    Example:
        >>> import partkit as pk
        >>> def shift(comm):
        ...     right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        ...     with pk.record(comm):
        ...         comm.sendrecv(torch.tensor([10 * comm.rank]), right, torch.zeros(1, dtype=torch.int64), left)
        >>> with pk.World(2) as world:
        ...     _ = world.run(shift)
        ...     sorted((sight.rank, sight.strips[-1].values) for sight in world.trace.sights if sight.moment == "done" and sight.kind == "recv")
        [(0, ('10',)), (1, ('0',))]
    """
    context = comm._context
    wire = context.transport
    if isinstance(wire, RecordingTransport):
        raise RuntimeError("record(comm) inside of record(comm): this rank is being recorded already")
    if wire.size > MAX_RANKS:
        raise ValueError(f"record(comm): this world has {wire.size} ranks, at most {MAX_RANKS} can be told apart")
    if isinstance(values, bool) or values < 0:
        raise ValueError(f"record(values={values!r}): values is a number of elements, at least 0")
    if held and context.gate is None:
        raise ValueError("record(held=True): nobody can let messages go here; hold them in a live world: pk.MessageStepper.pause(world, fn)")
    who = Contributions(wire.rank)
    recorder = RecordingTransport(context, who, values, held=held)
    context.transport = cast(Transport, recorder)
    try:
        with who:
            yield
    finally:
        context.transport = wire
        recorder.see("end")


class RecordingTransport:
    """Stands before a rank's transport and notes what passes.

    Args:
        context: the rank's.
        who: keeps track of whose data is where.
        values: most elements of a small tensor.
        held: whether messages stay here until they are let go.
    """

    def __init__(self, context: RankContext, who: Contributions, values: int, *, held: bool) -> None:
        self._context, self._wire, self._who = context, context.transport, who
        self._values = values
        self._gate = context.gate if held else None
        self._numbers = count()
        self._seen: dict[int, Strip] = {}

    def __getattr__(self, name: str) -> Any:
        """All else is the wire's own: its clock, its rank, its native groups."""
        return getattr(self._wire, name)

    def isend(self, tensor: Tensor, dst: int, tag: str) -> Work:
        """Note it; send whose data it is, and it, at once or when it is let go."""
        pending = self._posted(tag)
        sets = np.array(self._who.of(tensor)).ravel() if self._is_small(tensor) else np.array([union([self._who.of(tensor)])])
        held = self._gate is not None and dst != self._wire.rank  # what a rank sends to itself does not leave it
        number = next(self._numbers) if held else -1
        sight = self.see("post", pending, number)

        def post() -> list[Work]:
            if held:
                self._context.recorder.see(sight._replace(moment="go", time=self._wire.now(), strips=(), gone=()))
            return [self._wire.isend(torch.from_numpy(sets), dst, _shadow(tensor, tag)), self._wire.isend(tensor, dst, _recorded(tag))]

        with self._who.aside():  # not in `post`, which another thread may call, while this one computes
            if self._gate is None or not held:
                return _Recorded(self, pending, post())
            later = _Later(post)
            self._gate.hold(later.post, (dst, tag, tensor.dtype, tensor.numel()))
            return _Recorded(self, pending, [later])

    def irecv(self, buffer: Tensor, src: int, tag: str, combine: Combine | None = None) -> Work:
        """Note it, and be ready for it and for whose data it is.

        It lands beside the buffer until somebody waits for it: a wire may bring it before, and a look at the buffer meanwhile would
        show numbers of others as this rank's.
        """
        pending = self._posted(tag)
        self.see("post", pending)
        with self._who.aside():
            inbox = torch.empty_like(buffer)
            sets = torch.from_numpy(np.zeros(buffer.numel() if self._is_small(buffer) else 1, dtype=np.int64))
            works = [self._wire.irecv(sets, src, _shadow(buffer, tag)), self._wire.irecv(inbox, src, _recorded(tag))]
        return _Recorded(self, pending, works, lambda: self._come(inbox, sets, buffer, combine or Tensor.copy_))

    def irecv_first(self, buffer: Tensor, src: int, tag: str, timeout: float | None) -> Work:
        """Not recorded: whose data it is would have to come first, and from the same rank."""
        raise RuntimeError("a receive from anybody, or one with a timeout, can't be recorded; look at the run without values: pk.MessageStepper(world)")

    def lane(self, *_: object) -> None:
        """Each message is noted by itself."""

    def aside(self) -> AbstractContextManager[None]:
        """What is computed inside is the wire's, not the rank's."""
        return self._who.aside()

    def _come(self, inbox: Tensor, sets: Tensor, buffer: Tensor, combine: Combine) -> None:
        """The inbox holds the data of ``sets``; an operator of the rank's puts it into the buffer, so that whose data it is comes along."""
        self._who.put(inbox, sets.numpy().reshape(inbox.shape) if self._is_small(inbox) else sets.numpy()[0])
        combine(buffer, inbox)

    def see(self, moment: Moment, pending: Pending | None = None, number: int = -1) -> Sight:
        """Note what this rank holds at this moment, and at which message it is."""
        context = self._context
        strips, gone = self._look()
        if moment == "end" and not any(who & ~self._who.own for strip in self._seen.values() for who in strip.who):
            gone = ()  # the function kept nothing of what it got: show what it had
        sight = Sight(self._wire.rank, moment, self._wire.now(), number=number, strips=strips, gone=gone)
        if pending is not None:
            tensor, operation = pending.tensor, pending.operation
            memory = self._who.memory(tensor)
            sight = sight._replace(
                kind=operation.op,
                peer=operation.peer,
                tag=operation.tag,
                group=pending._group,
                seq=pending._seq,
                span=pending._span,
                what=operation.what,
                nbytes=tensor.numel() * tensor.element_size(),
                who=union([self._who.of(tensor)]),
                strip=memory.number if memory.number in self._seen else -1,
                first=int(tensor.storage_offset()),
                num_elements=tensor.numel(),
            )
        context.recorder.see(sight)
        return sight

    def _posted(self, tag: str) -> Pending:
        """The message that is being posted: the newest of those under way. The supervisor gets to know that it is recorded."""
        pending = cast(Pending, next(reversed(self._context.pending.values())))
        pending._wire = _recorded(tag)
        return pending

    def _is_small(self, tensor: Tensor) -> bool:
        return tensor.numel() <= self._values and not tensor.is_meta

    def _look(self) -> tuple[tuple[Strip, ...], tuple[int, ...]]:
        """What is new in the small tensors of this rank, and which are gone."""
        small = [memory for memory in self._who.memories() if memory.num_elements <= self._values][:MOST_MEMORIES]
        with self._who.aside():
            now = {memory.number: strip for memory in small if (strip := _strip(memory)) is not None}
        changed = tuple(strip for number, strip in now.items() if self._seen.get(number) != strip)
        gone = tuple(number for number in self._seen if number not in now)
        self._seen = now
        return changed, gone


class _Recorded:
    """A message and the sets that go before it, until both are done."""

    def __init__(self, recorder: RecordingTransport, pending: Pending, works: list[Work], come: Callable[[], None] | None = None) -> None:
        self._recorder, self._pending, self._works, self._come = recorder, pending, works, come

    def wait(self) -> None:
        with self._recorder.aside():
            while self._works:
                self._works.pop(0).wait()
        if self._come is not None:
            self._come()
        self._come = None  # what has landed beside the buffer is gone from the rank's memory
        self._recorder.see("done", self._pending)


class _Later:
    """A message that another thread puts on the wire some time."""

    def __init__(self, post: Callable[[], list[Work]]) -> None:
        self._post = post
        self._posted: SimpleQueue[list[Work] | Exception] = SimpleQueue()  # its get can be interrupted

    def post(self) -> None:
        """Put it on the wire; whoever waits for it hears of a failure."""
        try:
            self._posted.put(self._post())
        except Exception as problem:
            self._posted.put(problem)

    def wait(self) -> None:
        works = self._posted.get()
        if isinstance(works, Exception):
            raise works
        for work in works:
            work.wait()


def _strip(memory: Memory) -> Strip | None:
    """All elements of some memory; None if it has no numbers."""
    tensor = memory.tensor()
    assert tensor is not None  # no other thread frees it between the look at what there is and this
    if tensor.is_meta:
        return None
    sets = np.broadcast_to(memory.sets, len(tensor)).tolist()
    values = tuple(as_text(value) if who else "" for value, who in zip(tensor.tolist(), sets, strict=True))
    return Strip(memory.number, describe(tensor), values, tuple(sets))


def as_text(value: complex) -> str:
    """A number as people read it: four significant digits; whole numbers whole, in floating point if they have at most six digits.

    Example:
        >>> as_text(3.0), as_text(1 / 3), as_text(12345.0), as_text(True), as_text(float("-inf"))
        ('3', '0.3333', '12345', '1', '-inf')
    """
    if isinstance(value, complex):
        return f"{as_text(value.real)}{'' if value.imag < 0 else '+'}{as_text(value.imag)}i"
    is_whole = isinstance(value, int) or (value.is_integer() and 1 <= abs(value) < 1_000_000)
    return f"{int(value)}" if is_whole else f"{value:.4g}"


def _shadow(tensor: Tensor, tag: str) -> str:
    """The tag of the sets that go before a message: they meet exactly if the message does."""
    return f"{tag}|whose|{tensor.dtype}|{tensor.numel()}"


def _recorded(tag: str) -> str:
    return f"{tag}|recorded"


def run_recorded(comm: Communicator, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """``fn(comm, *args, **kwargs)``, recorded."""
    with record(comm):
        return fn(comm, *args, **kwargs)


def run_held(comm: Communicator, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """``fn(comm, *args, **kwargs)``, recorded, each send held until it is let go."""
    with record(comm, held=True):
        return fn(comm, *args, **kwargs)

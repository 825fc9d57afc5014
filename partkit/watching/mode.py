"""`watch`: sees every operator of torch.distributed between its begin and its end, and makes an event of it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from itertools import count
from types import TracebackType
from typing import Any, NamedTuple

import torch.distributed
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from partkit.communicator import Communicator, current
from partkit.figures.operations import OperationTable, operation_table
from partkit.tracing import Event
from partkit.watching.operators import OPERATORS, WAIT, Operator, arguments_of, c10d, group_of, name_of, num_bytes
from partkit.watching.whence import whence

WRAPPERS = ("DTensor", "AsyncCollectiveTensor")
"""Tensor classes whose own operators are not collectives but lead to some. By name: importing them takes a second."""


def watch() -> Watching:
    """Note what torch.distributed does inside the ``with`` statement in the trace of this run.

    Use it in a function that runs on a rank. Each operation becomes an event of kind "collective", called "dist." and its name
    in torch.distributed, with its bytes on this rank, its group, where it came from, and how long it took. Point-to-point messages
    become events of kind "send" and "recv", called "dist.message" and their tag if that is not 0, and pair up as partkit's own do.
    What each column means: see `partkit.watching`. What other threads of the rank do meanwhile is not seen.

    Returns:
        A `Watching`; its ``summary()`` is a table of what this rank did, that of all ranks is ``pk.operation_table(world.trace)``.

    Raises:
        RuntimeError: called outside of a rank's function, where there is no trace to write to; or inside of another watch.

    Example:
        >>> import torch, partkit as pk
        >>> def step(comm):
        ...     with pk.watch() as watching:
        ...         torch.distributed.all_reduce(torch.ones(10))
        ...     return [(event.tag, event.nbytes) for event in watching.events]
        >>> with pk.World(2) as world:
        ...     world.run(step)
        [[('dist.all_reduce', 40)], [('dist.all_reduce', 40)]]
    """
    comm = current.get()
    if comm is None:
        raise RuntimeError(
            "pk.watch() writes into the trace of a rank: use it inside a function that a world runs, world.run(fn), or in a %%ranks cell; "
            "there in the rank's own thread, not in one that it starts"
        )
    return Watching(comm)


class _UnderWay(NamedTuple):
    """An operation that has begun."""

    event: Event
    """Its end still to come."""
    ranks: list[int]
    """World ranks of its group."""
    work: Any = None
    """torch's handle, of an operation that does not tell by itself when it is done. Held, so that `Work.wait` is given the same one."""


class Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operator between its entry and its exit, and notes those in `OPERATORS`. Made by `watch`.

    Attributes:
        events: what this rank's torch.distributed has done so far, in the order in which it was done; times as in `Communicator.now`.
    """

    def __init__(self, comm: Communicator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.events: list[Event] = []
        self._comm = comm
        self._numbers = count()
        self._under_way: dict[int, _UnderWay] = {}
        self._awaited: dict[int, int] = {}
        """Memory of a functional operation's result -> its number."""
        self._messages: Counter[tuple[object, ...]] = Counter()
        self._futures: dict[int, Any] = {}
        """Of operations whose work tells when it is done."""
        self._ended = threading.Condition()  # works end in threads of gloo
        self._wait: Callable[..., Any] | None = None

    def summary(self) -> OperationTable:
        """What this rank has done so far, by operation, group and phase."""
        return operation_table(self.events)

    def __repr__(self) -> str:
        return repr(self.summary())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return self.summary()._repr_mimebundle_()

    # -- an operation begins and ends ----------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(kind.__name__ in WRAPPERS for kind in types):
            return NotImplemented  # it takes itself apart first; its collectives then come by
        name = name_of(func)
        if name == WAIT:
            result = func(*args)
            self._end(self._awaited.pop(_memory(args[0]), -1))
            return result
        operator = OPERATORS.get(name)
        if operator is None:
            return func(*args, **(kwargs or {}))
        number = self._begin(operator, arguments_of(func, args, kwargs))
        try:
            result = func(*args, **(kwargs or {}))
        except BaseException:
            self._end(number, "!")
            raise
        self._expect_end(number, result)
        return result

    def _begin(self, operator: Operator, arguments: dict[str, Any]) -> int:
        comm, (ranks, group), (site, doing) = self._comm, group_of(arguments), whence()
        peer = arguments.get("dst", arguments.get("src")) if operator.kind != "collective" else None
        event = Event(
            rank=comm.world_rank,
            kind=operator.kind,
            start=comm.now(),
            end=0.0,
            peer=None if peer is None else ranks[peer],
            nbytes=num_bytes(arguments.get(operator.payload)),
            tag=f"dist.{operator.name}" + (f" {arguments['tag']}" if arguments.get("tag") else ""),
            span="/".join(filter(None, (comm.open_spans, *doing))),
            site=site,
            group=group,
        )
        number = next(self._numbers)
        from_anybody = operator.kind == "recv" and peer is None
        self._under_way[number] = _UnderWay(event if from_anybody else self._numbered(event), ranks)
        return number

    def _numbered(self, event: Event) -> Event:
        """The event with its number among those of its channel."""
        channel = (event.kind, event.peer, event.tag, event.group)
        self._messages[channel] += 1
        return event._replace(seq=self._messages[channel] - 1)

    def _expect_end(self, number: int, result: Any) -> None:
        """Have the operation end when its work does; when it is waited for; or else now."""
        last = result[-1] if isinstance(result, (tuple, list)) and result else result
        if isinstance(last, Tensor):
            for tensor in result if isinstance(result, (tuple, list)) else (result,):
                self._awaited[_memory(tensor)] = number
        elif isinstance(last, torch.ScriptObject):
            work = c10d.Work.unbox(last)
            try:
                future = self._futures[number] = work.get_future()
            except RuntimeError:  # gloo's messages and its reduce_scatter have none: `_waited` tells when they have been waited for
                self._under_way[number] = self._under_way[number]._replace(work=work)
            else:
                future.add_done_callback(lambda _: self._end(number))
        else:
            self._end(number)

    def _waited(self, work: Any) -> None:
        """Somebody has waited for a work until it was done: the end of an operation that does not tell its end itself."""
        for number, operation in list(self._under_way.items()):
            if operation.work is work:
                if operation.event.kind == "recv" and operation.event.peer is None:
                    came = operation.event._replace(peer=operation.ranks[work._source_rank()])
                    self._under_way[number] = operation._replace(event=self._numbered(came))
                self._end(number)

    def _end(self, number: int, mark: str = "") -> None:
        with self._ended:
            operation = self._under_way.pop(number, None)
            self._futures.pop(number, None)
            if operation is not None:
                event = operation.event._replace(end=self._comm.now(), tag=operation.event.tag + mark)
                self.events.append(event)
                self._comm.note(event)
            self._ended.notify_all()

    # -- the watch begins and ends -------------------------------------------------------------------------------

    def __enter__(self) -> Watching:
        if any(isinstance(mode, Watching) for mode in _get_current_dispatch_mode_stack()):
            raise RuntimeError("pk.watch() inside of pk.watch(): each operation would be noted twice; one of the two is enough")
        self._listen_to_waits()
        return super().__enter__()  # type: ignore[no-untyped-call, no-any-return]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        if self._wait is not None:
            c10d.Work.wait = self._wait
        done = {number for number, future in list(self._futures.items()) if future.done()}
        with self._ended:
            self._ended.wait_for(lambda: not done & self._under_way.keys())  # whoever waited for them was told before `_end` was
        for number in list(self._under_way):
            self._end(number, "...")

    def _listen_to_waits(self) -> None:
        """Until the watch ends, `Work.wait` also tells us: no operator comes by when somebody waits for a message.

        Where torch.distributed is not in use there is nothing to hear: a simulated rank's code may watch, too, and sees nothing.
        """
        if not c10d.is_initialized():
            return
        wait = self._wait = c10d.Work.wait

        def telling(work: Any, *args: Any, **kwargs: Any) -> Any:
            result = wait(work, *args, **kwargs)
            self._waited(work)
            return result

        c10d.Work.wait = telling


def _memory(tensor: Tensor) -> int:
    """What a tensor has in common with its views."""
    address: int = tensor.untyped_storage()._cdata
    return address

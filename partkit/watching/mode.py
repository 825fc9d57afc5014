"""Watch torch.distributed at work: collectives of code that knows nothing of partkit, noted in the trace.

    with pk.watch():
        model = DistributedDataParallel(net)         broadcasts of parameters and buffers
        loss_fn(model(x), y).backward()              all-reduces of buckets, from inside backward

Whatever torch.distributed does, it does through operators named ``c10d.*`` (the functions of ``torch.distributed``, DDP,
FSDP2, pipeline stages) or ``_c10d_functional.*`` (DTensor, compiled code). A `TorchDispatchMode` sees each of them on its way,
in backward too. `OPERATIONS` is the table of what they are called and which argument holds the bytes:

    event      of which operators                  bytes                           end
    collective c10d: all_reduce, broadcast, ...    this rank's share: what it      when the operation's own work is done, also
                                                   puts in (of a scatter: gets)    if nobody waits for it
    collective _c10d_functional                    the same                        when the code waits for the result
    send, recv c10d point-to-point                 the message                     when the call returns: torch tells no more

An operation that is not done when the watch ends is noted as lasting until then, with "..." behind its name.

Reference: ``torch.distributed.tensor.debug.CommDebugMode`` counts collectives in the same way.
"""

from __future__ import annotations

import threading
from collections import Counter
from itertools import count
from types import TracebackType
from typing import Any, NamedTuple

import torch.distributed
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from partkit.communicator import Communicator, call_site, current
from partkit.tracing import Event, Kind

c10d: Any = torch.distributed  # its stubs lack what is used here


class Operation(NamedTuple):
    """How to read one operator."""

    name: str
    """What a reader knows it by: its name in ``torch.distributed``; "message" on both sides of a point-to-point message."""
    payload: str = ""
    """The argument whose bytes count; empty for none."""
    kind: Kind = "collective"


OPERATIONS: dict[str, Operation] = {
    "c10d.allreduce_": Operation("all_reduce", "tensors"),
    "c10d.allreduce_coalesced_": Operation("all_reduce_coalesced", "tensors"),
    "c10d.broadcast_": Operation("broadcast", "tensors"),
    "c10d.reduce_": Operation("reduce", "tensors"),
    "c10d.allgather_": Operation("all_gather", "input_tensors"),
    "c10d._allgather_base_": Operation("all_gather_single", "input_tensor"),
    "c10d.allgather_coalesced_": Operation("all_gather_coalesced", "input_list"),
    "c10d.allgather_into_tensor_coalesced_": Operation("all_gather_coalesced", "inputs"),
    "c10d.reduce_scatter_": Operation("reduce_scatter", "input_tensors"),
    "c10d._reduce_scatter_base_": Operation("reduce_scatter_single", "input_tensor"),
    "c10d.reduce_scatter_tensor_coalesced_": Operation("reduce_scatter_coalesced", "inputs"),
    "c10d.alltoall_": Operation("all_to_all", "input_tensors"),
    "c10d.alltoall_base_": Operation("all_to_all_single", "input"),
    "c10d.gather_": Operation("gather", "input_tensors"),
    "c10d.scatter_": Operation("scatter", "output_tensors"),
    "c10d.barrier": Operation("barrier"),
    "c10d.monitored_barrier_": Operation("monitored_barrier"),
    "c10d.send": Operation("message", "tensors", "send"),
    "c10d.recv_": Operation("message", "tensors", "recv"),
    "c10d.recv_any_source_": Operation("message", "tensors", "recv"),
    "_c10d_functional.all_reduce": Operation("all_reduce", "input"),
    "_c10d_functional.all_reduce_": Operation("all_reduce", "input"),
    "_c10d_functional.all_reduce_coalesced": Operation("all_reduce_coalesced", "inputs"),
    "_c10d_functional.all_reduce_coalesced_": Operation("all_reduce_coalesced", "inputs"),
    "_c10d_functional.broadcast": Operation("broadcast", "input"),
    "_c10d_functional.broadcast_": Operation("broadcast", "input"),
    "_c10d_functional.all_gather_into_tensor": Operation("all_gather_single", "input"),
    "_c10d_functional.all_gather_into_tensor_out": Operation("all_gather_single", "input"),
    "_c10d_functional.all_gather_into_tensor_coalesced": Operation("all_gather_coalesced", "inputs"),
    "_c10d_functional.reduce_scatter_tensor": Operation("reduce_scatter_single", "input"),
    "_c10d_functional.reduce_scatter_tensor_out": Operation("reduce_scatter_single", "input"),
    "_c10d_functional.reduce_scatter_tensor_coalesced": Operation("reduce_scatter_coalesced", "inputs"),
    "_c10d_functional.all_to_all_single": Operation("all_to_all_single", "input"),
}
"""Operator -> how to read it. Checked against the schemas of the installed torch by a test."""
WAIT = "_c10d_functional.wait_tensor"
WRAPPERS = ("DTensor", "AsyncCollectiveTensor")
"""Tensor classes whose own operators are not collectives but lead to some. By name: importing them takes a second."""


def watch() -> Watching:
    """Note what torch.distributed does inside the ``with`` statement in the trace of this run.

    Use it in a function that runs on a rank. Each operation becomes an event of kind "collective", called "dist." and its name
    in torch.distributed, with its bytes on this rank, its group, the open spans, and the line of your code that led to it.
    Point-to-point messages become events of kind "send" and "recv", called "dist.message" and their tag if that is not 0, and pair
    up as partkit's own do. When an event ends: see `partkit.watching`.

    Raises:
        RuntimeError: called outside of a rank's function; there is no trace to write to.

    Example:
        >>> import torch, partkit as pk
        >>> def step(comm):
        ...     with pk.watch():
        ...         torch.distributed.all_reduce(torch.ones(10))
        >>> with pk.World(2) as world:
        ...     results = world.run(step)
        ...     sorted((event.rank, event.tag, event.nbytes) for event in world.trace.events if event.kind == "collective")
        [(0, 'dist.all_reduce', 40), (1, 'dist.all_reduce', 40)]
    """
    comm = current.get()
    if comm is None:
        raise RuntimeError("pk.watch() writes into the trace of a rank: use it inside a function that a world runs, world.run(fn), or in a %%ranks cell")
    return Watching(comm)


class Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operator between its entry and its exit, and notes those in `OPERATIONS`. Made by `watch`."""

    def __init__(self, comm: Communicator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._comm = comm
        self._numbers = count()
        self._under_way: dict[int, Event] = {}
        self._awaited: dict[int, int] = {}
        """Memory of a functional operation's result -> its number."""
        self._messages: Counter[tuple[object, ...]] = Counter()
        self._futures: dict[int, Any] = {}
        """Of operations whose work tells when it is done."""
        self._ended = threading.Condition()  # works end in threads of gloo

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(kind.__name__ in WRAPPERS for kind in types):
            return NotImplemented  # it takes itself apart first; its collectives then come by
        name = f"{func.namespace}.{func._opname}"
        if name == WAIT:
            result = func(*args)
            self._end(self._awaited.pop(_memory(args[0]), -1))
            return result
        operation = OPERATIONS.get(name)
        if operation is None:
            return func(*args, **(kwargs or {}))
        number = self._begin(operation, {**dict(zip((a.name for a in func._schema.arguments), args, strict=False)), **(kwargs or {})})
        result = func(*args, **(kwargs or {}))
        self._expect_end(number, result)
        return result

    def _begin(self, operation: Operation, arguments: dict[str, Any]) -> int:
        comm, ranks = self._comm, _ranks(arguments)
        peer = arguments.get("dst", arguments.get("src")) if operation.kind != "collective" else None
        event = Event(
            rank=comm.world_rank,
            kind=operation.kind,
            start=comm.now(),
            end=0.0,
            peer=None if peer is None else ranks[peer],
            nbytes=_num_bytes(arguments.get(operation.payload)),
            tag=f"dist.{operation.name}" + (f" {arguments['tag']}" if arguments.get("tag") else ""),
            span=comm.open_spans,
            site=call_site(),
            group="" if len(ranks) == len(comm.ranks) else "ranks " + ",".join(map(str, ranks)),
        )
        channel = (event.kind, event.peer, event.tag, event.group)
        number = next(self._numbers)
        self._under_way[number] = event._replace(seq=self._messages[channel])
        self._messages[channel] += 1
        return number

    def _expect_end(self, number: int, result: Any) -> None:
        """Have the operation end when its work does; when its result is waited for; or else now."""
        last = result[-1] if isinstance(result, (tuple, list)) and result else result
        if isinstance(last, Tensor):
            for tensor in result if isinstance(result, (tuple, list)) else (result,):
                self._awaited[_memory(tensor)] = number
        elif isinstance(last, torch.ScriptObject):
            try:
                future = self._futures[number] = c10d.Work.unbox(last).get_future()
            except RuntimeError:  # the work of a send or a recv has none
                self._end(number)
            else:
                future.add_done_callback(lambda _: self._end(number))
        else:
            self._end(number)

    def _end(self, number: int, unfinished: str = "") -> None:
        with self._ended:
            event = self._under_way.pop(number, None)
            self._futures.pop(number, None)
            if event is not None:
                self._comm.note(event._replace(end=self._comm.now(), tag=event.tag + unfinished))
            self._ended.notify_all()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        done = {number for number, future in list(self._futures.items()) if future.done()}
        with self._ended:
            self._ended.wait_for(lambda: not done & self._under_way.keys())  # whoever waited for them was told before `_end` was
        for number in list(self._under_way):
            self._end(number, "...")


def _num_bytes(payload: Any) -> int:
    """Bytes of a tensor, or of all tensors in nested lists."""
    if isinstance(payload, Tensor):
        return payload.numel() * payload.element_size()
    return sum(map(_num_bytes, payload)) if isinstance(payload, (list, tuple)) else 0


def _ranks(arguments: dict[str, Any]) -> list[int]:
    """World ranks of the operation's group."""
    group = arguments.get("process_group", arguments.get("group_name"))
    if isinstance(group, torch.ScriptObject):
        group = c10d.ProcessGroup.unbox(group)
    elif isinstance(group, str):
        group = c10d.distributed_c10d._resolve_process_group(group)
    ranks: list[int] = c10d.get_process_group_ranks(group)
    return ranks


def _memory(tensor: Tensor) -> int:
    """What a tensor has in common with its views."""
    address: int = tensor.untyped_storage()._cdata
    return address

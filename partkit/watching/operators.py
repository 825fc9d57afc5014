"""What the operators of torch.distributed are called, and which argument holds the bytes.

Whatever torch.distributed does, it does through operators named ``c10d.*`` (the functions of ``torch.distributed``, DDP, FSDP2,
pipeline stages) or ``_c10d_functional.*`` (DTensor, compiled code). This is the table of them. The bytes of an operation are this
rank's share: what it puts in (of a scatter: what it gets); of a message, the message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch.distributed
from torch import Tensor

from partkit.tracing import Kind

c10d: Any = torch.distributed  # its stubs lack what is used here


class Operator(NamedTuple):
    """How to read one operator."""

    name: str
    """What a reader knows it by: its name in ``torch.distributed``; "message" on both sides of a point-to-point message."""
    payload: str = ""
    """The argument whose bytes count; empty for none."""
    kind: Kind = "collective"


OPERATORS: dict[str, Operator] = {
    "c10d.allreduce_": Operator("all_reduce", "tensors"),
    "c10d.allreduce_coalesced_": Operator("all_reduce_coalesced", "tensors"),
    "c10d.broadcast_": Operator("broadcast", "tensors"),
    "c10d.reduce_": Operator("reduce", "tensors"),
    "c10d.allgather_": Operator("all_gather", "input_tensors"),
    "c10d._allgather_base_": Operator("all_gather_single", "input_tensor"),
    "c10d.allgather_coalesced_": Operator("all_gather_coalesced", "input_list"),
    "c10d.allgather_into_tensor_coalesced_": Operator("all_gather_coalesced", "inputs"),
    "c10d.reduce_scatter_": Operator("reduce_scatter", "input_tensors"),
    "c10d._reduce_scatter_base_": Operator("reduce_scatter_single", "input_tensor"),
    "c10d.reduce_scatter_tensor_coalesced_": Operator("reduce_scatter_coalesced", "inputs"),
    "c10d.alltoall_": Operator("all_to_all", "input_tensors"),
    "c10d.alltoall_base_": Operator("all_to_all_single", "input"),
    "c10d.gather_": Operator("gather", "input_tensors"),
    "c10d.scatter_": Operator("scatter", "output_tensors"),
    "c10d.barrier": Operator("barrier"),
    "c10d.monitored_barrier_": Operator("monitored_barrier"),
    "c10d.send": Operator("message", "tensors", "send"),
    "c10d.recv_": Operator("message", "tensors", "recv"),
    "c10d.recv_any_source_": Operator("message", "tensors", "recv"),
    "_c10d_functional.all_reduce": Operator("all_reduce", "input"),
    "_c10d_functional.all_reduce_": Operator("all_reduce", "input"),
    "_c10d_functional.all_reduce_coalesced": Operator("all_reduce_coalesced", "inputs"),
    "_c10d_functional.all_reduce_coalesced_": Operator("all_reduce_coalesced", "inputs"),
    "_c10d_functional.broadcast": Operator("broadcast", "input"),
    "_c10d_functional.broadcast_": Operator("broadcast", "input"),
    "_c10d_functional.all_gather_into_tensor": Operator("all_gather_single", "input"),
    "_c10d_functional.all_gather_into_tensor_out": Operator("all_gather_single", "input"),
    "_c10d_functional.all_gather_into_tensor_coalesced": Operator("all_gather_coalesced", "inputs"),
    "_c10d_functional.reduce_scatter_tensor": Operator("reduce_scatter_single", "input"),
    "_c10d_functional.reduce_scatter_tensor_out": Operator("reduce_scatter_single", "input"),
    "_c10d_functional.reduce_scatter_tensor_coalesced": Operator("reduce_scatter_coalesced", "inputs"),
    "_c10d_functional.all_to_all_single": Operator("all_to_all_single", "input"),
}
"""Operator -> how to read it. Checked against the schemas of the installed torch by a test."""
WAIT = "_c10d_functional.wait_tensor"
"""Waits for the result of a ``_c10d_functional`` operator."""


def name_of(func: Any) -> str:
    """An operator's name without its overload: ``c10d.allreduce_``."""
    return f"{func.namespace}.{func._opname}"


def arguments_of(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """A call's arguments by name."""
    return {**dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)), **(kwargs or {})}


def num_bytes(payload: Any) -> int:
    """Bytes of a tensor, or of all tensors in nested lists. Of a sparse tensor: of its indices and values."""
    if isinstance(payload, Tensor) and payload.is_sparse:
        return num_bytes([payload._indices(), payload._values()])
    if isinstance(payload, Tensor):
        return payload.numel() * payload.element_size()
    return sum(map(num_bytes, payload)) if isinstance(payload, (list, tuple)) else 0


def group_of(arguments: Mapping[str, Any]) -> tuple[list[int], str]:
    """The operation's group: its world ranks, and its name in the trace.

    A dim of a `DeviceMesh` has its own name; the group of all ranks has none; others have the description that they were made
    with, or are called by their ranks: ``ranks 1,3``.
    """
    group = arguments.get("process_group", arguments.get("group_name"))
    if isinstance(group, torch.ScriptObject):
        group = c10d.ProcessGroup.unbox(group)
    elif isinstance(group, str):
        group = c10d.distributed_c10d._resolve_process_group(group)
    ranks: list[int] = c10d.get_process_group_ranks(group)
    given = str(group.group_desc)
    if given not in ("undefined", "default_pg", "mesh_default", ""):
        return ranks, given.removeprefix("mesh_")
    return ranks, "" if len(ranks) == c10d.get_world_size() else "ranks " + ",".join(map(str, ranks))

"""How two tensors are combined into one, and which dtypes can be combined how.

(bool: a sum is "or", a product "and"); anything else is refused with its dtype and op named:

    dtype                                   sum    mean   product   min    max
    float16 bfloat16 float32 float64        yes    yes    yes       yes    yes
    complex64 complex128                    yes    yes    yes*      -      -
    uint8 int8 int32 int64 bool             yes    -      yes       yes    yes
    int16                                   yes*   -      yes*      yes*   yes*      * not by gloo, so not by "native"

The smallest or largest of nan and a number is nan, except by "native": gloo may return the number.
"""

from __future__ import annotations

from math import inf
from typing import Literal, get_args

import torch
from torch import Tensor

from partkit.communicator import describe, is_idle
from partkit.transport.base import Combine

Op = Literal["sum", "mean", "product", "min", "max"]


def _in_place(combine: Combine) -> Combine:
    """The same, but of tensors without numbers nothing: that would take longer than with numbers. Unless somebody counts operations."""

    def combined(mine: Tensor, theirs: Tensor) -> object:
        return mine if is_idle(mine) else combine(mine, theirs)

    return combined


COMBINE: dict[str, Combine] = {
    "sum": _in_place(torch.Tensor.add_),
    "mean": _in_place(torch.Tensor.add_),
    "product": _in_place(torch.Tensor.mul_),
    "min": lambda mine, theirs: torch.minimum(mine, theirs, out=mine),
    "max": lambda mine, theirs: torch.maximum(mine, theirs, out=mine),
}
"""In place: ``COMBINE[op](mine, theirs)`` leaves the combination in ``mine``. A mean is a sum that is divided in the end."""

REAL: tuple[Op, ...] = ("sum", "mean", "product", "min", "max")
OPS: dict[torch.dtype, tuple[Op, ...]] = {
    **dict.fromkeys((torch.float16, torch.bfloat16, torch.float32, torch.float64), REAL),
    **dict.fromkeys((torch.complex64, torch.complex128), ("sum", "mean", "product")),
    **dict.fromkeys((torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool), ("sum", "product", "min", "max")),
}
"""How each dtype can be combined; a dtype that is not here can't be."""
NOT_BY_GLOO = {(torch.int16, op) for op in REAL} | {(torch.complex64, "product"), (torch.complex128, "product")}


def identity(op: Op, like: Tensor) -> Tensor:
    """A new tensor that changes nothing when combined: 0 for a sum, 1 for a product, the largest of its dtype for a minimum.

    Example:
        >>> identity("max", torch.zeros(2, dtype=torch.int8)), identity("min", torch.zeros(1))
        (tensor([-128, -128], dtype=torch.int8), tensor([inf]))
    """
    if op in ("sum", "mean", "product"):
        return torch.full_like(like, 1 if op == "product" else 0)
    if like.dtype == torch.bool:
        return torch.full_like(like, op == "min")
    if like.dtype.is_floating_point:
        return torch.full_like(like, inf if op == "min" else -inf)
    return torch.full_like(like, torch.iinfo(like.dtype).max if op == "min" else torch.iinfo(like.dtype).min)


def check_op(operation: str, x: Tensor, op: str, algorithm: str) -> None:
    """Refuse what can't be combined, before anything is sent."""
    if op in OPS.get(x.dtype, ()) and algorithm != "native":
        return
    if op not in get_args(Op):
        raise ValueError(f"{operation}(op={op!r}): op is one of {', '.join(map(repr, get_args(Op)))}")
    dtype = str(x.dtype).removeprefix("torch.")
    if x.dtype not in OPS:
        raise ValueError(f"{operation} of {describe(x)}: {dtype} can't be combined; convert x first, to float32 for example")
    if op not in OPS[x.dtype]:
        raise ValueError(f"{operation}(op={op!r}) of {describe(x)}: {dtype} can't be combined that way, only by {', '.join(OPS[x.dtype])}; convert x first")
    if algorithm == "native" and (x.dtype, op) in NOT_BY_GLOO:
        raise ValueError(f"{operation}(op={op!r}, algorithm='native') of {describe(x)}: gloo can't combine {dtype} that way; take an explicit algorithm")

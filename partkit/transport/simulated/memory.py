"""Copies of what tensors hold: by plain memory, so that no dispatch mode takes them for the user's own operations.

Messages of simulated ranks are many and small, so a copy must cost little: memory read and written as one long array of bytes is half
the price of a call of C.
"""

from __future__ import annotations

from ctypes import c_char, c_ubyte
from typing import Any

from torch import Tensor

_READ: Any = (c_char * 2**62).from_address(0)
"""All memory of this process: ``_READ[address : address + nbytes]`` are bytes."""
_WRITE: Any = memoryview((c_ubyte * 2**62).from_address(0)).cast("B")


def raw(address: int, nbytes: int) -> bytes:
    """What is there now."""
    data: bytes = _READ[address : address + nbytes]
    return data


def copy_of(x: Tensor) -> bytes | Tensor:
    """What ``x`` (contiguous) holds now. Of a tensor without numbers: itself."""
    if x.is_cpu:
        start = x.data_ptr()
        data: bytes = _READ[start : start + x.nbytes]
        return data
    return x if x.is_meta else x.clone()


def put(data: bytes | Tensor, buffer: Tensor) -> None:
    """Let ``buffer`` (contiguous, of the same size) hold what `copy_of` has copied."""
    if isinstance(data, bytes):
        start = buffer.data_ptr()
        _WRITE[start : start + len(data)] = data
    elif not buffer.is_meta:
        buffer.copy_(data.view(buffer.shape))


def move(x: Tensor, buffer: Tensor) -> None:
    """Let ``buffer`` hold what ``x`` holds; both contiguous, of the same size and on the same device."""
    if x.is_cpu:
        start, to, nbytes = x.data_ptr(), buffer.data_ptr(), x.nbytes
        _WRITE[to : to + nbytes] = _WRITE[start : start + nbytes]
    elif not x.is_meta:
        buffer.copy_(x.view(buffer.shape))

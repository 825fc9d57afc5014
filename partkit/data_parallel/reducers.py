"""When gradients are summed over the ranks: after backward, or while it goes on.

    naive         backward |== layer 3 ==|== layer 2 ==|== layer 1 ==|
                  all-reduces                                        [ p1 ][ p2 ][ p3 ] ...   one a parameter, each waited for

    overlapped    backward |== layer 3 ==|== layer 2 ==|== layer 1 ==|
                  bucket 0               [  scatter    |   gather    ]
                  bucket 1                             [   scatter   |  gather ]
                  bucket 2                                           [ scatter | gather ]

                  When a bucket is full, it is posted; the one before takes its second half; the one before that must be there.

In both, parameters take part in one fixed order, whatever order gradients arrive in, and those without a gradient take part
with zeros: so all ranks post the same messages in the same order, and ranks that use different layers don't hang.

    messages a rank sends      bytes a rank sends (p ranks, n bytes of gradients)
    naive        2 (p - 1) for each parameter      2 (p - 1) / p n        `partkit.cluster.COSTS`
    overlapped   2 (p - 1) for each bucket         2 (p - 1) / p n        `partkit.data_parallel.exchange.bytes_sent`

Reference: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from partkit.collectives.all_reduce import all_reduce
from partkit.communicator import Communicator
from partkit.data_parallel.buckets import fill_buckets
from partkit.data_parallel.exchange import Exchange

Reduction = Literal["overlapped", "naive"]


class Reducer(Protocol):
    """Replaces each parameter's gradient by its sum over the ranks, during or after a backward pass."""

    def begin(self) -> None:
        """A backward pass begins, at whose end the sums are wanted."""

    def ready(self, position: int) -> None:
        """The gradient of the parameter at ``position`` is complete."""

    def finish(self) -> None:
        """Backward is over: return when every ``.grad`` is the sum."""


class NaiveReducer:
    """One all-reduce for each parameter, one after the other, once backward is over."""

    def __init__(self, parameters: Sequence[nn.Parameter], comm: Communicator, bucket_bytes: int) -> None:
        self._parameters, self._comm = parameters, comm

    def begin(self) -> None:
        """Nothing to prepare."""

    def ready(self, position: int) -> None:
        """Nothing to do before all are."""

    def finish(self) -> None:
        for parameter in self._parameters:
            parameter.grad = all_reduce(gradient(parameter), self._comm, algorithm="ring")


class OverlappedReducer:
    """Buckets of gradients, each posted as soon as it is full; the wire moves them while backward goes on."""

    def __init__(self, parameters: Sequence[nn.Parameter], comm: Communicator, bucket_bytes: int) -> None:
        self._parameters, self._comm = parameters, comm
        self.buckets = fill_buckets(parameters, bucket_bytes)
        self._bucket_of = {position: number for number, bucket in enumerate(self.buckets) for position in bucket}
        self.begin()

    def begin(self) -> None:
        self._missing = [set(bucket) for bucket in self.buckets]
        self._flat: list[Tensor] = []
        self._exchanges: list[Exchange] = []

    def ready(self, position: int) -> None:
        missing = self._missing[self._bucket_of[position]]
        if position not in missing:
            raise RuntimeError(
                f"the gradient of a parameter of shape {list(self._parameters[position].shape)} arrived twice in one backward, after it was sent "
                "(reentrant checkpointing does this): use DataParallel(..., reduction='naive'), or checkpoint(..., use_reentrant=False)"
            )
        missing.remove(position)
        while self._next < len(self.buckets) and not self._missing[self._next]:
            self._post()

    def finish(self) -> None:
        while self._next < len(self.buckets):
            self._post()  # with zeros for what backward has not reached
        if self._exchanges:
            self._exchanges[-1].gather()
        for exchange in self._exchanges[-2:]:
            exchange.finish()
        for bucket, flat in zip(self.buckets, self._flat, strict=True):
            members = [self._parameters[position] for position in bucket]
            for parameter, piece in zip(members, torch.split(flat, [p.numel() for p in members]), strict=True):
                parameter.grad = piece.view(parameter.shape)

    @property
    def _next(self) -> int:
        """The bucket to post next: always in order, even if a later one is full already."""
        return len(self._exchanges)

    def _post(self) -> None:
        number = self._next
        flat = torch.cat([gradient(self._parameters[position]).reshape(-1) for position in self.buckets[number]])
        exchange = Exchange(flat, self._comm, f"bucket {number}")
        self._flat.append(flat)
        self._exchanges.append(exchange)
        exchange.scatter()
        if number >= 1:
            self._exchanges[number - 1].gather()
        if number >= 2:
            self._exchanges[number - 2].finish()


def gradient(parameter: nn.Parameter) -> Tensor:
    """The gradient, or zeros of its shape if backward has not reached the parameter.

    Raises:
        TypeError: it is sparse; only dense tensors travel.
    """
    if parameter.grad is None:
        return torch.zeros_like(parameter)
    if parameter.grad.layout is not torch.strided:
        layout = parameter.grad.layout
        raise TypeError(f"a gradient of shape {list(parameter.shape)} has layout {layout}: use a dense one, for example nn.Embedding(sparse=False)")
    return parameter.grad


REDUCERS: dict[str, Callable[[Sequence[nn.Parameter], Communicator, int], Reducer]] = {"overlapped": OverlappedReducer, "naive": NaiveReducer}

"""`DataParallel`: train one model on all ranks as if it saw the whole batch.

    rank 0: 3 items            rank 1: 1 item             one process: all 4 items
    loss_0 = mean over 3       loss_1 = mean over 1       loss = (3 loss_0 + 1 loss_1) / 4
    [1] 3 grad(loss_0)         1 grad(loss_1)
    [2]        sum over the ranks
    [3]        divided by 3 + 1                           grad(loss)

The mean of the ranks' means would be right only for equal counts. So every rank multiplies its loss by its count [1], gradients
and counts are summed over the ranks [2], and there is one division, by the number of items of all ranks [3]. Accumulating
over several backward passes is the same sum, with more terms.

What one synchronised backward costs each of p ranks, besides the sums of gradients (`partkit.data_parallel.reducers`): the roll
call, p - 1 messages of 8 (1 + number of parameters) bytes; and each buffer, broadcast from rank 0.

Reference: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training"; weighting by counts: Goyal et
al. 2017, "Accurate, Large Minibatch SGD", remark 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, get_args

import torch
from torch import Tensor, nn

from partkit.collectives.all_reduce import all_reduce
from partkit.communicator import Communicator
from partkit.data_parallel.reducers import REDUCERS, Reduction
from partkit.data_parallel.replicas import replicate


class DataParallel(nn.Module):
    """A module whose replicas on all ranks train as one.

    At the start every parameter and buffer becomes that of rank 0. `backward` then gives every rank the gradient that one
    process would get from the whole batch, the same bits on each, so weights stay equal. Buffers (running statistics of batch norm) are
    those of rank 0 after every synchronised backward: they describe rank 0's share of the data, and batch norm itself
    normalises by each rank's own share, unlike in one process.

    Args:
        module: built in the same way on each rank; its weights may differ. Any shapes; dense gradients.
        comm: the ranks.
        reduction: "overlapped" (buckets, sent while backward goes on) or "naive" (each gradient after backward).
        bucket_bytes: size limit of a bucket, 4 MB by default; a larger gradient has one of its own. Smaller buckets start earlier
            and cost more messages.

    Raises:
        ValueError: ``reduction`` is unknown, or ``bucket_bytes`` below 1.
        RanksStuck: (from the world) the ranks' modules differ in shape.

    Example:
        >>> import torch, partkit as pk
        >>> def step(comm):
        ...     model = pk.DataParallel(torch.nn.Linear(1, 1, bias=False), comm)
        ...     torch.nn.init.zeros_(model.module.weight)
        ...     x = torch.tensor([[[1.0], [1.0], [1.0]], [[5.0]]][comm.rank])        # 3 items and 1 item
        ...     loss = torch.nn.functional.mse_loss(model(x), x)
        ...     model.backward(loss, count=len(x))
        ...     return model.module.weight.grad.item()
        >>> with pk.World(2) as world:
        ...     world.run(step)
        [-14.0, -14.0]
    """

    def __init__(self, module: nn.Module, comm: Communicator, *, reduction: Reduction = "overlapped", bucket_bytes: int = 2**22) -> None:
        super().__init__()
        if reduction not in get_args(Reduction):
            raise ValueError(f"DataParallel(reduction={reduction!r}): reduction is one of {', '.join(map(repr, get_args(Reduction)))}")
        if bucket_bytes < 1:
            raise ValueError(f"DataParallel(bucket_bytes={bucket_bytes!r}): the size of a bucket is at least 1 byte")
        self.module = module
        self.comm = comm
        self._trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self._reducer = REDUCERS[reduction](self._trained, comm, bucket_bytes)
        self._synchronise = True
        self._in_backward = False
        self._num_items = 0
        self._before: list[Tensor | None] | None = None
        """Gradients from before the passes that are being accumulated; None between synchronised passes."""
        for position, parameter in enumerate(self._trained):
            parameter.register_post_accumulate_grad_hook(partial(self._on_gradient, position))  # type: ignore[no-untyped-call]
        with comm.span("replicate"):
            replicate([*module.parameters(), *module.buffers()], comm)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's output for this rank's share of the batch. Sends nothing."""
        with self.comm.span("forward"):
            return self.module(*args, **kwargs)

    def backward(self, loss: Tensor, *, count: int) -> None:
        """Add to each ``.grad`` what ``loss.backward()`` would in one process that has the items of all ranks.

        Every rank calls it equally often. Within `no_sync` nothing is sent, and until the next call outside ``.grad`` holds this
        rank's own sum of count * gradient.

        Args:
            loss: one number, the mean over this rank's ``count`` items.
            count: number of items (samples, or tokens that are not masked). May be 0: the loss is then ignored, even if nan. So
                a rank that has run out of batches goes on with ``backward(torch.zeros(()), count=0)``.

        Raises:
            ValueError: ``loss`` is not one number, ``count`` is negative, or no rank has an item.
        """
        if loss.numel() != 1:
            raise ValueError(f"backward(loss of shape {list(loss.shape)}): loss is one number, the mean over this rank's items")
        if count < 0:
            raise ValueError(f"backward(count={count!r}): the number of items is at least 0")
        if self._before is None:
            self._open()
        self._num_items += count
        if self._synchronise:
            self._reducer.begin()
        with self.comm.span("backward"):
            self._in_backward = True
            try:
                if count:
                    loss.backward(torch.full_like(loss, count))  # type: ignore[no-untyped-call]  # [1] the gradient of count * loss
            except BaseException:
                self._before = None  # what was accumulated is lost; the next pass starts afresh
                raise
            finally:
                self._in_backward = False
        if self._synchronise:
            self._close()

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Accumulate: inside, `backward` sends nothing; the first one outside sends the sum of all.

        Example:
            >>> import torch, partkit as pk
            >>> def step(comm):
            ...     model = pk.DataParallel(torch.nn.Linear(1, 1, bias=False), comm)
            ...     with model.no_sync():
            ...         model.backward(model(torch.ones(3, 1)).mean(), count=3)
            ...     model.backward(model(torch.zeros(1, 1)).mean(), count=1)
            ...     return model.module.weight.grad.item()        # (3 * 1 + 1 * 0) / 4
            >>> with pk.World(2) as world:
            ...     world.run(step)
            [0.75, 0.75]
        """
        outer, self._synchronise = self._synchronise, False
        try:
            yield
        finally:
            self._synchronise = outer

    def _open(self) -> None:
        """Put aside what ``.grad`` holds from earlier: it is the same on all ranks already and must not be summed again."""
        self._before = [parameter.grad for parameter in self._trained]
        self._num_items = 0
        for parameter in self._trained:
            parameter.grad = None

    def _on_gradient(self, position: int, parameter: Tensor) -> None:
        """autograd calls this when it has added the last contribution to ``parameter.grad`` (tied weights: once)."""
        if not self._in_backward:
            raise RuntimeError("loss.backward() alone leaves each rank with its own gradients: call model.backward(loss, count=len(batch)) of pk.DataParallel")
        if self._synchronise:
            self._reducer.ready(position)

    def _close(self) -> None:
        assert self._before is not None
        earlier, self._before = self._before, None
        used = [parameter.grad is not None for parameter in self._trained]
        with self.comm.span("wait for gradients"):
            self._reducer.finish()  # [2]
            num_items, *num_users = self._roll_call(used)
        if num_items == 0:
            raise ValueError("backward(count=0) on every rank: the mean over no items has no gradient")
        for parameter, before, users in zip(self._trained, earlier, num_users, strict=True):
            if not users:  # by no rank: one process would not touch it either
                parameter.grad = before
                continue
            assert parameter.grad is not None
            parameter.grad /= num_items  # [3]
            if before is not None:
                parameter.grad += before
        replicate(self.module.buffers(), self.comm)

    def _roll_call(self, used: list[bool]) -> list[int]:
        """Over all ranks: the number of items, then for each parameter the number of ranks that used it."""
        total = all_reduce(torch.tensor([self._num_items, *used]), self.comm, algorithm="naive")
        numbers: list[int] = total.tolist()
        return numbers

"""Buckets: which gradients travel together. Pure.

One message for each gradient pays the latency of a message for each; one message for all can start only when backward is
over. Buckets are the compromise. Backward finishes the gradients of the last layers first, so buckets are filled from the
end of the model:

    parameters     layer 1    layer 2    layer 3    layer 4          backward goes this way  <---
    buckets        [    2    ][         1         ][   0   ]         bucket 0 is full first

Reference: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", section 3.2.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def fill_buckets(parameters: Sequence[Tensor], bucket_bytes: int) -> list[list[int]]:
    """Group ``parameters`` from last to first.

    Args:
        parameters: in the order of their registration, any shapes.
        bucket_bytes: a bucket holds at most this much; a larger parameter has one of its own.

    Returns:
        Positions in ``parameters``, bucket by bucket, in the order in which buckets are sent. A bucket has one dtype and device.

    Example:
        >>> import torch
        >>> fill_buckets([torch.empty(2), torch.empty(3), torch.empty(9), torch.empty(1)], bucket_bytes=20)
        [[3], [2], [1, 0]]
    """
    buckets: list[list[int]] = []
    room, sort = 0, None
    for position in reversed(range(len(parameters))):
        parameter = parameters[position]
        nbytes, its_sort = parameter.numel() * parameter.element_size(), (parameter.dtype, parameter.device)
        if nbytes > room or its_sort != sort:
            buckets.append([])
            room, sort = bucket_bytes, its_sort
        buckets[-1].append(position)
        room -= nbytes
    return buckets

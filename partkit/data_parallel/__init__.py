"""Data parallelism: the same model on every rank, each with its share of the batch; gradients are averaged, weights stay equal.

file           idea
wrapper        `DataParallel`: equal replicas at the start, `backward`, and every division
reducers       when gradients are summed: one by one after backward, or in buckets while it goes on
buckets        which gradients travel together; pure
exchange       one all-reduce in two halves that move by themselves
replicas       rank 0's tensors on every rank
"""

from partkit.data_parallel.wrapper import DataParallel as DataParallel

__all__ = ["DataParallel"]

"""What every schedule asks of its arguments."""

from __future__ import annotations


def check(name: str, num_ranks: int, num_microbatches: int, *, even: bool = False, least: int = 1, stages_per_rank: int = 1) -> None:
    """Refuse sizes for which there is no such schedule.

    Args:
        name: of the schedule, for the message.
        num_ranks: p.
        num_microbatches: m.
        even: whether the schedule pairs the ranks and the micro-batches.
        least: fewest micro-batches.
        stages_per_rank: v.

    Raises:
        ValueError: with the sizes that would do.

    Example:
        >>> check("chimera", 3, 4, even=True)
        Traceback (most recent call last):
        ValueError: chimera(3, 4): it needs an even number of ranks, since stages meet in pairs; 2 or 4 would do
    """
    call = f"{name}({num_ranks!r}, {num_microbatches!r})"
    for number in (num_ranks, num_microbatches, stages_per_rank):
        if not hasattr(number, "__index__"):
            raise ValueError(f"{call}: {number!r} is no whole number")
    if num_ranks < 1 or num_microbatches < 1:
        raise ValueError(f"{call}: a pipeline has at least 1 rank and 1 micro-batch")
    if stages_per_rank < 1:
        raise ValueError(f"{call} with stages_per_rank={stages_per_rank}: a rank has at least 1 stage")
    if even and num_ranks % 2:
        raise ValueError(f"{call}: it needs an even number of ranks, since stages meet in pairs; {num_ranks - 1 or 2} or {num_ranks + 1} would do")
    if even and num_microbatches % 2:
        raise ValueError(f"{call}: it needs an even number of micro-batches, half for each direction; {num_microbatches + 1} would do")
    if num_microbatches < least:
        raise ValueError(f"{call}: with {num_ranks} ranks it needs at least {least} micro-batches")

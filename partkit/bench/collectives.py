"""Collectives: each of partkit's explicit ones against torch.distributed's own, in the same run.

Both are measured by turns on the same ranks; a time is that of the slowest rank, medians are shown. "torch" is the function of
``torch.distributed`` itself, with a new tensor for the result, as partkit's functions give one; "partkit" is
``algorithm="auto"``, and the table says which algorithm that was. A ratio is the median of the ratios of neighbouring turns.

    --floor      also the same messages without partkit (`partkit.bench.bare_wire`): what no Python could do better
    --choices    also the other algorithms, as far as the model finds them at most `WORTH_A_TRY` times slower: which one was
                 fastest here, and by how much "auto" missed it
    --where      also where partkit's time goes, on the slowest rank: posting messages, waiting for them, elsewhere (Python, adding, copying)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from partkit.bench._measure import Claim, done, options, progress, rotated
from partkit.bench.bare_wire import Shares, replay, shares, taped
from partkit.collectives.all_gather import all_gather
from partkit.collectives.all_reduce import all_reduce
from partkit.collectives.all_to_all import all_to_all
from partkit.collectives.barrier import dissemination_barrier
from partkit.collectives.broadcast import broadcast
from partkit.collectives.choosing import choose
from partkit.collectives.reduce_scatter import reduce_scatter
from partkit.communicator import Communicator
from partkit.worlds.world import World

KB, MB = 1_000, 1_000_000
SIZES = {1 * KB: 40, 4 * KB: 40, 64 * KB: 30, 1 * MB: 12, 8 * MB: 7, 64 * MB: 5}
"""Bytes of the tensor that each rank passes in -> repetitions."""
QUICK_SIZES = {1 * KB: 3, 16 * KB: 3}
WORTH_A_TRY = 4.0
ALL_GATHER: Any = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
REDUCE_SCATTER: Any = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
"""torch has renamed them."""
Way = Callable[[Tensor, Communicator], object]


def torch_all_reduce(x: Tensor, comm: Communicator) -> Tensor:
    """In place, on a copy."""
    result = x.clone()
    dist.all_reduce(result)
    return result


def torch_broadcast(x: Tensor, comm: Communicator) -> Tensor:
    """From rank 0."""
    result = x.clone() if comm.rank == 0 else torch.empty_like(x)
    dist.broadcast(result, 0)
    return result


def torch_all_gather(x: Tensor, comm: Communicator) -> Tensor:
    """Flat."""
    result = x.new_empty(comm.size * x.numel())
    ALL_GATHER(result, x)
    return result


def torch_reduce_scatter(x: Tensor, comm: Communicator) -> Tensor:
    """Flat, of a size that p divides."""
    result = x.new_empty(x.numel() // comm.size)
    REDUCE_SCATTER(result, x)
    return result


def torch_all_to_all(x: Tensor, comm: Communicator) -> Tensor:
    """Flat, of a size that p divides."""
    result = torch.empty_like(x)
    dist.all_to_all_single(result, x)
    return result


PAIRS: dict[str, tuple[Callable[..., Tensor], Way]] = {
    "all_reduce": (all_reduce, torch_all_reduce),
    "reduce_scatter": (reduce_scatter, torch_reduce_scatter),
    "all_gather": (all_gather, torch_all_gather),
    "broadcast": (broadcast, torch_broadcast),
    "all_to_all": (all_to_all, torch_all_to_all),
}
"""Operation -> partkit's function and torch.distributed's. Both get the same tensor and give the same result."""


def run(argv: Sequence[str]) -> dict[str, Any]:
    """Measure; see the module's text for the words."""
    chosen = options(
        "collectives",
        argv,
        ("--ranks", {"type": int, "nargs": "+", "default": [2, 4, 8]}),
        ("--operations", {"nargs": "+", "default": list(PAIRS), "choices": list(PAIRS)}),
        ("--bytes", {"type": int, "nargs": "+", "default": list(SIZES), "choices": list(SIZES)}),
        ("--floor", {"action": "store_true", "help": "also the same messages without partkit"}),
        ("--choices", {"action": "store_true", "help": "also the algorithms that auto did not choose"}),
        ("--where", {"action": "store_true", "help": "also what partkit's time is spent on"}),
    )
    ranks, sizes = ([2], QUICK_SIZES) if chosen.quick else (chosen.ranks, {nbytes: SIZES[nbytes] for nbytes in chosen.bytes})
    rows: list[dict[str, Any]] = []
    for size in ranks:
        with World(size, trace=False) as world:
            for operation in chosen.operations:
                for nbytes, repetitions in sizes.items():
                    progress(f"{operation} of {nbytes:,} bytes on {size} ranks, {repetitions} times")
                    rows.append(row(world, operation, nbytes, repetitions, floor=chosen.floor, choices=chosen.choices, where=chosen.where))
    done()
    return {"collectives, ms": rows, "claims": [claim.row() for claim in claims(rows)]}


def row(world: World, operation: str, nbytes: int, repetitions: int, *, floor: bool = False, choices: bool = False, where: bool = False) -> dict[str, Any]:
    """One line of the table: median times in ms, and the ratio of partkit to torch."""
    choice = choose(operation, nbytes, world.size)
    model = {name: choice.total(name) for name in choice.seconds}
    others = [name for name in model if choices and name != choice.best and model[name] <= WORTH_A_TRY * model[choice.best]]
    by_rank = world.run(time_by_turns, operation, nbytes, repetitions, others, floor=floor)
    times = {way: [max(seconds) for seconds in zip(*(mine[way] for mine in by_rank), strict=True)] for way in by_rank[0]}

    def ratio(way: str, to: str) -> float:
        return float(median(a / b for a, b in zip(times[way], times[to], strict=True)))

    found = {
        "operation": operation,
        "ranks": world.size,
        "bytes": nbytes,
        "algorithm": choice.best,
        "partkit": 1000 * median(times["partkit"]),
        "torch": 1000 * median(times["torch"]),
        "partkit / torch": ratio("partkit", "torch"),
    }
    if floor:
        found["bare wire / torch"] = ratio("bare wire", "torch")
    if choices:
        fastest = min(["partkit", *others], key=lambda way: ratio(way, "partkit"))
        found |= {"fastest": choice.best if fastest == "partkit" else fastest, "chosen / fastest": ratio("partkit", fastest)}
    if where:
        slowest = [max(turn, key=sum) for turn in zip(*world.run(shares_by_turns, operation, nbytes, repetitions), strict=True)]
        found |= {part: 1000 * median(getattr(turn, part) for turn in slowest) for part in Shares._fields}
    return found


def time_by_turns(comm: Communicator, operation: str, nbytes: int, repetitions: int, others: Sequence[str], *, floor: bool) -> dict[str, list[float]]:
    """On a rank: seconds of each way by turns: "partkit", "torch", explicit algorithms, "bare wire". The first turn warms up and does not count."""
    x = _filled(nbytes, comm)
    ours, theirs = PAIRS[operation]
    ways: dict[str, Callable[[], object]] = {"partkit": partial(ours, x, comm), "torch": partial(theirs, x, comm)}
    ways |= {name: partial(ours, x, comm, algorithm=name) for name in others}
    if floor:
        ways["bare wire"] = replay(taped(ways["partkit"], comm), comm)
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(1 + repetitions):
        results: dict[str, Any] = {}
        for way in rotated(list(ways), turn):
            dissemination_barrier(comm, "bench")  # so that all begin together
            start = time.perf_counter()
            results[way] = ways[way]()
            seconds[way].append(time.perf_counter() - start)
        assert torch.equal(results["partkit"], results["torch"]), f"{operation}: partkit and torch.distributed differ"
    return {way: taken[1:] for way, taken in seconds.items()}


def shares_by_turns(comm: Communicator, operation: str, nbytes: int, repetitions: int) -> list[Shares]:
    """On a rank: where the seconds of partkit's calls go; torch's in between leave the caches as they are when both take turns."""
    x = _filled(nbytes, comm)
    ours, theirs = PAIRS[operation]
    found = []
    for _ in range(1 + repetitions):
        theirs(x, comm)
        dissemination_barrier(comm, "bench")
        found.append(shares(partial(ours, x, comm), comm))
    return found[1:]


def _filled(nbytes: int, comm: Communicator) -> Tensor:
    """A tensor of about so many bytes, cut evenly by the number of ranks."""
    return torch.arange(nbytes // 4 // comm.size * comm.size, dtype=torch.float32) % 97 + comm.rank


def claims(rows: Sequence[dict[str, Any]]) -> Iterator[Claim]:
    """What partkit promises of these ratios; the worst over the sizes counts."""
    for operation, size in dict.fromkeys((row["operation"], row["ranks"]) for row in rows):
        found = {row["bytes"]: row["partkit / torch"] for row in rows if (row["operation"], row["ranks"]) == (operation, size)}
        large = [ratio for nbytes, ratio in found.items() if nbytes >= MB]
        if operation == "reduce_scatter" and large:
            yield Claim(f"reduce_scatter from 1 MB up, {size} ranks", max(large), 1 / 1.4, "x torch")
        else:
            yield Claim(f"{operation} at any size, {size} ranks", max(found.values()), 1.0, "x torch")
        if operation == "all_reduce" and size >= 4 and 4 * KB in found:
            yield Claim(f"all_reduce of 4 kB, {size} ranks", found[4 * KB], 0.5, "x torch")

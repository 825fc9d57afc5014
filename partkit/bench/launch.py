"""Starting ranks: against one import of torch and against spawn; memory, round trips, a dead rank.

cold      the first world of a fresh interpreter: the fork server imports torch, then forks
warm      the next world of the same interpreter
spawn     torch.multiprocessing.spawn: every rank imports torch by itself
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

from partkit.bench._measure import Claim, by_turns, done, fresh, megabytes, options, progress
from partkit.communicator import Communicator
from partkit.worlds.errors import RankDied
from partkit.worlds.forkserver import FORK_SERVER
from partkit.worlds.world import World

IMPORT_TORCH = "import time; t = time.perf_counter(); import torch; print(time.perf_counter() - t)"
COLD_START = """
import time; t = time.perf_counter()
import partkit as pk
with pk.World({ranks}):
    print(time.perf_counter() - t)
"""
SPAWN = "from partkit.bench.launch import spawn_ranks; import json; print(json.dumps(spawn_ranks({ranks})))"


def run(argv: Sequence[str]) -> dict[str, Any]:
    """Measure; see the module's text for the words."""
    chosen = options("launch", argv, ("--ranks", {"type": int, "default": 4}), ("--many", {"type": int, "default": 32}))
    ranks, many = (2, 4) if chosen.quick else (chosen.ranks, chosen.many)
    repetitions = 1 if chosen.quick else 3
    progress(f"import torch and a cold start of {ranks} ranks, by turns, {repetitions} times")
    torch_seconds, cold = by_turns(repetitions, lambda: float(fresh(IMPORT_TORCH)), lambda: float(fresh(COLD_START.format(ranks=ranks))))
    progress(f"torch.multiprocessing.spawn of {ranks} ranks")
    spawned = fresh(SPAWN.format(ranks=ranks))
    warm_rows, claims = warm(ranks, many, 20 if chosen.quick else 300)
    done()
    starts = [
        {"start": "import torch, once", "ranks": 0, "seconds": torch_seconds},
        {"start": "World, cold", "ranks": ranks, "seconds": cold},
        {"start": "World, warm", "ranks": ranks, "seconds": warm_rows["warm"]},
        {"start": "World, warm", "ranks": many, "seconds": warm_rows["many"]},
        {"start": "torch.multiprocessing.spawn", "ranks": ranks, "seconds": spawned["seconds"]},
    ]
    memory = [
        {"memory of": f"{ranks} ranks of a World", "PSS MB": warm_rows["ranks MB"]},
        {"memory of": "the fork server", "PSS MB": warm_rows["server MB"]},
        {"memory of": f"{ranks} spawned ranks", "PSS MB": spawned["MB"]},
    ]
    claims.insert(0, Claim(f"cold start of {ranks} ranks, in s; limit 1.5 x import torch + 0.5 s", cold, 1.5 * torch_seconds + 0.5, "s"))
    return {"starts": starts, "memory": memory, "claims": [claim.row() for claim in claims]}


def warm(ranks: int, many: int, round_trips: int) -> tuple[dict[str, float], list[Claim]]:
    """Everything that is measured with the fork server running."""
    found: dict[str, float] = {}
    with World(ranks):
        pass
    progress(f"warm starts of {ranks} ranks")
    found["warm"] = median(seconds_to_start(ranks) for _ in range(3))
    progress(f"a start of {many} ranks")
    found["many"] = seconds_to_start(many)
    with World(ranks) as world:
        progress(f"{round_trips} trivial cells on {ranks} ranks")
        trip = median(seconds_of_a_run(world) for _ in range(round_trips))
        found["ranks MB"], found["server MB"] = megabytes(world.pids), megabytes([FORK_SERVER.pid or 0])
        progress("a rank that dies")
        named = median(seconds_to_name_a_dead_rank(world) for _ in range(3))
    return found, [
        Claim(f"warm start of {ranks} ranks", found["warm"], 0.3, "s"),
        Claim(f"memory of {ranks} ranks (PSS)", found["ranks MB"], 250, "MB"),
        Claim(f"round trip of a trivial cell on {ranks} ranks, median", 1000 * trip, 2, "ms"),
        Claim("from the death of a rank to the error that names it", named, 5, "s"),
    ]


def seconds_to_start(ranks: int) -> float:
    """From the call of World to the moment when all ranks are connected."""
    start = time.perf_counter()
    with World(ranks):
        return time.perf_counter() - start


def seconds_of_a_run(world: World) -> float:
    """One round trip of a function that does nothing."""
    start = time.perf_counter()
    world.run(own_rank)
    return time.perf_counter() - start


def own_rank(comm: Communicator) -> int:
    """What a trivial cell does."""
    return comm.rank


def seconds_to_name_a_dead_rank(world: World) -> float:
    """Rank 0 kills itself while the others wait for it."""
    start = time.perf_counter()
    try:
        world.run(kill_rank_0)
    except RankDied:
        return time.perf_counter() - start
    raise AssertionError("a dead rank went unnoticed")


def kill_rank_0(comm: Communicator) -> None:
    """Rank 0 dies, the others wait for a message from it."""
    import torch

    if comm.rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    comm.recv(torch.empty(1), 0)


def spawn_ranks(ranks: int) -> dict[str, float]:
    """The usual way: start, connect and measure ``ranks`` processes with torch.multiprocessing."""
    from importlib import import_module

    mp: Any = import_module("torch.multiprocessing")  # its stubs do not export spawn
    start = time.time()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_spawned, args=(ranks, folder), nprocs=ranks)
        answers = [open(os.path.join(folder, str(rank))).read().split() for rank in range(ranks)]  # noqa: SIM115
    return {"seconds": max(float(ready) for ready, _ in answers) - start, "MB": sum(float(memory) for _, memory in answers)}


def _spawned(rank: int, ranks: int, folder: str) -> None:
    import torch
    import torch.distributed as dist

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=ranks)
    dist.all_reduce(torch.ones(1))
    ready = time.time()
    memory = megabytes([os.getpid()])
    with open(os.path.join(folder, str(rank)), "w") as file:
        file.write(f"{ready} {memory}")
    dist.barrier()  # nobody leaves before all have measured
    dist.destroy_process_group()

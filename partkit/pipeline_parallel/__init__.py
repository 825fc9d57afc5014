"""Pipeline parallelism: layers cut in stages, a stage on each rank, micro-batches passing through. A schedule is data.

    schedule = pk.pipeline_parallel.one_f_one_b(4, 8)         who does what, in which order: a value that prints
    pk.pipeline_parallel.violations(schedule)                 everything that is wrong with it, with reasons
    pk.pipeline_parallel.simulate(schedule, costs, link)      when it all happens, as a Trace

    file           idea
    action         one stage, one kind of work, one micro-batch: 2F0
    rules          what an action needs: the one statement of order
    schedule       the lists of all ranks as one value; text and CSV
    schedules/     the schedules of the literature, one file each
    costs          time, bytes and memory of actions
    memory         what is kept, and the most at a time
    balance        the best cut of a row of layers in stages
    table          a schedule as arrays
    lockstep       played in rounds
    messages       who posts which message when
    passes         schedule -> schedule: communication written out, backward split or merged
    validate       violations, with reasons
    simulation     exact times, on paper; clockwork and waves work them out
    measure        bubble, spans, busy shares of a trace
    picture        a schedule as a picture of text
    recognition    the name of a schedule that somebody has built
    searching/     the best schedule for given costs
    rehearse       a schedule on real ranks, where messages are sent and computations only take their time
    execution/     `pk.PipelineParallel`: stages of a real model, and their execution

All of it but ``execution`` is free of torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partkit.pipeline_parallel.action import Action as Action
    from partkit.pipeline_parallel.costs import Costs as Costs
    from partkit.pipeline_parallel.measure import bubble_inside as bubble_inside
    from partkit.pipeline_parallel.measure import bubble_share as bubble_share
    from partkit.pipeline_parallel.memory import peak_memory as peak_memory
    from partkit.pipeline_parallel.memory import peak_microbatches as peak_microbatches
    from partkit.pipeline_parallel.passes import add_blocking_calls as add_blocking_calls
    from partkit.pipeline_parallel.passes import add_communication as add_communication
    from partkit.pipeline_parallel.passes import merge_backward as merge_backward
    from partkit.pipeline_parallel.passes import split_backward as split_backward
    from partkit.pipeline_parallel.picture import grid as grid
    from partkit.pipeline_parallel.recognition import recognize as recognize
    from partkit.pipeline_parallel.rules import needs as needs
    from partkit.pipeline_parallel.schedule import Schedule as Schedule
    from partkit.pipeline_parallel.schedules.breadth_first import breadth_first as breadth_first
    from partkit.pipeline_parallel.schedules.chimera import chimera as chimera
    from partkit.pipeline_parallel.schedules.dual_pipe import dual_pipe as dual_pipe
    from partkit.pipeline_parallel.schedules.dual_pipe_v import dual_pipe_v as dual_pipe_v
    from partkit.pipeline_parallel.schedules.eager_one_f_one_b import eager_one_f_one_b as eager_one_f_one_b
    from partkit.pipeline_parallel.schedules.forward_only import forward_only as forward_only
    from partkit.pipeline_parallel.schedules.gpipe import gpipe as gpipe
    from partkit.pipeline_parallel.schedules.interleaved import interleaved as interleaved
    from partkit.pipeline_parallel.schedules.one_f_one_b import one_f_one_b as one_f_one_b
    from partkit.pipeline_parallel.schedules.pipedream import pipedream as pipedream
    from partkit.pipeline_parallel.schedules.pipedream_2bw import pipedream_2bw as pipedream_2bw
    from partkit.pipeline_parallel.schedules.stepping import staleness as staleness
    from partkit.pipeline_parallel.schedules.stepping import weight_versions as weight_versions
    from partkit.pipeline_parallel.schedules.zb_h1 import zb_h1 as zb_h1
    from partkit.pipeline_parallel.schedules.zb_h2 import zb_h2 as zb_h2
    from partkit.pipeline_parallel.schedules.zb_v import zb_v as zb_v
    from partkit.pipeline_parallel.searching.best import search as search
    from partkit.pipeline_parallel.searching.problem import Problem as Problem
    from partkit.pipeline_parallel.simulation import simulate as simulate
    from partkit.pipeline_parallel.validate import InvalidSchedule as InvalidSchedule
    from partkit.pipeline_parallel.validate import Violation as Violation
    from partkit.pipeline_parallel.validate import violations as violations

SCHEDULES: tuple[str, ...] = (
    "gpipe",
    "one_f_one_b",
    "eager_one_f_one_b",
    "interleaved",
    "breadth_first",
    "zb_h1",
    "zb_h2",
    "zb_v",
    "dual_pipe_v",
    "dual_pipe",
    "chimera",
    "pipedream",
    "pipedream_2bw",
    "forward_only",
)
"""The schedules of the literature: functions of ranks and micro-batches, each in the file of ``schedules/`` that has its name."""

_HOME = {name: f"schedules.{name}" for name in SCHEDULES} | {
    "Action": "action",
    "Costs": "costs",
    "InvalidSchedule": "validate",
    "Schedule": "schedule",
    "Violation": "validate",
    "add_blocking_calls": "passes",
    "add_communication": "passes",
    "bubble_inside": "measure",
    "bubble_share": "measure",
    "grid": "picture",
    "merge_backward": "passes",
    "needs": "rules",
    "peak_memory": "memory",
    "peak_microbatches": "memory",
    "recognize": "recognition",
    "search": "searching.best",
    "Problem": "searching.problem",
    "simulate": "simulation",
    "staleness": "schedules.stepping",
    "weight_versions": "schedules.stepping",
    "split_backward": "passes",
    "violations": "validate",
}
"""Where each public name lives, below this package."""

__all__ = sorted(_HOME)


def make(name: str, *sizes: int) -> Schedule:
    """The schedule of that name.

    Args:
        name: one of `SCHEDULES`.
        sizes: its arguments: ranks, micro-batches, and what else it takes.

    Example:
        >>> make("gpipe", 2, 4)
        <Schedule GPipe: 2 ranks, 2 stages, 4 micro-batches>
    """
    if name not in SCHEDULES:
        raise ValueError(f"there is no schedule {name!r}; there are {', '.join(SCHEDULES)}")
    made: Schedule = __getattr__(name)(*sizes)
    return made


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'partkit.pipeline_parallel' has no attribute {name!r}")
    return getattr(import_module(f"partkit.pipeline_parallel.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "SCHEDULES", "make"]

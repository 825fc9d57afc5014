"""Exercise: write 1F1B, ``plan(p, m)``.

    4 ranks, 6 micro-batches      forwards ahead      then one backward, one forward
    rank 0  0F0 0F1 0F2 0F3       p - s = 4           0B0 0F4 0B1 0F5 0B2 0B3 0B4 0B5
    rank 1  1F0 1F1 1F2           3                   1B0 1F3 1B1 1F4 1B2 1F5 1B3 1B4 1B5
    rank 2  2F0 2F1               2                   2B0 2F2 2B1 ...
    rank 3  3F0                   1                   3B0 3F1 3B1 ...

As fast as GPipe, with min(m, p - s) micro-batches alive on stage s in place of m.

Source: Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", section 2.2.1.
"""

from __future__ import annotations

from partkit.labs.schedules import Planner, ScheduleExercise, judge_schedule
from partkit.labs.verdict import Verdict
from partkit.pipeline_parallel import one_f_one_b


def check_one_f_one_b(plan: Planner) -> Verdict:
    """Judge ``plan(p, m)``, the order of 1F1B for p ranks with a stage each and m micro-batches.

    Args:
        plan: gives for each rank the list of its actions, forwards and backwards: ``["0F0", "0B0"]``, actions or a text.

    Returns:
        A verdict that says in words what is right, and what to look at first: which action, and why.

    Raises:
        TypeError: ``plan`` can't be called.

    Example:
        >>> from partkit.labs import check_one_f_one_b
        >>> check_one_f_one_b(lambda p, m: [[f"{rank}F{i}" for i in range(m)] for rank in range(p)])
        1F1B: not yet
          look  4 ranks, 8 micro-batches: there is no backward in it; each stage has one for every micro-batch
    """
    return judge_schedule(ONE_F_ONE_B, plan)


ONE_F_ONE_B = ScheduleExercise(
    name="1F1B",
    paper=one_f_one_b,
    kinds=("F", "B"),
    memory="at most min(m, p - s) on stage s",
    solved=(
        "every forward and every backward once, on the rank of its stage, and nothing waits in a circle",
        "bubble (p - 1)(F + B): no schedule with whole backwards and one stage a rank takes less time",
        "min(m, p - s) micro-batches alive on stage s, however many there are in all",
        "so also for fewer micro-batches than ranks, for one micro-batch, and for one rank",
    ),
)
"""The exercise of the fifth notebook."""

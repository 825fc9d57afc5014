"""Exercise: write ZB-H1, ``plan(p, m)``: 1F1B with its backward in two parts, and no more memory.

The gradient of the weights (W) is awaited by nobody, so it can fill what would be bubble. But until it has run, what the forward
kept stays. With p = 4, on the last stage:

    1F1B     F0 B0 -- F1 B1 -- F2 B2 -- F3 B3 --  ...     a gradient leaves every 3 units
    ZB-H1    F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1  ...     the first ones leave every 2 units; then memory is full

Source: Qi et al. 2023, "Zero Bubble Pipeline Parallelism", section 2.
"""

from __future__ import annotations

from partkit.labs.schedules import Planner, ScheduleExercise, judge_schedule
from partkit.labs.verdict import Verdict
from partkit.pipeline_parallel import zb_h1


def check_zb_h1(plan: Planner) -> Verdict:
    """Judge ``plan(p, m)``, the order of ZB-H1 for p ranks with a stage each and m micro-batches.

    Args:
        plan: gives for each rank the list of its actions: F, I and W, or B for an I with its W behind it.

    Returns:
        A verdict that says in words what is right, and what to look at first: which action, and why.

    Raises:
        TypeError: ``plan`` can't be called.

    Example:
        >>> from partkit.labs import check_zb_h1
        >>> from partkit.pipeline_parallel import one_f_one_b
        >>> check_zb_h1(one_f_one_b)
        ZB-H1: not yet
          look  4 ranks, 8 micro-batches: it takes 33 units of time, ZB-H1 27 (F = I = W = 1, B = 2). The rank before waits for both parts ...
    """
    return judge_schedule(ZB_H1, plan)


ZB_H1 = ScheduleExercise(
    name="ZB-H1",
    paper=zb_h1,
    kinds=("F", "B", "I", "W"),
    memory="at most p on every stage, and no more than the m that there are",
    solved=(
        "every forward and both gradients once, on the rank of their stage, and nothing waits in a circle",
        "bubble (p - 1)(F + I - W), a third of that of 1F1B where the three are equal",
        "what p micro-batches keep, on every stage: as much as the first stage of 1F1B",
        "so also for fewer micro-batches than ranks, for one micro-batch, and for one rank",
    ),
)
"""The first exercise of the sixth notebook."""

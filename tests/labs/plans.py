"""Right answers to the exercises about schedules, and what learners typically write before they have them: functions of p and m."""

from __future__ import annotations

from partkit.pipeline_parallel import Action, Schedule, one_f_one_b, split_backward, zb_h1
from partkit.pipeline_parallel.schedules.one_by_one import forwards_ahead, weights_behind

Lines = list[list[Action]]
Words = list[list[str]]


# -- 1F1B ------------------------------------------------------------------------------------------------------------


def one_forward_one_backward(p: int, m: int) -> Words:
    """As somebody may write it who has not read ours."""
    plan = []
    for s in range(p):
        ahead = min(p - s, m)
        line = [f"{s}F{i}" for i in range(ahead)]
        for i in range(m - ahead):
            line += [f"{s}B{i}", f"{s}F{i + ahead}"]
        plan.append(line + [f"{s}B{i}" for i in range(m - ahead, m)])
    return plan


def as_text(p: int, m: int) -> str:
    return str(one_f_one_b(p, m))


def as_lines_of_text(p: int, m: int) -> list[str]:
    return [" ".join(map(str, line)) for line in one_f_one_b(p, m).ranks]


def numbered_backwards(p: int, m: int) -> Lines:
    """The other right way: micro-batches are all alike, so the last may come first."""
    return [[action._replace(microbatch=m - 1 - (action.microbatch or 0)) for action in line] for line in one_f_one_b(p, m).ranks]


def forwards_then_backwards(p: int, m: int) -> Words:
    """GPipe."""
    return [[f"{s}F{i}" for i in range(m)] + [f"{s}B{i}" for i in range(m)] for s in range(p)]


def no_warm_up(p: int, m: int) -> Lines:
    """One forward, one backward, from the start on."""
    return [list(forwards_ahead(s, m, ahead=1)) for s in range(p)]


def one_too_few(p: int, m: int) -> Lines:
    """p - 1 - s forwards of warm-up, and then a backward first."""
    return [list(forwards_ahead(s, m, ahead=max(1, p - 1 - s))) for s in range(p)]


def stages_the_wrong_way_round(p: int, m: int) -> Lines:
    return [list(forwards_ahead(s, m, ahead=s + 1)) for s in range(p)]


def backward_before_its_forward(p: int, m: int) -> Words:
    return [[word for i in range(m) for word in (f"{s}B{i}", f"{s}F{i}")] for s in range(p)]


def forwards_only(p: int, m: int) -> Words:
    return [[f"{s}F{i}" for i in range(m)] for s in range(p)]


def drops_the_rest(p: int, m: int) -> Lines:
    """The steady state is there, the backwards after it are not."""
    return [[action for action in line if action.kind == "F" or (action.microbatch or 0) < m - p + 1] for line in one_f_one_b(p, m).ranks]


def one_twice(p: int, m: int) -> Lines:
    return [[*line, line[-1]] for line in one_f_one_b(p, m).ranks]


def on_the_wrong_rank(p: int, m: int) -> Lines:
    return [list(line) for line in reversed(one_f_one_b(p, m).ranks)]


def enough_micro_batches_only(p: int, m: int) -> Words:
    """Right as long as m >= p."""
    return [
        [f"{s}F{i}" for i in range(p - s)] + [word for i in range(m) for word in ([f"{s}B{i}"] + ([f"{s}F{i + p - s}"] if i + p - s < m else []))]
        for s in range(p)
    ]


# -- ZB-H1 -----------------------------------------------------------------------------------------------------------


def weights_lag_behind(p: int, m: int) -> Words:
    """As somebody may write it who has not read ours."""
    plan = []
    for s in range(p):
        forwards, gradients, weights, line = 0, 0, 0, list[str]()
        while weights < m:
            if forwards < m and forwards - gradients < p - s and forwards - weights < p:
                line, forwards = [*line, f"{s}F{forwards}"], forwards + 1
            elif gradients < m and gradients - weights <= s:
                line, gradients = [*line, f"{s}I{gradients}"], gradients + 1
            if gradients - weights > s or gradients == m:
                line, weights = [*line, f"{s}W{weights}"], weights + 1
        plan.append(line)
    return plan


def both_at_once(p: int, m: int) -> Schedule:
    """1F1B, split, and nothing moved."""
    return split_backward(one_f_one_b(p, m))


def all_weights_last(p: int, m: int) -> Lines:
    return [list(weights_behind(s, m, ahead=p - s, behind=m)) for s in range(p)]


def lags_alike(p: int, m: int) -> Lines:
    """The lag of the last stage on all of them."""
    return [list(weights_behind(s, m, ahead=p - s, behind=p - 1)) for s in range(p)]


def lags_too_little(p: int, m: int) -> Lines:
    return [list(weights_behind(s, m, ahead=p - s, behind=max(0, s - 1))) for s in range(p)]


def lags_too_much_at_the_end(p: int, m: int) -> Lines:
    """Never over the memory, but the last W come when all is over, on the ranks that could have filled gaps with them."""
    return [
        [*(a for a in line if a.kind != "W" or (a.microbatch or 0) < m - 4), *(Action(s, "W", i) for i in range(max(0, m - 4), m))] for s, line in _lined(p, m)
    ]


def _lined(p: int, m: int) -> list[tuple[int, tuple[Action, ...]]]:
    return list(enumerate(zb_h1(p, m).ranks))


def weights_before_inputs(p: int, m: int) -> Lines:
    swap = {"I": "W", "W": "I"}
    return [[action._replace(kind=swap.get(action.kind, action.kind)) for action in line] for line in both_at_once(p, m).ranks]  # type: ignore[arg-type]


def forgets_weights(p: int, m: int) -> Lines:
    return [[action for action in line if action.kind != "W"] for line in zb_h1(p, m).ranks]

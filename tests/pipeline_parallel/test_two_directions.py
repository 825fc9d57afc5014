"""The figures of the papers for schedules whose micro-batches pass a rank in both directions: Chimera, DualPipe, DualPipe-V."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from partkit.pipeline_parallel import Costs, bubble_share, make, peak_memory, simulate
from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.costs import work
from partkit.pipeline_parallel.rules import gives, needs
from partkit.pipeline_parallel.schedule import Schedule
from tests.pipeline_parallel.sizes import quickly

SLOTS = Costs(backward=1)


@given(half=st.integers(1, 4), units=st.integers(1, 4))
@quickly
def test_chimera_has_p_minus_2_idle_slots(half: int, units: int) -> None:
    """Li and Hoefler 2021, table 2: a share of (D - 2) / (2N + D - 2), activations of D/2 + 1 to D micro-batches."""
    p, m = 2 * half, 2 * half * units
    schedule = make("chimera", p, m)
    assert simulate(schedule, SLOTS).makespan == 2 * m + p - 2
    assert Fraction(bubble_share(simulate(schedule, SLOTS))).limit_denominator(1000) == Fraction(p - 2, 2 * m + p - 2)
    if units == 1:
        assert peak_memory(schedule) == tuple(half + 1 + min(rank, p - 1 - rank) for rank in range(p))
        assert simulate(schedule).makespan == 3 * m + 2 * (p - 2)  # with B = 2F: (D - 2) / (3N/2 + D - 2)


@given(p=st.integers(1, 5), more=st.integers(0, 8))
@quickly
def test_dual_pipe_v_keeps_2p_plus_1(p: int, more: int) -> None:
    assert max(peak_memory(make("dual_pipe_v", p, 2 * p + 2 + more))) == 2 * p + 1


@given(half=st.integers(1, 4), more=st.integers(0, 6))
@quickly
def test_dual_pipe_keeps_p_plus_1(half: int, more: int) -> None:
    """DeepSeek-AI 2024, table 2."""
    p = 2 * half
    assert set(peak_memory(make("dual_pipe", p, 2 * p + 4 + 2 * more))) == {p + 1}


@given(half=st.integers(1, 4), more=st.integers(0, 6), three=st.tuples(*[st.integers(1, 5)] * 3).map(sorted))
@quickly
def test_dual_pipe_bubble(half: int, more: int, three: list[int]) -> None:
    """DeepSeek-AI 2024, table 2: (p/2 - 1)(F&B + B - 3W), with the pair taking the time of its parts; for W <= F <= I."""
    p, (w, f, i) = 2 * half, three
    schedule, costs = make("dual_pipe", p, 2 * p + 2 * more), Costs(f, i, w)
    assert makespan_of_pairs(schedule, costs) - max(work(schedule, costs)) == (half - 1) * ((f + i + w) + (i + w) - 3 * w)
    even = Costs(f, f, w)
    assert simulate(schedule, even).makespan - max(work(schedule, even)) == (half - 1) * (f + f - w)


@given(p=st.integers(1, 5), more=st.integers(0, 6), f=st.integers(1, 5), w=st.integers(1, 5))
@quickly
def test_dual_pipe_v_bubble(p: int, more: int, f: int, w: int) -> None:
    """That of DualPipe on twice the ranks, of half a rank's layers each."""
    schedule, costs = make("dual_pipe_v", p, 2 * p + more), Costs(f, f, min(f, w))
    assert simulate(schedule, costs).makespan - max(work(schedule, costs)) == (p - 1) * (f + f - min(f, w))


def makespan_of_pairs(schedule: Schedule, costs: Costs) -> float:
    """If a forward with a backward of the other direction behind it runs as one, and gives both results at its end."""
    lines = [list(pairs(line)) for line in schedule.ranks]
    there: dict[Action, float] = {}
    clocks = [0.0] * len(lines)
    while any(lines):
        for rank, line in enumerate(lines):
            while line:
                own = {made for action in line[0] for made in gives(action)}
                wanted = {need for action in line[0] for need in needs(action, schedule.num_stages)} - own
                if not wanted <= there.keys():
                    break
                begin = max([clocks[rank], *(there[need] for need in wanted)])
                clocks[rank] = begin + sum(costs.seconds(action, schedule.num_stages) for action in line.pop(0))
                there.update(dict.fromkeys(own, clocks[rank]))
    return max(clocks)


def pairs(line: tuple[Action, ...]) -> Iterator[tuple[Action, ...]]:
    """Forwards with the backward of another stage behind them as one; everything else alone."""
    place = 0
    while place < len(line):
        two = line[place : place + 2]
        together = [action.kind for action in two] == ["F", "B"] and two[0].stage != two[1].stage
        yield two if together else two[:1]
        place += 1 + together

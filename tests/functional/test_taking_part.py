"""Every rank takes part in backward: whatever its x says, in one order, and if it does not, everybody is told."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import partkit as pk
from partkit.communicator import Communicator
from partkit.functional.movement import MOST_DUE
from partkit.worlds.errors import RankError, RanksStuck
from partkit.worlds.simulated import SimulatedWorld
from tests.functional.movements import MOVEMENTS, example, random

F = pk.functional
LiveWorld = Callable[[int], Any]


@pytest.fixture(params=["simulated", pytest.param("live", marks=pytest.mark.live)])
def world2(request: pytest.FixtureRequest) -> Any:
    """Two ranks, in both worlds."""
    if request.param == "live":
        return request.getfixturevalue("live_world")(2)
    return SimulatedWorld(2)


def one(comm: Communicator) -> Tensor:
    return torch.tensor([1.0 + comm.rank], requires_grad=True)


# -- a result that is not part of the loss -----------------------------------------------------------------------------------


def unused_on_rank_1(comm: Communicator) -> None:
    x = one(comm)
    gathered = F.all_gather(x, comm)
    loss = gathered.sum() if comm.rank == 0 else x.sum()
    loss.backward()


def test_who_waits_in_backward_for_a_rank_that_has_finished_is_told(world2: Any) -> None:
    with pytest.raises(RanksStuck) as caught:
        world2.run(unused_on_rank_1)
    assert caught.value.diagnosis.code == "backward" and caught.value.diagnosis.ranks == (1,)
    assert "rank 0 is in the backward of all_gather #1 (at test_taking_part.py:" in str(caught.value)
    assert "rank 1 has finished without it" in str(caught.value)
    assert "If its result is not part of the loss on rank 1, say so there: loss = pk.functional.tie(loss, result)" in str(caught.value)


def test_who_waits_for_one_that_waits_elsewhere_is_told(world2: Any) -> None:
    """Rank 1 skips the second movement and comes to the backward of the first: both wait, and the second is the one to name."""

    def run(comm: Communicator) -> None:
        first = F.all_gather(one(comm), comm)
        second = F.all_reduce(first, comm)
        (second if comm.rank == 0 else first).sum().backward()

    with pytest.raises(RanksStuck) as caught:
        world2.run(run)
    text = str(caught.value)
    assert (caught.value.diagnosis.code, caught.value.diagnosis.ranks) == ("backward", (1,))
    assert "rank 0 is in the backward of all_reduce #1 (at test_taking_part.py:" in text
    assert "rank 1 waits in reduce_scatter" in text and "in the backward of all_gather #1" in text


def test_a_sender_whose_loss_does_not_know_of_the_message_is_named() -> None:
    def run(comm: Communicator) -> None:
        if comm.rank == 0:
            F.send(one(comm), comm, dst=1, tag="activation")
        else:
            F.recv(torch.empty(1), comm, src=0, tag="activation").sum().backward()

    with SimulatedWorld(2) as world, pytest.raises(RanksStuck, match=r"rank 1 is in the backward of message 'activation' #1") as caught:
        world.run(run)
    assert caught.value.diagnosis.ranks == (0,)


def test_a_tie_lets_every_rank_take_part(world2: Any) -> None:
    def run(comm: Communicator) -> Any:
        x = one(comm)
        gathered = F.all_gather(x, comm)
        loss = (gathered**2).sum() if comm.rank == 0 else F.tie(3 * x.sum(), gathered)
        loss.backward()
        return loss.item(), x.grad.item()

    assert list(world2.run(run)) == [(5.0, 2.0), (6.0, 4.0 + 3.0)]


def test_whoever_has_taken_part_owes_nothing() -> None:
    """Also after a second backward through the same graph; and a backward of a backward is owed anew."""

    def run(comm: Communicator) -> list[list[str]]:
        x, due = one(comm), []
        loss = (F.all_gather(F.all_reduce(x, comm), comm) ** 2).sum()
        due.append([movement.name for movement in comm._context.due])
        loss.backward(retain_graph=True)
        loss.backward(retain_graph=True)
        due.append([movement.name for movement in comm._context.due])
        torch.autograd.grad(loss, x, create_graph=True)
        due.append([movement.name for movement in comm._context.due])
        return due

    with SimulatedWorld(2) as world:
        assert list(world.run(run)) == [[["all_reduce", "all_gather"], [], ["reduce_scatter", "all_reduce"]]] * 2


def test_a_tie_adds_zeros_even_where_the_result_is_infinite() -> None:
    x, y = torch.tensor([1.0], requires_grad=True), torch.tensor([float("inf")], requires_grad=True)
    F.tie(2 * x, y * y).backward()
    assert x.grad.item() == 2.0 and y.grad.isnan().item()  # 0 times the infinite derivative of y * y


# -- who takes part ----------------------------------------------------------------------------------------------------------


def test_a_rank_whose_x_is_data_takes_part(world2: Any) -> None:
    def run(comm: Communicator) -> Any:
        x = torch.tensor([1.0 + comm.rank], requires_grad=comm.rank == 0)
        y = F.all_gather(x, comm)
        assert y.requires_grad
        y.sum().backward()
        return None if x.grad is None else x.grad.item()

    assert list(world2.run(run)) == [2.0, None]


def test_the_result_requires_grad_on_every_rank_and_without_grad_mode_on_none() -> None:
    def run(comm: Communicator) -> list[str]:
        odd = []
        for name, case in MOVEMENTS.items():
            x = random(case.puts_in(example(3))[comm.rank], comm.rank)
            due = len(comm._context.due)
            with torch.no_grad():
                without = case.call(x, comm, example(3))
            if without.requires_grad or len(comm._context.due) != due or not case.call(x, comm, example(3)).requires_grad:
                odd.append(name)
        return odd

    with SimulatedWorld(3) as world:
        assert list(world.run(run)) == [[]] * 3


def test_whole_numbers_are_moved_and_have_no_gradient() -> None:
    with SimulatedWorld(2) as world:
        for result in world.run(lambda comm: F.all_gather(torch.tensor([comm.rank]), comm)):
            assert result.tolist() == [0, 1] and not result.requires_grad


def test_complex_numbers_have_gradients() -> None:
    def run(comm: Communicator) -> Any:
        x = torch.tensor([1.0 + comm.rank * 1j], requires_grad=True)
        (F.all_reduce(x, comm) * (1 + 2j)).real.sum().backward()
        return x.grad.item()

    with SimulatedWorld(2) as world:
        assert list(world.run(run)) == [2 - 4j, 2 - 4j]


# -- in which order ----------------------------------------------------------------------------------------------------------


def test_backward_runs_movements_from_the_last_to_the_first_however_a_rank_uses_them() -> None:
    """Three independent movements, summed in another order and behind chains of another length on each rank."""

    def run(comm: Communicator) -> list[str]:
        results = [F.all_reduce(one(comm), comm), F.all_gather(one(comm), comm), F.reduce_scatter(torch.ones(3, requires_grad=True), comm)]
        order = results[comm.rank :] + results[: comm.rank]
        total = torch.zeros(())
        for place, result in enumerate(order):
            for _ in range(5 * (place if comm.rank % 2 else 3 - place)):
                result = result * 1.01
            total = result.sum() + total if comm.rank == 1 else total + result.sum()
        total.backward()
        return []

    with SimulatedWorld(3) as world:
        world.run(run)
        for rank in range(3):
            spans = [event.tag for event in world.trace.events if event.rank == rank and event.kind == "span"]
            assert spans == ["backward of reduce_scatter", "backward of all_gather", "backward of all_reduce"]


# -- what is kept, what is refused -------------------------------------------------------------------------------------------


def test_the_graph_keeps_no_input() -> None:
    """Backward needs shapes only; the views of f and of a slice keep what they show."""

    def run(comm: Communicator) -> list[str]:
        keep = []
        for name, case in MOVEMENTS.items():
            x = random(case.puts_in(example(3))[comm.rank], comm.rank).requires_grad_() * 1
            kept = weakref.ref(x)
            result = case.call(x, comm, example(3))
            del x
            if kept() is not None and result._base is None:
                keep.append(name)
        return keep

    with SimulatedWorld(3) as world:
        assert list(world.run(run)) == [[]] * 3


def test_forwards_without_a_backward_do_not_pile_up() -> None:
    def run(comm: Communicator) -> int:
        for _ in range(MOST_DUE + 5):
            F.copy_to_group(torch.ones(1), comm)
        return len(comm._context.due)

    with SimulatedWorld(1) as world:
        assert list(world.run(run)) == [MOST_DUE]


@pytest.mark.parametrize("name", ["all_reduce", "reduce_scatter", "reduce", "reduce_from_group"])
def test_what_is_not_linear_is_refused(name: str) -> None:
    words = rf"functional\.{name}\(op='max'\): only 'sum' and 'mean' are linear and can be differentiated here"
    with SimulatedWorld(1) as world, pytest.raises(RankError, match=words):
        world.run(lambda comm: getattr(F, name)(torch.ones(2), comm, op="max"))


def test_a_forward_that_is_refused_owes_no_backward() -> None:
    def run(comm: Communicator) -> int:
        with pytest.raises(ValueError, match="root is a rank of this group"):
            F.broadcast(torch.ones(2), comm, root=9)
        return len(comm._context.due)

    with SimulatedWorld(2) as world:
        assert list(world.run(run)) == [0, 0]


@pytest.mark.parametrize("sizes", [[1.5, 0.5], 2, ["1", "1"]])
def test_counts_that_are_no_whole_numbers_are_refused_before_anybody_is_asked(sizes: Any) -> None:
    with SimulatedWorld(2) as world, pytest.raises(RankError, match=r"all_to_all_v\(send_sizes=.*in a list of whole numbers"):
        world.run(lambda comm: F.all_to_all_v(torch.ones(2), comm, sizes))
    assert world.trace.num_messages() == 0


def test_ranks_outside_the_group_are_refused_before_anything_is_noted() -> None:
    with SimulatedWorld(1) as world:
        for call, words in ((lambda comm: F.send(torch.ones(1), comm, 3), "dst=3"), (lambda comm: F.recv(torch.ones(1), comm, 3), "src=3")):
            with pytest.raises(RankError, match=f"{words} is outside this group"):
                world.run(call)

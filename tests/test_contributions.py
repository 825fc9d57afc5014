"""Whose data is in which element, operator by operator."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from partkit.contributions import MOST_ELEMENTS, Contributions

ME, YOU, THIRD = 0b001, 0b010, 0b100
MIXED = [ME, YOU, THIRD, 0]


def tracked(numbers: list[float], sets: list[int]) -> tuple[Contributions, Tensor]:
    """A tensor of rank 0 whose elements hold the data of ``sets``."""
    who, x = Contributions(rank=0), torch.tensor(numbers)
    who.put(x, np.array(sets))
    return who, x


@pytest.mark.parametrize(
    ("name", "compute", "expected"),
    [
        ("elementwise with its own", lambda x, mine: x + mine, [ME, ME | YOU, ME | THIRD, ME]),
        ("with a number", lambda x, mine: x * 2 + 1, MIXED),
        ("in place", lambda x, mine: mine.add_(x), [ME, ME | YOU, ME | THIRD, ME]),
        ("out=", lambda x, mine: torch.minimum(mine, x, out=mine), [ME, ME | YOU, ME | THIRD, ME]),
        ("out= does not read", lambda x, mine: torch.neg(x, out=mine), MIXED),
        ("broadcast", lambda x, mine: x + x[1], [ME | YOU, YOU, YOU | THIRD, YOU]),
        ("clone", lambda x, mine: x.clone(), MIXED),
        ("another dtype", lambda x, mine: x.double(), MIXED),
        ("copy_ overwrites", lambda x, mine: mine.copy_(x), MIXED),
        ("fill_ overwrites", lambda x, mine: x.fill_(1.0), [ME] * 4),
        ("zero_ leaves nobody's", lambda x, mine: x.zero_(), [0] * 4),
        ("zeros", lambda x, mine: torch.zeros(4), [0] * 4),
        ("empty", lambda x, mine: torch.empty_like(x), [0] * 4),
        ("ones", lambda x, mine: torch.ones_like(x), [ME] * 4),
        ("cat", lambda x, mine: torch.cat([x[2:], mine[:2]]), [THIRD, 0, ME, ME]),
        ("flip", lambda x, mine: x.flip(0), MIXED[::-1]),
        ("roll", lambda x, mine: torch.roll(x, 1), [0, ME, YOU, THIRD]),
        ("index", lambda x, mine: x[torch.tensor([2, 2, 0, 1])], [THIRD, THIRD, ME, YOU]),
        ("transpose", lambda x, mine: x.view(2, 2).t().contiguous().view(-1), [ME, THIRD, YOU, 0]),
        ("stack and sum", lambda x, mine: torch.stack([x, mine]).sum(0), [ME, ME | YOU, ME | THIRD, ME]),
        ("sum along a dim", lambda x, mine: x.view(2, 2).sum(1), [ME | YOU, THIRD]),
        ("sum of all", lambda x, mine: x.sum().view(1), [ME | YOU | THIRD]),
        ("matrix product", lambda x, mine: (x.view(2, 2) @ mine.view(2, 2)).view(-1), [ME | YOU | THIRD] * 4),
        ("setting a slice", lambda x, mine: mine[1:3].copy_(x[1:3]) is None or mine, [ME, YOU, THIRD, ME]),
        ("mean in place", lambda x, mine: x.div_(4), MIXED),
    ],
)
def test_what_operators_do(name: str, compute: Callable[[Tensor, Tensor], Tensor], expected: list[int]) -> None:
    who, x = tracked([1.0, 2.0, 3.0, 4.0], MIXED)
    with who:
        out = compute(x, torch.arange(4.0))
    assert who.of(out).tolist() == expected


def test_views_share_their_memory() -> None:
    who, x = tracked([0.0] * 4, [ME] * 4)
    with who:
        view = x.view(2, 2)[:, 1]
        who.put(view, np.array([YOU, THIRD]))
    assert who.of(x).tolist() == [ME, YOU, ME, THIRD]


def test_large_memory_has_one_set_for_all_of_it() -> None:
    who = Contributions(rank=0)
    with who:
        big, small = torch.ones(MOST_ELEMENTS + 1), torch.ones(2)
        who.put(small, np.array([YOU, THIRD]))
        big[:2] += small
        piece = big[5:7].clone()
    assert who.of(piece).tolist() == [ME | YOU | THIRD] * 2
    who.put(big, np.array(YOU))
    assert who.of(big)[0] == YOU  # all of it was written over


def test_memory_seen_through_another_dtype_has_one_set() -> None:
    who, x = tracked([1.0, 2.0], [YOU, THIRD])
    assert set(who.of(x.view(torch.uint8)).tolist()) == {YOU | THIRD} == set(who.of(x).tolist())


def test_what_is_aside_has_no_effect() -> None:
    who, x = tracked([1.0, 2.0], [YOU, THIRD])
    with who, who.aside():
        x.fill_(0.0)
    assert who.of(x).tolist() == [YOU, THIRD]


def test_freed_memory_is_forgotten() -> None:
    who = Contributions(rank=0)
    with who:
        x = torch.ones(3)
        kept = (x + 1)[1:]
        assert len(who.memories()) == 2
        del x
        gc.collect()
        (memory,) = who.memories()
        with who.aside():
            tensor = memory.tensor()
        assert tensor is not None and tensor.tolist() == [2.0, 2.0, 2.0]
    assert who.of(kept).tolist() == [ME, ME]


def test_backward_is_followed_too() -> None:
    who = Contributions(rank=0)
    with who:
        weight, x = torch.ones(2, requires_grad=True), torch.ones(2)
        who.put(x, np.array([YOU, THIRD]))
        (weight * x).sum().backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None and who.of(weight.grad).tolist() == [ME | YOU, ME | THIRD]

"""One rule for who holds which index."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partkit.partition import block_owner, block_range, block_sizes

numbers, sizes = st.integers(0, 200), st.integers(1, 20)


@given(numbers, sizes)
def test_pieces_are_the_whole_in_order_and_differ_by_at_most_one(n: int, size: int) -> None:
    pieces = [block_range(n, size, rank) for rank in range(size)]
    assert [i for piece in pieces for i in piece] == list(range(n))
    lengths = [len(piece) for piece in pieces]
    assert lengths == sorted(lengths, reverse=True)
    assert max(lengths) - min(lengths) <= 1
    assert block_sizes(n, size) == tuple(lengths)


@given(st.integers(1, 200), sizes, st.data())
def test_the_owner_of_an_index_holds_it(n: int, size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, n - 1))
    assert index in block_range(n, size, block_owner(n, size, index))


@pytest.mark.parametrize(("n", "size", "expected"), [(5, 4, (2, 1, 1, 1)), (9, 4, (3, 2, 2, 2)), (0, 3, (0, 0, 0)), (2, 3, (1, 1, 0)), (8, 4, (2, 2, 2, 2))])
def test_the_rule_on_numbers_that_people_try(n: int, size: int, expected: tuple[int, ...]) -> None:
    assert block_sizes(n, size) == expected


@pytest.mark.parametrize(("n", "size", "rank"), [(-1, 2, 0), (3, 0, 0), (3, 2, 2), (3, 2, -1)])
def test_nonsense_is_refused(n: int, size: int, rank: int) -> None:
    with pytest.raises(ValueError, match=f"n={n}, size={size}, rank={rank}"):
        block_range(n, size, rank)


@pytest.mark.parametrize("index", [-1, 5])
def test_nobody_owns_an_index_outside(index: int) -> None:
    with pytest.raises(IndexError, match=rf"{index} is outside range\(5\)"):
        block_owner(5, 2, index)

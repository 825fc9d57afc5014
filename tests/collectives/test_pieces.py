"""Sizes of pieces: what is refused, in which words, is tested with the operations. Here: what must agree."""

from __future__ import annotations

import pytest
import torch

from partkit.collectives.pieces import must_agree, numels


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        (None, "float32[2, 3] (pieces of one size; for others pass sizes=[...] or sizes='ask')"),
        ([2, 5], "float32[2, ?] of sizes [2, 5]"),
        ((torch.tensor(2), 5), "float32[2, ?] of sizes [2, 5]"),
        ("ask", "float32[2, ?] of sizes ask"),
    ],
)
def test_extents_along_the_dim_need_agree_only_where_nobody_knows_them(sizes: object, words: str) -> None:
    assert must_agree(torch.ones(2, 3), 1, sizes) == words  # type: ignore[arg-type]


def test_elements_of_pieces_with_no_other_dim_and_with_an_empty_one() -> None:
    assert numels((9,), 0, (2, 0, 1)) == (2, 0, 1)
    assert numels((9, 0), 0, (2, 0, 1)) == (0, 0, 0)

"""The notation prints and parses back, and is that of torch.distributed.pipelining."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed.pipelining.schedules import _Action

from partkit.pipeline_parallel.action import KINDS, WITHOUT_MICROBATCH, Action, actions, flat
from tests.pipeline_parallel.sizes import quickly

SINGLE = st.sampled_from([kind for kind in KINDS if kind != "OVERLAP_F_B"]).flatmap(
    lambda kind: st.builds(Action, st.integers(0, 999), st.just(kind), st.none() if kind in WITHOUT_MICROBATCH else st.integers(0, 9999), st.just(()))
)
ANY = SINGLE | st.builds(lambda parts: Action(-1, "OVERLAP_F_B", None, tuple(parts)), st.lists(SINGLE, min_size=1, max_size=3))


@given(ANY)
@quickly
def test_an_action_parses_back(action: Action) -> None:
    assert Action.parse(str(action)) == action


@given(ANY.filter(lambda action: "STEP" not in str(action)))
@quickly
def test_torch_reads_and_writes_the_same(action: Action) -> None:
    assert str(_Action.from_str(str(action))) == str(action)


@pytest.mark.parametrize("text", ["", "F0", "2F", "2X0", "2F0 ", "2UNSHARD3", "(0F0;1B0)", "()OVERLAP_F_B", "-1F0", "1OVERLAP_F_B"])
def test_what_is_no_action_is_refused_by_name(text: str) -> None:
    if text == "2F0 ":
        assert Action.parse(text) == Action(2, "F", 0)  # blanks around it do no harm
        return
    with pytest.raises(ValueError, match="is no action"):
        Action.parse(text)


def test_overlapped_pairs_are_taken_apart_in_order() -> None:
    assert flat(actions("0F0 (0F1;1B0)OVERLAP_F_B 0B0")) == list(actions("0F0 0F1 1B0 0B0"))

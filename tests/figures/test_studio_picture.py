"""The still picture: everything in it, readable, small for many as for few."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from partkit.figures.studio_picture import bundle, picture, plain_text
from partkit.figures.studio_session import Session
from partkit.figures.studio_spec import Overlay

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ET.fromstring(svg).iter(f"{SVG}text")]


def test_every_action_and_rank_is_named() -> None:
    session = Session("zb_h1", 3, 4)
    found = texts(picture(session.board))
    assert {f"{kind}{i}" for kind in "FIW" for i in range(4)} <= set(found) and {"rank 0", "rank 1", "rank 2"} <= set(found)
    assert "I gradient of the input" in found and "B backward" not in found


@pytest.mark.parametrize(("name", "ranks", "microbatches"), [("zb_v", 16, 64), ("gpipe", 16, 64), ("one_f_one_b", 2, 1), (None, 2, 64)])
def test_it_is_small_and_sound(name: str | None, ranks: int, microbatches: int) -> None:
    svg = picture(Session(name, ranks, microbatches).board)
    ET.fromstring(svg)
    assert len(svg) < 100_000


def test_a_run_lies_below_its_plan() -> None:
    board = Session("gpipe", 2, 2).board
    plain, over = picture(board), picture(board, Overlay(board.plan, 0.5, "2 live ranks"))
    assert "upper: plan, lower: measured" in texts(over) and "upper: plan, lower: measured" not in texts(plain)
    assert max(int(text) for text in texts(over) if text.isdigit()) == 18  # the axis reaches to the end of the slower run


def test_the_bundle_has_the_grid_the_lists_and_the_table() -> None:
    found = bundle(Session("one_f_one_b", 2, 2), title="My <title>")
    assert "rank 0  F0 F1  .  . B0 --  . B1 --" in found["text/plain"] and found["text/plain"].startswith("My <title>\n")
    assert "My &lt;title&gt;" in found["text/html"] and "0F0 0F1 0B0 0B1" in found["text/html"] and "Beside the known schedules" in found["text/html"]


def test_long_and_empty_schedules_are_told_as_lists() -> None:
    assert "rank 15: 15F0 15F1" in plain_text(Session("gpipe", 16, 64))
    assert "rank 1:\n" in plain_text(Session(None, 2, 2))


def test_uneven_costs_draw_uneven_bars() -> None:
    session = Session("gpipe", 2, 2)
    slow = replace(session.board, costs=replace(session.board.costs, forward=3.0))
    assert picture(slow) != picture(session.board) and slow.plan.makespan == 15.0

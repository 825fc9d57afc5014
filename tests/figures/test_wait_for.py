"""The picture of a run that can't go on: what is in it, in letters, in a table, in SVG; and where an error shows it."""

from __future__ import annotations

import base64
import itertools
import re
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

import partkit as pk
from partkit.figures.wait_for import WaitFor
from partkit.rank_state import Call, Operation, RankState
from partkit.worlds.errors import RanksStuck
from partkit.worlds.simulated import SimulatedWorld


def ring(size: int, *more: RankState) -> list[RankState]:
    waits = [Operation("recv", (rank + 1) % size, "halo", "float32[4]", "train.py:7") for rank in range(size)]
    return [RankState(rank, "blocked", wait, (wait,)) for rank, wait in enumerate(waits)] + list(more)


def svg(picture: WaitFor) -> ElementTree.Element:
    found = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', picture._repr_mimebundle_()["text/html"])
    assert found is not None
    return ElementTree.fromstring(base64.b64decode(found[1]))


def texts(root: ElementTree.Element) -> list[str]:
    return [node.text or "" for node in root.iter() if node.tag.endswith("text") and node.get("class") != "halo"]


def arrows(root: ElementTree.Element, look: str) -> int:
    return sum(node.get("class") == look for node in root.iter())


def stuck() -> RanksStuck:
    with SimulatedWorld(3) as world, pytest.raises(RanksStuck) as found:
        world.run(lambda comm: comm.recv(torch.empty(4), (comm.rank + 1) % 3, "halo"))
    return found.value


def test_ranks_arrows_and_the_circle_are_drawn() -> None:
    root = svg(WaitFor(ring(3, RankState(3, "blocked", Operation("recv", 0, "", "int64[2]", "")), RankState(4, "finished"))))
    assert arrows(root, "circle") == 3 and arrows(root, "other") == 1
    assert texts(root).count("recv float32[4]") == 3 and {"rank 0", "rank 4", "finished", "recv int64[2]"} <= set(texts(root))
    assert arrows(root, "ring") == 3  # look here first


@pytest.mark.parametrize("size", [3, 4, 5, 8])
def test_who_waits_for_many_in_one_call_says_it_once_and_no_words_cover_others(size: int) -> None:
    def calls(rank: int) -> RankState:
        call = Call("all_gather", f"float32[{rank + 1}], dim 0", 1, tuple(range(size)), "f.py:1")
        wait = Operation("recv", (rank + 1) % size, "", f"float32[{rank + 1}]", "f.py:1")
        return RankState(rank, "blocked", wait, (wait,), call)

    root = svg(WaitFor([calls(rank) for rank in range(size)]))
    assert sorted(text for text in texts(root) if "[" in text) == [f"all_gather float32[{rank + 1}]" for rank in range(size)]
    boxes = [box(node) for node in root.iter() if node.tag.endswith("text") and node.get("class") != "halo"]
    assert all(right <= 640 and left >= 0 for left, right, *_ in boxes)
    apart = [a[1] <= b[0] or b[1] <= a[0] or a[3] <= b[2] or b[3] <= a[2] for a, b in itertools.combinations(boxes, 2)]
    assert all(apart)


def box(node: ElementTree.Element) -> tuple[float, float, float, float]:
    """Left, right, top and bottom of words in letters 6 wide and 11 high."""
    x, y, wide = float(node.get("x", "0")), float(node.get("y", "0")), 5.8 * len(node.text or "")
    left = {"start": x, "middle": x - wide / 2, "end": x - wide}[node.get("text-anchor", "start")]
    return left, left + wide, y - 10, y + 1


def test_light_and_dark_have_colours_of_their_own() -> None:
    style = "".join(node.text or "" for node in svg(WaitFor(ring(2))).iter() if node.tag.endswith("style"))
    light, dark = style.split("@media(prefers-color-scheme:dark)")
    assert "#D55E00" in light and "#e8792f" in dark and "#ffffff" in light and "#111111" in dark


@pytest.mark.parametrize("size", [1, 2, 3, 12, 13, 300])
def test_few_and_many_ranks_stay_in_the_frame_and_small(size: int) -> None:
    picture = WaitFor(ring(size))
    bundle, root = picture._repr_mimebundle_(), svg(picture)
    assert len(bundle["text/html"]) < 40_000 and len(bundle["text/plain"]) < 4_000
    spots = [(float(node.get("x", "0")), float(node.get("y", "0"))) for node in root.iter() if node.tag.endswith("text")]
    assert all(40 <= x <= 600 and 15 <= y <= 410 for x, y in spots)
    assert ("more not drawn" in bundle["text/html"]) is (size > 12) and (f"... {size - 12} more ..." in texts(root)) is (size > 12)


def test_the_text_says_it_all() -> None:
    lines = str(
        WaitFor(ring(2, RankState(2, "finished", num_calls=1), RankState(3, "blocked", Operation("send", 2, "", "bool[]", "f.py:1"))), "Halo")
    ).splitlines()
    assert lines == [
        "Halo: each waits for the next: 0 -> 1 -> 0",
        "rank 0: recv float32[4] (16 bytes) tag 'halo' from rank 1 at train.py:7; rank 1 would have to send float32[4] with tag 'halo' to rank 0",
        "rank 1: recv float32[4] (16 bytes) tag 'halo' from rank 0 at train.py:7; rank 0 would have to send float32[4] with tag 'halo' to rank 1",
        "rank 3: send bool[] (1 bytes) to rank 2 at f.py:1; rank 2 would have to receive bool[] from rank 3, but has finished",
        "rank 2: has finished after 1 collective call",
    ]


def test_the_table_has_a_row_for_each_wait() -> None:
    html = WaitFor(ring(3))._repr_mimebundle_()["text/html"]
    assert html.count("<tr>") == 4 and "rank 1 would have to send float32[4] with tag &#x27;halo&#x27; to rank 0" in html and "train.py:7" in html


def test_words_from_a_program_are_no_markup() -> None:
    wait = Operation("recv", 1, "<b>&", "float32[1]", "<f>.py:1")
    picture = WaitFor([RankState(0, "blocked", wait), RankState(1, "finished")])
    assert "<b>&" not in picture._repr_mimebundle_()["text/html"].replace("<b>&amp;", "") and svg(picture) is not None


@pytest.mark.parametrize("source", [None, 3, [], [1, 2], RuntimeError("boom")])
def test_what_has_no_ranks_that_wait_is_refused(source: object) -> None:
    with pytest.raises(TypeError, match="give the RanksStuck that a world raised"):
        WaitFor(source)


def test_an_error_as_the_value_of_a_cell_shows_the_graph_and_its_own_words() -> None:
    error = stuck()
    bundle = error._repr_mimebundle_()
    assert bundle["text/html"] == pk.WaitFor(error)._repr_mimebundle_()["text/html"]
    assert bundle["text/plain"].startswith("RanksStuck: ranks 0-2: each waits for the next, a cycle:")
    assert set(RanksStuck("unknown", [0])._repr_mimebundle_()) == {"text/plain"}


def test_a_kernel_shows_the_graph_once_before_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr("IPython.display.display", lambda bundle, *, raw: shown.append(bundle))
    error = stuck()
    assert error._render_traceback_()[0].startswith("RanksStuck: ranks 0-2") and shown == []  # no kernel here
    monkeypatch.setattr("partkit.worlds.errors.in_notebook", lambda: True)
    for _ in range(2):  # as a kernel does
        assert error._render_traceback_()[0].startswith("RanksStuck: ranks 0-2")
    assert [bundle["text/plain"] for bundle in shown] == ["each waits for the next: 0 -> 1 -> 2 -> 0"] and "<img" in shown[0]["text/html"]

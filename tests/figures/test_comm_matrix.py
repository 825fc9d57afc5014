"""Which message is counted where, what travels to a browser, and what the still picture, the table and the text say."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partkit.figures import comm_matrix
from partkit.figures.comm_matrix import MatrixEncoder, Traffic, measure
from partkit.figures.comm_matrix_picture import LEVELS, Shape, bundle, levels, png, tick_step
from partkit.figures.palette import PAGE, amounts, contrast, ink, luminance
from partkit.tracing import Event, Recorder, Trace
from tests.widgets.demo_traces import training


def sent(src: int, dst: int, nbytes: int = 8, span: str = "", group: str = "") -> Event:
    return Event(src, "send", 0.0, 1.0, peer=dst, nbytes=nbytes, span=span, group=group)


def everyone(size: int) -> Trace:
    """Rank r sends r + 1 times 100 bytes to each other rank."""
    return Trace.from_events([sent(a, b, 100 * (a + 1)) for a in range(size) for b in range(size) if a != b], size=size)


def ring(size: int) -> Trace:
    """Each rank sends to the next one."""
    return Trace.from_events([sent(rank, (rank + 1) % size) for rank in range(size)], size=size)


MESH = Trace.from_events(
    [
        sent(0, 1, 100, "step 0/forward/all_reduce", "tp"),
        sent(0, 1, 100, "step 1/forward/all_reduce", "tp"),
        sent(1, 0, 30, "step 0/all_reduce", "dp"),
        sent(2, 0, 7),
        Event(0, "recv", 0.0, 1.0, peer=2, nbytes=7),
        Event(0, "collective", 0.0, 1.0, nbytes=8, tag="all_reduce[sum, ring]", span="step 0"),
    ]
)


# -- counting --------------------------------------------------------------------------------------------------------


def test_each_send_is_counted_once_and_its_receive_not_again() -> None:
    assert measure(MESH).matrix().tolist() == [[0, 200, 0], [30, 0, 0], [7, 0, 0]]
    assert measure(MESH).matrix(unit="messages").tolist() == [[0, 2, 0], [1, 0, 0], [1, 0, 0]]


@pytest.mark.parametrize(
    ("phase", "total"),
    [("", 237), ("step 0", 130), ("forward", 200), ("all_reduce", 230), ("group tp", 200), ("group dp", 30), ("no span", 7), ("unheard of", 0), ("step", 0)],
)
def test_a_phase_is_whatever_has_its_name_round_it(phase: str, total: int) -> None:
    assert measure(MESH).matrix(phase).sum() == total


def test_phases_are_listed_as_spans_collectives_and_groups() -> None:
    found = [(phase.name, phase.kind) for phase in measure(MESH).phases()]
    assert found[0] == ("everything", "everything")
    assert {name for name, kind in found if kind == "span"} == {"step 0", "step 1", "forward", "no span"}
    assert [name for name, kind in found if kind == "collective"] == ["all_reduce"]
    assert [name for name, kind in found if kind == "group"] == ["group tp", "group dp"]
    assert [name for name, _ in found].index("no span") == 4  # the last of the spans


def test_a_name_that_nests_in_itself_counts_once() -> None:
    assert measure(Trace.from_events([sent(0, 1, 8, "a/a")], size=2)).matrix("a").sum() == 8


def test_messages_to_ranks_that_the_trace_does_not_have_are_told_of() -> None:
    traffic = measure(Trace.from_events([sent(0, 1), sent(0, 0)], size=1))
    assert (traffic.matrix().tolist(), traffic.hidden) == ([[8]], "not shown: 1 message to other ranks")


def test_a_ring_is_a_shifted_diagonal() -> None:
    trace = training(5)
    matrix = measure(trace).matrix("all_reduce")
    assert np.array_equal(matrix > 0, np.roll(np.eye(5, dtype=bool), 1, axis=1))
    assert matrix.sum() == trace.bytes_sent()


def test_what_native_collectives_send_is_said_to_be_missing() -> None:
    calls = [Event(rank, "collective", 0, 1, tag=tag) for rank in (0, 1) for tag in ("all_reduce[sum, native]", "dist.broadcast", "all_reduce[sum, ring]")]
    assert measure(Trace.from_events(calls)).hidden == "not shown: what 4 calls of native collectives sent"
    assert "4 calls of native collectives" in bundle(Trace.from_events(calls))["text/plain"]
    assert measure(MESH).hidden == ""


def test_more_ranks_than_rows_share_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comm_matrix, "MAX_RANKS", 2)
    trace = Trace.from_events([sent(0, 1), sent(1, 2), sent(4, 0)], size=5)
    traffic = measure(trace)
    assert (traffic.fold, traffic.size) == (3, 2)
    assert traffic.matrix().tolist() == [[16, 0], [8, 0]]
    assert "each row shows 3 ranks" in bundle(trace)["text/plain"] and "  0-2" in bundle(trace)["text/plain"]


messages = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 2**40), st.sampled_from(["", "a", "a/b"])), max_size=30)


@given(messages, messages)
def test_in_pieces_and_at_once_give_the_same(first: list[Any], second: list[Any]) -> None:
    trace, recorders = Trace(5), [Recorder(rank) for rank in range(5)]
    traffic, expected = Traffic(trace), np.zeros((5, 5), dtype=np.int64)
    for part in (first, second):
        for src, dst, nbytes, span in part:
            recorders[src].add("send", 0.0, 1.0, dst, nbytes, 0, "", span)
            expected[src, dst] += nbytes
        for recorder in recorders:
            trace.append(recorder.drain())
        traffic.update()
    assert np.array_equal(traffic.matrix(), expected)
    assert np.array_equal(traffic.matrix("a") + traffic.matrix("no span"), expected)


# -- blocks ----------------------------------------------------------------------------------------------------------


def decode(block: bytes) -> tuple[dict[str, Any], list[tuple[float, float, int, int, int]]]:
    """Header, and the cells."""
    size = struct.unpack("<Q", block[:8])[0]
    header, at = json.loads(block[8 : 8 + size]), 8 + size
    columns = []
    for kind in ("<f8", "<f8", "<u4", "<u2", "<u2"):
        columns.append(np.frombuffer(block, kind, header["cells"], at))
        at += columns[-1].nbytes
    assert at + -at % 8 == len(block)
    return header, [tuple(cell) for cell in zip(*(column.tolist() for column in columns), strict=True)]


def test_blocks_hold_what_is_new() -> None:
    trace, recorder = Trace(2), Recorder(0)
    encoder = MatrixEncoder(trace)
    assert encoder.encode() == b""
    for nbytes in (8, 16):
        recorder.add("send", 0.0, 1.0, 1, nbytes, 0, "", "step/all_reduce")
    trace.append(recorder.drain())
    header, cells = decode(encoder.encode())
    assert (header["n"], header["rows"], header["places"], cells) == (2, 2, [["step", "all_reduce"]], [(2.0, 24.0, 0, 0, 1)])
    assert encoder.encode() == b""
    recorder.add("send", 0.0, 1.0, 1, 1, 0, "", "step/all_reduce")
    recorder.add("collective", 0.0, 1.0, -1, 0, 0, "all_reduce[sum, ring]", "step")
    trace.append(recorder.drain())
    header, cells = decode(encoder.encode())
    assert (header["places"], header["collectives"], cells) == ([], ["all_reduce"], [(1.0, 1.0, 0, 0, 1)])
    assert encoder.num_events == 3


def test_a_million_messages_of_a_ring_are_a_small_block() -> None:
    trace = Trace(64)
    for rank in range(64):
        recorder = Recorder(rank)
        for _ in range(500):
            recorder.add("send", 0.0, 1.0, (rank + 1) % 64, 4096)
        trace.append(recorder.drain())
    assert len(MatrixEncoder(trace).encode()) < 64 * 24 + 200


# -- the picture -----------------------------------------------------------------------------------------------------


def image(html: str) -> str:
    """The SVG in a figure."""
    found = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    assert found is not None
    return base64.b64decode(found[1]).decode()


@pytest.mark.parametrize(
    "trace", [Trace(4), Trace.from_events([], size=0), everyone(2), everyone(16), everyone(64), ring(512)], ids=lambda trace: str(trace.size)
)
@pytest.mark.parametrize("log", [False, True])
def test_a_bundle_is_small_well_formed_and_says_nothing_of_this_machine(trace: Trace, log: bool) -> None:
    made = bundle(trace, log=log)
    ElementTree.fromstring(image(made["text/html"]))
    assert len(made["text/html"]) < 60_000
    assert not re.search(r"<svg|<script|<style|0x|/home|uuid", re.sub(r'src="[^"]+"', "", made["text/html"]))
    assert 'alt="Matrix of' in made["text/html"]


def test_the_picture_names_axes_ranks_totals_and_amounts() -> None:
    text = " ".join(ElementTree.fromstring(image(bundle(everyone(4))["text/html"])).itertext())
    assert {"to rank", "from rank", "sent", "received", "400 B", "1.2 kB"} <= {
        node.text for node in ElementTree.fromstring(image(bundle(everyone(4))["text/html"])).iter()
    }
    assert "no messages" not in text
    assert "no messages" in image(bundle(Trace(4))["text/html"])


def test_the_picture_follows_phase_unit_and_scale() -> None:
    made = image(bundle(MESH, "group tp", "messages", log=True)["text/html"])
    assert ">2<" in made and "logarithmic" in made and "100 B" not in made


def test_the_text_of_many_ranks_lists_the_pairs_with_the_most() -> None:
    lines = bundle(everyone(64))["text/plain"].splitlines()
    assert lines[2].split() == ["63", "0", "6,400"] and lines[-1] == "... of 4,032 pairs"
    assert "40 of 4,032 pairs of ranks, the most first" in bundle(everyone(64))["text/html"]


def test_levels_go_from_the_first_colour_to_the_last() -> None:
    values = np.array([[0, 1], [500, 1000]])
    assert levels(values).tolist() == [[0, 1], [32, LEVELS]]
    assert levels(values, log=True).tolist() == [[0, 1], [57, LEVELS]]
    assert levels(np.full((2, 2), 7), log=True).tolist() == [[LEVELS, LEVELS]] * 2
    assert not levels(np.zeros((3, 3), dtype=np.int64)).any()


def test_the_image_of_many_cells_is_a_png_that_holds_them() -> None:
    cells = np.arange(12, dtype=np.uint8).reshape(3, 4)
    data = png(cells, amounts("light", LEVELS))
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", data[16:24]) == (4, 3)
    at = data.index(b"IDAT")
    lines = zlib.decompress(data[at + 4 : at + 4 + struct.unpack(">I", data[at - 4 : at])[0]])
    assert np.array_equal(np.frombuffer(lines, dtype=np.uint8).reshape(3, 5)[:, 1:], cells)


def test_few_ranks_get_wide_cells_many_get_square_ones_that_fit() -> None:
    assert Shape.of(2).cell == (96.0, 48.0)
    for size in (17, 64, 512):
        shape = Shape.of(size)
        assert shape.width == shape.height <= 640
    assert [tick_step(512, least) for least in (0.5, 1, 17, 9999)] == [1, 1, 32, 512]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_amounts_are_ordered_by_lightness_alone_and_stand_out(theme: Any) -> None:
    colors = amounts(theme, LEVELS)
    steps = np.diff([luminance(color) for color in colors])
    assert (steps < 0).all() if theme == "light" else (steps > 0).all()
    assert contrast(colors[0], PAGE[theme].fill) > 1.3 and contrast(colors[-1], PAGE[theme].fill) > 15
    assert all(contrast(ink(color), color) >= 4.5 for color in colors)

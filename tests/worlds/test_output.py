"""What ranks print: whole lines with their rank, stored in one order, cut when it is a flood."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partkit.communicator import Communicator
from partkit.worlds.output import HEAD_LINES, TAIL_LINES, Line, NotebookScreen, Output, StreamScreen, Tape, label
from partkit.worlds.world import World

Live = Callable[[int], World]


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), max_size=10), st.data())
def test_lines_are_whole_however_the_bytes_are_cut(lines: list[str], data: st.DataObject) -> None:
    raw = "".join(f"{line}\n" for line in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=5)))
    tape = Tape(3, "stdout")
    fed = [line for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True) for line in tape.feed(raw[start:end])]
    assert fed + tape.finish() == [Line(3, "stdout", line) for line in lines] == tape.shown()


def test_a_line_without_its_end_counts_once_the_run_is_over() -> None:
    tape = Tape(0, "stderr")
    assert tape.feed(b"no end") == []
    assert [label(line) for line in tape.finish()] == ["[0!] no end"] and tape.finish() == []


def test_a_progress_bar_leaves_its_last_state() -> None:
    tape = Tape(0, "stdout")
    tape.feed(b"10%\r50%\r100%\r\n")
    tape.feed(b"a\xff\n")
    assert [line.text for line in tape.shown()] == ["100%", "a\\xff"]


def test_a_flood_keeps_its_head_and_tail_and_says_what_is_cut() -> None:
    tape = Tape(0, "stdout")
    tape.feed(b"".join(b"%d\n" % i for i in range(10_000)))
    texts = [line.text for line in tape.shown()]
    assert len(texts) == HEAD_LINES + 1 + TAIL_LINES
    assert texts[0] == "0" and texts[HEAD_LINES] == "... 9,850 lines not shown ..." and texts[-1] == "9999"


def test_html_shows_text_as_text() -> None:
    output = Output(1)
    output.feed(0, "stdout", b"<script>alert(1)</script>\n")
    assert "<script>" not in output.html() and "&lt;script&gt;" in output.html()


def test_a_stream_shows_the_first_unfinished_rank_at_once_and_the_others_in_their_turn(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(2)
    screen = StreamScreen(output)
    screen.arrived(output.feed(1, "stdout", b"one\n"))
    assert capsys.readouterr().out == ""
    screen.arrived(output.feed(0, "stdout", b"zero\n"))
    assert capsys.readouterr().out == "[0] zero\n"
    screen.ended({0})
    assert capsys.readouterr().out == "[1] one\n"
    screen.arrived(output.feed(0, "stderr", b"late\n"))
    screen.close()
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "[0!] late\n")


def test_lines_that_arrive_while_others_are_being_shown_are_not_lost() -> None:
    """The collector adds lines while the waiting thread prints: what came in between is the next to be printed."""
    output = Output(1)
    shown: list[str] = []

    class Slow(StreamScreen):
        def _print(self, line: Line) -> None:
            shown.append(line.text)
            if line.text == "1":
                output.feed(0, "stdout", b"2\n")

    screen = Slow(output)
    screen.arrived(output.feed(0, "stdout", b"1\n"))
    screen.close()
    assert shown == ["1", "2"]


@pytest.mark.live
def test_whoever_waits_shows_the_end_again_if_the_collector_showed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """nbclient heeds only what the running cell updates; the collector may have shown the end between two cells."""
    shown: list[str] = []

    class Handle:
        def update(self, output: Output) -> None:
            shown.append(output.text())

    monkeypatch.setattr("IPython.display.display", lambda output, display_id: Handle())
    output = Output(1)
    screen = NotebookScreen(output)
    screen.open()
    screen.arrived(output.feed(0, "stdout", b"line\n"))
    collector = threading.Thread(target=screen.close)
    collector.start()
    collector.join()
    screen.close()
    screen.close()
    assert shown == ["[0] line\n(running)", "[0] line", "[0] line"]


def test_no_read_of_the_collector_can_block(live_world: Live) -> None:
    """It hears that a pipe has something, but may have read it already when a rank's answer came first."""
    assert [os.get_blocking(fd) for process in live_world(2)._processes for what, fd in process.readable().items() if what != "control"] == [False] * 6


def talk(comm: Communicator) -> None:
    """All ways to print, from Python and below."""
    print("a", comm.rank)
    sys.stdout.flush()
    os.write(1, b"from C\n")
    print("b", end="")
    print("", comm.rank)
    print("careful", file=sys.stderr)
    sys.__stdout__.write("at the end, without a newline")  # type: ignore[union-attr]


@pytest.mark.live
def test_case_L11_the_stored_text_is_the_same_in_every_run(live_world: Live, capfd: pytest.CaptureFixture[str]) -> None:
    world = live_world(3)
    capfd.readouterr()
    texts = set()
    for _ in range(5):
        world.run(talk)
        texts.add(tuple(capfd.readouterr()))
    out = "".join(f"[{r}] a {r}\n[{r}] from C\n[{r}] b {r}\n[{r}] at the end, without a newline\n" for r in range(3))
    assert texts == {(out, "[0!] careful\n[1!] careful\n[2!] careful\n")}


@pytest.mark.live
def test_case_W07_a_flood_of_all_ranks_is_cut(world4: World, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()

    def flood(comm: Communicator) -> int:
        for i in range(10_000):
            print(i, "x" * 80)
        return comm.rank

    assert list(world4.run(flood)) == [0, 1, 2, 3]
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 4 * (HEAD_LINES + 1 + TAIL_LINES)
    assert [line for line in lines if "not shown" in line] == [f"[{rank}] ... 9,850 lines not shown ..." for rank in range(4)]


@pytest.mark.live
def test_a_line_longer_than_any_buffer_stays_whole(live_world: Live, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    live_world(2).run(lambda comm: print("x" * 1_000_000))
    assert [len(line) for line in capfd.readouterr().out.splitlines()] == [1_000_004] * 2

"""The leak check itself: it must see what it is there for."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator

import pytest

from tests.leaks import Snapshot, leaks, marked_processes, snapshot

NOTHING = Snapshot()


def found_after(before: Snapshot) -> str:
    return "\n".join(leaks(before, snapshot(), NOTHING, set()))


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True) as process:
        yield process
        process.kill()


def test_nothing_is_found_where_nothing_was_left() -> None:
    assert found_after(snapshot()) == ""


def test_a_process_is_seen() -> None:
    before = snapshot()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        found = found_after(before)
        process.kill()
    assert f"process {process.pid}" in found


def test_a_process_of_the_pool_is_let_be() -> None:
    before = snapshot()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.DEVNULL) as process:
        after = snapshot()
        process.kill()
    assert f"process {process.pid}" in "\n".join(leaks(before, after, NOTHING, set()))
    assert f"process {process.pid}" not in "\n".join(leaks(before, after, NOTHING, {process.pid}))


def test_a_thread_is_seen() -> None:
    before, stop = snapshot(), threading.Event()
    thread = threading.Thread(target=stop.wait, name="left-over")
    thread.start()
    found = found_after(before)
    stop.set()
    thread.join()
    assert "left-over" in found


def test_a_descriptor_is_seen() -> None:
    before = snapshot()
    ends = os.pipe()
    found = found_after(before)
    for end in ends:
        os.close(end)
    assert "descriptor of pipe" in found


def test_a_variable_a_folder_and_a_directory_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    before = snapshot()
    with tempfile.TemporaryDirectory(prefix="partkit-"), monkeypatch.context() as patch:
        patch.setenv("PARTKIT_LEFT_OVER", "1")
        patch.chdir(tempfile.gettempdir())
        found = found_after(before)
    assert "PARTKIT_LEFT_OVER" in found
    assert "temporary folder partkit-" in found
    assert "working directory" in found


def test_a_process_that_left_the_tree_is_seen_by_its_mark(sleeper: subprocess.Popen[bytes]) -> None:
    mark = os.environ["PARTKIT_TEST_SESSION"]
    assert sleeper.pid in [process.pid for process in marked_processes("PARTKIT_TEST_SESSION", mark)]

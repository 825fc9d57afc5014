"""Whether a process that seems to wait has something to do, as the operating system sees it."""

from __future__ import annotations

import os
import threading

import pytest

from partkit.worlds.awake import is_awake

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="only Linux tells what threads do")


TRIES = 20_000
"""A thread that is about to fall asleep may have to wait for a core first."""


def asked_until(answer: bool, found: list[bool]) -> threading.Thread:
    thread = threading.Thread(target=lambda: found.append(any(is_awake() is answer for _ in range(TRIES))))
    thread.start()
    return thread


def test_a_main_thread_that_waits_is_asleep_whatever_asks_meanwhile() -> None:
    found: list[bool] = []
    asked_until(False, found).join()
    assert found == [True]


def test_a_main_thread_that_works_is_awake() -> None:
    found: list[bool] = []
    thread = asked_until(True, found)
    while thread.is_alive():
        sum(range(1000))
    assert found == [True]


def test_what_goes_on_in_the_background_does_not_count() -> None:
    """Else a rank with a busy thread of its own would never be called stuck."""
    over, found = threading.Event(), list[bool]()

    def busy() -> None:
        while not over.is_set():
            sum(range(1000))

    background = threading.Thread(target=busy)
    background.start()
    asked_until(False, found).join()
    over.set()
    background.join()
    assert found == [True]

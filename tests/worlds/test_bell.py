"""Waiting for another thread, with a stop button that may be pressed at any moment."""

from __future__ import annotations

import os
import signal
import threading

from partkit.worlds.bell import Bell


def test_a_ring_wakes_who_waits_and_is_kept_for_who_will() -> None:
    bell, heard = Bell(), threading.Event()
    bell.ring()
    bell.ring()
    bell.wait(60)
    thread = threading.Thread(target=lambda: (bell.wait(60), heard.set()))
    thread.start()
    bell.ring()
    assert heard.wait(30)
    thread.join()


def test_it_may_ring_for_something_else() -> None:
    done: list[int] = []
    bell = Bell()

    def ring_in_vain_first() -> None:
        for _ in range(100):
            bell.ring()
        done.append(1)
        bell.ring()

    thread = threading.Thread(target=ring_in_vain_first)
    thread.start()
    assert bell.wait_for(lambda: bool(done), timeout=30)
    thread.join()
    assert not bell.wait_for(lambda: False, timeout=0.0)


def test_an_interrupt_during_a_wait_is_a_keyboard_interrupt_and_nothing_else() -> None:
    """A `threading.Condition` answers some of them with "RuntimeError: release unlocked lock", and a few by never waking again."""
    bell, over, interrupts, armed = Bell(), threading.Event(), 0, False

    def press(*_: object) -> None:
        if armed:
            raise KeyboardInterrupt

    def disturb() -> None:
        while not over.is_set():
            bell.ring()
            os.kill(os.getpid(), signal.SIGUSR2)

    before = signal.signal(signal.SIGUSR2, press)
    thread = threading.Thread(target=disturb)
    thread.start()
    while interrupts < 300:
        try:
            armed = True
            bell.wait(10)
            armed = False
        except KeyboardInterrupt:
            armed = False
            interrupts += 1
    over.set()
    thread.join()
    signal.signal(signal.SIGUSR2, before)
    bell.ring()
    assert bell.wait_for(lambda: True, timeout=0)

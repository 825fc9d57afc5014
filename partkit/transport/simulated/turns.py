"""Many threads of which one runs at a time: the others stand at a lock of their own until somebody gives them the turn."""

from __future__ import annotations

import random
from _thread import allocate_lock
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from partkit.transport.simulated.memory import raw


class Turns:
    """One lock a thread, held while it is not its turn.

    Args:
        count: number of threads, numbered from 0.
    """

    def __init__(self, count: int) -> None:
        self._locks = [allocate_lock() for _ in range(count)]
        for lock in self._locks:
            lock.acquire()

    def give(self, to: int) -> None:
        """It is thread ``to``'s turn. Whoever gives does nothing more that others could see, and waits, or ends."""
        self._locks[to].release()

    def wait(self, me: int, timeout: float = -1) -> bool:
        """Stand still until it is thread ``me``'s turn; False if it is not within ``timeout`` seconds."""
        return self._locks[me].acquire(timeout=timeout)

    def free(self, thread: int) -> None:
        """Let a thread go on whether or not it is its turn: everything is over."""
        if self._locks[thread].locked():
            self._locks[thread].release()


class RandomState:
    """What torch, numpy and Python's random would draw next: one rank's, while another one draws.

    Args:
        seed: numpy and Python begin with it; torch begins with 0, as on every live rank.
    """

    def __init__(self, seed: int = 0) -> None:
        self._torch = torch.Generator().manual_seed(0).get_state()
        self._numpy: Any = np.random.MT19937(seed)
        self._python = random.Random(seed).getstate()
        self._drawn = _python_memory()

    def draw_from(self) -> None:
        """Make this what is drawn from."""
        numpy: Any = np.random  # its stubs lack the function
        torch.default_generator.set_state(self._torch)
        random.setstate(self._python)
        self._drawn = _python_memory()
        numpy.set_bit_generator(self._numpy)

    def keep(self) -> None:
        """Keep what would be drawn next, for the next `draw_from`. numpy's generator is an object of its own, and stays as it is."""
        self._torch = torch.default_generator.get_state()
        if self._drawn != _python_memory():  # Python takes long to say what its state is, and mostly nothing has been drawn
            self._python = random.getstate()


def _python_memory() -> tuple[bytes, object]:
    """All that what Python's random would draw next depends on, as it lies in memory."""
    generator: Any = random.seed.__self__  # type: ignore[attr-defined]
    header = object.__basicsize__
    return raw(id(generator) + header, random.Random.__base__.__basicsize__ - header), generator.gauss_next  # type: ignore[union-attr]


@contextmanager
def random_state_of_the_kernel() -> Iterator[None]:
    """What the kernel would draw next is the same afterwards, whatever ranks have drawn meanwhile."""
    numpy: Any = np.random
    before = torch.default_generator.get_state(), random.getstate(), numpy.get_bit_generator()
    try:
        yield
    finally:
        torch.default_generator.set_state(before[0])
        random.setstate(before[1])
        numpy.set_bit_generator(before[2])

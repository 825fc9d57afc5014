"""What the kernel and a rank say to each other over the rank's control channel. Data only.

kernel -> rank     Connect, Task, Allow, Abort, Look, Leave
rank -> kernel     Ready, Done, Failed, Events, State
"""

from __future__ import annotations

from typing import NamedTuple

from partkit.diagnosis import Operation, RankState
from partkit.tracing import Batch


class Connect(NamedTuple):
    """Join the other ranks; also after a failure, when the old connections are gone."""

    store: str
    """Path of the rendezvous file."""
    pids: tuple[int, ...]
    """Process ids by rank."""


class Ready(NamedTuple):
    """The rank has joined."""

    store: str
    """Which rendezvous this is about: an answer to an earlier `Connect` may come late."""
    problem: str | None = None


class Task(NamedTuple):
    """Run a function."""

    run: int
    payload: bytes
    """Pickled ``(fn, args, kwargs)``."""
    traced: bool
    setting: tuple[str, tuple[str, ...]] | None
    """Working directory and sys.path, if they changed."""


class Done(NamedTuple):
    """The function returned."""

    run: int
    payload: bytes
    """Its pickled result."""
    posted: tuple[Operation, ...] = ()
    """Messages that it posted and did not wait for: the connections are not clean."""


class Failed(NamedTuple):
    """The function raised."""

    run: int
    payload: bytes
    """Pickled `partkit.worlds.errors.Failure`."""
    aborted: bool
    """The rank was told to stop, or lost a peer: not the cause."""
    posted: tuple[Operation, ...] = ()


class Allow(NamedTuple):
    """Let messages of a stepped run go (`partkit.worlds.gate`)."""

    run: int
    numbers: tuple[int, ...] | None
    """These of the rank's sends; None for all, now and from now on."""


class Abort(NamedTuple):
    """Stop the run, wherever it is."""

    run: int


class Look(NamedTuple):
    """Say what you are doing."""

    run: int


class State(NamedTuple):
    """The answer to `Look`."""

    run: int
    state: RankState


class Events(NamedTuple):
    """Events of the run so far."""

    run: int
    batch: Batch


class Leave(NamedTuple):
    """The world closes."""

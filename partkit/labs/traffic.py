"""What an attempt sent, counted in its trace: messages, bytes, receivers, steps.

Steps are counted on simulated ranks, where they are the time: let every message take one second, however long it is, and let
a rank send one message and receive one at a time. Then the clock says at the end of how many rounds the algorithm consists:

    flat broadcast to 4 ranks    0 -> 1 | 0 -> 2 | 0 -> 3          3 seconds
    tree                         0 -> 2 | 0 -> 1, 2 -> 3           2 seconds
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from partkit.cluster import Cluster, Link
from partkit.tracing import Trace

ONE_SECOND_A_MESSAGE = Cluster(link=Link(latency=1.0, bandwidth=float("inf")))
"""Where the seconds of a run are its steps."""


class Traffic(NamedTuple):
    """What ranks sent each other.

    Example:
        >>> from partkit.tracing import Event
        >>> trace = Trace.from_events([Event(0, "send", 0.0, 1.0, peer=1, nbytes=8), Event(1, "recv", 0.0, 1.0, peer=0, nbytes=8)])
        >>> Traffic.of(trace, size=2)
        Traffic(messages=(1, 0), nbytes=(8, 0), receivers=((1,), ()), ready_made=(), steps=None)
    """

    messages: tuple[int, ...]
    """Messages that each rank sent."""
    nbytes: tuple[int, ...]
    """Bytes that each rank sent."""
    receivers: tuple[tuple[int, ...], ...]
    """To whom each rank sent, message by message."""
    ready_made: tuple[str, ...]
    """Collectives that were called instead of sending."""
    steps: int | None
    """Rounds of messages; None where time is not counted in steps, on live ranks."""

    @staticmethod
    def of(trace: Trace, size: int, *, steps: bool = False) -> Traffic:
        """Count the trace of an attempt on ranks 0 to ``size`` - 1; ``steps`` if a message took one second."""
        sent: list[list[tuple[int, int]]] = [[] for _ in range(size)]
        events = trace.events
        for event in events:
            if event.kind == "send" and event.peer is not None:
                sent[event.rank].append((event.peer, event.nbytes))
        return Traffic(
            messages=tuple(len(of_rank) for of_rank in sent),
            nbytes=tuple(sum(nbytes for _, nbytes in of_rank) for of_rank in sent),
            receivers=tuple(tuple(peer for peer, _ in of_rank) for of_rank in sent),
            ready_made=tuple(sorted({event.tag.partition("[")[0] for event in events if event.kind == "collective"})),
            steps=round(max((event.end for event in events), default=0.0)) if steps else None,
        )

    @property
    def received(self) -> Counter[int]:
        """Messages that each rank received."""
        return Counter(rank for receivers in self.receivers for rank in receivers)

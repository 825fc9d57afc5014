"""What a recorded ring all-reduce leaves behind, made without ranks and without torch: for pictures of any size."""

from __future__ import annotations

from partkit.partition import block_range
from partkit.tracing import Event, Kind, Sight, Strip, Trace
from partkit.tracing.sights import Moment


class Ring:
    """Ranks in lockstep, each with one strip of memory; a step of the ring takes a second.

    Attributes:
        values: by rank, element by element.
        sets: the same, whose data is in it.
    """

    def __init__(self, size: int, num_elements: int) -> None:
        self.size, self.num_elements = size, num_elements
        self.values = [[10 * rank + i for i in range(num_elements)] for rank in range(size)]
        self.sets = [[1 << rank] * num_elements for rank in range(size)]
        self.events: list[Event] = []
        self.sights: list[Sight] = []

    def step(self, time: float, tag: str, chunk_of: int, *, add: bool) -> None:
        """Every rank r hands chunk ``chunk_of + r`` on to the right, where it is added or copied."""
        chunks = [block_range(self.num_elements, self.size, (rank + chunk_of) % self.size) for rank in range(self.size)]
        for rank, chunk in enumerate(chunks):
            self._see(rank, "post", time, "send", (rank + 1) % self.size, tag, chunk)
            self._see(rank, "post", time, "recv", (rank - 1) % self.size, tag, chunks[rank - 1])
        before = [(list(values), list(sets)) for values, sets in zip(self.values, self.sets, strict=True)]
        for src, chunk in enumerate(chunks):
            dst = (src + 1) % self.size
            for i in chunk:
                self.values[dst][i] = before[src][0][i] + (before[dst][0][i] if add else 0)
                self.sets[dst][i] = before[src][1][i] | (before[dst][1][i] if add else 0)
            sides: list[tuple[int, Kind, int]] = [(src, "send", dst), (dst, "recv", src)]
            self.events += [Event(rank, kind, time, time + 1, peer, 4 * len(chunk), tag, span="all_reduce") for rank, kind, peer in sides]
        for rank, chunk in enumerate(chunks):
            self._see(rank, "done", time + 1, "recv", (rank - 1) % self.size, tag, chunks[rank - 1])
            self._see(rank, "done", time + 1, "send", (rank + 1) % self.size, tag, chunk)

    def _see(self, rank: int, moment: Moment, time: float, kind: str, peer: int, tag: str, chunk: range) -> None:
        side = "send" if kind == "send" else "recv"
        strip = Strip(0, f"float32[{self.num_elements}]", tuple(map(str, self.values[rank])), tuple(self.sets[rank]))
        who = 0
        for i in chunk:
            who |= self.sets[rank][i]
        where = {"strip": 0, "first": chunk.start, "num_elements": len(chunk)}
        self.sights.append(
            Sight(rank, moment, time, side, peer, tag, what=f"float32[{len(chunk)}]", nbytes=4 * len(chunk), who=who, strips=(strip,), **where)  # type: ignore[arg-type]
        )

    def trace(self) -> Trace:
        """A finished trace of all that has been done."""
        trace = Trace.from_events(self.events, size=self.size)
        trace.sights = self.sights
        return trace


def ring(size: int = 4, num_elements: int = 4, *, recorded: bool = True) -> Trace:
    """A whole ring all-reduce: 2(size - 1) rounds of ``size`` messages."""
    made = Ring(size, num_elements)
    for turn in range(1, size):
        made.step(turn - 1.0, f"reduce-scatter {turn}", 1 - turn, add=True)
    for turn in range(1, size):
        made.step(size + turn - 2.0, f"all-gather {turn}", 2 - turn, add=False)
    trace = made.trace()
    if not recorded:
        trace.sights = []
    return trace


def held(num_done: int = 0) -> Trace:
    """A run of two ranks that goes on: each wants to send to the other; the first ``num_done`` messages have arrived."""
    sides = [(0, 1), (1, 0)]
    trace = Trace.from_events([Event(dst, "recv", 0.0, 2.0 + src, src, 4, "x") for src, dst in sides[:num_done]], size=2)
    trace.finished.clear()
    strips = [Strip(0, "float32[1]", (str(10 * rank + 1),), (1 << rank,)) for rank in (0, 1)]
    trace.sights = [
        Sight(src, "post", 1.0, "send", dst, "x", what="float32[1]", nbytes=4, who=1 << src, strip=0, num_elements=1, number=0, strips=(strips[src],))
        for src, dst in sides
    ]
    for src, dst in sides[:num_done]:
        trace.sights.append(Sight(src, "go", 1.5, "send", dst, "x", number=0))
        trace.sights.append(Sight(dst, "done", 2.0, "recv", src, "x"))
    return trace

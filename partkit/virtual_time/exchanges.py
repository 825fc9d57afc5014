"""Exchanges: a rank posts a receive and a send and waits for both, with nothing else on its way. Most of a ring is that.

Such messages never wait for a port: whatever a rank did before has ended when it posts them. So their times follow from one another,
whatever else happens, and in no particular order:

    posted[x]                                                         row x of the table: an exchange of one rank
    ended[x] = max( max(posted[x], posted[source of x]) + seconds,    its receive, which ``source`` sends
                    max(posted[x], posted[taker of x]) + seconds )    its send, which ``taker`` receives
    posted[x + 1] = ended[x]                                          if the next thing that its rank does is an exchange again

`Exchanges.sweep` goes through all of them whose three ranks have come so far, hundreds at once: a ring of p ranks is 2 (p - 1) such
steps of vectors of p elements, where the event loop would handle 4 p (p - 1) events one by one. Same times, to the last bit.

It needs a network whose messages take as long at whatever time they begin (`Network.steady`).
"""

from __future__ import annotations

from struct import Struct

import numpy as np
import numpy.typing as npt

from partkit.virtual_time.program import NEVER, NOBODY, Network, Run

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.void]
ROW = np.dtype(
    [
        ("rank", "<i4"),  # whose exchange it is
        ("src", "<i4"),  # from whom it receives
        ("dst", "<i4"),  # to whom it sends
        ("source", "<i4"),  # the row that sends what it receives; NOBODY as long as that is not known
        ("mark", "<i4"),  # how much its rank had done before
        ("tag", "<i4"),  # this and the next one: what the writer of the row says about it
        ("lane", "<i4"),
        ("received", "<i8"),  # bytes
        ("sent", "<i8"),
    ]
)
pack = Struct("<7i2q").pack
"""A row as bytes, to be appended to `Exchanges.rows`."""


class Exchanges:
    """A table of exchanges, in the order in which they were posted, and when each of them is posted and done.

    Args:
        size: number of ranks.
        network: how long messages take.

    Attributes:
        rows: a row (`ROW`) of each exchange, as bytes.
        late: ``(row, source)`` of rows whose source was not known when they were written.

    Example:
        >>> from partkit.cluster import Cluster, Link
        >>> swap = Exchanges(2, Cluster(link=Link(latency=1.0, bandwidth=50)).network(2))
        >>> swap.rows += pack(0, 1, 1, NOBODY, 0, 0, 0, 100, 100) + pack(1, 0, 0, 0, 0, 0, 0, 100, 100)
        >>> swap.late.append((0, 1))
        >>> swap.close(Run(0, 0), 1)
        >>> swap.close(Run(1, 0), 2)
        >>> swap.grow()
        >>> swap.arrive(0, 0.0)
        >>> swap.arrive(1, 0.5)
        >>> sorted(swap.sweep())
        [(0, 3.5), (1, 3.5)]
    """

    def __init__(self, size: int, network: Network) -> None:
        self.rows = bytearray()
        self.late: list[tuple[int, int]] = []
        self._size, self._network = size, network
        self._last: list[tuple[int, int]] = []  # of rows that are not followed by the next one: which one follows
        self._arrived: list[int] = []
        self._count = 0
        self._posted: Floats = np.full(1, np.nan)  # one more than there are rows: NOBODY's is never known
        self._ended: Floats = np.full(1, np.nan)
        self._seconds: Floats = np.zeros(1)
        self._source, self._taker, self._next, self._rank = (np.full(1, NOBODY) for _ in range(4))
        self._claim: Ints = np.zeros(1, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.rows) // ROW.itemsize

    def table(self, first: int = 0) -> Rows:
        """The rows from ``first`` on."""
        return np.frombuffer(bytes(memoryview(self.rows)[first * ROW.itemsize :]), dtype=ROW)

    def close(self, run: Run, end: int) -> None:
        """Row ``end - 1`` is the last of this run so far."""
        run.pieces[-1][1] = end
        self._last.append((end - 1, NOBODY))

    def go_on(self, run: Run, first: int) -> None:
        """A run that was closed, and is not over, goes on in another place of the table."""
        self._last.append((run.pieces[-1][1] - 1, first))
        run.pieces.append([first, first])

    def grow(self) -> None:
        """Take in the rows that have been written since."""
        count, old = len(self), self._count
        if count > old:
            self._make_room(count)
            new = self.table(old)
            rows = np.arange(old, count)
            self._rank[rows], self._source[rows], self._next[rows] = new["rank"], new["source"], rows + 1
            self._seconds[rows] = self._how_long(new["rank"].astype(np.int64), new["dst"], new["sent"])
            known = new["source"] >= 0
            self._taker[new["source"][known]] = rows[known]
            self._count = count
        if self.late:
            late = np.array(self.late)
            self._source[late[:, 0]], self._taker[late[:, 1]] = late[:, 1], late[:, 0]
            self.late.clear()
        if self._last:
            for row, following in self._last:
                self._next[row] = following
            self._last.clear()

    def arrive(self, row: int, now: float) -> None:
        """The first rank of a run of exchanges has come to it."""
        self._posted[row] = now
        self._arrived.append(row)

    @property
    def moving(self) -> bool:
        """Whether a rank has come to an exchange since the last sweep."""
        return bool(self._arrived)

    def sweep(self) -> list[tuple[int, float]]:
        """Give times to all exchanges for which all is known: the ranks that have come to the end of a run, and when."""
        left: list[tuple[int, float]] = []
        new = np.array(self._arrived, dtype=np.int64)
        self._arrived.clear()
        posted, ended, source, taker = self._posted, self._ended, self._source, self._taker
        while len(new):
            rows = self._ready(np.concatenate((new, source[new], taker[new])))
            start = posted[rows]
            ended[rows] = end = np.maximum(
                np.maximum(start, posted[source[rows]]) + self._seconds[source[rows]],
                np.maximum(start, posted[taker[rows]]) + self._seconds[rows],
            )
            new = self._next[rows]
            goes_on = new >= 0
            if not goes_on.all():
                left.extend(zip(self._rank[rows[~goes_on]].tolist(), end[~goes_on].tolist(), strict=True))
                new, end = new[goes_on], end[goes_on]
            posted[new] = end
        return left

    def _ready(self, rows: Ints) -> Ints:
        """Which of them have not ended and can: each once."""
        rows = rows[np.isnan(self._ended[rows]) & ~np.isnan(self._posted[rows])]
        rows = rows[~np.isnan(self._posted[self._source[rows]] + self._posted[self._taker[rows]])]
        places = np.arange(len(rows))
        self._claim[rows] = places  # of equal ones the last stays
        once: Ints = rows[self._claim[rows] == places]
        return once

    def times(self, run: Run) -> Floats:
        """When what the rows of a run stand for was done: four times each, as `Run` says, up to where the rank stands still."""
        rows = np.concatenate([np.arange(first, end) for first, end in run.pieces])
        posted, source = self._posted[rows], self._source[rows]
        received = np.maximum(posted, self._posted[source]) + self._seconds[source]
        times = np.stack((posted, posted, received, self._ended[rows]), axis=1).ravel()
        unknown = np.isnan(times)
        return times[: unknown.argmax()] if unknown.any() else times

    def not_ended(self) -> list[int]:
        """Rows that have no end yet."""
        return np.flatnonzero(np.isnan(self._ended[: self._count])).tolist()

    def source_of(self, row: int) -> int:
        """The row that sends what this one receives."""
        return int(self._source[row])

    def taker_of(self, row: int) -> int:
        """The row that receives what this one sends."""
        return int(self._taker[row])

    def posted(self, row: int) -> float:
        """When it was posted; `NEVER` before that."""
        return _or_never(self._posted[row])

    def ends(self, row: int) -> tuple[float, float]:
        """When its receive and its send are done, of one that has been posted; `NEVER` as long as that is not known."""
        received, sent = (
            np.maximum(self._posted[row], self._posted[other]) + self._seconds[seconds]
            for other, seconds in ((self._source[row], self._source[row]), (self._taker[row], row))
        )
        return _or_never(received), _or_never(sent)

    def _how_long(self, src: Ints, dst: Ints, nbytes: Ints) -> Floats:
        """Seconds of messages. The network is asked once for each kind."""
        sizes, which = np.unique(nbytes, return_inverse=True)
        kinds, kind = np.unique((src * self._size + dst) * len(sizes) + which, return_inverse=True)
        asked = zip((kinds // len(sizes)).tolist(), sizes[kinds % len(sizes)].tolist(), strict=True)
        return np.array([self._network.message(pair // self._size, pair % self._size, size, 0.0) for pair, size in asked])[kind]

    def _make_room(self, count: int) -> None:
        if count < len(self._posted):
            return
        room = max(count + 1, 2 * len(self._posted))
        for name, empty in (("posted", np.nan), ("ended", np.nan), ("seconds", 0.0), ("source", NOBODY), ("taker", NOBODY), ("next", NOBODY), ("rank", NOBODY)):
            old = getattr(self, f"_{name}")
            new = np.full(room, empty, dtype=old.dtype)
            new[: self._count] = old[: self._count]
            setattr(self, f"_{name}", new)
        self._claim = np.zeros(room, dtype=np.int64)


def _or_never(time: float) -> float:
    return NEVER if np.isnan(time) else float(time)

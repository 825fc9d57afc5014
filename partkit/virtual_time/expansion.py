"""Exchanges written out as messages one by one, where a rank does with two messages what another one does with an exchange.

    [run of rows 7, 8, 9]  with a time for row 7  ->  [run of row 7, recv 8, send 8, recv 8, send 8, recv 9, send 9, recv 9, send 9]

The event loop then takes over; what it finds is what it would have found from the beginning. It costs as much, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from partkit.virtual_time.program import NEVER, NOBODY, Run, Side, meet

if TYPE_CHECKING:
    from partkit.virtual_time.engine import Engine

Both = tuple[Side, Side]
"""The receive and the send of an exchange."""


def expand(engine: Engine, posted: Mapping[int, tuple[Side | None, Side | None]]) -> None:
    """Write out all exchanges that have not ended.

    Args:
        engine: which has all rows, in runs that are closed.
        posted: by row: sides that somebody holds already; for others new ones are made.
    """
    exchanges = engine.exchanges
    exchanges.grow()
    engine.exchange()  # whatever can have a time has one
    rows = exchanges.table()
    sides: dict[int, Both] = {}
    for row in exchanges.not_ended():
        recv, send = posted.get(row, (None, None))
        rank, src, dst, received, sent = (int(rows[name][row]) for name in ("rank", "src", "dst", "received", "sent"))
        sides[row] = recv or Side(rank, src, received, False), send or Side(rank, dst, sent, True)
    for row, (recv, _) in sides.items():
        source = exchanges.source_of(row)
        if source != NOBODY:
            meet(sides[source][1] if source in sides else Side(recv.peer, recv.rank, recv.nbytes, True), recv)
    for row, (_, send) in sides.items():
        if send.other is None and exchanges.taker_of(row) != NOBODY:
            meet(send, Side(send.peer, send.rank, send.nbytes, False))  # its receiver has ended its own exchange
    for rank, entries in enumerate(engine.lists):
        for place in range(len(entries) - 1, engine.place(rank) - 1, -1):
            run = entries[place]
            if isinstance(run, Run):
                _write_out(engine, rank, place, run, sides)


def _write_out(engine: Engine, rank: int, place: int, run: Run, sides: Mapping[int, Both]) -> None:
    """In place of what is left of a run: its messages."""
    exchanges, rows = engine.exchanges, list(run.rows())
    left = [row for row in rows if row in sides]
    num_ended = len(rows) - len(left)
    messages = [side for row in left for side in (*sides[row], *sides[row])]
    engine.lists[rank][place : place + 1] = [*([run] if num_ended else []), *messages]
    run.pieces, run.over = [[row, row + 1] for row in rows[:num_ended]], True
    if left and exchanges.posted(left[0]) < NEVER:
        engine.stand_in(rank, place + (num_ended > 0), exchanges.posted(left[0]), exchanges.ends(left[0]), sides[left[0]])

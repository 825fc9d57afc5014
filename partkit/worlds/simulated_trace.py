"""The trace of a simulated run: made when the run is over, from what each rank has noted, and from the table of exchanges.

    events of a rank's recorder   spans, collectives, computations, messages posted one by one     times as marks: "when k things were done"
    rows of the table             two events each: a receive and a send                            the same
    times of the engine           by rank, seconds of each mark

A rank at a time: its events come in the order in which they ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import psutil

from partkit.tracing import KIND_CODE, RECORD, Batch, Columns, Trace
from partkit.tracing.pairing import number_alike
from partkit.transport.simulated import Simulation
from partkit.worlds.errors import site_name

BYTES_OF_AN_EXCHANGE = {True: 450, False: 250}
"""With and without a trace, when times and events are made; measured with 1,024 ranks."""
Floats = npt.NDArray[np.float64]
TEXTS = ("tag", "span", "site", "group")


def room_for_exchanges(*, traced: bool) -> int:
    """For how many exchanges there is memory now."""
    return int(psutil.virtual_memory().available) // BYTES_OF_AN_EXCHANGE[traced]


def fill(trace: Trace, simulation: Simulation, batches: Sequence[list[Batch]], *, exchanges: bool) -> None:
    """Fill the trace of a run that is over.

    Args:
        trace: an empty one.
        simulation: the run.
        batches: what each rank's recorder has noted; emptied meanwhile.
        exchanges: whether the table of exchanges goes into the trace too.
    """
    rows = Rows(trace, simulation) if exchanges else None
    trace.reserve(sum(len(batch.records) for own in batches for batch in own) + (0 if rows is None else 2 * len(rows.order)))
    for rank, times in enumerate(simulation.take_times()):
        last = len(times) - 1  # a rank that was stuck never got to the end of its wait: what was open then ends where it stands
        trace.sights.extend(sight._replace(time=float(times[min(int(sight.time), last)])) for batch in batches[rank] for sight in batch.sights)
        parts = [*(() if rows is None else [rows.events_of(rank)]), *noted(trace, batches[rank])]  # what ends with an exchange was noted after it
        batches[rank].clear()
        records = np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else np.empty(0, dtype=RECORD)
        done = records["done"]
        if (done[1:] < done[:-1]).any():
            records = records[np.argsort(done, kind="stable")]
        number_alike(records)
        for column, mark in (("start", records["begun"]), ("end", records["done"]), ("waited", records["waited"].astype(np.int64))):
            records[column] = times[np.minimum(mark, last)]
        trace.append_rows(records)


def noted(trace: Trace, batches: Sequence[Batch]) -> Iterator[Columns]:
    """What a recorder has noted, with the trace's own numbers of texts."""
    strings, sites = [0], [0]
    for batch in batches:
        strings += [trace.number_of(text) for text in batch.new_strings]
        sites += [trace.number_of(site_name(site)) for site in batch.new_sites]
        records = batch.records
        for column in TEXTS:
            records[column] = np.array(sites if column == "site" else strings, dtype=np.int32)[records[column]]
        records["begun"], records["done"] = records["start"], records["end"]
        yield records


class Rows:
    """The table of exchanges as events.

    Args:
        trace: whose numbers texts get.
        simulation: the run.
    """

    def __init__(self, trace: Trace, simulation: Simulation) -> None:
        lanes = simulation.lanes
        self._table = lanes.table.table()
        unfinished = lanes.unfinished()
        ranks = self._table["rank"].copy()
        ranks[unfinished] = simulation.size  # of nobody's: they never ended
        self.order = np.argsort(ranks, kind="stable")[: len(ranks) - len(unfinished)]
        self._first = np.searchsorted(ranks[self.order], np.arange(simulation.size + 1))
        self._tags = np.array([trace.number_of(tag) for _, tag in lanes.tags] or [0], dtype=np.int32)
        notes = [(trace.number_of(note.span), trace.number_of(site_name(note.site)), trace.number_of(note.group)) for note in lanes.notes]
        self._notes = np.array(notes or [(0, 0, 0)], dtype=np.int32).T.copy()

    def events_of(self, rank: int) -> Columns:
        """A rank's exchanges: of each the receive, then the send."""
        rows = self._table[self.order[self._first[rank] : self._first[rank + 1]]]
        records = np.zeros(2 * len(rows), dtype=RECORD)
        records["rank"] = rank
        for column, values in zip(("span", "site", "group"), self._notes[:, rows["lane"]], strict=True):
            records[column] = np.repeat(values, 2)
        records["tag"] = np.repeat(self._tags[rows["tag"]], 2)
        for first, kind, peer, nbytes in ((0, "recv", "src", "received"), (1, "send", "dst", "sent")):
            half, begun = records[first::2], rows["mark"] + first
            half["kind"], half["peer"], half["nbytes"] = KIND_CODE[kind], rows[peer], rows[nbytes]
            half["begun"], half["waited"], half["done"] = begun, begun + 2, begun + 3
        return records

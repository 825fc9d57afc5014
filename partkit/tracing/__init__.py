"""What a run leaves behind: events of ranks, in columns, merged into one `Trace`.

        rank 0   Recorder.add(...)  --.
        rank 1   Recorder.add(...)  ---+--> Batch (a few kB of records) --> Trace.append(batch) --> pictures, counts, tests
        rank 2   Recorder.add(...)  --'         while the run goes on

A `Recorder` belongs to one rank and is cheap: one tuple appended for an event. A `Batch` is what travels. A `Trace` keeps
the events of all ranks as columns of one numpy record array (77 bytes an event) and a table of strings, so that a million
events are 77 MB and every summary is a few vector operations. Times are seconds since the start of the run, in the
clock that the trace names: "wall", "virtual" or "planned".

A send and its receive carry the same (src, dst, tag, seq): `Trace.messages` pairs them, and each pair is an arrow.

    file        idea
    events      what an event is, and how it lies in an array
    recorder    one rank's events, on their way
    sights      what ranks held and sent, of runs that were recorded with values
    table       all ranks' events: columns, counts, pairs of messages
    replay      the same run on another cluster, in virtual time
    critical_path  the chain of events that determines the makespan
    idle        for whom each rank stood still, how long, and why
    memory      how memory held is told: the names of its metrics
    files       traces in files: partkit's own, and Chrome's
"""

from partkit.tracing.events import KIND_CODE as KIND_CODE
from partkit.tracing.events import KINDS as KINDS
from partkit.tracing.events import RECORD as RECORD
from partkit.tracing.events import Clock as Clock
from partkit.tracing.events import Columns as Columns
from partkit.tracing.events import Event as Event
from partkit.tracing.events import Kind as Kind
from partkit.tracing.events import Message as Message
from partkit.tracing.recorder import Batch as Batch
from partkit.tracing.recorder import Recorder as Recorder
from partkit.tracing.sights import Sight as Sight
from partkit.tracing.sights import Strip as Strip
from partkit.tracing.table import EventList as EventList
from partkit.tracing.table import Trace as Trace

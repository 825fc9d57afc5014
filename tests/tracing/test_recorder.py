"""How often a recorder looks at its thread's own clock."""

from __future__ import annotations

import pickle
import threading

import pytest

from partkit.tracing import Event, Trace
from partkit.tracing.recorder import CPU_SECONDS, CpuClock, Recorder


class Clock(CpuClock):
    """Shows 5 more at each look."""

    def restart(self) -> None:
        super().restart()
        self.looks = 0

    def read(self) -> int:
        self.looks += 1
        return 5 * self.looks if threading.get_ident() == self._thread else -1


def noted(recorder: Recorder) -> list[int]:
    batch = recorder.drain()
    assert batch is not None
    return [int(done) for done in batch.records["done"]]


def test_it_looks_at_the_ends_of_events_that_are_far_enough_apart() -> None:
    recorder = Recorder(0, cpu=Clock())
    for end in (0.0, 0.4, 0.9, 1.1, 2.0, 2.2):  # in units of the shortest time between two looks
        recorder.add("send", 0.0, 7.0 + end * CPU_SECONDS)
    assert noted(recorder) == [5, -1, -1, 10, -1, 15]


def test_a_new_run_looks_at_its_first_event_and_another_thread_does_not_put_off_a_look() -> None:
    recorder = Recorder(0, cpu=Clock())
    recorder.add("span", 0.0, 1.0)
    recorder.reset()
    recorder.add("span", 0.0, 0.1 * CPU_SECONDS)
    recorder.add("span", 0.0, 2.0)
    stranger = threading.Thread(target=recorder.add, args=("compute", 2.0, 2.0 + 2 * CPU_SECONDS))
    stranger.start()
    stranger.join()
    recorder.add("span", 0.0, 2.0 + 2.5 * CPU_SECONDS)
    assert noted(recorder) == [5, 10, -1, 20]


def test_without_a_clock_nothing_was_worked() -> None:
    recorder = Recorder(0)
    recorder.add("span", 0.0, 1.0)
    assert noted(recorder) == [0]


@pytest.mark.parametrize("unknown", [(), (1, 3), (1, 2, 3)])
def test_work_between_two_looks_is_counted_whole(unknown: tuple[int, ...]) -> None:
    """Four messages, 1 s of work before each: also where nobody looked in between, the run takes as long."""
    from partkit.cluster import Cluster, Link

    events = [Event(rank, kind, 2.0 * n + 1, 2.0 * n + 2, 1 - rank, seq=n) for n in range(5) for rank, kind in ((0, "send"), (1, "recv"))]  # type: ignore[arg-type]
    trace = Trace.from_events(events)
    for row in trace.columns:
        n = int(row["seq"])
        row["done"] = -1 if n in unknown else (n + 1) * 1_000_000
    replayed = trace.replay(Cluster(link=Link(latency=0.5, bandwidth=1e9)), "cpu")
    assert replayed.makespan == pytest.approx(5 * 0.5 + 4.0)  # the first event begins after a second of work


def test_a_batch_travels_as_bytes_and_arrives_as_it_was() -> None:
    recorder = Recorder(1)
    recorder.add("send", 1.0, 2.0, peer=0, nbytes=8, tag="x", site="train.py:9", value=2.5)
    batch = recorder.drain()
    assert batch is not None
    sent = pickle.dumps(batch, pickle.HIGHEST_PROTOCOL)
    arrived = pickle.loads(sent)
    assert (arrived.records == batch.records).all() and arrived.records.dtype == batch.records.dtype
    assert arrived._replace(records=None) == batch._replace(records=None)  # type: ignore[arg-type]
    assert b"nbytes" not in sent  # no names of columns
    trace = Trace(2)
    trace.append(arrived)
    assert trace.event(trace.columns[0]).tag == "x"

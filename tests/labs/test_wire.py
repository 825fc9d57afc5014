"""What has really come in on a rank's connections: the ring moves what it says, gloo's reduce-scatter twice as much."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

import partkit as pk
from partkit.labs import bytes_received

NUMEL = 120_000


def received(comm: pk.Communicator, operation: str, algorithm: str) -> float:
    """Bytes that came in, in tensors."""
    call: Any = getattr(pk, operation)
    x = torch.ones(NUMEL)
    call(x, comm, algorithm=algorithm)
    pk.barrier(comm)
    before = bytes_received()
    call(x, comm, algorithm=algorithm)
    after = bytes_received()
    assert before is not None and after is not None
    return (after - before) / (4 * NUMEL)


@pytest.mark.live
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much has come in on a connection")
@pytest.mark.parametrize(
    ("operation", "algorithm", "tensors"),
    [
        ("reduce_scatter", "ring", 2 / 3),
        ("reduce_scatter", "native", 4 / 3),
        ("all_reduce", "ring", 4 / 3),
        ("all_reduce", "native", 4 / 3),
        ("all_gather", "ring", 2),
    ],
)
def test_bytes_on_the_wire(live_world: Any, operation: str, algorithm: str, tensors: float) -> None:
    assert list(live_world(3).run(received, operation, algorithm)) == pytest.approx([tensors] * 3, rel=0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much has come in on a connection")
def test_counting_opens_nothing() -> None:
    assert bytes_received() == bytes_received()


def test_a_system_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("socket.TCP_INFO", raising=False)
    assert bytes_received() is None

"""The wire of live ranks: point-to-point messages of a torch.distributed process group (gloo on CPU, NCCL on GPUs).

Two things stand between torch's group and the contract in `base`:

[1] gloo matches messages by a 31-bit tag and ends the receiving process if a message is longer than its buffer. So the
    number that goes on the wire is a digest of tag, dtype and number of elements: unlike messages never meet.
[2] gloo sends neither to itself nor a message of no bytes; the first goes through a small mailbox, the second as one byte.

[3] A long message travels in segments. A receive that combines adds each segment while it is still in the processor's
    cache and the next one is coming in; on two ranks and two cores an all-reduce of 64 MB took 130 ms instead of 198.

The group's own ``send``/``recv`` are used, not ``torch.distributed.isend``: for 1 kB over 4 ranks they took 0.4 ms where
``isend`` took 1.8 ms (torch 2.13, two cores).
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any, Literal
from zlib import crc32

import torch
import torch.distributed as dist
from torch import Tensor

from partkit.transport.base import Combine, Exchange, Work, check_numbers, is_plain
from partkit.virtual_time import Computation

c10d: Any = dist  # its stubs lack what is used here
SEGMENT = 2**21
"""Bytes."""
NO_TIMEOUT = timedelta(days=365)
"""gloo's own time-out closes the group for good, so it never comes; supervision is the world's task."""


def wire_tag(tag: str, tensor: Tensor) -> int:
    """The number under which gloo matches a message [1]; the same in every process, unlike ``hash``."""
    return crc32(_behind(tag, tensor.dtype, tensor.numel())) & 0x7FFFFFFF


@lru_cache(maxsize=4096)
def _behind(tag: str, dtype: torch.dtype, numel: int) -> bytes:
    """What is digested, remembered: collectives use the same few again and again."""
    return f"{tag}|{dtype}|{numel}".encode()


def gloo_group(store: Any, rank: int, size: int, name: str) -> Any:
    """A process group over gloo on the loopback interface, not registered with torch.distributed."""
    options = c10d.ProcessGroupGloo._Options()
    options._timeout = NO_TIMEOUT
    options._devices = [c10d.ProcessGroupGloo.create_device(hostname="127.0.0.1")]
    options._threads = 2
    return c10d.ProcessGroupGloo(c10d.PrefixStore(name, store), rank, size, options)


class ProcessGroupTransport:
    """One rank's end of a torch.distributed process group.

    Args:
        group: a process group of all ranks with ``send`` and ``recv`` (gloo, NCCL).
        make_group: makes one more native group, of some ranks only: ``make_group(ranks)``.
    """

    def __init__(self, group: Any, make_group: Callable[[tuple[int, ...]], Any]) -> None:
        self._group = group
        self.rank = int(group.rank())
        self.size = int(group.size())
        self._make_group = make_group
        self._native: dict[tuple[int, ...], Any] = {}
        self._own: dict[int, deque[_OwnMessage]] = defaultdict(deque)  # by number: one side posted, the other still to come

    now = seconds = staticmethod(time.perf_counter)

    def sleep(self, seconds: float, work: Computation | None = None) -> None:
        time.sleep(seconds)

    def irecv_first(self, buffer: Tensor, src: int, tag: str, timeout: float | None) -> Work:
        raise RuntimeError(
            "live ranks receive from a rank that they name (src=...), and wait for it without a time-out: a wait of gloo that runs out takes the "
            "whole group with it. SimulatedWorld has both; live, a wait that can never end is found and explained"
        )

    def enter(self) -> None:
        """Live ranks take their order from the machine."""

    def leave(self, *, failed: bool) -> None:
        """Nothing to make up for."""

    def isend(self, tensor: Tensor, dst: int, tag: str) -> Work:
        number = wire_tag(tag, tensor)
        if dst == self.rank:
            return _post_to_oneself(_OwnMessage("send", tensor), self._own[number])
        return self.post_send(tensor, dst, number)

    def irecv(self, buffer: Tensor, src: int, tag: str, combine: Combine | None = None) -> Work:
        number = wire_tag(tag, buffer)
        if src == self.rank:
            return _post_to_oneself(_OwnMessage("recv", buffer, combine), self._own[number])
        return self.post_recv(buffer, src, number) if combine is None else self.post_combining(buffer, src, number, combine)

    def lane(self, ranks: tuple[int, ...], before: str, span: str, site: str, group: str) -> GroupLane:
        return GroupLane(self, ranks, before)

    def post_send(self, tensor: Tensor, dst: int, number: int) -> Work:
        """To another rank."""
        check_numbers(tensor)
        work: Work
        if 0 < tensor.nbytes <= SEGMENT:
            work = self._group.send([tensor], dst, number)
            return work
        if tensor.nbytes:
            return _Segments([self._group.send([segment], dst, number) for segment in _segments(tensor)])
        work = self._group.send([_one_byte(tensor)], dst, number)
        return work

    def post_recv(self, buffer: Tensor, src: int, number: int) -> Work:
        """From another rank."""
        check_numbers(buffer)
        work: Work
        if 0 < buffer.nbytes <= SEGMENT:
            work = self._group.recv([buffer], src, number)
            return work
        if buffer.nbytes:
            return _Segments([self._group.recv([segment], src, number) for segment in _segments(buffer)])
        work = self._group.recv([_one_byte(buffer)], src, number)
        return work

    def post_combining(self, buffer: Tensor, src: int, number: int, combine: Combine, own: Tensor | None = None) -> Work:
        """From another rank, combined with the buffer; or, where there is an ``own``, put in the buffer and combined with that."""
        if own is not None:
            pairs = zip(_segments(buffer), _segments(own), strict=True) if _is_long(buffer) else [(buffer, own)]
            return _Combining([(self.post_recv(arrives, src, number), arrives, mine) for arrives, mine in pairs], combine)
        if _is_long(buffer):
            return _CombiningInPlace(lambda inbox: self.post_recv(inbox, src, number), buffer, combine)
        inbox = torch.empty_like(buffer)
        return _Combining([(self.post_recv(inbox, src, number), buffer, inbox)], combine)

    def native_group(self, ranks: tuple[int, ...]) -> Any:
        if ranks not in self._native:
            self._native[ranks] = self._make_group(ranks)
        return self._native[ranks]


class GroupLane:
    """One rank's exchanges in one collective call: what their tags have in common goes into the digest once.

    Args:
        wire: the rank's.
        ranks: world rank of each place in the group.
        before: what stands before each tag.
    """

    __slots__ = ("_digest", "_ranks", "_wire")

    def __init__(self, wire: ProcessGroupTransport, ranks: tuple[int, ...], before: str) -> None:
        self._wire, self._ranks = wire, ranks
        self._digest = crc32(f"{before}|".encode())

    def exchange(
        self, x: Tensor, dst: int, buffer: Tensor, src: int, tag: str, combine: Combine | None, own: Tensor | None
    ) -> tuple[Work, Work] | Literal[False]:
        if not (self._others(dst, src) and is_plain(x) and is_plain(buffer) and (own is None or is_plain(own))):
            return False
        wire, number = self._wire, self._number(tag, buffer)
        to, source = self._ranks[dst], self._ranks[src]
        incoming = wire.post_recv(buffer, source, number) if combine is None else wire.post_combining(buffer, source, number, combine, own)
        return incoming, wire.post_send(x, to, number if _alike(x, buffer) else self._number(tag, x))

    def exchange_all(self, exchanges: Sequence[Exchange]) -> tuple[Work, ...] | None:
        if not all(self._others(dst, src) and is_plain(x) and is_plain(buffer) for x, dst, buffer, src, _ in exchanges):
            return None
        wire, ranks = self._wire, self._ranks
        incoming = [wire.post_recv(buffer, ranks[src], self._number(tag, buffer)) for _, _, buffer, src, tag in exchanges]
        outgoing = [wire.post_send(x, ranks[dst], self._number(tag, x)) for x, dst, _, _, tag in exchanges]
        return *incoming, *outgoing

    def _others(self, dst: int, src: int) -> bool:
        """Whether both are ranks of the group, and other ones than this."""
        size, me = len(self._ranks), self._wire.rank
        return 0 <= dst < size and 0 <= src < size and self._ranks[dst] != me != self._ranks[src]

    def _number(self, tag: str, tensor: Tensor) -> int:
        """`wire_tag` of ``before|tag``."""
        return crc32(_behind(tag, tensor.dtype, tensor.numel()), self._digest) & 0x7FFFFFFF


def _alike(x: Tensor, buffer: Tensor) -> bool:
    return x.numel() == buffer.numel() and x.dtype is buffer.dtype


def _one_byte(empty: Tensor) -> Tensor:
    """What really travels for an empty tensor [2]."""
    return torch.zeros(1, dtype=torch.uint8, device=empty.device)


def _is_long(tensor: Tensor) -> bool:
    """Whether a tensor travels in segments [3]."""
    return tensor.nbytes > SEGMENT


def _segments(tensor: Tensor) -> tuple[Tensor, ...]:
    """The pieces in which a tensor travels [3]."""
    flat = tensor.view(-1)
    return torch.split(flat, SEGMENT // tensor.element_size())


class _Segments:
    """A message in segments, all posted: gloo keeps their order."""

    def __init__(self, works: list[Work]) -> None:
        self._works = works

    def wait(self) -> None:
        for work in self._works:
            work.wait()


class _Combining:
    """Messages, each with two tensors of which the first is changed when it has come: ``(work, mine, theirs)``."""

    def __init__(self, messages: list[tuple[Work, Tensor, Tensor]], combine: Combine) -> None:
        self._messages, self._combine = messages, combine

    def wait(self) -> None:
        for work, mine, theirs in self._messages:
            work.wait()
            self._combine(mine, theirs)


class _CombiningInPlace:
    """A long message that is combined with a buffer, with room for two segments: one is combined while the next comes in [3]."""

    def __init__(self, receive: Callable[[Tensor], Work], buffer: Tensor, combine: Combine) -> None:
        self._receive, self._combine, self._segments = receive, combine, _segments(buffer)
        inboxes = [torch.empty_like(segment) for segment in self._segments[:2]]
        self._arriving = deque((inbox, receive(inbox)) for inbox in inboxes)

    def wait(self) -> None:
        for number, segment in enumerate(self._segments):
            inbox, work = self._arriving.popleft()
            work.wait()
            self._combine(segment, inbox[: segment.numel()])
            if number + 2 < len(self._segments):
                inbox = inbox[: self._segments[number + 2].numel()]
                self._arriving.append((inbox, self._receive(inbox)))


class _OwnMessage:
    """One side of a message from a rank to itself."""

    def __init__(self, side: Literal["send", "recv"], tensor: Tensor, combine: Combine | None = None) -> None:
        self.side, self.tensor, self.done, self.combine = side, tensor, False, combine or Tensor.copy_

    def wait(self) -> None:
        while not self.done:
            time.sleep(0.01)  # only this rank could post the other side, so this is a deadlock: wait for the supervisor's verdict


def _post_to_oneself(mine: _OwnMessage, waiting: deque[_OwnMessage]) -> _OwnMessage:
    """Meet the other side if it was posted before, and copy; otherwise wait in line for it."""
    if not waiting or waiting[0].side == mine.side:
        waiting.append(mine)
        return mine
    other = waiting.popleft()
    sent, buffer = (mine, other) if mine.side == "send" else (other, mine)
    buffer.combine(buffer.tensor, sent.tensor)
    mine.done = other.done = True
    return mine

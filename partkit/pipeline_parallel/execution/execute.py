"""Obey a schedule: a table from kind of action to method, and no decision anywhere.

    1RECV_F0    post the receives of what stage 0 will hand over                       tags 0SEND_F0, 0SEND_F0.1, ...
    1F0         wait for them; run the forward; put aside what it made
    1SEND_F0    post the sends of what it made
    1RECV_B0    post the receives of the gradients that stage 2 will hand back
    1B0         wait for them; run the backward; ...

What an action waits for is what `partkit.pipeline_parallel.rules` says that it needs, and a send is waited for where `receipts` says that
it is over. Between two stages on one rank nothing is sent: the next takes what the first has put aside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from partkit.communicator import Communicator, Pending
from partkit.pipeline_parallel.action import MESSAGES, Action, flat
from partkit.pipeline_parallel.execution.receipts import receipts
from partkit.pipeline_parallel.execution.stage import Stage
from partkit.pipeline_parallel.rules import gives, needs, receiver, sender
from partkit.pipeline_parallel.schedule import Schedule


class Executor:
    """One rank of a schedule.

    Args:
        schedule: with messages written out (`partkit.pipeline_parallel.add_communication`).
        comm: the ranks.
        stages: those of this rank, by number, each told what to do (`Stage.begin`).
        step: called for each STEP, with the number of its stage; by default nothing is done.

    Example:
        >>> from partkit.pipeline_parallel import Schedule
        >>> sorted(Executor.METHODS)
        ['B', 'F', 'I', 'RECV_B', 'RECV_F', 'REDUCE_GRAD', 'RESHARD', 'SEND_B', 'SEND_F', 'STEP', 'UNSHARD', 'W']
    """

    def __init__(self, schedule: Schedule, comm: Communicator, stages: Mapping[int, Stage], step: Callable[[int], None] = lambda stage: None) -> None:
        self._comm, self._stages, self._step = comm, stages, step
        self._placement, self._num_stages = schedule.placement, schedule.num_stages
        self._actions = flat(schedule.ranks[comm.rank])
        self._receipts = receipts(schedule, comm.rank)
        self._waits_for = {action: self._foreign_needs(action) for action in self._actions if action.kind in ("F", "B", "I")}

    def run(self) -> None:
        """Do all that the list says."""
        self._arriving: dict[Action, list[Pending]] = {}
        self._sent: dict[Action, list[Pending]] = {}
        self._made: dict[Action, list[Tensor]] = {}
        for action in self._actions:
            self.METHODS[action.kind](self, action)
        for send in list(self._sent):
            self._wait(send)

    # -- computations --------------------------------------------------------------------------------------------

    def _forward(self, action: Action) -> None:
        stage, i = self._of(action)
        inputs = self._take(action) if self._waits_for[action] else stage.first_inputs(i)
        with self._comm.span(str(action)):
            self._made[action] = stage.forward(i, inputs)

    def _backward(self, action: Action) -> None:
        stage, i = self._of(action)
        gradients = self._take(action)
        with self._comm.span(str(action)):
            self._made[gives(action)[0]] = stage.backward(i, gradients)

    def _backward_input(self, action: Action) -> None:
        stage, i = self._of(action)
        gradients = self._take(action)
        with self._comm.span(str(action)):
            self._made[action] = stage.backward_input(i, gradients)

    def _backward_weight(self, action: Action) -> None:
        stage, i = self._of(action)
        with self._comm.span(str(action)):
            stage.backward_weight(i)

    def _optimizer_step(self, action: Action) -> None:
        with self._comm.span(str(action)):
            self._step(action.stage)

    # -- messages ------------------------------------------------------------------------------------------------

    def _send(self, action: Action) -> None:
        made = Action(action.stage, "F" if action.kind == "SEND_F" else "I", action.microbatch)
        dst = self._placement[receiver(action).stage]
        tensors = self._made.pop(made)
        self._sent[action] = [self._comm.isend(x, dst, tag) for x, tag in zip(tensors, tags(action, len(tensors)), strict=True)]

    def _receive(self, action: Action) -> None:
        stage, i = self._of(action)
        source = sender(action)
        buffers = stage.buffers(i) if action.kind == "RECV_F" else stage.gradient_buffers(i)
        src = self._placement[source.stage]
        self._arriving[action] = [self._comm.irecv(x, src, tag) for x, tag in zip(buffers, tags(source, len(buffers)), strict=True)]

    def _nothing(self, action: Action) -> None:
        """Parameters are not sharded here: there is nothing to gather, drop or reduce."""

    # -- helpers -------------------------------------------------------------------------------------------------

    def _of(self, action: Action) -> tuple[Stage, int]:
        assert action.microbatch is not None, "validated"
        return self._stages[action.stage], action.microbatch

    def _foreign_needs(self, action: Action) -> tuple[Action, ...]:
        """What it needs of other stages."""
        return tuple(need for need in needs(action, self._num_stages, self._placement) if need.kind in MESSAGES or need.stage != action.stage)

    def _take(self, action: Action) -> list[Tensor]:
        """What another stage has made for ``action``; nothing if it needs none."""
        taken: list[Tensor] = []
        for need in self._waits_for[action]:
            taken = self._made.pop(need) if need in self._made else [message.wait() for message in self._arriving.pop(need)]
        for send in self._receipts.get(action, ()):
            self._wait(send)
        return taken

    def _wait(self, send: Action) -> None:
        for message in self._sent.pop(send):
            message.wait()

    METHODS: Mapping[str, Callable[[Executor, Action], None]] = {
        "F": _forward,
        "B": _backward,
        "I": _backward_input,
        "W": _backward_weight,
        "STEP": _optimizer_step,
        "SEND_F": _send,
        "SEND_B": _send,
        "RECV_F": _receive,
        "RECV_B": _receive,
        "UNSHARD": _nothing,
        "RESHARD": _nothing,
        "REDUCE_GRAD": _nothing,
    }


def tags(send: Action, num_tensors: int) -> list[str]:
    """The tag of each tensor of a message.

    Example:
        >>> tags(Action.parse("0SEND_F3"), 3)
        ['0SEND_F3', '0SEND_F3.1', '0SEND_F3.2']
    """
    return [str(send) if number == 0 else f"{send}.{number}" for number in range(num_tensors)]

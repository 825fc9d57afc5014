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
from typing import Any, NamedTuple

from torch import Tensor

from partkit.communicator import Communicator, Pending, at_one_line
from partkit.pipeline_parallel.action import MESSAGES, Action, flat
from partkit.pipeline_parallel.execution.receipts import receipts
from partkit.pipeline_parallel.execution.stage import Stage
from partkit.pipeline_parallel.rules import gives, needs, receiver, sender
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.validate import WORDS


class Task(NamedTuple):
    """An action with all that the schedule says about it, looked up once for all steps."""

    action: Action
    name: str
    """Of the span; of a message, the one that its SEND gives it."""
    microbatch: int
    makes: Action
    """Under which what it makes is put aside; of a SEND, what it takes from there."""
    waits_for: tuple[Action, ...]
    """What it needs of other stages."""
    receipts: tuple[Action, ...]
    """SENDs that are over once that is there."""
    peer: int
    """Of a message: the rank on the other side."""


def task_of(action: Action, schedule: Schedule, receipts: tuple[Action, ...] = ()) -> Task:
    """All that ``schedule`` says about ``action``.

    Example:
        >>> from partkit.pipeline_parallel import add_communication, one_f_one_b
        >>> task = task_of(Action.parse("1B0"), add_communication(one_f_one_b(3, 4)))
        >>> task.makes, task.waits_for
        (1I0, (1RECV_B0,))
    """
    name, makes, peer = str(action), gives(action)[0], -1
    if action.kind in ("SEND_F", "SEND_B"):
        makes = Action(action.stage, "F" if action.kind == "SEND_F" else "I", action.microbatch)
        peer = schedule.placement[receiver(action).stage]
    elif action.kind in ("RECV_F", "RECV_B"):
        name, peer = str(sender(action)), schedule.placement[sender(action).stage]
    needed = needs(action, schedule.num_stages, schedule.placement) if action.kind in ("F", "B", "I") else ()
    foreign = tuple(need for need in needed if need.kind in MESSAGES or need.stage != action.stage)
    return Task(action, name, action.microbatch or 0, makes, foreign, receipts, peer)


class Executor:
    """One rank of a schedule.

    Args:
        schedule: with messages written out (`partkit.pipeline_parallel.add_communication`).
        comm: the ranks.
        stages: those of this rank, by number, each told what to do (`Stage.begin`).
        step: called for each STEP, with the number of its stage; by default nothing is done.

    Attributes:
        before: if set, called before each action of the list, messages too.

    Example:
        >>> from partkit.pipeline_parallel import Schedule
        >>> sorted(Executor.METHODS)
        ['B', 'F', 'I', 'RECV_B', 'RECV_F', 'REDUCE_GRAD', 'RESHARD', 'SEND_B', 'SEND_F', 'STEP', 'UNSHARD', 'W']
    """

    def __init__(self, schedule: Schedule, comm: Communicator, stages: Mapping[int, Stage], step: Callable[[int], None] = lambda stage: None) -> None:
        self._comm, self._stages, self._step = comm, stages, step
        self.before: Callable[[Action], None] | None = None
        found = receipts(schedule, comm.rank)
        self._tasks = [task_of(action, schedule, found.get(action, ())) for action in flat(schedule.ranks[comm.rank])]

    def run(self) -> None:
        """Do all that the list says."""
        self._arriving: dict[Action, list[Pending]] = {}
        self._sent: dict[Action, list[Pending]] = {}
        self._made: dict[Action, list[Tensor]] = {}
        with at_one_line(self._comm):
            for task in self._tasks:
                if self.before is not None:
                    self.before(task.action)
                self.METHODS[task.action.kind](self, task)
            for send in list(self._sent):
                self._wait(send)

    # -- computations --------------------------------------------------------------------------------------------

    def _forward(self, task: Task) -> None:
        stage = self._stages[task.action.stage]
        inputs = self._take(task) if task.waits_for else stage.first_inputs(task.microbatch)
        self._made[task.makes] = self._computed(task, stage.forward, inputs)

    def _backward(self, task: Task) -> None:
        self._made[task.makes] = self._computed(task, self._stages[task.action.stage].backward, self._take(task))

    def _backward_input(self, task: Task) -> None:
        self._made[task.makes] = self._computed(task, self._stages[task.action.stage].backward_input, self._take(task))

    def _backward_weight(self, task: Task) -> None:
        self._computed(task, self._stages[task.action.stage].backward_weight)

    def _computed(self, task: Task, method: Callable[..., Any], *given: Any) -> Any:
        """What a stage makes; if it fails, the error says where the schedule was."""
        with self._comm.span(task.name):
            try:
                return method(task.microbatch, *given)
            except Exception as error:
                error.add_note(f"in {task.action}, {WORDS[task.action.kind]} of stage {task.action.stage} on micro-batch {task.microbatch}")
                raise

    def _optimizer_step(self, task: Task) -> None:
        with self._comm.span(task.name):
            self._step(task.action.stage)

    # -- messages ------------------------------------------------------------------------------------------------

    def _send(self, task: Task) -> None:
        tensors = self._made.pop(task.makes)
        self._sent[task.action] = [self._comm.isend(x, task.peer, tag) for x, tag in zip(tensors, tags(task.name, len(tensors)), strict=True)]

    def _receive(self, task: Task) -> None:
        stage = self._stages[task.action.stage]
        buffers = stage.buffers(task.microbatch) if task.action.kind == "RECV_F" else stage.gradient_buffers(task.microbatch)
        self._arriving[task.action] = [self._comm.irecv(x, task.peer, tag) for x, tag in zip(buffers, tags(task.name, len(buffers)), strict=True)]

    def _nothing(self, task: Task) -> None:
        """Parameters are not sharded here: there is nothing to gather, drop or reduce, unless `before` does."""

    # -- helpers -------------------------------------------------------------------------------------------------

    def _take(self, task: Task) -> list[Tensor]:
        """What another stage has made for the task; nothing if it needs none."""
        taken: list[Tensor] = []
        for need in task.waits_for:
            taken = self._made.pop(need) if need in self._made else [message.wait() for message in self._arriving.pop(need)]
        for send in task.receipts:
            self._wait(send)
        return taken

    def _wait(self, send: Action) -> None:
        for message in self._sent.pop(send):
            message.wait()

    METHODS: Mapping[str, Callable[[Executor, Task], None]] = {
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


def tags(name: str, num_tensors: int) -> list[str]:
    """The tag of each tensor of a message.

    Example:
        >>> tags("0SEND_F3", 3)
        ['0SEND_F3', '0SEND_F3.1', '0SEND_F3.2']
    """
    return [name if number == 0 else f"{name}.{number}" for number in range(num_tensors)]

"""A schedule rehearsed on real ranks: messages are sent, computations only take their time.

    0F0        comm.compute("0F0", seconds=...)          a rank is busy as long as the costs say
    0SEND_F0   comm.isend(as many bytes as they say)     messages are as large as the costs say, and travel as this world's travel
    1RECV_F0   comm.irecv(...), waited for before 1F0

What is measured then differs from the plan by what the plan does not know: the real links, and the time that posting and waking
up take. On simulated ranks it differs by nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partkit.pipeline_parallel.action import COMPUTE, Action
from partkit.pipeline_parallel.costs import UNIT, Costs
from partkit.pipeline_parallel.rules import receiver, sender
from partkit.pipeline_parallel.schedule import Schedule

if TYPE_CHECKING:
    from partkit.communicator import Communicator

_ARRIVES = {"F": "RECV_F", "B": "RECV_B", "I": "RECV_B"}


def rehearse(comm: Communicator, schedule: Schedule, costs: Costs = UNIT, unit: float = 1.0) -> None:
    """Obey this rank's list of a lowered schedule.

    Args:
        comm: of as many ranks as the schedule has.
        schedule: with its messages written out, by `passes.add_communication`.
        costs: of one stage; times in units.
        unit: seconds that one unit takes.

    Raises:
        ValueError: the schedule is for another number of ranks.

    Example:
        >>> import partkit as pk
        >>> from partkit.pipeline_parallel import add_communication, gpipe
        >>> with pk.SimulatedWorld(2) as world:
        ...     results = world.run(rehearse, add_communication(gpipe(2, 2)), unit=0.5)
        ...     computed = [event for event in world.trace.events if event.kind == "compute"]
        >>> len(computed), computed[0].tag, computed[0].end - computed[0].start
        (8, '0F0', 0.5)
    """
    if comm.size != schedule.num_ranks:
        raise ValueError(f"rehearse: a schedule of {schedule.num_ranks} ranks on a world of {comm.size}")
    sizes = {kind: costs.message_bytes(kind, schedule.num_stages) for kind in ("F", "B")}
    arriving: dict[Action, Any] = {}
    sent = []
    for action in schedule.ranks[comm.rank]:
        if action.kind in ("SEND_F", "SEND_B"):
            dst = schedule.placement[receiver(action).stage]
            sent.append(comm.isend(_message(action, sizes, schedule.num_stages), dst, tag=str(action)))
        elif action.kind in ("RECV_F", "RECV_B"):
            source = sender(action)
            arriving[action] = comm.irecv(_message(source, sizes, schedule.num_stages), schedule.placement[source.stage], tag=str(source))
        elif action.kind in COMPUTE:
            message = arriving.pop(action._replace(kind=_ARRIVES.get(action.kind, action.kind)), None)  # type: ignore[arg-type]
            if message is not None:
                message.wait()
            comm.compute(str(action), seconds=costs.seconds(action, schedule.num_stages) * unit)
    for message in sent:
        message.wait()


def _message(send: Action, sizes: dict[str, tuple[float, ...]], num_stages: int) -> Any:
    """A tensor of as many bytes as the message has, at least one."""
    import torch

    nbytes = sizes["F" if send.kind == "SEND_F" else "B"][send.stage % num_stages]
    return torch.zeros(max(1, int(nbytes)), dtype=torch.uint8)

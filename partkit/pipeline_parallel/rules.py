"""What an action needs: the one statement of pipeline order. Validator, lowering, simulator and executor all ask here.

With p stages in a row, micro-batch i:

    F(s, i)     needs F(s-1, i)                    the activation; the first stage reads the batch
    I(s, i)     needs F(s, i) and I(s+1, i)        what its own forward kept, and the gradient; the last stage has the loss
    W(s, i)     needs I(s, i)                      the gradient of the weights is made from what I leaves behind
    B(s, i)     is I and W in one                  needs what I needs, gives what both give
    STEP(s, i)  needs W(s, i)                      the optimizer wants the gradient

Needs are named by what has to be there (``F``, ``I``, ``W``), whoever made it: I(2, 0) is there after ``2I0`` or ``2B0``.

In a lowered schedule messages are actions too. SEND_F(s, i) needs F(s, i); RECV_F(s, i) is posted freely and *done* when
SEND_F(s-1, i) has met it; F(s, i) then needs its own RECV_F(s, i) in place of the other rank's F(s-1, i); gradients likewise.

Several replicas of the pipeline in one schedule (Chimera, DualPipe) are numbered on: stage p + s is stage s of replica 1.
So the place of a stage in its pipeline is ``stage % p``, and no rule crosses from one replica into the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from partkit.pipeline_parallel.action import Action


def gives(action: Action) -> tuple[Action, ...]:
    """What is there once ``action`` is done.

    Example:
        >>> gives(Action.parse("1B0")), gives(Action.parse("1F0"))
        ((1I0, 1W0), (1F0,))
    """
    if action.kind != "B":
        return (action,)
    return Action(action.stage, "I", action.microbatch), Action(action.stage, "W", action.microbatch)


def needs(action: Action, num_stages: int, placement: Sequence[int] | None = None) -> tuple[Action, ...]:
    """What must be there before ``action`` may start.

    Args:
        action: a single action; take an OVERLAP_F_B apart with `partkit.pipeline_parallel.action.flat`.
        num_stages: stages in one pipeline.
        placement: the rank of each stage, for a lowered schedule: what another rank makes then arrives as a RECV.

    Example:
        >>> needs(Action.parse("1F0"), 4), needs(Action.parse("0F0"), 4)
        ((0F0,), ())
        >>> needs(Action.parse("1B0"), 4), needs(Action.parse("3I0"), 4), needs(Action.parse("1W0"), 4)
        ((1F0, 2I0), (3F0,), (1I0,))
        >>> needs(Action.parse("1B0"), 4, placement=[0, 1, 2, 3])
        (1F0, 1RECV_B0)
    """
    stage, kind, i, _ = action
    if kind == "F":
        return () if _is_first(stage, num_stages) else (_arriving(stage - 1, "F", stage, i, placement),)
    if kind in ("I", "B"):
        own = Action(stage, "F", i)
        return (own,) if _is_last(stage, num_stages) else (own, _arriving(stage + 1, "I", stage, i, placement))
    if kind == "W":
        return (Action(stage, "I", i),)
    if kind == "STEP":
        return (Action(stage, "W", i),)
    if kind == "SEND_F":
        return (Action(stage, "F", i),)
    if kind == "SEND_B":
        return (Action(stage, "I", i),)
    return ()


def sender(recv: Action) -> Action:
    """The SEND that meets a RECV.

    Example:
        >>> sender(Action.parse("2RECV_F0")), sender(Action.parse("2RECV_B0"))
        (1SEND_F0, 3SEND_B0)
    """
    return Action(recv.stage - 1, "SEND_F", recv.microbatch) if recv.kind == "RECV_F" else Action(recv.stage + 1, "SEND_B", recv.microbatch)


def receiver(send: Action) -> Action:
    """The RECV that meets a SEND.

    Example:
        >>> receiver(Action.parse("1SEND_F0")), receiver(Action.parse("3SEND_B0"))
        (2RECV_F0, 2RECV_B0)
    """
    return Action(send.stage + 1, "RECV_F", send.microbatch) if send.kind == "SEND_F" else Action(send.stage - 1, "RECV_B", send.microbatch)


def message(action: Action, num_stages: int, placement: Sequence[int]) -> Action | None:
    """The SEND that must follow ``action``, or None: the next stage may be on the same rank, or there may be none.

    Example:
        >>> message(Action.parse("0F3"), 2, [0, 1]), message(Action.parse("1F3"), 2, [0, 1]), message(Action.parse("0F3"), 2, [0, 0])
        (0SEND_F3, None, None)
    """
    stage, kind, i, _ = action
    if kind == "F" and not _is_last(stage, num_stages) and placement[stage + 1] != placement[stage]:
        return Action(stage, "SEND_F", i)
    if kind in ("I", "B") and not _is_first(stage, num_stages) and placement[stage - 1] != placement[stage]:
        return Action(stage, "SEND_B", i)
    return None


def _is_first(stage: int, num_stages: int) -> bool:
    return stage % num_stages == 0


def _is_last(stage: int, num_stages: int) -> bool:
    return stage % num_stages == num_stages - 1


def _arriving(source: int, kind: str, stage: int, i: int | None, placement: Sequence[int] | None) -> Action:
    """What stage ``source`` makes, as ``stage`` gets it: from its own rank, or as a message."""
    if placement is None or placement[source] == placement[stage]:
        return Action(source, "F" if kind == "F" else "I", i)
    return Action(stage, "RECV_F" if kind == "F" else "RECV_B", i)

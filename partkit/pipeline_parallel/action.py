"""An action: what one stage does with one micro-batch. Schedules are lists of these, and are written down in their notation.

    2F0     stage 2 runs its forward on micro-batch 0
    2B0     the whole backward: gradient of the input and of the weights
    2I0     split backward, first part: the gradient of the input, for which the stage before is waiting
    2W0     split backward, second part: the gradient of the weights, for which nobody is waiting
    2STEP0  the optimizer's step of stage 2, after the backward of micro-batch 0 (asynchronous schedules)

and in lowered schedules, where communication is written out (`partkit.pipeline_parallel.passes.add_communication`):

    2SEND_F0  hand the activation that 2F0 made to stage 3      2RECV_F0  post the receive of the activation that 2F0 needs
    2SEND_B0  hand the gradient that 2B0 made to stage 1        2RECV_B0  post the receive of the gradient that 2B0 needs

    2UNSHARD, 2RESHARD, 2REDUCE_GRAD       gather, drop and reduce sharded parameters (read and written, for torch's sake)
    (0F4;3B1)OVERLAP_F_B                   a forward and a backward that run as one

Source: the vocabulary and the notation are those of torch.distributed.pipelining; STEP and "split backward" follow
Narayanan et al. 2019 (PipeDream) and Qi et al. 2023 (Zero Bubble Pipeline Parallelism).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

Kind = Literal["F", "B", "I", "W", "STEP", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD", "OVERLAP_F_B"]
KINDS: tuple[Kind, ...] = get_args(Kind)
COMPUTE: frozenset[str] = frozenset({"F", "B", "I", "W", "STEP"})
"""Kinds that take a rank's time."""
MESSAGES: frozenset[str] = frozenset({"SEND_F", "RECV_F", "SEND_B", "RECV_B"})
"""Kinds that post a message and return at once."""
WITHOUT_MICROBATCH: frozenset[str] = frozenset({"UNSHARD", "RESHARD", "REDUCE_GRAD", "OVERLAP_F_B"})

_SINGLE = re.compile(r"(\d+)(" + "|".join(sorted(KINDS, key=len, reverse=True)) + r")(\d*)")
_OVERLAP = re.compile(r"\(([^()]*)\)OVERLAP_F_B")


class Action(NamedTuple):
    """One stage, one kind of work, one micro-batch.

    Example:
        >>> Action(2, "F", 0)
        2F0
        >>> Action.parse("3SEND_B12")
        3SEND_B12
        >>> Action.parse("3SEND_B12").microbatch
        12
        >>> Action.parse("(0F4;3B1)OVERLAP_F_B").parts
        (0F4, 3B1)
    """

    stage: int
    """Number of the stage, from 0; -1 for OVERLAP_F_B, whose parts have their own."""
    kind: Kind
    microbatch: int | None = None
    """Number of the micro-batch, from 0; None for what belongs to the stage as a whole."""
    parts: tuple[Action, ...] = ()
    """The actions that an OVERLAP_F_B runs as one."""

    def __repr__(self) -> str:
        if self.kind == "OVERLAP_F_B":
            return f"({';'.join(map(repr, self.parts))})OVERLAP_F_B"
        return f"{self.stage}{self.kind}{'' if self.microbatch is None else self.microbatch}"

    @classmethod
    def parse(cls, text: str) -> Action:
        """The action that ``text`` names: the reverse of ``str``.

        Raises:
            ValueError: ``text`` is no action.
        """
        text = text.strip()
        if overlap := _OVERLAP.fullmatch(text):
            return cls(-1, "OVERLAP_F_B", None, tuple(cls.parse(part) for part in overlap[1].split(";")))
        single = _SINGLE.fullmatch(text)
        if single is None or (single[3] == "") != (single[2] in WITHOUT_MICROBATCH) or single[2] == "OVERLAP_F_B":
            raise ValueError(f"{text!r} is no action; write stage, kind and micro-batch, as in 2F0, with one of the kinds {', '.join(KINDS)}")
        kind: Kind = next(kind for kind in KINDS if kind == single[2])
        return cls(int(single[1]), kind, int(single[3]) if single[3] else None)


def flat(actions: Iterable[Action]) -> list[Action]:
    """The actions with each overlapped pair taken apart, in the order in which its parts are written.

    Example:
        >>> flat([Action.parse("(0F4;3B1)OVERLAP_F_B"), Action.parse("0F5")])
        [0F4, 3B1, 0F5]
    """
    return [part for action in actions for part in (action.parts or (action,))]


def actions(text: str) -> tuple[Action, ...]:
    """The actions that a line of text names, separated by blanks.

    Example:
        >>> actions("0F0 0F1 0B0")
        (0F0, 0F1, 0B0)
    """
    return tuple(Action.parse(word) for word in text.split())

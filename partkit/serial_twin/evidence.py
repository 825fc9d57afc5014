"""What a training loop notes for the comparison, and where a rank's part belongs in the whole.

A rank of a data-parallel run has whole parameters and some rows of the batch; a pipeline stage has some parameters; a
tensor-parallel rank has a slice of one; ZeRO has a stretch of the flattened one. All of them note what they have, under the
names of the serial model, and say with `Piece` which part it is:

    whole model               note(step, model=model)
    stage with layers 4-7     note(step, model={"4.weight": stage.weight, ...})
    rows 2 and 3 of weight    note(step, model=model, layout={"0.weight": Piece((range(2, 4),))})
    columns 2 and 3           note(step, model=model, layout={"0.weight": Piece((range(8), range(2, 4)))})
    numbers 10-19, flattened  note(step, model=model, layout={"0.weight": Piece((range(10, 20),), flat=True)})
    rows 2 and 3 of a batch   note(step, outputs=outputs, rows=range(2, 4))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

START = -1
"""The step of what is noted before the first step: ``note("start", model=model)``."""


class Piece(NamedTuple):
    """Which part of a global tensor a rank holds.

    Args:
        ranges: indices along each leading dim; further dims are whole.
        flat: the one range counts through the flattened tensor.

    Example:
        >>> whole = torch.arange(6).reshape(2, 3)
        >>> Piece((range(2), range(1, 3))).of(whole)
        tensor([[1, 2],
                [4, 5]])
        >>> Piece((range(1, 4),), flat=True).of(whole)
        tensor([1, 2, 3])
    """

    ranges: tuple[range, ...] = ()
    flat: bool = False

    def of(self, whole: Tensor) -> Tensor:
        """The part of ``whole``; a view where possible."""
        whole = whole.reshape(-1) if self.flat else whole
        return whole[tuple(slice(r.start, r.stop, r.step) for r in self.ranges)]


@dataclass(frozen=True)
class Observation:
    """What was noted of one step; all tensors are copies on the CPU.

    Attributes:
        step: number of the step, or `START`.
        loss: one number.
        count: items that the loss is the mean of.
        outputs: of the model, whole or some rows.
        rows: which rows of the serial outputs these are; None: see `partkit.serial_twin.compare`.
        gradients: by parameter name; None where there is none.
        weights: by parameter name.
        buffers: by buffer name.
        layout: the part of the serial tensor, for names that are held in part.
    """

    step: int
    loss: Tensor | None = None
    count: int = 1
    outputs: Tensor | None = None
    rows: tuple[int, ...] | None = None
    gradients: dict[str, Tensor | None] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)
    buffers: dict[str, Tensor] = field(default_factory=dict)
    layout: dict[str, Piece] = field(default_factory=dict)


class Note:
    """What a training loop calls once a step, after ``optimizer.step()`` and before the next ``zero_grad()``.

    Attributes:
        observations: what was noted, in order.

    Example:
        >>> note = Note()
        >>> note(0, loss=torch.tensor(0.5), model=nn.Linear(2, 1))
        >>> list(note.observations[0].weights)
        ['weight', 'bias']
    """

    def __init__(self) -> None:
        self.observations: list[Observation] = []

    def __call__(
        self,
        step: int | Literal["start"],
        *,
        loss: Tensor | float | None = None,
        outputs: Tensor | None = None,
        model: nn.Module | Mapping[str, Tensor] | None = None,
        count: int | None = None,
        rows: Sequence[int] | None = None,
        layout: Mapping[str, Piece] | None = None,
    ) -> None:
        """Keep a copy of what is given.

        Args:
            step: counts from 0; "start" for the weights before the first step.
            loss: one number; on a rank that of its own items. Ranks that have none leave it out.
            outputs: ``(rows, ...)``; on a rank its own rows.
            model: the module, or its parameters by the names of the serial model. Names lose a leading "module.".
            count: number of items that ``loss`` is the mean of; by default the number of rows.
            rows: which rows of the serial outputs ``outputs`` are. By default: all of them, or the ranks' one after the other.
            layout: for parameters (and their gradients) of which this rank holds a part.

        Raises:
            ValueError: this step has been noted already, or ``loss`` is not one number.
        """
        number = START if step == "start" else step
        if any(number == seen.step for seen in self.observations):
            raise ValueError(f"note({step!r}, ...): this step has been noted already; note each step once, with all there is to say")
        kept_loss = None if loss is None else _copy(torch.as_tensor(loss))
        if kept_loss is not None and kept_loss.numel() != 1:
            raise ValueError(f"note({step!r}, loss of shape {list(kept_loss.shape)}): the loss is one number")
        parameters = dict(_named(model))
        self.observations.append(
            Observation(
                step=number,
                loss=None if kept_loss is None else kept_loss.reshape(()),
                count=_count(count, rows, outputs),
                outputs=None if outputs is None else _copy(outputs),
                rows=None if rows is None else tuple(int(row) for row in rows),
                gradients={name: None if p.grad is None else _copy(p.grad) for name, p in parameters.items() if p.requires_grad},
                weights={name: _copy(p) for name, p in parameters.items()},
                buffers={_plain(name): _copy(b) for name, b in model.named_buffers()} if isinstance(model, nn.Module) else {},
                layout=dict(layout or {}),
            )
        )


def _named(model: nn.Module | Mapping[str, Tensor] | None) -> Iterator[tuple[str, Tensor]]:
    items = () if model is None else model.named_parameters() if isinstance(model, nn.Module) else model.items()
    yield from ((_plain(name), parameter) for name, parameter in items)


def _plain(name: str) -> str:
    """The name in the serial model: wrappers such as `DataParallel` put "module." before it."""
    return name.removeprefix("module.")


def _count(count: int | None, rows: Sequence[int] | None, outputs: Tensor | None) -> int:
    if count is not None:
        return int(count)
    if rows is not None:
        return len(rows)
    return len(outputs) if outputs is not None and outputs.dim() else 1


def _copy(x: Tensor) -> Tensor:
    return x.detach().to("cpu", copy=True).contiguous()

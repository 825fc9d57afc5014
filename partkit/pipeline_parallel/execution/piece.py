"""A piece of a model: what one stage computes, and which arguments of the batch it looks at itself.

piece(handed, batch)        handed: what the stage before hands over; batch: the micro-batch's own arguments by name

first piece     no stage before it: ``handed`` are the positional arguments of the batch
any piece       keyword arguments of the batch that it names go straight to it: every rank has the batch, nothing travels
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Piece:
    """What one stage computes.

    Args:
        module: called with what the stage before hands over.
        keywords: arguments of the batch that it takes by name; None: whatever there is (``**kwargs``).
        spreads: whether a tuple that it returns becomes several arguments of the next piece.

    Example:
        >>> piece = Piece.of(nn.Linear(2, 1))
        >>> piece((torch.ones(3, 2),), {"mask": None}).shape
        torch.Size([3, 1])
    """

    module: nn.Module
    keywords: frozenset[str] | None = frozenset()
    spreads: bool = True

    @classmethod
    def of(cls, module: nn.Module) -> Piece:
        """The piece that a module is by itself: it takes the keyword arguments that its forward names."""
        if isinstance(module, nn.Sequential):
            return cls(module)
        parameters = inspect.signature(module.forward).parameters.values()
        if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
            return cls(module, None)
        by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        return cls(module, frozenset(parameter.name for parameter in parameters if parameter.kind in by_name))

    def takes(self, name: str) -> bool:
        """Whether it looks at that argument of the batch."""
        return self.keywords is None or name in self.keywords

    def hands_over(self, returned: Any) -> tuple[Any, ...]:
        """What it returned, as arguments of the next piece.

        Example:
            >>> Piece(nn.Identity()).hands_over((1, 2)), Piece(nn.Identity(), spreads=False).hands_over((1, 2))
            ((1, 2), ((1, 2),))
        """
        return returned if self.spreads and type(returned) is tuple else (returned,)

    def __call__(self, handed: tuple[Any, ...], batch: Mapping[str, Any], weights: Mapping[str, Tensor] | None = None) -> Any:
        """What the module returns; with ``weights`` in place of its own, where they are given."""
        own = {name: value for name, value in batch.items() if self.takes(name)}
        return self.module(*handed, **own) if weights is None else torch.func.functional_call(self.module, dict(weights), handed, own)

    def without_traces(self, handed: tuple[Any, ...], batch: Mapping[str, Any], weights: Mapping[str, Tensor] | None = None) -> Any:
        """The same, while its buffers (running statistics, counters) stay as they are."""
        return self(handed, batch, {**{name: buffer.clone() for name, buffer in self.module.named_buffers()}, **(weights or {})})


class RandomState:
    """The state of torch's random numbers, to draw the same ones again.

    Example:
        >>> state = RandomState()
        >>> first = torch.rand(1)
        >>> with state.again():
        ...     second = torch.rand(1)
        >>> torch.equal(first, second)
        True
    """

    def __init__(self, device: torch.device | None = None) -> None:
        self._cpu = torch.get_rng_state()
        self._device = device if device is not None and device.type == "cuda" else None
        self._cuda = None if self._device is None else torch.cuda.get_rng_state(self._device)

    @contextmanager
    def again(self) -> Iterator[None]:
        """Inside, random numbers are those that followed when this was made; afterwards all goes on as if nothing had been drawn."""
        with torch.random.fork_rng(devices=[] if self._device is None else [self._device]):
            torch.set_rng_state(self._cpu)
            if self._device is not None and self._cuda is not None:
                torch.cuda.set_rng_state(self._cuda, self._device)
            yield

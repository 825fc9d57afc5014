"""What ranks pass to collectives in tests: different on every rank, of any shape, dtype and layout, the same in every run."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache

import torch
from hypothesis import strategies as st
from torch import Tensor

from partkit.collectives.reducing import OPS

LAYOUTS = ("plain", "strided", "transposed", "expanded", "conj")
SERIAL: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda parts: parts.sum(0),
    "mean": lambda parts: parts.mean(0),
    "product": lambda parts: parts.prod(0),
    "min": lambda parts: parts.amin(0),
    "max": lambda parts: parts.amax(0),
}
"""The operations on all ranks' tensors, stacked."""


@cache
def dtypes() -> tuple[torch.dtype, ...]:
    """Every dtype that torch can hold and copy."""
    return tuple(sorted({value for value in vars(torch).values() if isinstance(value, torch.dtype) and _can_be_copied(value)}, key=str))


def _can_be_copied(dtype: torch.dtype) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.empty(4, dtype=dtype)[::2].clone().view(torch.uint8).numel() == 2 * dtype.itemsize
    except (RuntimeError, TypeError):
        return False


def moved(rank: int, shape: tuple[int, ...], dtype: torch.dtype, layout: str = "plain") -> Tensor:
    """Any bits there are; bool has only two values."""

    def random(base: tuple[int, ...]) -> Tensor:
        generator = torch.Generator().manual_seed(rank)
        count = torch.Size(base).numel()
        raw = torch.randint(0, 2 if dtype == torch.bool else 256, (count * dtype.itemsize,), generator=generator, dtype=torch.uint8)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # complex32 is experimental
            return raw.view(dtype).view(base)

    return _laid_out(random, shape, dtype, layout)


def summand(rank: int, shape: tuple[int, ...], dtype: torch.dtype, layout: str = "plain") -> Tensor:
    """Small whole numbers: every dtype adds and multiplies a few of them without rounding."""

    def random(base: tuple[int, ...]) -> Tensor:
        generator = torch.Generator().manual_seed(1000 + rank)
        x = torch.randint(0, 3, base, generator=generator)
        return (x + 1j * torch.randint(0, 2, base, generator=generator) if dtype.is_complex else x).to(dtype)

    return _laid_out(random, shape, dtype, layout)


def _laid_out(random: Callable[[tuple[int, ...]], Tensor], shape: tuple[int, ...], dtype: torch.dtype, layout: str) -> Tensor:
    """A tensor of ``shape`` that lies in memory in one of `LAYOUTS`."""
    if layout == "strided" and shape:
        return random((*shape[:-1], 2 * shape[-1]))[..., ::2]
    if layout == "transposed":
        return random(shape[::-1]).permute(tuple(range(len(shape)))[::-1])
    if layout == "expanded" and shape:
        return random((1, *shape[1:])).expand(shape)
    if layout == "conj" and dtype in (torch.complex64, torch.complex128):
        return random(shape).conj()
    return random(shape)


def serial(parts: list[Tensor], op: str) -> Tensor:
    """The operation in one process, without rounding on the way."""
    exact = torch.stack([part.to(torch.complex128 if part.dtype.is_complex else torch.float64) for part in parts])
    if parts[0].dtype == torch.bool and op in ("min", "product"):
        exact = exact.bool()
    return SERIAL[op](exact).to(parts[0].dtype)


def close(x: Tensor | None, right: Tensor) -> bool:
    """Equal up to the rounding of a mean."""
    if x is None or x.shape != right.shape or x.dtype != right.dtype:
        return False
    wide = torch.complex128 if x.dtype.is_complex else torch.float64
    return torch.allclose(x.to(wide), right.to(wide), rtol=1e-2 if x.dtype.itemsize == 2 else 1e-6)


def bits(x: Tensor) -> list[int]:
    """The bytes of a tensor, in the order of its elements."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flat: list[int] = x.resolve_conj().clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8).tolist()
    return flat


def same(x: Tensor | None, right: Tensor) -> bool:
    """Equal to the last bit, shape and dtype included."""
    return x is not None and x.shape == right.shape and x.dtype == right.dtype and bits(x) == bits(right)


def new(x: Tensor | None, of: Tensor) -> bool:
    """Whether a result is contiguous memory that it shares with nobody."""
    return x is None or (x.is_contiguous() and (x.numel() == 0 or x.untyped_storage().data_ptr() != of.untyped_storage().data_ptr()))


shapes = st.lists(st.integers(0, 5), max_size=3).map(tuple)
some_dim = st.lists(st.integers(0, 5), min_size=1, max_size=3).map(tuple)


@st.composite
def groups(draw: st.DrawFn, largest: int = 17) -> tuple[int, list[int]]:
    """Number of simulated ranks, and some of them in any order."""
    size = draw(st.integers(1, largest))
    ranks = draw(st.permutations(range(size)))
    return size, list(ranks[: draw(st.integers(1, size))])


@st.composite
def combinable(draw: st.DrawFn) -> tuple[torch.dtype, str]:
    """A dtype, and how it can be combined."""
    dtype = draw(st.sampled_from(sorted(OPS, key=str)))
    return dtype, draw(st.sampled_from(OPS[dtype]))

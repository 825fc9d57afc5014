"""Whose data is in each element of a tensor: a set of ranks an element, carried along by whatever is computed.

Rank 1 has a tensor of its own, and another that has come from rank 0. Bit r of an element's set stands for rank r:

    mine                     [10, 11, 12]    {1}   {1}   {1}
    arrived                  [ 0,  1]        {0}   {0}
    mine[1:].add_(arrived)   [10, 11, 13]    {1}  {0,1} {0,1}       element by element: the union of what went in
    mine.sum()               34             {0,1}                   of many elements: the union of all
    torch.zeros(2)           [ 0,  0]        {}    {}               nobody's data

Sets belong to memory, not to tensors: views share them. Four rules say what an operator does to them, in this order:

    nobody's     zeros, empty: the empty set
    moved        cat, stack, index, flip, roll, ...: the operator itself is applied to the sets
    reduced      sum, mean, amax, ... along dims: the union along those dims
    elementwise  inputs that broadcast to the output: the union, element by element; else the union of everything

The last rule may name too many ranks (of a matrix product it names all), never too few. Memory of more than `MOST_ELEMENTS` has one
set for all of it. Cost: a few numpy operations for each operator, so this is for small examples while they are looked at.

Reference: the same as taint tracking, at the grain of elements; Suh, Lee, Zhang and Devadas 2004, "Secure program execution via
dynamic information flow tracking", section 4.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

Sets = npt.NDArray[np.int64]

MOST_ELEMENTS = 4096
"""Memory up to which each element has a set of its own."""
NOBODYS = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "zeros", "zeros_like", "new_zeros", "zero_"}
SHAPED = {"ones_like", "full_like", "rand_like", "randn_like", "randint_like", "new_ones", "new_full"}
"""Operators that read the shape of a tensor and none of its numbers."""
MOVED = {"cat", "stack", "index", "index_select", "gather", "take", "masked_select", "flip", "roll", "repeat", "tril", "triu", "_unsafe_view"}
REDUCED = {"sum", "mean", "prod", "amax", "amin", "any", "all", "logsumexp"}
OVERWRITES = {"copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_"}
"""Operators that do not read what they write over."""


class Memory:
    """One storage and the sets of its elements.

    Attributes:
        number: in the order of first sight, from 0.
        dtype: of the tensor in which it was first seen.
        sets: shape (elements,), or (1,) for memory that is large or is seen through another dtype too.
    """

    def __init__(self, number: int, tensor: Tensor, who: int) -> None:
        storage = tensor.untyped_storage()
        self.number, self.dtype = number, tensor.dtype
        self.num_elements = storage.nbytes() // tensor.element_size()
        self.sets: Sets = np.full(self.num_elements if self.num_elements <= MOST_ELEMENTS else 1, who, dtype=np.int64)
        self._storage = weakref.ref(storage)

    def tensor(self) -> Tensor | None:
        """All elements, shape (elements,); None if the memory is freed."""
        storage = self._storage()
        return None if storage is None else torch.empty(0, dtype=self.dtype, device=storage.device).set_(storage)

    def view(self, tensor: Tensor) -> Sets | None:
        """The sets of the elements of ``tensor``, a view into this memory, in its shape; None if there is but one set for all."""
        if len(self.sets) != self.num_elements or tensor.dtype.itemsize != self.dtype.itemsize:
            self.sets = np.bitwise_or.reduce(self.sets, keepdims=True, initial=0) if len(self.sets) != 1 else self.sets
            return None
        strides = [stride * self.sets.itemsize for stride in tensor.stride()]
        return np.lib.stride_tricks.as_strided(self.sets[tensor.storage_offset() :], tuple(tensor.shape), strides)


class Contributions(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps the sets of one rank's memory up to date while it is entered (``with contributions:``).

    Args:
        rank: whose own data everything is that was not received.

    Example:
        >>> who = Contributions(rank=1)
        >>> with who:
        ...     mine, arrived = torch.arange(3.0) + 10, torch.empty(2)
        ...     who.put(arrived, np.array([0b01, 0b01]))
        ...     _ = mine[1:].add_(arrived)
        ...     twice = torch.cat([mine, mine[:1]])
        >>> who.of(mine).tolist(), who.of(twice).tolist(), who.of(mine.sum()).tolist()
        ([2, 3, 3], [2, 3, 3, 2], 2)
    """

    def __init__(self, rank: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.own = 1 << rank
        self._aside = False
        self._memories: dict[int, Memory] = {}
        self._number = 0

    # -- asking and telling --------------------------------------------------------------------------------------

    def of(self, tensor: Tensor) -> Sets:
        """The sets of the elements of ``tensor``, in its shape. Do not write to it."""
        if tensor.layout is not torch.strided:
            return np.broadcast_to(np.int64(self.own), tuple(tensor.shape))
        memory = self.memory(tensor)
        sets = memory.view(tensor)
        return np.broadcast_to(memory.sets[0], tuple(tensor.shape)) if sets is None else sets

    def put(self, tensor: Tensor, sets: Sets) -> None:
        """Elements of ``tensor`` now hold data of ``sets``, which broadcasts to its shape."""
        if tensor.layout is not torch.strided or not tensor.numel():
            return
        memory = self.memory(tensor)
        view = memory.view(tensor)
        if view is not None:
            view[...] = sets
        else:
            kept = 0 if tensor.numel() == memory.num_elements else memory.sets[0]
            memory.sets = np.array([kept | union([sets])])

    def memory(self, tensor: Tensor, who: int | None = None) -> Memory:
        """The memory that ``tensor`` is in; at first sight it holds this rank's own data, or that of ``who``."""
        storage = tensor.untyped_storage()
        key = id(storage)
        if key not in self._memories:
            self._memories[key] = Memory(self._number, tensor, self.own if who is None else who)
            self._number += 1
            weakref.finalize(storage, self._memories.pop, key, None).atexit = False
        return self._memories[key]

    def memories(self) -> list[Memory]:
        """All memory in sight that is not freed, in the order of first sight."""
        return list(self._memories.values())

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What is computed inside is no computation of the rank's: it has no effect on the sets."""
        outer, self._aside = self._aside, True
        try:
            yield
        finally:
            self._aside = outer

    # -- the rules -----------------------------------------------------------------------------------------------

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Asked by torch, which otherwise imports its compiler (2 s) at the first operator, to keep it away from what is below."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if self._aside:
            return func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        written = [_argument(i, a, args, kwargs) for i, a in enumerate(func._schema.arguments) if a.alias_info is not None and a.alias_info.is_write]
        skipped = [id(t) for t in _tensors(written)] if name in OVERWRITES else []
        read = [t for t in _tensors(_read(func, args, kwargs)) if id(t) not in skipped]
        before = [self.of(t).copy() if t.numel() <= MOST_ELEMENTS else self.of(t) for t in read]
        known = {id(t.untyped_storage()) for t in _tensors((args, kwargs)) if t.layout is torch.strided}
        out = func(*args, **kwargs)
        for result in _tensors(written) if written else _tensors(out):
            if result.layout is torch.strided and (written or id(result.untyped_storage()) not in known):
                self.memory(result, 0)
                self.put(result, self._sets_after(func, name, (args, kwargs), before, result))
        return out

    def _sets_after(self, func: Any, name: str, call: tuple[Sequence[Any], dict[str, Any]], before: list[Sets], result: Tensor) -> Sets:
        """What an operator that read ``before`` leaves in ``result``."""
        if name in NOBODYS:
            return np.array(0)
        if not before or name in SHAPED:
            return np.array(self.own)
        if result.numel() <= MOST_ELEMENTS and all(sets.size <= MOST_ELEMENTS for sets in before):
            if name in MOVED:
                return self._moved(func, call)
            if name in REDUCED and len(before) == 1 and before[0].ndim:
                return _along(before[0], func, call, tuple(result.shape))
            if all(_broadcasts(sets.shape, tuple(result.shape)) for sets in before) and name not in ("mm", "bmm", "matmul"):
                together: Sets = np.bitwise_or.reduce([np.broadcast_to(sets, tuple(result.shape)) for sets in before])
                return together
        return np.array(union(before))

    def _moved(self, func: Any, call: tuple[Sequence[Any], dict[str, Any]]) -> Sets:
        """Apply the operator to the sets in place of the numbers. Indices stay what they are."""

        def sets(value: Any) -> Any:
            is_index = isinstance(value, Tensor) and value is not first and value.dtype in (torch.int64, torch.int32, torch.bool) and not listed
            return torch.from_numpy(self.of(value).copy()) if isinstance(value, Tensor) and not is_index else value

        listed = isinstance(call[0][0], list | tuple)
        first = None if listed else call[0][0]
        moved: Tensor = func(*tree_map(sets, call[0]), **tree_map(sets, call[1]))
        return moved.numpy()


def union(sets: Iterable[Sets]) -> int:
    """All ranks of some sets, as one set."""
    return int(np.bitwise_or.reduce([np.bitwise_or.reduce(one, axis=None, initial=0) for one in sets], initial=0))


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _argument(index: int, argument: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    return kwargs.get(argument.name) if argument.kwarg_only or index >= len(args) else args[index]


def _read(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """All arguments but those that only take the result: ``out=`` and its like."""
    return [
        _argument(i, a, args, kwargs) for i, a in enumerate(func._schema.arguments) if not (a.kwarg_only and a.alias_info is not None and a.alias_info.is_write)
    ]


def _along(sets: Sets, func: Any, call: tuple[Sequence[Any], dict[str, Any]], shape: tuple[int, ...]) -> Sets:
    """The union along the dims of a reduction; all of them if it names none."""
    names = {a.name: _argument(i, a, *call) for i, a in enumerate(func._schema.arguments)}
    dims = names.get("dim")
    axes = tuple(range(sets.ndim)) if dims is None or dims == [] else tuple(dims) if isinstance(dims, list | tuple) else (int(dims),)
    together: Sets = np.bitwise_or.reduce(sets, axis=axes, initial=0)
    return np.asarray(together).reshape(shape)


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    return len(shape) <= len(to) and all(own in (1, other) for own, other in zip(reversed(shape), reversed(to), strict=False))

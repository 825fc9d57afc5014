"""What a rank does with a notebook cell: run it among the names it already has, and show its last expression.

Names live in the rank's own ``__main__``, beside ``comm``, ``rank`` and ``world_size``; they persist from cell to cell. Only
the text of the last expression travels back: the value stays where it is, for it may be large, or not picklable.
"""

from __future__ import annotations

import ast
import linecache
import rlcompleter
import sys
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partkit.communicator import Communicator

MOST_VALUES = 12
"""A tensor with at most this many elements is shown by its values."""


def fresh_main() -> None:
    """Give this rank an empty ``__main__``; what cells define lives there."""
    sys.modules["__main__"] = types.ModuleType("__main__")


def run_cell(comm: Communicator, source: str, filename: str, ranks: tuple[int, ...]) -> str | None:
    """Run a cell on this rank, if it is one of ``ranks``.

    Args:
        comm: this rank's communicator.
        source: plain Python, known to parse.
        filename: the name under which the kernel knows the source, for tracebacks and traces.
        ranks: who runs it.

    Returns:
        The last expression's value as text; None if the cell ends in a statement or in a semicolon, or gives None.
    """
    if comm.rank not in ranks:
        return None
    namespace = vars(sys.modules["__main__"])
    namespace.update(comm=comm, rank=comm.rank, world_size=comm.size)
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    body, last = split_last_expression(source, filename)
    exec(compile(body, filename, "exec"), namespace)
    if last is None:
        return None
    value = eval(compile(last, filename, "eval"), namespace)
    if value is None or source.rstrip().endswith(";"):
        return None
    namespace["_"] = value
    return summarise(value)


def split_last_expression(source: str, filename: str = "<cell>") -> tuple[ast.Module, ast.Expression | None]:
    """A cell without its last expression, and that expression."""
    tree = ast.parse(source, filename)
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        return ast.Module(tree.body[:-1], type_ignores=[]), ast.Expression(tree.body[-1].value)
    return tree, None


def summarise(value: Any) -> str:
    """A value for people: a large tensor by dtype, shape, norm and placement, everything else by its repr.

    Example:
        >>> import torch
        >>> summarise(torch.ones(2)), summarise(torch.ones(100, 4))
        ('tensor([1., 1.])', 'tensor float32[100, 4], norm 20, cpu')
    """
    from torch import Tensor  # here, so that a kernel can start ranks before it has imported torch itself

    from partkit.communicator import describe

    if not isinstance(value, Tensor):
        return repr(value)
    placements = getattr(value, "placements", None)  # a DTensor says how it lies on the mesh
    if placements is None and value.numel() <= MOST_VALUES:
        return repr(value)
    numbers = value.detach()
    local = numbers.to_local() if hasattr(numbers, "to_local") else numbers
    norm = float(local.double().norm()) if not local.is_complex() else float(local.abs().double().norm())
    where = f"{value.device}" if placements is None else f"{value.device}, {', '.join(map(str, placements))} (norm of the local part)"
    return f"tensor {describe(value)}, norm {norm:.6g}, {where}" + (", requires_grad" if value.requires_grad else "")


def complete(comm: Communicator, text: str) -> list[str]:
    """Completions of ``text`` among the names of rank 0; nothing on other ranks."""
    if comm.rank != 0:
        return []
    completer = rlcompleter.Completer(vars(sys.modules["__main__"]))
    found: list[str] = []
    while (match := completer.complete(text, len(found))) is not None:
        found.append(match)
    return [match.rstrip("() ") for match in found]


def names(comm: Communicator) -> list[str]:
    """What cells have defined on this rank."""
    given = {"comm", "rank", "world_size", "_"}
    return [name for name in vars(sys.modules["__main__"]) if not name.startswith("__") and name not in given]


def lookup(comm: Communicator, name: str) -> Any:
    """The value of a variable of this rank's cells.

    Raises:
        KeyError: no cell has defined it.
    """
    namespace = vars(sys.modules["__main__"])
    if name not in namespace:
        known: Sequence[str] = names(comm)
        raise KeyError(f"rank {comm.rank} has no variable {name!r}; it has {', '.join(known) or 'none yet'}")
    return namespace[name]

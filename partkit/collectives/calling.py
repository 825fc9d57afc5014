"""What every collective does before its first message: look at its arguments, and choose its algorithm.

All refusals come from here, before anything is sent: nobody waits for a rank that was refused if all ranks called alike.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from partkit.collectives.choosing import choose
from partkit.communicator import Communicator, is_plain

KEPT_CHOICES = 1000
"""So many choices of "auto" a rank remembers."""


def pick(operation: str, algorithm: str, algorithms: Iterable[str], comm: Communicator, nbytes: int) -> str:
    """The algorithm by name; for "auto" the one that `choose` finds fastest for ``nbytes`` on the cluster of ``comm``.

    Raises:
        ValueError: there is no such algorithm.
    """
    if algorithm == "auto":
        return _chosen(operation, nbytes, comm)
    if algorithm not in algorithms:
        raise ValueError(f"{operation}(algorithm={algorithm!r}): algorithm is one of {', '.join(map(repr, ['auto', *algorithms]))}")
    return algorithm


def _chosen(operation: str, nbytes: int, comm: Communicator) -> str:
    """What `choose` says; remembered, since programs call the same again and again, and small tensors don't wait."""
    kept, asked = comm.choices, (operation, nbytes, comm.size)
    name = kept.get(asked)
    if name is None:
        if len(kept) >= KEPT_CHOICES:
            kept.clear()
        cluster = comm.cluster
        name = kept[asked] = choose(operation, nbytes, comm.size, cluster.link, cluster.memory_bandwidth).best
    return name


def check_tensor(operation: str, x: object, argument: str = "x") -> None:
    """Refuse what is no dense tensor."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{operation}({argument}={x!r}): {argument} is a {type(x).__name__}, it must be a torch.Tensor")
    if x.layout is not torch.strided:
        raise ValueError(f"{operation} of a tensor of layout {x.layout}: only dense tensors travel; convert it with to_dense()")


def check_template(operation: str, x: object) -> None:
    """Refuse what is no dense tensor, where off the root only dtype and shape are read."""
    if x is None:
        what = "a tensor of the root's dtype and shape, to say what will come; its values don't count: torch.empty(shape, dtype=dtype)"
        raise TypeError(f"{operation}(x=None): pass {what}")
    check_tensor(operation, x)


def check_root(operation: str, root: int, comm: Communicator) -> None:
    """Refuse a root that is not in the group. Roots are counted in the group, as everywhere in partkit."""
    comm.rank  # noqa: B018 (raises for a rank that is not in the group)
    if isinstance(root, bool) or not isinstance(root, int) or not 0 <= root < comm.size:
        raise ValueError(f"{operation}(root={root!r}): root is a rank of this group, from 0 to {comm.size - 1}")


def check_dim(operation: str, x: Tensor, dim: int) -> int:
    """The dim counted from the front; refuses one that ``x`` does not have."""
    if x.dim() == 0:
        raise ValueError(f"{operation} of a tensor without dims: there is nothing to cut or join; pass x.reshape(1)")
    if isinstance(dim, bool) or not isinstance(dim, int) or not -x.dim() <= dim < x.dim():
        raise ValueError(f"{operation}(dim={dim!r}): x has {x.dim()} dims, so dim is from {-x.dim()} to {x.dim() - 1}")
    return dim % x.dim()


def counted_from(root: int, comm: Communicator) -> Communicator:
    """The same ranks, counted on from ``root``: the algorithms of rooted operations are written for root 0."""
    return comm if root == 0 else comm.subgroup([*range(root, comm.size), *range(root)], name=comm.name)


def own_copy(x: Tensor) -> Tensor:
    """``x`` as a new block of memory that an algorithm may change: contiguous, without history."""
    return x.clone() if is_plain(x) else x.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)

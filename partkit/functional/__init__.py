"""Differentiable movements of data among ranks: each forward beside its adjoint.

autograd knows nothing of other ranks. A movement here is an operation that it can go through: backward runs the movement's
adjoint, which is a movement too, and so on for second derivatives. A movement F takes the ranks' tensors x_0, x_1, ... to new ones;
its adjoint F* is the one with <F x, y> = <x, F* y>, both sides summed over all ranks.

What a gradient means. Each rank calls backward() on a loss of its own, at the same time; L is the sum of these losses:

    the tensor                             its gradient is                     movement            adjoint
    every rank has its own: x_0, x_1, ...  dL / dx_r on rank r: the total      all_gather          reduce_scatter
                                           derivative, effects on the losses   all_reduce          all_reduce
                                           of all ranks included               all_to_all          all_to_all
                                                                               broadcast           reduce
                                                                               scatter             gather
                                                                               send                recv
                                                                               sendrecv            sendrecv, the other way
    replicated: all ranks have the same x  dL / dx, the same on all ranks,     copy_to_group       reduce_from_group
    and compute the same loss from it      where x and the loss count once     scatter_to_group    gather_from_group

The two differ by the number of ranks. Two ranks, x = 1 + rank, loss = the sum of all x, on both ranks:

    y = all_reduce(x)          x.grad = 2      there are two losses, and x is in both
    y = reduce_from_group(x)   x.grad = 1      there is one loss, which both ranks know

So in a tensor-parallel layer, where all ranks go on with the same activations, it is copy_to_group and reduce_from_group (Megatron's f
and g); where ranks have losses of their own, which count together, it is all_reduce. A mean is the sum divided by the number of
ranks, forward and backward.

Four rules:

1.  Every rank takes part, forward and backward. The result of a movement requires grad on every rank, whatever ``x`` says, so
    that no rank leaves its part of backward out because its ``x`` is data. Where nobody wants gradients, use torch.no_grad().
2.  A rank whose loss does not depend on its result would not run its part, and the others would wait for ever: partkit stops
    them and says which movement it was. Remedy: ``loss = tie(loss, result)``.
3.  Backward runs movements from the last to the first, on every rank alike, since autograd takes the youngest node of those that
    are ready. So movements that come in one order in forward never meet a wrong one in backward.
4.  What a rank does not get is an empty tensor of shape (0,), not None: ``gather(x, comm).sum()`` is 0 off the root, and ties the
    rank's part of backward to its loss.

    file          idea
    movement      a forward, its adjoint, and who still owes a backward; `tie`
    collectives   all_reduce, all_gather and reduce_scatter, all_to_all
    rooted        broadcast and reduce, scatter and gather
    messages      send and recv, sendrecv
    replicated    Megatron's f and g, and the same for slices

References: Shoeybi et al. 2019, "Megatron-LM", section 3 (f and g); Hewett and Grady 2020, "A linear algebraic approach to model
parallelism in deep learning" (adjoints of movements, and the test of them).
"""

from partkit.functional.collectives import all_gather as all_gather
from partkit.functional.collectives import all_reduce as all_reduce
from partkit.functional.collectives import all_to_all as all_to_all
from partkit.functional.collectives import all_to_all_v as all_to_all_v
from partkit.functional.collectives import reduce_scatter as reduce_scatter
from partkit.functional.messages import recv as recv
from partkit.functional.messages import send as send
from partkit.functional.messages import sendrecv as sendrecv
from partkit.functional.movement import tie as tie
from partkit.functional.replicated import copy_to_group as copy_to_group
from partkit.functional.replicated import gather_from_group as gather_from_group
from partkit.functional.replicated import reduce_from_group as reduce_from_group
from partkit.functional.replicated import scatter_to_group as scatter_to_group
from partkit.functional.rooted import broadcast as broadcast
from partkit.functional.rooted import gather as gather
from partkit.functional.rooted import reduce as reduce
from partkit.functional.rooted import scatter as scatter

"""Watch torch.distributed at work: collectives of code that knows nothing of partkit, noted in the trace.

    with pk.watch() as watching:
        model = DistributedDataParallel(net)         broadcasts of parameters and buffers
        loss_fn(model(x), y).backward()              all-reduces of buckets, from inside backward
    watching.summary()                               a table: operation, group, phase, calls, bytes, time, source lines

A `TorchDispatchMode` sees each operator of torch.distributed on its way, in backward too; in the thread that watches, not in others.
What an event of it holds:

    bytes    this rank's share (`operators`)
    group    the dim of a DeviceMesh, or how the group is called else (`operators`)
    site     the line of your code that led to it (`whence`)
    span     the open spans; "forward" or "backward"; a function made of several operations (`whence`)
    end      of a collective             when its own work is done, also if nobody waits for it
             of a functional collective  when its result is waited for
             of a message                when it has been waited for: torch tells no more, here and of gloo's reduce_scatter

An operation that is not done when the watch ends is noted as lasting until then, with "..." behind its name; one that raised, with "!".

    file         idea
    operators    the table of operators; bytes and group of a call
    whence       where in the program a call comes from
    mode         `watch`: begins and ends of events

Reference: ``torch.distributed.tensor.debug.CommDebugMode`` counts collectives in the same way.
"""

from partkit.watching.mode import Watching as Watching
from partkit.watching.mode import watch as watch

"""What torch's operations cost a rank: floating-point operations, bytes to and from memory, and memory held, seen one by one.

Both are instruments that a rank's function switches on around some of its code; they see every operation of torch on its way,
in forward and backward (`torch.utils._python_dispatch.TorchDispatchMode`), and change nothing.

    file          idea
    operations    FLOPs and bytes of each operation; on simulated ranks they become time
    memory        live tensors by what they are for; a cap
    filling       what fills a device, in words
"""

from partkit.counting.memory import Memory as Memory
from partkit.counting.memory import OutOfMemory as OutOfMemory
from partkit.counting.operations import CountedOperations as CountedOperations
from partkit.counting.operations import cost_of as cost_of
from partkit.tracing.memory import Use as Use

"""Pipelines of real models: a module is cut in stages, which obey a schedule.

file           idea
wrapper        `PipelineParallel`: cut, split, execute, share
choosing       the schedule to execute
cut            a module -> pieces; graph: along its graph, which following gets from torch.fx
deciding       forwards that decide by shapes: an example answers, and batches are held to it
places         where to cut so that stages are even; weighing: what submodules cost
piece          what one stage computes, and with which arguments of the batch
part           this rank's pieces as one module, under the names of the whole
microbatches   a batch -> micro-batches; how their losses make that of the batch
values         what passes between stages, and its form
announcing     the form of it, told once for all micro-batches that look alike
stage          forward and backward of a micro-batch; what is kept
recompute      submodules whose insides are not kept
versions       weights while the optimizer steps inside a schedule
halves         a backward in two halves
execute        an action -> a method; no decisions
receipts       when a rank can know that what it sent has arrived; pure
sharing        gradients of tied weights and of replicas, summed
"""

from partkit.pipeline_parallel.balance import balance as balance
from partkit.pipeline_parallel.execution.microbatches import Loss as Loss
from partkit.pipeline_parallel.execution.places import Balanced as Balanced
from partkit.pipeline_parallel.execution.weighing import measure as measure
from partkit.pipeline_parallel.execution.wrapper import PipelineParallel as PipelineParallel
from partkit.pipeline_parallel.execution.wrapper import Step as Step

__all__ = ["Balanced", "Loss", "PipelineParallel", "Step", "balance", "measure"]

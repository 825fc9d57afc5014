"""partkit: understand and prototype parallel deep learning, live, in a notebook.

One function for one rank, ``fn(comm, ...)``, runs unchanged on live processes; what it does is seen message by message.

    import partkit as pk

    with pk.World(4) as world:
        world.run(lambda comm: pk.all_reduce(torch.ones(3) * comm.rank, comm))
        pk.Timeline(world.trace)

Every public name is loaded when it is first used: importing partkit loads neither torch nor plotly nor ipywidgets.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partkit import cluster as cluster
    from partkit import functional as functional
    from partkit import labs as labs
    from partkit import partition as partition
    from partkit import pipeline_parallel as pipeline_parallel
    from partkit.cluster import Cluster as Cluster
    from partkit.cluster import Device as Device
    from partkit.cluster import Link as Link
    from partkit.cluster import clusters as clusters
    from partkit.collectives.all_gather import all_gather as all_gather
    from partkit.collectives.all_reduce import all_reduce as all_reduce
    from partkit.collectives.all_to_all import all_to_all as all_to_all
    from partkit.collectives.all_to_all import all_to_all_v as all_to_all_v
    from partkit.collectives.barrier import barrier as barrier
    from partkit.collectives.broadcast import broadcast as broadcast
    from partkit.collectives.choosing import choose as choose
    from partkit.collectives.gather import gather as gather
    from partkit.collectives.reduce import reduce as reduce
    from partkit.collectives.reduce_scatter import reduce_scatter as reduce_scatter
    from partkit.collectives.scan import exscan as exscan
    from partkit.collectives.scan import scan as scan
    from partkit.collectives.scatter import scatter as scatter
    from partkit.communicator import Communicator as Communicator
    from partkit.counting import Memory as Memory
    from partkit.data_parallel import DataParallel as DataParallel
    from partkit.figures.operations import operation_table as operation_table
    from partkit.figures.wait_for import WaitFor as WaitFor
    from partkit.mesh import Mesh as Mesh
    from partkit.pipeline_parallel.execution import PipelineParallel as PipelineParallel
    from partkit.recording import record as record
    from partkit.serial_twin import Piece as Piece
    from partkit.serial_twin import same_as_serial as same_as_serial
    from partkit.tracing import Event as Event
    from partkit.tracing import Trace as Trace
    from partkit.watching import watch as watch
    from partkit.widgets.cluster_view import ClusterView as ClusterView
    from partkit.widgets.comm_matrix import CommMatrix as CommMatrix
    from partkit.widgets.cost_explorer import CostExplorer as CostExplorer
    from partkit.widgets.curve import Curve as Curve
    from partkit.widgets.memory_view import MemoryView as MemoryView
    from partkit.widgets.prediction import Prediction as Prediction
    from partkit.widgets.schedule_overlay import ScheduleOverlay as ScheduleOverlay
    from partkit.widgets.schedule_studio import ScheduleStudio as ScheduleStudio
    from partkit.widgets.stage_map import StageMap as StageMap
    from partkit.widgets.stepper import MessageStepper as MessageStepper
    from partkit.widgets.timeline import Timeline as Timeline
    from partkit.worlds.simulated import SimulatedWorld as SimulatedWorld
    from partkit.worlds.world import World as World

__version__ = "0.1.0"

_HOME = {
    "Cluster": "partkit.cluster",
    "ClusterView": "partkit.widgets.cluster_view",
    "clusters": "partkit.cluster",
    "CommMatrix": "partkit.widgets.comm_matrix",
    "Communicator": "partkit.communicator",
    "CostExplorer": "partkit.widgets.cost_explorer",
    "Curve": "partkit.widgets.curve",
    "DataParallel": "partkit.data_parallel",
    "Device": "partkit.cluster",
    "Event": "partkit.tracing",
    "Link": "partkit.cluster",
    "Memory": "partkit.counting",
    "MemoryView": "partkit.widgets.memory_view",
    "Mesh": "partkit.mesh",
    "MessageStepper": "partkit.widgets.stepper",
    "Piece": "partkit.serial_twin",
    "PipelineParallel": "partkit.pipeline_parallel.execution",
    "Prediction": "partkit.widgets.prediction",
    "ScheduleOverlay": "partkit.widgets.schedule_overlay",
    "ScheduleStudio": "partkit.widgets.schedule_studio",
    "SimulatedWorld": "partkit.worlds.simulated",
    "StageMap": "partkit.widgets.stage_map",
    "Timeline": "partkit.widgets.timeline",
    "Trace": "partkit.tracing",
    "WaitFor": "partkit.figures.wait_for",
    "World": "partkit.worlds.world",
    "all_gather": "partkit.collectives.all_gather",
    "all_reduce": "partkit.collectives.all_reduce",
    "all_to_all": "partkit.collectives.all_to_all",
    "all_to_all_v": "partkit.collectives.all_to_all",
    "barrier": "partkit.collectives.barrier",
    "broadcast": "partkit.collectives.broadcast",
    "choose": "partkit.collectives.choosing",
    "exscan": "partkit.collectives.scan",
    "gather": "partkit.collectives.gather",
    "operation_table": "partkit.figures.operations",
    "record": "partkit.recording",
    "reduce": "partkit.collectives.reduce",
    "reduce_scatter": "partkit.collectives.reduce_scatter",
    "same_as_serial": "partkit.serial_twin",
    "scan": "partkit.collectives.scan",
    "scatter": "partkit.collectives.scatter",
    "watch": "partkit.watching",
}
"""Where each public name lives."""
_MODULES = ("cluster", "functional", "labs", "partition", "pipeline_parallel")
"""Modules that are used by name: ``pk.partition.block_range``."""

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"partkit.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'partkit' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME[name]), name)  # from now on Python finds it without asking here
    return found


def __dir__() -> list[str]:
    return [*__all__, *_MODULES, "__version__"]


def load_ipython_extension(ip: Any) -> None:
    """``%load_ext partkit``: the magics ``%ranks`` and ``%%ranks``."""
    import_module("partkit.worlds.magics").load(ip)


def unload_ipython_extension(ip: Any) -> None:
    """``%unload_ext partkit``."""
    import_module("partkit.worlds.magics").unload(ip)

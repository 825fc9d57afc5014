"""Running what is on a studio's board on the ranks of a world, and which run belongs to which board.

board  --add_communication-->  lists with their messages  --rehearse on every rank-->  the world's trace
"""

from __future__ import annotations

from typing import Any

from partkit.figures.studio import Board
from partkit.figures.studio_spec import Overlay
from partkit.pipeline_parallel.passes import add_communication
from partkit.pipeline_parallel.rehearse import rehearse
from partkit.tracing import Trace

LIVE_UNIT = 0.02
"""Seconds that a unit of the plan takes on live ranks: long beside what a message takes there."""


class Rehearsal:
    """The runs of one studio.

    Args:
        world: live or simulated; None if there is none.

    Example:
        >>> import partkit as pk
        >>> from partkit.pipeline_parallel import gpipe
        >>> board = Board.of(gpipe(2, 2))
        >>> with pk.SimulatedWorld(2) as world:
        ...     rehearsal = Rehearsal(world)
        ...     rehearsal.start(board)
        >>> rehearsal.overlay(board).where, round(rehearsal.overlay(board).trace.makespan, 2)
        ('2 simulated ranks', 9.0)
    """

    def __init__(self, world: Any) -> None:
        self._world = world
        self._run: Any = None
        self._ran: Board | None = None
        self._unit = 1.0

    @property
    def live(self) -> bool:
        """Whether the ranks are live: a run takes time, and goes on after it was started."""
        return self._world is not None and self._world.trace.clock == "wall"

    def fits(self, board: Board) -> bool:
        """Whether there is a world of as many ranks."""
        return self._world is not None and self._world.size == board.schedule.num_ranks

    def start(self, board: Board, unit: float | None = None) -> Any:
        """Run it; gives the run of a live world, which goes on, and nothing of a simulated one.

        Raises:
            ValueError: there is no world, it has another number of ranks, or actions are left to place.
        """
        if self._world is None:
            raise ValueError("run(): there is nothing to run it on; make the studio with world=pk.World(4)")
        if self._world.closed:
            raise ValueError(f"run(): its world is closed; start ranks (%ranks {board.schedule.num_ranks}) and run the cell of the studio again")
        if not self.fits(board):
            raise ValueError(f"run(): the world has {self._world.size} ranks, the schedule {board.schedule.num_ranks}; set ranks to {self._world.size}")
        if board.num_left:
            raise ValueError(f"run(): {board.num_left} actions are left to place; {next(board.left())} is one")
        seconds = (LIVE_UNIT if self.live else 1.0) if unit is None else unit
        begin = self._world.start if self.live else self._world.run
        started = begin(rehearse, add_communication(board.schedule), board.stage_costs, seconds)
        self._ran, self._unit, self._run = board, seconds, started if self.live else None
        return self._run

    def stop(self) -> None:
        """End the run on all ranks."""
        if self._run is not None:
            self._run.stop()

    def overlay(self, board: Board) -> Overlay | None:
        """The last run, if it was of what is on ``board``, and nothing else has run since."""
        if self._ran is None or (self._ran.schedule, self._ran.stage_costs) != (board.schedule, board.stage_costs):
            return None
        trace: Trace = self._world.trace if self._run is None else self._run.trace
        return Overlay(trace, self._unit, f"{self._world.size} {'live' if self.live else 'simulated'} ranks") if len(trace) else None

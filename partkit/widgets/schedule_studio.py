"""`ScheduleStudio`: choose a pipeline schedule or build one by hand, see what it costs, run it.

    studio = pk.ScheduleStudio()                             an empty board: 4 ranks, 8 micro-batches
    studio = pk.ScheduleStudio("one_f_one_b", ranks=4)       a known schedule, to look at and to change
    studio = pk.ScheduleStudio("zb_h1", world=pk.World(4))   and a button that runs it on live ranks
    studio.place("0F0 1F0")    studio.why(1, 0)    studio.undo()    studio.schedule

What is possible, refused and why is in `partkit.figures.studio`; what is drawn in `partkit.figures.studio_picture`. The browser draws
what it gets in ``chart`` and sends what its reader wants; every decision is made here, so a studio is the same without a browser.
How it is shown and stored: `partkit.widgets.live`; the stored picture is renewed when the reader leaves the view.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from partkit.cluster import Link
from partkit.figures.studio_controls import Number, change
from partkit.figures.studio_measured import MeasuredEncoder
from partkit.figures.studio_picture import bundle, plain_text
from partkit.figures.studio_session import Session
from partkit.figures.studio_spec import Overlay, look, spec
from partkit.figures.studio_why import why
from partkit.figures.studio_wishes import grant
from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.costs import Costs
from partkit.pipeline_parallel.schedule import Schedule
from partkit.tracing import Trace
from partkit.widgets.assets import read, script
from partkit.widgets.feed import Feed
from partkit.widgets.interactive import InteractiveView
from partkit.widgets.showing import Bundle
from partkit.widgets.studio_run import Rehearsal


class ScheduleStudio(InteractiveView):
    """A pipeline schedule on a grid of ranks and time, to choose, build, question, compare and run.

    Args:
        schedule: the name of a known one (`partkit.pipeline_parallel.SCHEDULES`), a `Schedule`, or None for an empty board.
        ranks: of an empty board or a known schedule, up to 16; by default those of ``world``, or 4.
        microbatches: the same, up to 64.
        costs: of all layers of a rank, in any unit of time; F = I = W = 1 by default, and messages of 1 MB.
        link: between any two ranks, in the same unit; messages take no time by default.
        memory_cap: the most that a rank may keep, in the unit of ``costs.memory``; by default in micro-batches, and without limit.
        world: of as many ranks, on which it can be run: `World` or `SimulatedWorld`.
        title: shown above it.

    Raises:
        InvalidSchedule: the schedule can't run.
        ValueError: there is no such schedule, or none of this size.

    Example:
        >>> studio = ScheduleStudio(ranks=2, microbatches=2)
        >>> studio.place("0F0 1F0 1B0")
        >>> studio.place("0B1")
        Traceback (most recent call last):
        partkit.figures.studio.Refused: 0B1 needs 0F1, the forward of stage 0 on micro-batch 1, which has not been placed: it belongs on rank 0
        >>> studio.place("0F1 0B0 1F1 1B1 0B1")
        >>> studio.name, studio.trace.makespan
        ('1F1B', 9.0)
        >>> studio.why(0, 2.5)
        'Rank 0 waits: its next action 0B0 needs 1B0. Rank 1 is running it, until 4.'
        >>> studio.close()
    """

    _esm = script("common.js", "furnish.js", "blocks.js", "studio_store.js", "studio_paint.js", "studio.js", "model.js")
    _css = read("view.css") + read("studio.css")

    def __init__(
        self,
        schedule: str | Schedule | None = None,
        *,
        ranks: int | None = None,
        microbatches: int = 8,
        costs: Costs | None = None,
        link: Link | None = None,
        memory_cap: float | None = None,
        world: Any = None,
        title: str = "",
    ) -> None:
        size = ranks or (4 if world is None else world.size)
        self._session = Session(schedule, size, microbatches, costs, link, memory_cap)
        self._rehearsal, self._has_world = Rehearsal(world), world is not None
        self._lock = threading.RLock()
        feed = Feed(Trace.from_events([]) if world is None else world, "ScheduleStudio", MeasuredEncoder)
        super().__init__(feed, {**look(), "html": read("studio.html")}, title=title)
        self._show()

    # -- what is on the board ------------------------------------------------------------------------------------

    @property
    def schedule(self) -> Schedule:
        """The schedule as far as it is built: a value that prints and parses."""
        return self._session.schedule

    @property
    def name(self) -> str:
        """What has been built, in words: ``1F1B``, ``so far as GPipe``."""
        return self._session.name

    @property
    def trace(self) -> Trace:
        """The plan: when everything on the board happens."""
        return self._session.board.plan

    @property
    def measured(self) -> Trace | None:
        """The trace of the last run of what is on the board; None if it has not run."""
        overlay = self._overlay()
        return None if overlay is None else overlay.trace

    def possible(self, rank: int) -> tuple[Action, ...]:
        """What can be placed next on ``rank``, the most urgent first."""
        return self._session.board.possible(rank)

    def why(self, rank: int, slot: float) -> str:
        """What ``rank`` does in a slot, and if it is nothing, why.

        Args:
            rank: whose.
            slot: a time; with the default costs, the number of the slot.
        """
        return why(self._session.board, rank, slot)

    def table(self) -> str:
        """The schedule in letters, and makespan, bubble and memory beside the known schedules."""
        return plain_text(self._session, self._overlay())

    # -- moves ---------------------------------------------------------------------------------------------------

    def place(self, moves: str | Action) -> None:
        """Put actions at the end of their ranks' lists: ``"2F0"``, or several, separated by blanks.

        Raises:
            Refused: one is not possible, and none is placed; the error says why.
            ValueError: a word is no action.
        """
        self._do(lambda: self._session.place(moves))

    def remove(self, move: str | Action) -> None:
        """Take away an action that no other one needs."""
        self._do(lambda: self._session.remove(move))

    def move(self, move: str | Action, place: int) -> None:
        """Put an action at another place of its rank's list, from 0."""
        self._do(lambda: self._session.move(move, place))

    def undo(self) -> None:
        """One step back, if there is one."""
        self._do(self._session.undo)

    def redo(self) -> None:
        """One step forward again, if one was undone."""
        self._do(self._session.redo)

    def clear(self) -> None:
        """Take all actions away; stages stay on their ranks."""
        self._do(self._session.clear)

    def choose(self, name: str) -> None:
        """Take a known schedule: ``"one_f_one_b"``."""
        self._do(lambda: self._session.choose(name))

    def split(self, whether: bool = True) -> None:
        """Backwards in two parts, or whole again."""
        self._do(lambda: self._session.split(whether))

    def change(self, **values: Number) -> None:
        """Move sliders: ``ranks``, ``microbatches``, ``forward``, ``backward_input``, ``backward_weight``, ``latency``, ``bandwidth``, ``memory_cap``."""
        self._do(lambda: change(self._session, **values))

    def _do(self, what: Callable[[], Any]) -> None:
        with self._lock:
            what()
            self._show()
            self._answer("")

    # -- running -------------------------------------------------------------------------------------------------

    def run(self, *, unit: float | None = None) -> Any:
        """Run the schedule on the ranks of the world: messages are sent, computations take the time that the plan says.

        Args:
            unit: seconds that one unit of the plan takes; 0.02 on live ranks, 1 on simulated ones by default.

        Returns:
            The run of a live world, which goes on (``run.wait()``); nothing of a simulated one, where it is over.

        Raises:
            ValueError: there is no world, it has another number of ranks, or actions are left to place.

        Example:
            >>> import partkit as pk
            >>> with pk.SimulatedWorld(2, pk.Cluster(link=pk.Link(latency=0.5, bandwidth=1e9))) as world:
            ...     studio = ScheduleStudio("gpipe", microbatches=2, world=world)
            ...     studio.run()
            >>> studio.trace.makespan, round(studio.measured.makespan, 3)
            (9.0, 10.002)
            >>> studio.close()
        """
        with self._lock:
            run = self._rehearsal.start(self._session.board, unit)
            self._show()
        return run

    def stop(self) -> None:
        """End the run on all ranks."""
        self._rehearsal.stop()

    def _overlay(self) -> Overlay | None:
        return self._rehearsal.overlay(self._session.board)

    # -- what a view needs ---------------------------------------------------------------------------------------

    def began(self) -> None:
        """The world runs something."""
        super().began()
        with self._lock:
            self._show()

    def ended(self) -> None:
        """It is over: the table gets its row, the stored picture its bars."""
        with self._lock:
            self._show()
        super().ended()

    def _show(self) -> None:
        self._shown(spec(self._session, self._overlay(), self._rehearsal.fits(self._session.board)))

    def _grant(self, wish: dict[str, Any]) -> str:
        if wish["what"] == "stop":
            threading.Thread(target=self.stop, name="partkit stop", daemon=True).start()  # the kernel goes on listening meanwhile
            return ""
        with self._lock:
            if wish["what"] == "run":
                self.run()
                return ""
            answer = grant(self._session, wish)
            if wish["what"] != "why":
                self._show()
        return answer

    def _describe(self, *, live: bool) -> dict[str, Any]:
        return {**super()._describe(live=live), "world": self._has_world}

    def _picture(self) -> Bundle:
        return dict(bundle(self._session, self._overlay(), self._title))

    def __repr__(self) -> str:
        return f"ScheduleStudio({self.schedule!r})"

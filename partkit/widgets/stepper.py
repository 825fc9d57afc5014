"""`MessageStepper`: a run message by message, forward and back; of a live run, the ranks themselves wait for the next step.

    pk.MessageStepper(world)                       the messages of the newest run: who, to whom, how much
    pk.MessageStepper.record(world, fn, *args)     run it, and keep what every message carried and whose data was in it
    pk.MessageStepper.pause(world, fn, *args)      run it, and let the messages go one by one: nothing is sent that nobody has let go

Ranks stand on a circle, or on the grid of a mesh. What is drawn, and in which order messages come: `partkit.figures.stepper`. How
values are recorded and messages held: `partkit.recording`. How it is fed, shown and stored: `partkit.widgets.live`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Literal

import traitlets

from partkit.figures.stepper_bundle import StepperEncoder, bundle, places
from partkit.figures.stepper_still import RANK_COLORS
from partkit.mesh import Mesh
from partkit.tracing import Sight
from partkit.widgets.assets import read, script
from partkit.widgets.feed import Feed
from partkit.widgets.live import LiveView
from partkit.widgets.showing import Bundle, is_static

Unit = Literal["message", "round"]


class MessageStepper(LiveView):
    """A card a rank, an arrow a message; under each element of a small tensor a layer for each rank whose data is in it.

    Args:
        source: a `Trace`, or anything whose ``trace`` is one: a world (its newest run is followed), a run.
        mesh: puts the ranks on its grid; by default that of the world, if it has more than one axis; else a circle.
        unit: "message": a step is one message; "round": all messages that do not wait for each other.
        height: most pixels of the picture; 640 by default.
        title: shown above it.

    Attributes:
        position: messages that have gone; may be set, also by the reader.
        unit: the same.

    Raises:
        TypeError: ``source`` has no trace.
        ValueError: ``unit`` or ``height`` is none of the possible ones, or ``mesh`` has another number of ranks.

    Example:
        >>> import torch, partkit as pk
        >>> with pk.World(2) as world:
        ...     stepper = pk.MessageStepper.record(world, lambda comm: pk.all_reduce(torch.tensor([1.0, 2.0]) * 10**comm.rank, comm, algorithm="ring"))
        >>> print(stepper._repr_mimebundle_()["text/plain"])
        2 ranks, 4 messages in 2 rounds, 16 bytes
        round  messages                               bytes  tag
            1  0 -> 1, 1 -> 0                             8  reduce-scatter 1
            2  0 -> 1, 1 -> 0                             8  all-gather 1
        rank 0 holds [11 22] of ranks 0-1
        rank 1 holds [11 22] of ranks 0-1
        >>> stepper.close()
    """

    _esm = script("common.js", "furnish.js", "stepper_store.js", "stepper_paint.js", "stepper.js", "model.js")
    _css = read("view.css") + read("stepper.css")

    position = traitlets.Int(0).tag(sync=True)
    unit = traitlets.Unicode("message").tag(sync=True)

    def __init__(self, source: Any, *, mesh: Mesh | None = None, unit: Unit = "message", height: int | None = None, title: str = "") -> None:
        self._mesh = _mesh_of(source) if mesh is None else mesh
        self._run: Any = None
        feed = Feed(source, "MessageStepper", StepperEncoder)
        places(feed.trace.size, self._mesh)  # refuses a mesh that does not fit
        look = {"colors": RANK_COLORS, "html": read("stepper.html")}
        super().__init__(feed, look, title=title, height=height, unit=unit)

    @traitlets.validate("unit")
    def _check_unit(self, proposal: dict[str, Any]) -> str:
        value: str = proposal["value"]
        if value not in ("message", "round"):
            raise ValueError(f'MessageStepper(unit={value!r}): unit is "message" or "round"')
        return value

    # -- runs ----------------------------------------------------------------------------------------------------

    @classmethod
    def record(cls, world: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> MessageStepper:
        """Run ``fn(comm, *args, **kwargs)`` on every rank of ``world``, recorded, and step through it afterwards.

        Raises:
            Whatever the run raises; ``MessageStepper(world)`` then shows how far it came.
        """
        from partkit.recording import run_recorded

        world.run(run_recorded, fn, args, kwargs)
        return cls(world.trace, mesh=_mesh_of(world))

    @classmethod
    def pause(cls, world: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> MessageStepper:
        """Start ``fn(comm, *args, **kwargs)`` on every rank of ``world``; messages stay with their sender until they are let go.

        Returns at once; ranks go on until they need what does not come. Let messages go in the picture, or with `let`; `run_on` lets
        all go, `stop` ends the run. Its results are ``stepper.run.wait()``. Where nobody can step (``PARTKIT_STATIC=1``, no notebook)
        nothing is held.

        Raises:
            RuntimeError: another run goes on in this world.
            TypeError: this world can't hold messages; a live one can.

        Example:
            >>> import torch, partkit as pk
            >>> with pk.World(2) as world:
            ...     stepper = pk.MessageStepper.pause(world, lambda comm: comm.sendrecv(torch.ones(1), 1 - comm.rank, torch.empty(1), 1 - comm.rank))
            ...     stepper.run_on()
            ...     results = stepper.run.wait()
            >>> results
            [tensor([1.]), tensor([1.])]
            >>> stepper.close()
        """
        from partkit.recording import run_held

        if not hasattr(world, "start") or world.trace.clock != "wall":
            raise TypeError(f"MessageStepper.pause(world={world!r}): only ranks of a live world (pk.World) can wait for a reader; use MessageStepper.record")
        run = world.start(run_held, fn, args, kwargs)
        if is_static():
            run.allow()
        stepper = cls(run, mesh=_mesh_of(world))
        stepper._run = run
        stepper.meta = stepper._describe(live=not run.done)
        return stepper

    @property
    def run(self) -> Any:
        """The run whose messages are held: ``run.wait()``, ``await run``. None for a trace or a world."""
        return self._run

    @property
    def waiting(self) -> list[tuple[int, int]]:
        """Source and destination of each message that is held now."""
        return [(one.rank, one.peer) for one in self._held()]

    def let(self, src: int, dst: int | None = None) -> None:
        """Let the message go that ``src`` wants to send (to ``dst``, if several wait).

        Raises:
            ValueError: there is none that is held.
        """
        for one in self._held():
            if one.rank == src and dst in (None, one.peer):
                self._run.allow({src: (one.number,)})
                return
        held = ", ".join(f"{a} -> {b}" for a, b in self.waiting)
        there = "" if dst is None else f" to rank {dst}"
        raise ValueError(f"no message of rank {src}{there} is held; " + (f"these are: {held}" if held else "none is"))

    def run_on(self) -> None:
        """Hold no message any more."""
        if self._run is not None:
            self._run.allow()

    def hold(self) -> None:
        """Hold messages again, from now on."""
        if self._run is not None:
            self._run.allow(dict.fromkeys(range(self.trace.size), ()))

    def stop(self) -> None:
        """End the run on all ranks; their variables stay."""
        if self._run is not None:
            self._run.stop()

    # -- what a live view needs ----------------------------------------------------------------------------------

    def _held(self) -> list[Sight]:
        encoder = self._feed.encoder
        assert isinstance(encoder, StepperEncoder)
        return [one.sight for one in encoder.story.waiting if one.held]

    def grew(self, block: bytes, first: int) -> None:
        """Send the story so far to all browsers; it replaces the one before."""
        self._blocks.clear()
        super().grew(block, first)

    def _hear(self, message: dict[str, Any]) -> None:
        kind = message.get("type")
        if kind == "let" and self._run is not None:
            self._run.allow({int(message["rank"]): (int(message["number"]),)})
        elif kind == "run":
            self.run_on()
        elif kind == "hold":
            self.hold()
        elif kind == "stop":
            threading.Thread(target=self.stop, name="partkit stop", daemon=True).start()  # the kernel goes on listening meanwhile
        else:
            super()._hear(message)

    def _describe(self, *, live: bool) -> dict[str, Any]:
        size = self._feed.trace.size
        return {**super()._describe(live=live), "places": places(size, self._mesh), "grid": self._mesh is not None, "held": self._run is not None}

    def _picture(self) -> Bundle:
        return dict(bundle(self.trace, self._title))


def _mesh_of(source: Any) -> Mesh | None:
    """The mesh of a world, or of a run's world, if it is more than a line."""
    mesh = getattr(getattr(source, "world", source), "mesh", None)
    return mesh if isinstance(mesh, Mesh) and len(mesh.axes) > 1 else None

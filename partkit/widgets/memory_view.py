"""`MemoryView`: what each rank's tensors hold, over time and by what they are for, live.

    pk.MemoryView(world)                 the newest run of a world, while it goes on
    pk.MemoryView(run)                   one run
    pk.MemoryView(trace, x="changes")    a trace, every change as wide as the others

What is shown is what code inside ``with pk.Memory(comm, model, optimizer):`` holds (`partkit.counting.memory`), on live and on simulated
ranks alike. Ranks that hold the same share a panel. What is drawn: `partkit.figures.memory_panels`. How it is fed, shown and stored:
`partkit.widgets.live`.
"""

from __future__ import annotations

from typing import Any

import traitlets

from partkit.figures.memory import MemoryEncoder
from partkit.figures.memory_panels import LOOKS, NOTHING, XAxis
from partkit.figures.memory_picture import bundle
from partkit.widgets.assets import elements, read, script
from partkit.widgets.feed import Feed
from partkit.widgets.live import LiveView
from partkit.widgets.showing import Bundle


class MemoryView(LiveView):
    """Memory by rank and use over time, the peak and what filled it, the device's end; grows while the run goes on.

    Args:
        source: a `Trace`, or anything whose ``trace`` is one: a world (its newest run is followed), a run.
        x: "seconds" since the start of the run, in the clock of the trace; or "changes": each as wide as the others, which shows what
            happens within a layer. Where no time passes at all it is always the latter.
        height: of the panels together, in pixels; by default it fits their number.
        title: shown above it.

    Attributes:
        x: may be set, also by the reader.

    Raises:
        TypeError: ``source`` has no trace.
        ValueError: ``x`` or ``height`` is none of the possible ones.

    Example:
        >>> import torch, partkit as pk
        >>> def step(comm):
        ...     model = torch.nn.Linear(100, 10)
        ...     with pk.Memory(comm, model), comm.span("backward"):
        ...         torch.autograd.backward(model(torch.ones(5, 100)).sum())
        >>> with pk.SimulatedWorld(2) as world:
        ...     results = world.run(step)
        >>> view = MemoryView(world.trace)
        >>> print(view)
        memory of 2 ranks: peak 10.1 kB on ranks 0-1, 0.00025% of the device's 4 GB
        >>> view.close()
    """

    _esm = script("common.js", "furnish.js", "blocks.js", "placing.js", "memory_store.js", "memory_paint.js", "memory.js", "model.js")
    _css = read("view.css")

    x = traitlets.Unicode("seconds").tag(sync=True)

    def __init__(self, source: Any, *, x: XAxis = "seconds", height: int | None = None, title: str = "") -> None:
        uses = [{"name": use, "light": look.light, "dark": look.dark, "hatch": look.hatch} for use, look in LOOKS.items()]
        look = {"uses": uses, "nothing": NOTHING, "html": elements("memory.html")}
        super().__init__(Feed(source, "MemoryView", MemoryEncoder), look, title=title, height=height, x=x)

    @traitlets.validate("x")
    def _check_x(self, proposal: dict[str, Any]) -> str:
        value: str = proposal["value"]
        if value not in ("seconds", "changes"):
            raise ValueError(f'MemoryView(x={value!r}): x is "seconds" or "changes"')
        return value

    def _picture(self) -> Bundle:
        x: XAxis = "changes" if self.x == "changes" else "seconds"
        return dict(bundle(self.trace, x=x, title=self._title))

    def __repr__(self) -> str:
        return bundle(self.trace)["text/plain"].splitlines()[0]

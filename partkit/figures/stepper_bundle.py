"""A run message by message in a notebook's output: the storyboard, tables and a text; and the blocks from which a browser draws.

The text says nothing of times: it is the same in every run that sends the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import groupby
from math import cos, pi, sin
from typing import Any

from partkit.diagnosis import name_ranks
from partkit.figures.bundle import figure, table
from partkit.figures.encoding import pack
from partkit.figures.stepper import Board, Step, Story, story
from partkit.figures.stepper_still import board_at, storyboard
from partkit.figures.units import count, nbytes
from partkit.mesh import Mesh
from partkit.tracing import Strip, Trace
from partkit.tracing.sights import members

MOST_LINES, MOST_ROWS, MOST_LIVE_EVENTS = 16, 60, 20_000

# -- still -----------------------------------------------------------------------------------------------------------


def bundle(trace: Trace, title: str = "") -> dict[str, str]:
    """The mimebundle of a trace, message by message: picture, tables, text.

    Example:
        >>> from partkit.tracing import Event
        >>> print(bundle(Trace.from_events([Event(0, "send", 0, 1, 1, 8, "x"), Event(1, "recv", 0, 1, 0, 8, "x")]))["text/plain"])
        2 ranks, 1 message in 1 round, 8 bytes; values were not recorded
        round  messages                               bytes  tag
            1  0 -> 1                                     8  x
    """
    told = story(trace)
    head = headline(told)
    tables = [step_table(told)] if told.steps else []
    if told.boards:
        tables.append(board_table(told))
    return {
        "text/html": figure(storyboard(told), f"Storyboard of {head}", caption(told), tables, title),
        "text/plain": plain_text(told, title),
    }


def headline(told: Story) -> str:
    """What there is to see, in a line; the same in every run."""
    steps = told.steps
    sent = nbytes(sum(step.send.nbytes for step in steps))
    text = f"{count(told.size, 'rank')}, {count(len(steps), 'message')} in {count(told.num_rounds, 'round')}, {sent}"
    return text + ("" if told.recorded else "; values were not recorded") + note(told)


def note(told: Story) -> str:
    """What the story leaves out."""
    return f"; {count(told.num_left_out, 'later message')} not shown" if told.num_left_out else ""


def caption(told: Story) -> str:
    """Under the picture."""
    return headline(told) + ("; layers under an element: the ranks whose data is in it, rank 0 uppermost" if told.boards else "")


def plain_text(told: Story, title: str = "") -> str:
    """The head, a line a round, and what each rank holds at the end."""
    head = headline(told)
    lines = [f"{title}: {head}" if title else head]
    if not told.steps:
        return lines[0]
    lines.append(f"{'round':>5}  {'messages':<36}  {'bytes':>6}  tag")
    rounds = [(number, list(steps)) for number, steps in groupby(told.steps, lambda step: step.round)]
    for number, steps in rounds[:MOST_LINES]:
        arrows = ", ".join(f"{step.src} -> {step.dst}" for step in steps)
        shown = arrows if len(arrows) <= 36 else f"{arrows[:33].rpartition(',')[0]}, ..."
        tags = ", ".join(dict.fromkeys(step.send.tag for step in steps if step.send.tag))
        lines.append(f"{number:>5}  {shown:<36}  {sum(step.send.nbytes for step in steps):>6}  {tags}".rstrip())
    if len(rounds) > MOST_LINES:
        lines.append(f"  ... and {count(len(rounds) - MOST_LINES, 'more round')}")
    return "\n".join([*lines, *_held_lines(told)])


def _held_lines(told: Story) -> Iterable[str]:
    for rank, boards in enumerate(told.boards[:MOST_LINES]):
        strips = board_at(boards, len(told.steps))
        if strips:
            yield f"rank {rank} holds " + "; ".join(_strip_text(strip) for strip in strips[:4])


def _strip_text(strip: Strip) -> str:
    """``[0 1 2] of rank 0``; each stretch of elements of which the same ranks are part."""
    parts = []
    for who, run in groupby(zip(strip.who, strip.values, strict=True), lambda pair: pair[0]):
        parts.append(f"[{' '.join(value or '.' for _, value in run)}] of {names(who)}")
    return " ".join(parts)


def names(who: int) -> str:
    """A set of ranks in words.

    Example:
        >>> names(0b1), names(0b1011), names(0)
        ('rank 0', 'ranks 0-1, 3', 'nobody')
    """
    return name_ranks(members(who)) if who else "nobody"


def step_table(told: Story) -> str:
    """HTML: a row a message."""
    shown = told.steps[:MOST_ROWS]
    known = [("data of", "values")] if told.recorded else []
    head = ("step", "round", "from", "to", "bytes", "tag", "in", *(name for pair in known for name in pair))
    rows = [
        (i, s.round, s.src, s.dst, s.send.nbytes, s.send.tag, s.send.span, *((names(s.who), " ".join(s.values)) if told.recorded else ()))
        for i, s in enumerate(shown, start=1)
    ]
    total = count(len(told.steps), "message")
    return table(head, rows, total if len(shown) == len(told.steps) else f"First {len(shown)} of {total}")


def board_table(told: Story) -> str:
    """HTML: what each rank holds at the end."""
    rows = [(rank, _strip_text(strip)) for rank, boards in enumerate(told.boards) for strip in board_at(boards, len(told.steps))]
    return table(("rank", "values, and whose data is in them"), rows[:MOST_ROWS], "What each rank holds at the end")


# -- for the browser -------------------------------------------------------------------------------------------------


def places(size: int, mesh: Mesh | None = None) -> list[list[float]]:
    """Where each rank's card is, from -1 to 1 in both directions: on a circle from the top clockwise, or on the grid of a mesh.

    Two ranks stand side by side; more than eight on the sides of a square, where their cards have more room than on a circle.

    The last axis of a mesh goes to the right, all others down, the second last fastest.

    Raises:
        ValueError: the mesh has another number of ranks.

    Example:
        >>> places(2), places(4, Mesh(dp=2, tp=2))
        ([[-1.0, 0.0], [1.0, 0.0]], [[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]])
    """
    if mesh is None and size == 2:
        return [[-1.0, 0.0], [1.0, 0.0]]
    if mesh is None and size > 8:
        return [_on_square(8 * rank / size) for rank in range(size)]
    if mesh is None:
        xs, ys = ([turn(2 * pi * rank / size) for rank in range(size)] for turn in (sin, cos))
        return [[round(x / max(1e-9, *xs), 9), round(1 - 2 * (y - min(ys)) / max(1e-9, max(ys) - min(ys)), 9)] for x, y in zip(xs, ys, strict=True)]
    if mesh.size != size:
        raise ValueError(f"MessageStepper(mesh={mesh!r}): this mesh has {count(mesh.size, 'rank')}, the run {size}")
    across = list(mesh.axes.values())[-1]
    down = size // across
    return [[_spread(rank % across, across), _spread(rank // across, down)] for rank in range(size)]


def _on_square(way: float) -> list[float]:
    """The point ``way`` along the sides of the square, each of length 2, from the middle of the upper one clockwise."""
    side, at = divmod(way + 1, 2)
    x, y = at - 1, -1.0
    for _ in range(int(side) % 4):
        x, y = -y, x
    return [round(x, 9), round(y, 9)]


def _spread(index: int, number: int) -> float:
    return 0.0 if number == 1 else 2 * index / (number - 1) - 1


class _Table:
    """Numbers for things, so that each thing travels once."""

    def __init__(self, encode: Callable[[Any], Any] = lambda thing: thing) -> None:
        self._encode = encode
        self._numbers: dict[Hashable, int] = {}
        self.things: list[Any] = []

    def __call__(self, thing: Hashable) -> int:
        if thing not in self._numbers:
            self._numbers[thing] = len(self._numbers)
            self.things.append(self._encode(thing))
        return self._numbers[thing]


def spec(told: Story) -> dict[str, Any]:
    """The story as plain JSON for ``static/stepper.js``; strings, sets of ranks and contents are numbers into tables."""
    texts, sets = _Table(), _Table(lambda who: [members(who), names(who)])
    contents = _Table(lambda pair: [[texts(value) for value in pair[0]], [sets(who) for who in pair[1]]])

    def step(s: Step) -> list[int]:
        content = contents((s.values, s.sets)) if s.values else -1
        words = (texts(s.send.tag), texts(s.send.span), texts(s.what))
        return [s.src, s.dst, s.round, s.send.nbytes, *words, sets(s.who), content, *s.taken, *s.put]

    def board(b: Board) -> list[Any]:
        return [b.since, [[strip.number, texts(strip.what), contents((strip.values, strip.who))] for strip in b.strips]]

    return {
        "size": told.size,
        "steps": [step(s) for s in told.steps],
        "boards": [[board(b) for b in boards] for boards in told.boards],
        "waiting": [
            [w.sight.rank, w.sight.peer, w.sight.nbytes, texts(w.sight.tag), texts(w.sight.what), int(w.held), sets(w.sight.who), w.sight.strip, w.sight.first]
            + [w.sight.num_elements, w.sight.number]
            for w in told.waiting
        ],
        "recorded": told.recorded,
        "head": headline(told),
        "texts": texts.things,
        "sets": sets.things,
        "contents": contents.things,
    }


class StepperEncoder:
    """Turns a growing trace into blocks for a browser: each holds the whole story so far, and replaces the one before.

    A story is at most some hundred kB, and mostly grows at the pace of a person who lets messages go. A long run that nobody holds is
    told when it is over.

    Args:
        trace: may grow between calls.

    Attributes:
        num_events: blocks so far.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.num_events = 0
        self.story = story(Trace(trace.size, clock=trace.clock))
        self._seen = (-1, -1, False)

    @property
    def note(self) -> str:
        """What the blocks leave out, in words; empty if nothing."""
        return note(self.story).removeprefix("; ")

    def encode(self) -> bytes:
        """The story, if it has changed since the last call."""
        seen = (len(self.trace), len(self.trace.sights), self.trace.finished.is_set())
        if seen == self._seen or (len(self.trace) > MOST_LIVE_EVENTS and not seen[2] and self._seen[0] >= 0):
            return b""
        self._seen = seen
        self.story = story(self.trace)
        self.num_events += 1
        return pack({"n": self.num_events, **spec(self.story)}, [])

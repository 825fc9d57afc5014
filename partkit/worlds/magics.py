"""The notebook magics, by ``%load_ext partkit``:

    %ranks 4            start four ranks (again: a fresh set)        %ranks dp=2 tp=2    ... on a mesh with named axes
    %ranks              what is running                              %ranks stop         end them
    %%ranks             run the cell on all ranks                    %%ranks 0,2-3       on some
    %%ranks --bg        return at once; ``run.wait()``, ``await run``, ``run.stop()``

In a cell, ``comm``, ``rank`` and ``world_size`` are there, names persist on each rank, the last expression of each is shown,
equal ones once. The kernel's variable ``world`` is the `partkit.World`: ``world.trace``, ``world["loss"]``, ``world.run(fn)``.
"""

from __future__ import annotations

import ast
import re
import traceback
from html import escape
from typing import Any

from IPython.core import magic_arguments
from IPython.core.completer import SimpleCompletion, context_matcher
from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class

from partkit.diagnosis import name_ranks
from partkit.mesh import Mesh
from partkit.worlds import cells
from partkit.worlds.errors import readable
from partkit.worlds.forkserver import FORK_SERVER
from partkit.worlds.results import Results
from partkit.worlds.world import World, default_start_method

untyped: Any = magic_arguments
COMPLETION_SECONDS = 0.5


class CellResults:
    """The last expression of each rank as text; equal ones fold into one line.

    Example:
        >>> CellResults({0: "10", 1: "10", 2: "7"})
        ranks 0-1: 10
        rank 2: 7
    """

    def __init__(self, texts: dict[int, str]) -> None:
        self.texts = texts

    def groups(self) -> list[tuple[str, str]]:
        """Names of ranks with the text they share."""
        merged: dict[str, list[int]] = {}
        for rank, text in self.texts.items():
            merged.setdefault(text, []).append(rank)
        return [(name_ranks(ranks), text) for text, ranks in merged.items()]

    def __repr__(self) -> str:
        return "\n".join(f"{ranks}: {text}" if "\n" not in text else f"{ranks}:\n{text}" for ranks, text in self.groups())

    def _repr_html_(self) -> str:
        cell = '<td style="text-align:left;vertical-align:top">'
        rows = (f'<tr>{cell}{ranks}</td>{cell}<pre style="margin:0">{escape(text)}</pre></td></tr>' for ranks, text in self.groups())
        return f"<table><tbody>{''.join(rows)}</tbody></table>"


class InvalidCell(ValueError):
    """A ``%%ranks`` cell that does not parse; no rank has seen it."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


@magics_class
class RanksMagics(Magics):
    """``%ranks`` and ``%%ranks``; one world at a time."""

    world: World | None = None
    matcher: Any = None
    shell: Any

    @untyped.magic_arguments()  # type: ignore[untyped-decorator]
    @untyped.argument("what", nargs="*", help="line: a number of ranks, axes of a mesh (dp=2 tp=2), or 'stop'; cell: ranks to run on (0,2-3), default all")  # type: ignore[untyped-decorator]
    @untyped.argument("--bg", action="store_true", help="cell: return at once; the variable 'run' is the handle (run.wait(), await run, run.stop())")  # type: ignore[untyped-decorator]
    @line_cell_magic
    def ranks(self, line: str, cell: str | None = None) -> Any:
        """Start, show and stop live ranks (%ranks), or run a cell on them (%%ranks)."""
        arguments = untyped.parse_argstring(self.ranks, line)
        if cell is not None:
            return self._run_cell(cell, arguments.what, arguments.bg)
        if arguments.what == ["stop"]:
            return self._stop()
        if arguments.what:
            return self._start(arguments.what)
        print(self.status())
        return None

    # -- lines ---------------------------------------------------------------------------------------------------

    def _start(self, what: list[str]) -> None:
        size = parse_size(what)
        self._stop()
        self.world = World(size)
        self.shell.push({"world": self.world})
        print(self.status())

    def _stop(self) -> None:
        if self.world is not None:
            self.world.close()
            self.world = None

    def status(self) -> str:
        """What is running, in a sentence."""
        world = self.world
        if world is None or world.closed:
            return "No ranks are running. %ranks 4 starts four."
        shape = "" if world.mesh is None else f" on a mesh {', '.join(f'{axis}={size}' for axis, size in world.mesh.axes.items())}"
        text = f"{world.size} live rank{'s' if world.size > 1 else ''}{shape}, {'busy' if world.busy else 'idle'}."
        if not world.busy:
            defined = world.ask(cells.names)
            per_rank = CellResults({rank: ", ".join(found) for rank, found in enumerate(defined) if found})
            text += f" Names defined in cells:\n{per_rank!r}" if per_rank.texts else ""
        return text

    # -- cells ---------------------------------------------------------------------------------------------------

    def _run_cell(self, cell: str, what: list[str], background: bool) -> CellResults | None:
        world = self.world
        if world is None or world.closed:
            raise UsageError("no ranks are running: %ranks 4 starts four")
        ranks = parse_ranks(what, world.size)
        source = "\n" + cell  # so that line numbers are those of the cell as it is seen, the magic's line included
        filename = self.shell.compile.cache(source, self._cell_number())
        check_syntax(source, filename, cell)
        if background:
            self.shell.push({"run": world.start(cells.run_cell, source, filename, ranks)})
            return None
        return fold(world.run(cells.run_cell, source, filename, ranks))

    def _cell_number(self) -> int:
        """Of the cell that runs, as it is shown; ``execution_count`` is one more in newer versions of IPython, which count on before a cell runs."""
        return len(self.shell.history_manager.input_hist_parsed) - 1

    # -- completion ----------------------------------------------------------------------------------------------

    def completions(self, text: str) -> list[str]:
        """Names on rank 0 that ``text`` may become; none while the ranks are busy."""
        if self.world is None or self.world.closed or self.world.busy:
            return []
        try:
            found: list[str] = self.world.ask(cells.complete, text, timeout=COMPLETION_SECONDS)[0]
            return found
        except Exception:  # completion is a courtesy: it never fails a keystroke
            return []


def fold(texts_by_rank: Results) -> CellResults | None:
    """What a cell's ranks show; None if none shows anything."""
    texts = {rank: text for rank, text in enumerate(texts_by_rank) if text is not None}
    return CellResults(texts) if texts else None


def parse_size(what: list[str]) -> int | Mesh:
    """``4`` or ``dp=2 tp=2``.

    Example:
        >>> parse_size(["4"]), parse_size(["dp=2", "tp=2"])
        (4, Mesh(dp=2, tp=2))
    """
    if len(what) == 1 and what[0].isdecimal():
        return int(what[0])
    axes = dict(item.split("=", 1) for item in what if re.fullmatch(r"[A-Za-z_]\w*=\d+", item))
    if len(axes) != len(what):
        raise UsageError(f"%ranks {' '.join(what)}: give a number of ranks (%ranks 4), a mesh (%ranks dp=2 tp=2), or stop (%ranks stop)")
    return Mesh(**{axis: int(size) for axis, size in axes.items()})


def parse_ranks(what: list[str], size: int) -> tuple[int, ...]:
    """``0,2-3`` as ranks; nothing means all.

    Example:
        >>> parse_ranks(["0,2-3"], size=4), parse_ranks([], size=2)
        ((0, 2, 3), (0, 1))
    """
    if not what:
        return tuple(range(size))
    chosen: list[int] = []
    for part in ",".join(what).split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match is None:
            raise UsageError(f"%%ranks {' '.join(what)}: name ranks as 0,2 or 1-3; {part!r} is neither")
        chosen.extend(range(int(match[1]), int(match[2] or match[1]) + 1))
    outside = [rank for rank in chosen if rank >= size]
    if outside:
        raise UsageError(f"%%ranks {' '.join(what)}: {name_ranks(outside)} is outside this world of {size}, whose ranks are 0 to {size - 1}")
    return tuple(sorted(set(chosen)))


def check_syntax(source: str, filename: str, cell: str) -> None:
    """Refuse a cell that doesn't parse, before any rank sees it."""
    try:
        ast.parse(source, filename)
    except SyntaxError as problem:
        hint = ""
        if problem.text and problem.text.lstrip().startswith(("%", "!", "?")):
            hint = "\nA %%ranks cell is plain Python: magics and shell commands run in the kernel only."
        raise InvalidCell(readable("".join(traceback.format_exception_only(problem)).rstrip()) + hint) from None


def load(shell: Any) -> None:
    """Register the magics and their completer with an IPython shell; ranks can start at once when they are asked for."""
    if default_start_method() == "forkserver":
        FORK_SERVER.start(complete=True)
    magics = RanksMagics(shell)
    shell.register_magics(magics)

    @context_matcher()  # type: ignore[untyped-decorator]
    def ranks_cell_matcher(context: Any) -> dict[str, Any]:
        if not context.full_text.lstrip().startswith("%%ranks"):
            return {"completions": []}
        text = re.search(r"[\w.]*$", context.text_until_cursor)
        wanted = text[0] if text else ""
        skip = len(wanted) - len(context.token) if context.token and wanted.endswith(context.token) else 0
        return {"completions": [SimpleCompletion(text=match[skip:], type="rank") for match in magics.completions(wanted)]}

    shell.Completer.custom_matchers.append(ranks_cell_matcher)
    magics.matcher = ranks_cell_matcher


def unload(shell: Any) -> None:
    """Take them out again and end the ranks."""
    magics = shell.magics_manager.registry.get("RanksMagics")
    if magics is None:
        return
    magics._stop()
    shell.Completer.custom_matchers = [m for m in shell.Completer.custom_matchers if m is not magics.matcher]
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("ranks", None)

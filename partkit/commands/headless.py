"""A notebook without a browser: run it, print the facts it found, say where it failed.

A fact is what a cell marked ``# NBVAL_CHECK_OUTPUT`` prints: a count, a number of bytes, an equality. The same cells are
compared with what the notebook has stored by the tests.

    Your first four ranks
      Messages of a ring
        each rank sent 6 messages, 120 bytes

"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

MARK = "NBVAL_CHECK_OUTPUT"
CELL_TIMEOUT = 300
"""Seconds that one cell may take; on a loaded machine a cell takes much longer than it does alone."""


def run_notebook(path: Path) -> int:
    """Run ``path`` in a fresh kernel, changing nothing on disk; print its facts. Gives 0, or 1 if a cell failed."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    notebook: Any = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT,
        kernel_name="python3",
        store_widget_state=False,
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_execute=lambda cell, cell_index: _count(cell_index + 1, len(notebook.cells)),
    )
    start, problem = time.monotonic(), None
    try:
        asyncio.run(client.async_execute(env={**os.environ, "PARTKIT_STATIC": "1"}))
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        problem = error
    _count(None, len(notebook.cells))
    print("\n".join(facts(notebook.cells)))
    ran = sum(cell.get("execution_count") is not None for cell in notebook.cells if cell.cell_type == "code")
    print(f"{path.name}: {ran} cells ran in {time.monotonic() - start:.0f} s, {'one failed' if problem else 'all is well'}", flush=True)
    if problem is not None:
        print(problem, file=sys.stderr)
    return int(problem is not None)


def facts(cells: Iterable[Any]) -> Iterator[str]:
    """The lines to print: headings, each with the outputs of the marked cells under it. A heading without facts is left out."""
    heading: list[str] = []
    for cell in cells:
        if cell["cell_type"] == "markdown":
            heading = [f"{'  ' * (len(m[1]) - 1)}{m[2]}" for m in re.finditer(r"^(#{1,6}) +(.+)$", cell["source"], re.MULTILINE)] or heading
        elif is_fact(cell):
            yield from heading
            heading = []
            for output in cell.get("outputs", []):
                yield from (f"      {line}" for line in plain_text(output).splitlines())


def is_fact(cell: Any) -> bool:
    """Whether the cell is marked as one whose output is a fact, by a comment of its own or by its tag."""
    tagged = "nbval-check-output" in cell.get("metadata", {}).get("tags", [])
    return cell["cell_type"] == "code" and (tagged or any(line.strip() == f"# {MARK}" for line in cell["source"].splitlines()))


def plain_text(output: Any) -> str:
    """What an output says without a browser."""
    text = output["text"] if output["output_type"] == "stream" else output.get("data", {}).get("text/plain", "")
    return text if isinstance(text, str) else "".join(text)


def _count(done: int | None, total: int) -> None:
    """On a terminal, show how far it is."""
    if sys.stderr.isatty():
        print("\r\033[K" if done is None else f"\rcell {done} of {total}", end="", file=sys.stderr, flush=True)

"""Notebooks that machines run and compare: nbclient, nbval. The same text in every kernel, on a busy machine, after a failure."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest

from partkit.widgets.showing import WIDGET

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

RUN = """import asyncio, sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
client = NotebookClient(notebook, timeout=200, kernel_name="python3", store_widget_state=False, extra_arguments=["--log-level=ERROR"])
asyncio.run(client.async_execute())
nbformat.write(notebook, sys.argv[1])"""
OBJECTS = """
%load_ext partkit
import torch
import partkit as pk
from partkit.tracing import Event
%ranks 2
---
%ranks
---
%%ranks
import torch
import partkit as pk
x = torch.full((3,), float(rank))
x
---
%%ranks
pk.all_reduce(x, comm)
---
pk.Timeline(world)
---
world
---
world.trace
---
world.run(lambda comm: comm.rank)
---
run = world.start(lambda comm: [comm.log("loss", 1 / (1 + step)) for step in range(5)] and comm.rank)
run.wait()
---
run
---
pk.Curve(run)
---
%%ranks
comm
---
pk.Prediction("How many?", unit="messages", guess=3)
---
pk.Prediction("How many?", unit="messages", guess=3).reveal(6)
---
pk.Mesh(dp=2, tp=2), pk.Link(latency=1e-6, bandwidth=1e9)
---
Event(0, "compute", 0.0, 1.0)
---
from partkit.labs import check_ring
check_ring(lambda x, comm: pk.all_reduce(x, comm), world)
---
def step(comm, note):
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1).double()
    loss = model(torch.ones(1, 2).double()).sum()
    loss.backward()
    note(0, loss=loss, model=model)
pk.same_as_serial(world, step, lambda note: step(None, note))
---
%ranks stop
"""
SANITIZE = Path(__file__).parent / "nbval_sanitize.cfg"
CHANCE = re.compile(r"0x[0-9a-f]{6,}|[0-9a-f]{8}-[0-9a-f]{4}|\bpids?\b|/tmp/|/home/|/root/|<.* object at|\d{4}-\d\d-\d\d|127\.0\.0\.1", re.IGNORECASE)


def write(path: Path, *cells: str | tuple[str, str]) -> Path:
    """A notebook of code cells; a pair is a cell and its tag."""
    notebook: Any = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    for cell in cells:
        source, *tags = (cell,) if isinstance(cell, str) else cell
        notebook.cells.append(nbformat.v4.new_code_cell(source, metadata={"tags": tags}))  # type: ignore[no-untyped-call]
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
    return path


def execute(path: Path) -> list[Any]:
    """Run it in place, in a kernel of its own; gives its cells."""
    done = subprocess.run([sys.executable, "-c", RUN, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    cells: list[Any] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return cells


def text(cell: Any) -> str:
    """What a cell shows, without a browser."""
    parts = [output.get("text") or output.get("data", {}).get("text/plain") or [output.get("evalue", "")] for output in cell["outputs"]]
    return "".join("".join(part) for part in parts)


@contextmanager
def busy_machine(burners: int = 2) -> Iterator[None]:
    """Others want the processors too."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(burners)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_case_W12_the_same_text_in_two_kernels(tmp_path: Path) -> None:
    objects = OBJECTS.strip().split("\n---\n")
    first, second = (execute(write(tmp_path / f"{name}.ipynb", *objects)) for name in "ab")
    for one, other in zip(first, second, strict=True):
        assert text(one) == text(other)
        assert CHANCE.findall(text(one)) == [], text(one)
        assert [list(output["data"]) for output in one["outputs"] if WIDGET in output.get("data", {})] == []
    silent = ["".join(cell["source"]) for cell in first if not text(cell)]
    assert silent == [objects[-1]], "these cells show nothing"


def test_case_W13_prints_of_ranks_are_stable_on_a_busy_machine(tmp_path: Path) -> None:
    cells = (
        "%load_ext partkit\nimport partkit as pk\n%ranks 4",
        "%%ranks\nfor k in range(5): print(rank, k)",
        "%%ranks\nimport sys, warnings\nwarnings.warn(f'on rank {rank}')\nprint('to stderr', file=sys.stderr)\nprint('to stdout')\nrank",
        "def train(comm):\n    for step in range(3):\n        print('step', step)\n        comm.log('loss', step)\n    return comm.rank",
        "run = world.start(train)\ndisplay(pk.Curve(run))\nrun.wait()",
        "%ranks stop",
    )
    path = write(tmp_path / "stable_1.ipynb", *cells)
    assert "[3] 3 4" in text(execute(path)[1])
    copies = [path, *(tmp_path / f"stable_{k}.ipynb" for k in (2, 3))]
    for copy in copies[1:]:
        copy.write_bytes(path.read_bytes())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", f"--rootdir={tmp_path}", "--nbval", "--nbval-current-env"]
    with busy_machine():
        done = subprocess.run([*command, f"--nbval-sanitize-with={SANITIZE}", *map(str, copies)], capture_output=True, text=True, cwd=tmp_path)
    assert f"{3 * len(cells)} passed" in done.stdout, done.stdout[-5000:]


def test_case_W15_the_kernel_survives_what_its_ranks_do_not(tmp_path: Path) -> None:
    cells = execute(
        write(
            tmp_path / "abort.ipynb",
            "%load_ext partkit\n%ranks 2",
            "%%ranks\nimport os\nimport torch\nimport partkit as pk",
            ("%%ranks\npk.all_reduce(torch.ones(rank + 1), comm)", "raises-exception"),
            ("%%ranks\nif rank == 1: os.abort()\ncomm.recv(torch.ones(1), 1)", "raises-exception"),
            ("%%ranks\nimport torch\ncomm.sendrecv(torch.ones(2 + rank), 1 - rank, torch.ones(1), 1 - rank)", "raises-exception"),
            "%%ranks\nimport torch\nimport partkit as pk\npk.all_reduce(torch.ones(1), comm)",
        )
    )
    names = [output["ename"] for cell in cells for output in cell["outputs"] if output["output_type"] == "error"]
    assert names == ["RanksStuck", "RankDied", "RanksStuck"]
    assert "ranks 0-1: tensor([2.])" in text(cells[-1])


def test_case_W06_a_background_run_prints_into_its_own_cell_without_a_front_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARTKIT_STATIC")
    lines = "%%ranks --bg\nfor k in range(3): print('line', k)"
    cells = execute(write(tmp_path / "background.ipynb", "%load_ext partkit\n%ranks 2", lines, "1 + 1", "run.wait();"))
    assert text(cells[2]) == "2"
    assert text(cells[1]).splitlines() == [f"[{rank}] line {k}" for rank in (0, 1) for k in range(3)]

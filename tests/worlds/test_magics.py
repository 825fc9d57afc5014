"""The magics in a real kernel: one notebook is run once, the tests look at what its cells show."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import nbformat
import pytest
from IPython.core.error import UsageError
from nbclient import NotebookClient

from partkit.mesh import Mesh
from partkit.worlds.magics import CellResults, InvalidCell, check_syntax, parse_ranks, parse_size

CELLS = {
    "load": "%load_ext partkit",
    "none": "%ranks",
    "cell without ranks": "%%ranks\nrank",
    "start": "%ranks 4",
    "state": "%ranks",
    "define": "%%ranks\nx = rank * 10\nclass Thing:\n    pass\nx",
    "persist": "%%ranks 0,2-3\nx + 1",
    "fold": "%%ranks\nworld_size, comm.size",
    "tensor": "%%ranks\nimport torch\ntorch.ones(100, 4)",
    "semicolon": "%%ranks\nx;",
    "statement": "%%ranks\ny = 1",
    "print": "%%ranks\nimport sys\nprint('to stdout', rank)\nprint('to stderr', rank, file=sys.stderr)",
    "pull": "world['x']",
    "pull unknown": "world['nothing']",
    "raise": "%%ranks\ndef inner():\n    raise ValueError('boom')\nif rank == 2:\n    inner()\ncomm.recv(torch.ones(1), 2)",
    "syntax": "%%ranks\nx = 1\nx =",
    "magic inside": "%%ranks\n%time 1",
    "outside": "%%ranks 7\nrank",
    "bad ranks": "%%ranks one\nrank",
    "after errors": "%%ranks\nx",
    "background": "%%ranks --bg\nwhile not open(x_file).read(): pass\nprint('done', rank)",
    "busy": "%%ranks\nrank",
    "other cell": "1 + 1",
    "let go": "open(x_file, 'w').write('x')\nrun.wait()",
    "complete": (
        "from IPython.core.completer import provisionalcompleter\n"
        "def complete(cell):\n"
        "    with provisionalcompleter():\n"
        "        return [c.text for c in get_ipython().Completer.completions(cell, len(cell))]\n"
        "complete('%%ranks\\nThi'), complete('%%ranks\\ny = x.bit_l'), 'Thing' in complete('Thi')"
    ),
    "mesh": "%ranks dp=2 tp=2",
    "mesh group": "%%ranks\ncomm.group('tp').ranks",
    "fresh": "world.run(lambda comm: 'x' in vars(__import__('__main__')))",
    "stop": "%ranks stop",
    "stopped": "%ranks",
    "unload": "%unload_ext partkit",
    "gone": "%ranks",
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Text of each cell's outputs, by the cell's name."""
    file = tmp_path_factory.mktemp("magics") / "gate"
    file.write_text("")
    sources = [f"x_file = {str(file)!r}", *CELLS.values()]
    sources[list(CELLS).index("background") + 1] = CELLS["background"].replace("x_file", repr(str(file)))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    client = NotebookClient(notebook, allow_errors=True, timeout=60, extra_arguments=["--log-level=ERROR"])
    asyncio.run(client.async_execute())
    return {name: "".join(_text(output) for output in cell.outputs) for name, cell in zip(CELLS, notebook.cells[1:], strict=True)}


def _text(output: Any) -> str:
    if output.output_type == "stream":
        return f"[stderr]\n{output.text}" if output.name == "stderr" else output.text
    if output.output_type == "error":
        return "ERROR " + "\n".join(output.traceback)
    return output.data["text/plain"]


def test_ranks_alone_says_what_is_running(shown: dict[str, str]) -> None:
    assert shown["none"] == shown["stopped"] == "No ranks are running. %ranks 4 starts four.\n"
    assert shown["start"] == shown["state"] == "4 live ranks, idle.\n"
    assert shown["mesh"] == "4 live ranks on a mesh dp=2, tp=2, idle.\n"


def test_names_persist_and_the_last_expression_of_each_rank_is_shown(shown: dict[str, str]) -> None:
    assert shown["define"] == "rank 0: 0\nrank 1: 10\nrank 2: 20\nrank 3: 30"
    assert shown["persist"] == "rank 0: 1\nrank 2: 21\nrank 3: 31"
    assert shown["pull"] == "[0, 10, 20, 30]"
    assert "rank 0 has no variable 'nothing'; it has x, Thing" in shown["pull unknown"]
    assert shown["semicolon"] == shown["statement"] == ""
    assert shown["fresh"] == "[False, False, False, False]"


def test_equal_outputs_fold_and_tensors_are_summarised(shown: dict[str, str]) -> None:
    assert shown["fold"] == "ranks 0-3: (4, 4)"
    assert shown["tensor"] == "ranks 0-3: tensor float32[100, 4], norm 20, cpu"


def test_case_L11_output_is_labelled_in_rank_order_stderr_apart(shown: dict[str, str]) -> None:
    lines = [line for line in shown["print"].splitlines() if line != "[stderr]"]  # the front end orders the two streams
    assert [line for line in lines if "stdout" in line] == [f"[{rank}] to stdout {rank}" for rank in range(4)]
    assert [line for line in lines if "stderr" in line] == [f"[{rank}!] to stderr {rank}" for rank in range(4)]


def test_case_W14_a_failing_rank_fails_the_cell_with_its_own_traceback(shown: dict[str, str]) -> None:
    error = shown["raise"]
    assert error.startswith("ERROR RankError: rank 2: ValueError: boom")
    assert re.search(r"Cell In\[\d+\], line 5, in <module>\n    inner\(\)", error)
    assert re.search(r"Cell In\[\d+\], line 3, in inner\n    raise ValueError\('boom'\)", error)
    assert "(ranks 0-1, 3 stopped because of this)" in error
    assert shown["after errors"] == "rank 0: 0\nrank 1: 10\nrank 2: 20\nrank 3: 30"


def test_what_cannot_run_is_refused_before_any_rank_sees_it(shown: dict[str, str]) -> None:
    assert re.search(r"Cell In\[\d+\], line 3\n", shown["syntax"]) and "SyntaxError: invalid syntax" in shown["syntax"]
    assert "A %%ranks cell is plain Python" in shown["magic inside"]
    assert "rank 7 is outside this world of 4, whose ranks are 0 to 3" in shown["outside"]
    assert "name ranks as 0,2 or 1-3; 'one' is neither" in shown["bad ranks"]
    assert "no ranks are running: %ranks 4 starts four" in shown["cell without ranks"]


def test_a_background_cell_returns_at_once_and_keeps_its_output(shown: dict[str, str]) -> None:
    assert "a run goes on in this world" in shown["busy"]
    assert shown["other cell"] == "2"
    assert shown["let go"] == "[0] done 0\n[1] done 1\n[2] done 2\n[3] done 3\n[None, None, None, None]"


def test_names_of_the_ranks_complete_in_a_cell_and_only_there(shown: dict[str, str]) -> None:
    assert shown["complete"] == "(['Thing'], ['x.bit_length'], False)"


def test_a_mesh_names_the_groups(shown: dict[str, str]) -> None:
    assert shown["mesh group"] == "ranks 0-1: (0, 1)\nranks 2-3: (2, 3)"


def test_unloading_takes_the_magics_away(shown: dict[str, str]) -> None:
    assert "not found" in shown["gone"]


@pytest.mark.parametrize("what", [["four"], ["4", "5"], ["dp=2", "x"], ["dp=x"], ["-1"]])
def test_a_size_that_is_none_is_refused(what: list[str]) -> None:
    with pytest.raises(UsageError, match=re.escape(f"%ranks {' '.join(what)}: give a number of ranks")):
        parse_size(what)


def test_sizes_and_selections_parse() -> None:
    assert parse_size(["3"]) == 3
    assert parse_size(["dp=2", "tp=3"]) == Mesh(dp=2, tp=3)
    assert parse_ranks(["0", "2"], 4) == (0, 2)
    assert parse_ranks(["1-2,0"], 4) == (0, 1, 2)


def test_a_cell_that_does_not_parse_says_where() -> None:
    with pytest.raises(InvalidCell, match="line 2"):
        check_syntax("\nx = (", "<cell>", "x = (")
    check_syntax("\nx = 1", "<cell>", "x = 1")


def test_results_fold_by_text_in_rank_order() -> None:
    results = CellResults({0: "a", 1: "b\nc", 2: "a"})
    assert repr(results) == "ranks 0, 2: a\nrank 1:\nb\nc"
    assert "<td" in results._repr_html_() and "ranks 0, 2" in results._repr_html_()

"""What demo, bench and view show."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from partkit.commands import Refusal, bench, demo, tables, view
from partkit.tracing import Event, Trace


@pytest.mark.live
@pytest.mark.parametrize(("ranks", "elements"), [(4, 10), (3, 2), (1, 5)])
def test_demo_counts_what_was_predicted(ranks: int, elements: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.run(argparse.Namespace(ranks=ranks, elements=elements)) == 0
    shown = capsys.readouterr().out
    assert f"{ranks} live processes" in shown and "every rank holds the sum: yes" in shown and "counted = predicted" in shown


def test_demo_sees_a_message_too_many() -> None:
    events = [Event(rank, "send", 0.0, 1.0, peer=1 - rank, nbytes=4) for rank in (0, 0, 0, 1, 1)]
    table, right = demo.compare(Trace.from_events(events, size=2), ranks=2, elements=2)
    assert not right
    assert "DIFFER" in table


def test_demo_refuses_no_ranks() -> None:
    with pytest.raises(Refusal, match="--ranks 0"):
        demo.run(argparse.Namespace(ranks=0, elements=1))


@pytest.fixture
def two_benchmarks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    asked: list[Any] = []

    def run(argv: list[str]) -> dict[str, Any]:
        asked.append(argv)
        return {"ranks": 2, "sizes": [{"bytes": 1024, "ratio": 0.91}, {"bytes": 4096, "ratio": 1.5, "note": "best"}]}

    monkeypatch.setattr(bench, "benchmarks", lambda: {"launch": "How fast ranks start.", "collectives": "Ring against native."})
    monkeypatch.setattr(bench, "import_module", lambda name: SimpleNamespace(run=run))
    return asked


def test_bench_prints_tables(two_benchmarks: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.run(argparse.Namespace(name="collectives", json=False, rest=["--quick"])) == 0
    assert two_benchmarks == [["--quick"]]
    assert capsys.readouterr().out.splitlines() == [
        "ranks: 2",
        "",
        "sizes",
        "bytes  ratio  note",
        "-----  -----  ----",
        " 1024   0.91  -",
        " 4096    1.5  best",
    ]


def test_bench_prints_json(two_benchmarks: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    bench.run(argparse.Namespace(name="collectives", json=True, rest=[]))
    assert json.loads(capsys.readouterr().out)["sizes"][1]["note"] == "best"


def test_bench_without_a_name_lists_them(two_benchmarks: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.run(argparse.Namespace(name=None, json=False, rest=[])) == 0
    assert "launch       How fast ranks start." in capsys.readouterr().out


def test_bench_refuses_what_it_does_not_know(two_benchmarks: list[Any]) -> None:
    with pytest.raises(Refusal, match="no benchmark 'lunch'; there are: launch, collectives"):
        bench.run(argparse.Namespace(name="lunch", json=False, rest=[]))


def test_every_benchmark_says_what_it_measures() -> None:
    known = bench.benchmarks()
    assert {"launch", "collectives"} <= set(known)
    assert all(known.values())


def test_a_table_without_rows_is_its_head() -> None:
    assert tables.table(["a", "b"], []) == "a  b\n-  -"


def args(file: Path, output: Path | None = None) -> argparse.Namespace:
    return argparse.Namespace(file=str(file), output=None if output is None else str(output), no_browser=True)


def test_view_writes_a_page_beside_the_trace(tmp_path: Path) -> None:
    trace = Trace.from_events([Event(0, "send", 0.0, 1.0, peer=1, nbytes=8), Event(1, "recv", 0.0, 1.0, peer=0, nbytes=8)])
    assert view.run(args(trace.save(tmp_path / "run.npz"))) == 0
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "<img" in page and "alt=" in page
    assert "<script" not in page and "http://" not in page.replace("http://www.w3.org", "")


def test_view_refuses_what_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="there is no file"):
        view.run(args(tmp_path / "none.npz"))
    (tmp_path / "bad.npz").write_bytes(b"not a trace")
    with pytest.raises(Refusal, match=r"no trace that Trace\.save wrote"):
        view.run(args(tmp_path / "bad.npz"))

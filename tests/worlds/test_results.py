"""What a run gives back, folded."""

from __future__ import annotations

from partkit.worlds.results import Results


def test_results_are_a_list() -> None:
    results = Results([10, 20])
    assert results == [10, 20] and results[1] == 20 and isinstance(results, list) and repr(results) == "[10, 20]"


def test_equal_results_are_shown_once() -> None:
    assert Results([1, 2, 1, 1]).folded() == "ranks 0, 2-3:  1\nrank 1:        2"
    assert Results([None]).folded() == "rank 0:  None"
    assert Results([]).folded() == ""


def test_the_table_escapes_what_it_shows() -> None:
    html = Results(["<b>", "<b>"])._repr_html_()
    assert "&lt;b&gt;" in html and "<b>" not in html and html.count("<tr>") == 2 and "ranks 0-1" in html

"""What is sent to the browser."""

from __future__ import annotations

from partkit.widgets.assets import compact
from partkit.widgets.timeline import Timeline


def test_case_W02_the_script_is_text_small_and_loads_nothing() -> None:
    assert isinstance(Timeline._esm, str)
    assert len(Timeline._esm.encode()) < 20_000
    assert "http" not in Timeline._esm and "import" not in Timeline._esm
    assert "export default" in Timeline._esm


def test_strings_and_templates_keep_their_spaces() -> None:
    assert compact('const a = "x  //  y", b = `p  ${ c }  q`; // end') == 'let a="x  //  y",b=`p  ${ c }  q`;'


def test_words_stay_apart_and_signs_too() -> None:
    assert compact("return typeof x;\nlet a = b + +c - -d;") == "return typeof x;let a=b+ +c- -d;"


def test_line_ends_that_may_end_a_statement_stay() -> None:
    assert compact("a = b\nc = d\nif (x) {\n  y();\n}\nz()") == "a=b\nc=d\nif(x){y()}z()"


def test_brackets_and_zeros_that_say_nothing() -> None:
    assert compact("f((x) => x * 0.5 + 10.5, (a, b) => a);") == "f(x=>x*.5+10.5,(a,b)=>a);"

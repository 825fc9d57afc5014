"""What is sent to the browser."""

from __future__ import annotations

from partkit.widgets.assets import compact, shorten
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


def test_what_is_declared_at_the_top_gets_one_letter() -> None:
    assert shorten("let wide=2,tall=3;function area(){return wide*tall}area();") == "let C=2,B=3;function A(){return C*B}A();"


def test_names_that_are_keys_or_methods_somewhere_keep_their_length() -> None:
    source = 'let size=1,half=2;class Box{half(){return this.size}}f({size},`${half(size)} half`,"size");'
    assert shorten(source).replace("class A", "class Box") == source
    assert shorten("let size=1;g({size:size},o.size,a?size:0,[size,...size]);") == "let A=1;g({size:A},o.size,a?A:0,[A,...A]);"


def test_a_template_is_renamed_from_the_inside_only() -> None:
    assert shorten("let words=3;h(`words ${words} ${words+1}`);") == "let A=3;h(`words ${A} ${A+1}`);"

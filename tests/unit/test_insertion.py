"""What is kept of a completion, by what follows the cursor ("|" in the tables)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding.insertion import tidy


@pytest.mark.parametrize(
    ("place", "completion", "kept"),
    [
        # nothing to tidy
        ("x = |\n", "1", "1"),
        ("def f():\n    |", "a = 1\n    return a", "a = 1\n    return a"),
        ("|", "", ""),
        # trailing blanks
        ("x = |\n", "1  \n\n", "1"),
        ("x = |", " \n \t", ""),
        ("x = | y", "a + ", "a +"),
        ("x = |y", "a + ", "a + "),
        # following lines repeated
        ("    a = 1\n    |\n    return a\n", "b = 2\n    return a", "b = 2"),
        ("    a = 1\n    |\n\n    return a\n", "b = 2\n    c = 3\n    return a\n    d", "b = 2\n    c = 3"),
        ("    a = 1\n    |\r\n    return a\r\n", "b = 2\r\n    return a\r\n", "b = 2"),
        ("    |\n    return a\n", "return a", ""),
        ("    x|\n    return a\n", "return a", "return a"),
        ("    if x:\n        |\n    return a\n", "y()\n        return a", "y()\n        return a"),
        ("fn f() {\n    |\n}\n", "g();\n}\n\nfn h() {", "g();"),
        ("fn f() {\n    |\n}\n", "if x {\n        g();\n    }\n", "if x {\n        g();\n    }"),
        ("fn f() {\n|\n}\n", "if x {\n  g();\n}\nh();", "if x {\n  g();\n}\nh();"),
        ("def f\n  |\nend\n", "if x\n    y\n  end\nend\n", "if x\n    y\n  end"),
        # brackets that the line has already
        ("foo(|)", "a)", "a"),
        ("foo(|)", "a, b);", "a, b"),
        ("foo(|)", "bar(a)", "bar(a)"),
        ("foo(|)", "bar(a))", "bar(a)"),
        ("foo(bar(|)", "a)", "a)"),
        ("foo(bar(|)", "a))", "a)"),
        ("foo(bar(|))", "a), b", "a"),
        ("foo(|", "a)", "a)"),
        ("x = [|];", "1, 2];", "1, 2"),
        ("foo(|)", "]", "]"),
        ('print("|")', ":) ", ":) "),
        ("foo(|)", "\n    a,\n    b,\n)", "\n    a,\n    b,"),
        # what the suffix begins with
        ("x = |;\n", "1;", "1"),
        ('x = "|"', 'hello"', "hello"),
        ("f(|, b)", "a, b)", "a"),
        ("x = |y + z\n", "a * y + z", "a * "),
        ("x = |x\n", "max", "ma"),
        ("x = |xs, y\n", "max", "max"),
        ("def f(|) -> None:\n    pass", "a, b) -> None:\n    return a", "a, b"),
        ("if x| {\n}", " > 1 {\n    g();\n}", " > 1"),
        ("a|\nreturn value\n", " = 1\nreturn va", " = 1"),
    ],
)
def test_what_is_kept(place: str, completion: str, kept: str) -> None:
    prefix, suffix = place.split("|")
    assert tidy(completion, prefix, suffix) == kept


CODE = st.text('ab(){}[]"; \n', max_size=30)


@given(completion=CODE, prefix=CODE, suffix=CODE)
def test_it_only_ever_shortens(completion: str, prefix: str, suffix: str) -> None:
    kept = tidy(completion, prefix, suffix)
    assert completion.startswith(kept)
    assert kept == "" or kept.strip()


@given(completion=st.text(max_size=40), prefix=st.text(max_size=40))
def test_with_nothing_behind_the_cursor_only_blanks_go(completion: str, prefix: str) -> None:
    assert tidy(completion, prefix, "") == completion.rstrip()


def test_a_long_suffix_costs_little() -> None:
    assert tidy("b = 2\nreturn a", "", "\n" + "return a\n" * 1_000_000) == "b = 2"

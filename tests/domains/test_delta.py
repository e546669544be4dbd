"""State deltas: lossless between any two texts, cheap where little changed, and clear where they do not apply."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldlm.domains.delta import DeltaError, is_delta, read_delta, shortest, write_delta

LINES = st.lists(
    st.sampled_from(
        ["", " ", "[1] button 'Go'", "  [12] link", "[12] link", "a", "a b", "#3", "^", "+x", "@back 1", "- q"]
    )
    | st.text(max_size=6),
    max_size=9,
)
TEXTS = st.builds("\n".join, LINES)

FORM = """\
[1] RootWebArea 'Ferries'
  [4] heading 'Timetable'
  [7] textbox 'From'
  [8] textbox 'To'
  StaticText '|'
  StaticText '|'
  [12] button 'Search'
  [15] link 'Help'"""


@given(TEXTS, TEXTS, st.integers(1, 3))
def test_any_text_has_a_delta_against_any_other(base: str, new: str, back: int) -> None:
    earlier = [base, *["filler"] * (back - 1)]
    assert read_delta(write_delta(new, base, back), earlier) == new


@given(TEXTS)
def test_a_delta_from_nothing(new: str) -> None:
    assert read_delta(write_delta(new, None, 0), []) == new


@given(TEXTS, st.lists(TEXTS, max_size=4))
def test_the_shortest_form_loses_nothing(new: str, earlier: list[str]) -> None:
    written = shortest(new, earlier)
    assert (read_delta(written, earlier) if is_delta(written) else written) == new


def test_one_changed_field_is_named_by_its_beginning() -> None:
    new = FORM.replace("[7] textbox 'From'", "[7] textbox 'From' value='Faro', focused")
    assert write_delta(new, FORM, 1) == "@back 1\n= [7]\n+  [7] textbox 'From' value='Faro', focused"


def test_nothing_changed_is_one_line() -> None:
    assert write_delta(FORM, FORM, 1) == "@back 1"


def test_what_goes_and_what_comes() -> None:
    lines = FORM.split("\n")
    new = "\n".join(["[0] alert 'Late'", *lines[:2], *lines[6:], "  [20] link 'Home'"])
    delta = write_delta(new, FORM, 1)
    assert delta.split("\n") == [
        "@back 1",
        "> ^",
        "+[0] alert 'Late'",
        "- [7]",
        ": #6",
        "> [15]",
        "+  [20] link 'Home'",
    ]
    assert read_delta(delta, [FORM]) == new


def test_going_back_names_the_best_earlier_observation() -> None:
    other = "\n".join(f"[{n}] link 'Result {n}'" for n in range(40, 60))
    big = FORM + "\n" + "\n".join(f"  [{n}] cell 'Row {n}'" for n in range(100, 130))
    assert shortest(big, [big, other]) == "@back 2"
    assert shortest(other, [FORM]) == other


@pytest.mark.parametrize(
    ("delta", "wrong"),
    [
        ("@back 3", "goes further back than the 1 observations"),
        ("@back one", "begins with '@back N'"),
        ("@back 1\n= [99]\n+x", r"no line of the base begins with '\[99\]'"),
        ("@back 1\n= StaticText\n+x", "several lines of the base begin with 'StaticText'"),
        ("@back 1\n= #99\n+x", "no line 99; it has 8"),
        ("@back 1\n= [7]", r"nothing follows '= \[7\]'"),
        ("@back 1\nhello", "not 'hello'"),
        ("@back 1\n- [12]\n: [4]", "ends before it begins"),
        ("@back 1\n- [4]\n: [12]\n= [7]\n+x", "two changes overlap at line 3"),
        ("@back 1\n= [7]\n+x\n= [7]\n+y", "two changes at one place"),
        ("@back 1\n= \n+x", "no line of the base begins with ''"),
    ],
)
def test_a_delta_that_does_not_apply_says_why(delta: str, wrong: str) -> None:
    with pytest.raises(DeltaError, match=wrong):
        read_delta(delta, [FORM])

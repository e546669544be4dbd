"""State deltas: lossless between any two texts, cheap where little changed, and clear where they do not apply."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from worldlm.domains.delta import DeltaError, bases, is_delta, read_delta, shortest, write_delta

LINES = st.lists(
    st.sampled_from(
        [
            "",
            " ",
            "[1] button 'Go'",
            "  [12] link",
            "[12] link",
            "a",
            "a b",
            "a +1",
            "^",
            "^ +2",
            "+x",
            "@back 1",
            "~ 3",
        ]
    )
    | st.builds("\t[{}] cell".format, st.integers(0, 20))
    | st.builds('  <node index="{}" class="Button"/>'.format, st.integers(0, 20))
    | st.sampled_from(["[007] cell", "[] cell", "[-3] cell", "\t[\u0663] cell", "[9999999999] cell", "\0", "x\ry"])
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
@example("\nb", "\0\nb", 1)
@example("[] b", "[3] b", 1)
@example("[3] b", "[03] b", 1)
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
        ": [8] +2",
        "> [15]",
        "+  [20] link 'Home'",
    ]
    assert read_delta(delta, [FORM]) == new


def test_going_back_names_the_best_earlier_observation() -> None:
    other = "\n".join(f"[{n}] link 'Result {n}'" for n in range(40, 60))
    big = FORM + "\n" + "\n".join(f"  [{n}] cell 'Row {n}'" for n in range(100, 130))
    assert shortest(big, [big, other]) == "@back 2"
    assert shortest(other, [FORM]) == other


def page(rows: list[str], first: int = 1) -> str:
    """A page that numbers its elements from top to bottom."""
    lines = ["URL: http://shop.example/", *(f"\t[{number}] row '{row}'" for number, row in enumerate(rows, first))]
    return "\n".join(lines)


def test_elements_that_come_and_go_renumber_those_behind_in_one_line() -> None:
    rows = [f"Order {n}" for n in range(30)]
    more = page([*rows[:10], "New", "Newer", *rows[10:20], *rows[22:]])
    delta = write_delta(more, page(rows), 1)
    assert delta.split("\n") == [
        "@back 1",
        "> [10]",
        "+\t[11] row 'New'",
        "+\t[12] row 'Newer'",
        "~ 13",
        "- [21]",
        ": [22]",
        "~ 23",
    ]
    assert read_delta(delta, [page(rows)]) == more


def test_a_page_that_was_drawn_anew_differs_in_its_first_number() -> None:
    rows = [f"Order {n}" for n in range(30)]
    assert write_delta(page(rows, 41), page(rows), 1) == "@back 1\n> URL:\n~ 41"
    assert shortest(page(rows, 41), [page(rows), FORM]) == "@back 2\n> URL:\n~ 41"


def test_the_nodes_of_a_hierarchy_are_numbered_too() -> None:
    nodes = ["<hierarchy>", *(f'  <node index="{n}" class="Button" text="Row {n}"/>' for n in range(9)), "</hierarchy>"]
    base = "\n".join(nodes)
    new = "\n".join(
        [nodes[0], *(f'  <node index="{n - 1}" class="Button" text="Row {n}"/>' for n in range(1, 9)), nodes[-1]]
    )
    assert write_delta(new, base, 1) == '@back 1\n- <node index="0"\n~ 0'
    assert read_delta('@back 1\n- <node index="0"\n~ 0', [base]) == new


@given(st.lists(st.sampled_from("abcdef"), max_size=20), st.lists(st.sampled_from("abcdef"), max_size=20), st.data())
def test_numbered_pages_lose_nothing(old: list[str], new: list[str], data: st.DataObject) -> None:
    first, second = data.draw(st.integers(0, 12)), data.draw(st.integers(0, 12))
    base, state = page(old, first), page(new, second)
    assert read_delta(write_delta(state, base, 1), [base]) == state
    if old == new:  # and moving all of a page is never dearer than one line
        assert len(write_delta(state, base, 1).split("\n")) <= 3


def test_the_bases_are_the_first_state_and_the_newest_that_are_shown() -> None:
    states = ["first", "a", "b", "c"]
    assert bases(states, 3) == states
    assert bases(states, 2) == ["first", "b", "c"]
    assert bases(states, 0) == ["first"]
    assert bases(states[:1], 0) == ["first"]


@pytest.mark.parametrize(
    ("delta", "wrong"),
    [
        ("@back 3", "goes further back than the 1 observations"),
        ("@back one", "begins with '@back N'"),
        ("@back 1\n= [99]\n+x", r"no line of the base begins with '\[99\]'"),
        ("@back 1\n= StaticText\n+x", "several lines of the base begin with 'StaticText'"),
        ("@back 1\n= [12] +2\n+x", r"'\[12\] \+2' is behind the last line"),
        ("@back 1\n= ^ +99\n+x", r"'\^ \+99' is behind the last line"),
        ("@back 1\n= ^\n+x", "is no line of the base"),
        ("@back 1\n= [7] +1 +1\n+x", r"no line of the base begins with '\[7\] \+1'"),
        ("@back 1\n> [7]", r"nothing follows '> \[7\]'"),
        ("@back 1\n~ 7", r"not '~ 7'"),
        ("@back 1\n> [7]\n~ [8]", "'~ ' is followed by a number alone"),
        ("@back 1\n> [15]\n~ 16", r"no numbered line follows '~ 16'"),
        ("@back 1\n> [8]\n~ 9\n> StaticText +1\n~ 10", "several lines of the base begin"),
        ("@back 1\n> [8]\n~ 9\n> [8] +1\n~ 10", r"no numbered line follows '~ 9'"),
        ("@back 1\n- [1]\n: [7]\n~ 0\n> [12]\n~ 0\n> ^\n~ 99", "two changes at one place"),
        ("@back 1\n> [4]\n~ 1\n+x", "not '\\+x'"),
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


def test_a_number_does_not_fall_below_zero() -> None:
    with pytest.raises(DeltaError, match=r"the number of '\[1\] b' would fall below 0"):
        read_delta("@back 1\n> ^\n~ 0", ["[5] a\n[1] b"])


@pytest.mark.parametrize("text", ["@back " + "9" * 5000, "@back", "@back \u0663", " @back 1"])
def test_what_only_looks_like_a_delta_is_none(text: str) -> None:
    assert not is_delta(text)
    with pytest.raises(DeltaError, match="begins with '@back N'"):
        read_delta(text, [FORM])

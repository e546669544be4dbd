"""Trees read from their text: outlines, hierarchies, and the rules that hold for both."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldlm.domains.tree import (
    MAX_DEPTH,
    Box,
    Node,
    Tree,
    TreeError,
    on_screen,
    one_focused,
    read_hierarchy,
    read_outline,
    size,
    unique_ids,
)


def outline(text: str) -> Tree:
    return read_outline(text, ("URL", "Error"))


def one(line: str) -> Node:
    return outline(line).roots[0]


def test_a_line_of_browsergym() -> None:
    node = one("[a12] combobox 'Sort by' value='Price, up', clickable, hasPopup='menu', expanded=False, focused")
    assert (node.id, node.role, node.name, node.value) == ("a12", "combobox", "Sort by", "Price, up")
    assert node.states == {"clickable", "focused"}
    assert node.attributes["hasPopup"] == "menu"


def test_a_line_of_a_desktop() -> None:
    node = one("push button 'Save as…' (-4,10 80x24), disabled")
    assert (node.role, node.name, node.box) == ("push button", "Save as…", Box(-4, 10, 80, 24))
    assert node.states == {"disabled"}
    assert node.box is not None
    assert node.box.holds(-4, 10)
    assert not node.box.holds(76, 10)


@pytest.mark.parametrize(
    ("line", "role", "name"),
    [
        ("generic", "generic", ""),
        ("generic, focused", "generic", ""),
        ("[3] Section ''", "Section", ""),
        ("StaticText 'it\\'s \\u20ac 3'", "StaticText", "it's € 3"),
        ('StaticText "it\'s"', "StaticText", "it's"),
        ("text value='a=b, c'", "text", ""),
        ("check menu item 'Word wrap', checked=True", "check menu item", "Word wrap"),
        (r"StaticText 'C:\dir'", "StaticText", r"C:\dir"),
    ],
)
def test_roles_and_names(line: str, role: str, name: str) -> None:
    node = one(line)
    assert (node.role, node.name) == (role, name)


def test_header_then_nested_nodes_and_a_lenient_indentation() -> None:
    text = "URL: https://a.example/?q=x: y\n\nRootWebArea 'A'\n  [1] list ''\n    [2] link 'B'  \n  [3] link 'C'\n"
    tree = outline(text)
    assert tree.header == {"URL": "https://a.example/?q=x: y"}
    assert [node.id for node in tree.nodes()] == [None, "1", "2", "3"]
    assert [child.id for child in tree.roots[0].children] == ["1", "3"]
    assert tree.same_nodes(outline(text.replace("  ", "\t")))
    assert tree.find("2") is not None
    assert tree.find("9") is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no node"),
        ("URL: x", "no node"),
        ("URL: x\nURL: y\nlink 'a'", "line 2: a second 'URL'"),
        ("link 'a'\n\t\tlink 'b'", "line 2: indented by 2 levels"),
        ("list ''\n\tlink 'a'\n\t\t\tlink 'b'", "line 3: indented by 3 levels"),
        ("list ''\n  link 'a'\n   link 'b'", "line 3: the indentation"),
        ("link 'a", "line 1: not understood from column 5"),
        ("I clicked the button for you.", "line 1: not a node"),
        ("link 'a' whatever", "line 1: not understood from column 9"),
        ("link '\\x'", "line 1: .* is not a string"),
        ("[] link 'a'", "line 1: not a node"),
        (f"link 'a' (1,2 3x{'9' * 5000})", "line 1: not understood from column 9"),
    ],
)
def test_a_text_that_is_no_outline_names_the_line(text: str, told: str) -> None:
    with pytest.raises(TreeError, match=told):
        outline(text)


names = st.text(max_size=30)
words = st.from_regex(r"[a-z]{1,8}", fullmatch=True)


@given(
    name=names,
    value=names,
    role=st.sampled_from(["link", "push button", "RootWebArea"]),
    states=st.frozensets(words, max_size=3),
    box=st.none() | st.builds(Box, *[st.integers(-999, 9999)] * 4),
)
def test_what_is_written_is_read(name: str, value: str, role: str, states: frozenset[str], box: Box | None) -> None:
    where = f" ({box.x},{box.y} {box.width}x{box.height})" if box else ""
    line = f"[b1] {role} {name!r}{where} value={value!r}" + "".join(f", {state}" for state in states)
    node = one(line)
    assert (node.name, node.value, node.role, node.states, node.box) == (name, value, role, states, box)


@given(st.text(alphabet=st.sampled_from(list("[]1 a'\"\\,=()\n\t:<>/nodex")), max_size=80))
def test_any_text_is_a_tree_or_a_tree_error(text: str) -> None:
    for read in (outline, read_hierarchy):
        try:
            tree = read(text)
        except TreeError:
            continue
        unique_ids(tree)
        one_focused(tree)


def test_a_hierarchy() -> None:
    tree = read_hierarchy(
        '<hierarchy package="p" activity=".A">\n  <node index="0" class="Switch" text="Wi-Fi &amp; more" '
        'bounds="[0,10][100,60]" state="checkable checked">\n    <node class="TextView" content-desc="On"/>\n'
        "  </node>\n"
        '  <toast text="Saved"/>\n</hierarchy>\n'
    )
    switch, toast = tree.roots
    assert tree.header == {"package": "p", "activity": ".A"}
    assert (switch.id, switch.role, switch.name, switch.box) == ("0", "Switch", "Wi-Fi & more", Box(0, 10, 100, 50))
    assert switch.states == {"checkable", "checked"}
    assert switch.children[0].name == "On"
    assert (toast.role, toast.name) == ("toast", "Saved")


def test_uiautomators_own_attributes_are_states() -> None:
    tree = read_hierarchy('<hierarchy><node class="B" clickable="true" checked="false" enabled="false"/></hierarchy>')
    assert tree.roots[0].states == {"clickable", "disabled"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1, column 1: not well-formed XML: no element found"),
        ("<hierarchy>\n<node class='a'>\n</hierarchy>", "line 3, column 3: not well-formed XML: mismatched tag"),
        ("<screen/>", "outermost element is <screen>"),
        ("<hierarchy><button/></hierarchy>", "unknown element <button>"),
        ("<hierarchy><node text='a'/></hierarchy>", "without class"),
        ("<hierarchy><node class='a' bounds='0,0,1,1'/></hierarchy>", "bounds must read"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><hierarchy/>", "no document type"),
        (
            "<hierarchy>" + "<node class='a'>" * (MAX_DEPTH + 1) + "</node>" * (MAX_DEPTH + 1) + "</hierarchy>",
            "more than 200 levels",
        ),
    ],
)
def test_a_text_that_is_no_hierarchy_says_why(text: str, told: str) -> None:
    with pytest.raises(TreeError, match=told):
        read_hierarchy(text)


def test_a_very_deep_outline_is_refused() -> None:
    with pytest.raises(TreeError, match="more than 200 levels"):
        outline("\n".join("\t" * depth + "list ''" for depth in range(MAX_DEPTH + 1)))


def test_the_shared_rules() -> None:
    tree = outline("[1] list '' (0,0 100x50), focused\n\t[1] link 'a' (90,40 20x20), focused\n\t[2] link 'b'")
    assert not unique_ids(tree).passed
    assert "1" in unique_ids(tree).message
    assert not one_focused(tree).passed
    assert one_focused(tree, apart_from="list").passed
    assert on_screen(tree, 110, 60, wholly=True).passed
    assert not on_screen(tree, 100, 60, wholly=True).passed
    assert on_screen(tree, 100, 60, wholly=False).passed
    assert not on_screen(tree, 80, 60, wholly=False).passed
    assert not on_screen(outline("link 'a' (5,5 -1x3)"), 80, 60, wholly=False).passed


def test_sizes() -> None:
    assert size("1080x2400") == (1080, 2400)
    assert [size(text) for text in ("", "1080", "0x5", "axb", "1080x2400px")] == [None] * 5

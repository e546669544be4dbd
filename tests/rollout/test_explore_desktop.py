"""The explorer of desktops: goal-directed on the tree, wide, reproducible, and wrong now and then."""

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worldlm.core.errors import ActionError
from worldlm.core.outcomes import Outcome
from worldlm.core.types import Observation, Turn, World
from worldlm.domains.desktop import OS
from worldlm.rollout.explorers import make_explorer

pytestmark = pytest.mark.anyio
WORLD = World(
    name="desk",
    domain="os",
    initial_state={"user": "ana", "files": {"notes.txt": "one", "Documents/a.txt": "two", "old/": ""}},
)
MENUS = "\n\t\tmenu bar (320,167 640x25)" + "".join(
    f"\n\t\t\tmenu '{name}' ({320 + 60 * n},167 55x25)"
    for n, name in enumerate(("File", "Edit", "Search", "View", "Document", "Calculator", "Data", "Sheet"))
)
EDITOR = (
    "Screen: 1280x800\napplication 'mousepad'\n\tframe '~/notes.txt - Mousepad' (319,147 642x505), active"
    + MENUS
    + "\n\t\tpage tab list (320,194 640x451)\n\t\t\tpage tab 'notes.txt' (343,199 252x30), selected"
    + "\n\t\t\t\ttext (321,195 638x449) value='one table\\n', editable, focused"
)
MANAGER = (
    "Screen: 1280x800\napplication 'thunar'\n\tframe 'ana - Thunar' (319,147 642x505), active"
    + MENUS
    + "\n\t\ttext (472,196 448x35) value='/home/ana/', editable\n\t\ttable (320,235 640x386)"
    + "\n\t\t\ttable column header 'Name' (320,235 437x25)\n\t\t\ttable cell 'notes.txt' (348,289 411x26)"
    + "\n\t\t\ttable cell '8 bytes' (759,289 60x26)\n\t\t\ttable cell 'plain text document' (823,289 135x26)"
)
CALCULATOR = (
    "Screen: 1280x800\napplication 'galculator'\n\tframe 'galculator' (473,216 333x368), active"
    + MENUS
    + "\n\t\ttext (481,268 317x52) value='0', focused"
    + "".join(f"\n\t\ttoggle button '{key}' ({480 + 20 * n},499 18x34)" for n, key in enumerate("0123456789+-*/=C"))
)
SHEET = (
    "Screen: 1280x800\napplication 'soffice'\n\tframe 'stock.fods - LibreOffice Calc' (79,40 762x525), active"
    + MENUS
    + "\n\t\ttable 'Sheet Stock' (121,120 705x356), editable"
    + "\n\t\t\ttable cell 'A1' (121,120 82x17) value='Item', editable, focused"
    + "\n\t\tpush button 'Add' (188,515 24x24)\n\t\tpage tab 'Stock' (218,490 73x23), selected"
    + "\n\t\ttext (84,87 126x34) value='A1', editable"
)
DIALOG = "\n\tdialog 'Find and Replace' (423,269 435x301), active\n\t\tpush button 'Close' (770,529 85x34)"
SCREENS = {
    "editor": EDITOR,
    "manager": MANAGER,
    "calculator": CALCULATOR,
    "sheet": SHEET,
    "dialog": EDITOR.replace("505), active", "505)") + DIALOG,
    "empty": "Screen: 1280x800",
    "none": "nothing that can be read",
}


async def play(screens: list[str], seed: int) -> list[Turn]:
    """An episode in which each screen shows for three turns; what does not parse is refused, as everywhere."""
    explorer = make_explorer("os", seed)
    first = Observation(text=screens[0])
    turns: list[Turn] = []
    while (action := await explorer.act(WORLD, first, turns)) is not None:
        assert explorer.label
        try:
            OS.parse_action(action, WORLD)
            shown = Observation(text=screens[len(turns) // 3 % len(screens)])
            turns.append(Turn(action=action, label=explorer.label, observation=shown))
        except ActionError as error:
            assert explorer.label.endswith("/odd"), action
            refused = Turn(action=action, observation=None, outcome=Outcome.INVALID_ACTION, detail=str(error))
            turns.append(refused.model_copy(update={"label": explorer.label}))
        assert len(turns) < 120
    return turns


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(sorted(SCREENS)), min_size=1, max_size=6), st.integers(0, 10_000))
async def test_any_screens_give_an_episode_that_ends(names: list[str], seed: int) -> None:
    screens = [SCREENS[name] for name in names]
    turns = await play(screens, seed)
    assert len(turns) >= 20
    assert turns[-1].action in ("DONE", "FAIL")
    assert not {"DONE", "FAIL"} & {turn.action for turn in turns[:-1]}
    assert turns == await play(screens, seed)


async def test_it_is_wide_and_sometimes_wrong() -> None:
    screens = [SCREENS[name] for name in ("editor", "manager", "calculator", "sheet", "dialog")]
    turns = [turn for seed in range(25) for turn in await play(screens, seed)]
    labels = Counter(str(turn.label) for turn in turns)
    odd = sum(count for label, count in labels.items() if label.endswith("/odd"))
    assert 0.1 <= odd / len(turns) <= 0.2
    families = {label.partition("/")[0] for label in labels}
    assert families >= {"calculator", "code", "desk", "files", "sheet", "text"}
    assert len(labels) > 70
    assert len({turn.action for turn in turns}) > 0.4 * len(turns)


async def test_it_clicks_where_things_are() -> None:
    clicked = [t.action for seed in range(20) for t in await play([CALCULATOR], seed) if t.label == "calculator/click"]
    assert clicked
    points = {(480 + 20 * n + 9, 516) for n in range(16)}
    for action in clicked:
        match = re.search(r"\((\d+), (\d+)\)", action)
        assert match
        assert (int(match[1]), int(match[2])) in points

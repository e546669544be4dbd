"""The explorer of browsers: goal-directed on the tree, wide, reproducible, and wrong now and then."""

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worldlm.core.errors import ActionError
from worldlm.core.outcomes import Outcome
from worldlm.core.types import Observation, Turn, World
from worldlm.domains.web import WEB
from worldlm.rollout.explorers import make_explorer

pytestmark = pytest.mark.anyio
PUZZLE = World(name="p", domain="web", context='Small.\nGoal: Enter "Ann" as the name, choose Large and press Submit.')
SITE = "http://shop.example/admin/"
FORM = """URL: http://tasks.example/form.html
Tabs: *0 'Form'
RootWebArea 'Form', focused
\t[3] textbox 'Name', clickable
\t[4] combobox 'Size' value='Small', clickable, hasPopup='menu', expanded=False
\t\tMenuListPopup ''
\t\t\t[5] option 'Small', selected=True
\t\t\t[6] option 'Large', selected=False
\t[7] button 'Submit', clickable
\t[8] button 'Cancel', clickable, disabled=True"""
OFFICE = World(name="o", domain="web", context="An office. Log in as admin with the password harbour-42.")
NAVIGATION = f"""
\t[2] button 'LOG OUT', clickable
\t[3] table 'SHOP'
\t\t[4] row ''
\t\t\t[5] rowheader 'Books'
\t\t\t\t[6] link 'Books', clickable, url='{SITE}shop/book/'
\t\t\t[7] cell 'Add'
\t\t\t\t[8] link 'Add', clickable, url='{SITE}shop/book/add/'"""
LIST = (
    f"URL: {SITE}shop/book/\nTabs: *0 'Books'\nRootWebArea 'Books', focused{NAVIGATION}"
    + f"""
\t[20] link 'ADD BOOK', clickable, url='{SITE}shop/book/add/'
\t[21] textbox 'Search', clickable
\t[22] button 'Search', clickable
\t[23] combobox 'Action:' value='---------', clickable
\t\t[24] option '---------', selected=True
\t\t[25] option 'Delete selected books', selected=False
\t[26] button 'Run', clickable
\t[27] table ''
\t\t[28] columnheader 'Title'
\t\t\t[29] link 'TITLE', clickable, url='{SITE}shop/book/?o=1'
\t\t[30] checkbox 'Select this object for an action - The Blue Clock', clickable, checked='false'
\t\t[31] rowheader 'The Blue Clock'
\t\t\t[32] link 'The Blue Clock', clickable, url='{SITE}shop/book/7/change/'
\t[33] link '2', clickable, url='{SITE}shop/book/?p=2'
\t[34] link 'Paperback', clickable, url='{SITE}shop/book/?binding__exact=paperback'"""
)
ADD = (
    f"URL: {SITE}shop/book/add/\nTabs: *0 'Add book'\nRootWebArea 'Add book', focused{NAVIGATION}"
    + """
\t[40] textbox 'Title:', clickable, required
\t[41] textbox 'Published:', clickable, required
\t[42] spinbutton 'Stock:' value='0', clickable, required
\t[43] button 'Save', clickable
\t[44] button 'Save and add another', clickable
\t[45] button 'Save and continue editing', clickable"""
)
WRONG = ADD.replace("\n\t[40]", "\n\tStaticText 'Please correct the errors below.'\n\t[40]")
CHANGE = ADD.replace("Add book", "The Blue Clock").replace("/add/", "/7/change/", 1) + (
    "\n\t[46] link 'HISTORY', clickable\n\t[47] link 'Delete', clickable"
)


def office(action: str, page: str) -> str:
    """A site of four pages, as far as its links go; a form refuses a title or date that it cannot have."""
    bid = re.match(r'click\("(\d+)"', action)
    if action.startswith("goto") or (bid and bid[1] in ("6", "29", "33", "34")):
        return LIST
    if bid and bid[1] in ("8", "20"):
        return ADD
    if bid and bid[1] == "32":
        return CHANGE
    if bid and bid[1] == "43":
        return LIST if page == WRONG else WRONG
    return page


async def acted(world: World, seed: int, first: str, *, steps: int = 90) -> list[tuple[str, str]]:
    """What the explorer does, and what it calls it."""
    explorer = make_explorer("web", seed)
    turns: list[Turn] = []
    page = first
    done: list[tuple[str, str]] = []
    while len(done) < steps:
        action = await explorer.act(world, Observation(text=first), turns)
        if action is None:
            break
        assert explorer.label is not None
        done.append((action, explorer.label))
        try:
            WEB.parse_action(action, world)
        except ActionError as error:
            turns.append(Turn(action=action, observation=None, outcome=Outcome.INVALID_ACTION, detail=str(error)))
            continue
        if world is OFFICE:
            page = office(action, page)
        turns.append(Turn(action=action, observation=Observation(text=page), label=explorer.label))
    return done


async def test_a_goal_is_worked_on_with_what_it_names() -> None:
    done = [step for seed in range(8) for step in await acted(PUZZLE, seed, FORM)]
    assert ('fill("3", "Ann")', "fill") in done
    assert ('select_option("4", "Large")', "select") in done
    assert ('click("7")', "submit") in done


async def test_records_are_added_repaired_searched_changed_and_deleted() -> None:
    done = [step for seed in range(12) for step in await acted(OFFICE, seed, LIST)]
    labels = {label for _, label in done}
    wanted = "list search sort filter page add fill save repair open change history delete check bulk back goto tab"
    assert set(wanted.split()) <= labels
    assert len({action for action, _ in done}) > 100


async def test_it_logs_in_with_what_the_context_says() -> None:
    page = """URL: http://shop.example/admin/login/
Tabs: *0 'Log in'
RootWebArea 'Log in', focused
\t[4] textbox 'Username:', clickable
\t[5] textbox 'Password:', clickable
\t[6] button 'Log in', clickable"""
    done = await acted(OFFICE, 1, page, steps=12)
    assert 'fill("4", "admin")' in [action for action, _ in done]
    assert 'fill("5", "harbour-42")' in [action for action, _ in done]


async def test_some_actions_are_odd_and_say_so() -> None:
    done = [step for seed in range(30) for step in await acted(OFFICE, seed, LIST)]
    odd = [(action, label) for action, label in done if label.endswith("/odd")]
    assert 0.08 < len(odd) / len(done) < 0.2
    kinds = Counter(label for _, label in odd)
    assert {"click/odd", "fill/odd", "select/odd", "goto/odd", "tab/odd", "key/odd", "grammar/odd"} <= set(kinds)
    for action, label in done:
        if label != "grammar/odd":
            WEB.parse_action(action, OFFICE)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), first=st.sampled_from([FORM, LIST, ADD, CHANGE, "nothing that can be read"]))
async def test_one_seed_acts_the_same_on_the_same_pages(seed: int, first: str) -> None:
    world = PUZZLE if first == FORM else OFFICE
    assert await acted(world, seed, first, steps=40) == await acted(world, seed, first, steps=40)

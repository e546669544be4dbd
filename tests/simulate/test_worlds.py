"""World files: strict, with errors that name the place and the nearest valid name."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldlm.core.errors import InputError
from worldlm.core.text import estimate_tokens
from worldlm.core.types import DOMAIN_NAMES, Limits, Profile, World
from worldlm.domains import get_domain
from worldlm.domains.render import Conversation
from worldlm.simulate import dump_world, load_world, parse_world, shipped_worlds

WORLDS = shipped_worlds()
GOOD = "name: mine\ndomain: terminal\ninitial_state: {user: ada}\n"


def test_every_domain_ships_at_least_two_worlds() -> None:
    for domain in DOMAIN_NAMES:
        assert sum(world.domain == domain for world in WORLDS.values()) >= 2


@pytest.mark.parametrize("name", WORLDS)
def test_a_shipped_world_is_sound(name: str) -> None:
    world = load_world(name)
    domain = get_domain(world.domain)
    assert domain.problems(world) == []
    assert (world.name, world.domain) == (name, name.partition("-")[0])
    assert world.summary
    assert domain.initial_observation(world).text
    assert parse_world(dump_world(world), "dump") == world


@pytest.mark.parametrize("domain", DOMAIN_NAMES)
def test_a_bare_domain_is_its_first_world_and_fits_a_small_model(domain: str) -> None:
    world = load_world(domain)
    assert world.name == next(w.name for w in WORLDS.values() if w.domain == domain)
    kind = get_domain(domain)
    profile = Profile(name="small", prompt="compact", answer_tag=False, context=8192)
    Conversation(kind, world, profile, kind.initial_observation(world), estimate_tokens)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD + "sumary: x\n", "unknown key 'sumary'; did you mean 'summary'"),
        (GOOD + "limits: {memory_mb: 100}\n", "unknown key 'limits.memory_mb'; did you mean 'memory_mib'"),
        (GOOD + "tools: [{name: t, desc: x}]\n", r"unknown key 'tools.0.desc'; did you mean 'description'"),
        (GOOD + "control: {instruction: [x]}\n", "did you mean 'instructions'"),
        (GOOD.replace("terminal", "terminel"), "unknown domain 'terminel'; did you mean 'terminal'"),
        (GOOD + "initial_state: {user: eve}\n", r"w\.yaml:4:1: not valid YAML: key 'initial_state' stands twice"),
        ("name: [", r"w\.yaml:\d+:\d+: not valid YAML"),
        ("- a\n", "a world is a mapping"),
        ("domain: terminal\n", "name: Field required"),
        (GOOD.replace("mine", "My World"), "name: "),
        (GOOD + "limits: {turns: 0}\n", r"limits\.turns"),
        (GOOD.replace("user: ada", "usr: ada"), "initial_state.usr"),
        ("name: x\ndomain: terminal\n", "initial_state is empty"),
    ],
)
def test_a_bad_world_is_named(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        parse_world(text, "w.yaml")
    assert str(caught.value).startswith("w.yaml")
    assert "\n" not in str(caught.value)


def test_unknown_worlds_get_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'terminal'"):
        load_world("terminl")
    with pytest.raises(InputError, match=r"cannot read world file .*none\.yaml"):
        load_world(str(tmp_path / "none.yaml"))


def test_a_file_is_loaded_by_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    assert load_world(str(path)).name == "mine"


def test_dates_in_yaml_stay_text() -> None:
    world = parse_world(GOOD.replace("{user: ada}", "{user: ada, mtime: 2026-01-15}"), "w.yaml")
    assert isinstance(world.initial_state, dict)
    assert world.initial_state["mtime"] == "2026-01-15"


@given(
    context=st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t")),
    turns=st.none() | st.integers(1, 99),
    seed=st.integers(0, 2**31),
)
def test_a_world_survives_yaml(context: str, turns: int | None, seed: int) -> None:
    world = World(
        name="w", domain="terminal", context=context, initial_state="x", limits=Limits(turns=turns), seed=seed
    )
    assert parse_world(dump_world(world), "w") == world

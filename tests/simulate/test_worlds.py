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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hidden_state: {a: !!binary aGVsbG8=}", "JSON has no value of type bytes"),
        ("hidden_state: {a: .nan}", "not a number that JSON has"),
        ("hidden_state: {a: !!timestamp 2020-01-01}", "JSON has no value of type date"),
        ("hidden_state: {a: !!set {b, c}}", "JSON has no value of type set"),
        ("hidden_state: {? [a, b] : c}", "a key must be text"),
        ('hidden_state: {1: a, "1": b}', "same text"),
        ("hidden_state: {a: " + "[" * 600 + "]" * 600 + "}", "nested more than"),
        ("hidden_state: {a: &x [*x]}", "refers to itself"),
        ("hidden_state: &x {a: *x}", "refers to itself"),
        (
            "hidden_state:\n  a0: &a0 [x]\n"
            + "".join(f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)),
            "aliases unfold",
        ),
    ],
)
def test_yaml_that_is_no_json_value_is_one_line(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        parse_world(GOOD + text + "\n", "w.yaml")
    assert "\n" not in str(error.value)


def test_numbers_may_be_keys_and_become_text() -> None:
    world = parse_world(GOOD + "hidden_state: {1: {2: a, b: c}}\n", "w.yaml")
    assert world.hidden_state == {"1": {"2": "a", "b": "c"}}


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("{file: {}}", "unknown key 'initial_state.file'; did you mean 'files'"),
        ("{files: {a: {contents: x}}}", "unknown key 'initial_state.files.a.contents'; did you mean 'content'"),
    ],
)
def test_an_unknown_key_of_a_file_state_is_named_with_the_nearest(state: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_world(f"name: x\ndomain: terminal\ninitial_state: {state}\n", "w.yaml")


def test_a_home_that_nobody_has_is_an_input_error() -> None:
    with pytest.raises(InputError, match="no home folder"):
        load_world("~no-such-user/w.yaml")

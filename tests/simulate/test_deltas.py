"""A world model that answers in deltas: decoded against what it was shown, and asked once for the whole when not."""

import pytest

from worldlm.core.outcomes import Outcome
from worldlm.core.types import Delta, Profile, Sampling, Step, World
from worldlm.domains import get_domain
from worldlm.domains.delta import write_delta
from worldlm.domains.render import prompt_hash, system_message
from worldlm.simulate import SimulatedEnvironment, load_world
from worldlm.testing import ScriptedModel

pytestmark = pytest.mark.anyio
PROFILE = Profile(name="deltas", state="delta", sampling=Sampling(temperature=0, max_tokens=200), context=16_000)
GUI = ("web", "android", "os")


def answer(text: str) -> str:
    return f"<predicted_observation>{text}</predicted_observation>"


def environment(replies: list[str], profile: Profile = PROFILE) -> tuple[SimulatedEnvironment, ScriptedModel]:
    model = ScriptedModel(replies)
    return SimulatedEnvironment(load_world("web"), get_domain("web"), model, profile), model


def changed(text: str) -> str:
    lines = text.split("\n")
    return "\n".join([*lines[:-1], lines[-1] + " value='drill'"])


async def test_a_delta_becomes_the_whole_state_and_history_is_whole() -> None:
    env, model = environment([])
    first = (await env.reset()).text
    second = changed(first)
    model._script = [answer(write_delta(second, first, 1)), answer("@back 2")]
    step = await env.step("noop()")
    assert step.observation is not None
    assert step.observation.text == second
    back = await env.step("go_back()")
    assert back.observation is not None
    assert back.observation.text == first
    shown = model.requests[1][0]
    assert shown[2].content == answer(second)


async def test_a_delta_that_does_not_apply_is_asked_once_for_the_whole() -> None:
    env, model = environment([])
    first = (await env.reset()).text
    model._script = [answer("@back 7"), answer(changed(first))]
    step = await env.step("noop()")
    assert step.observation is not None
    assert step.observation.text == changed(first)
    assert step.usage.calls == 2
    assert "whole observation" in model.requests[1][0][-1].content
    assert env.turns[0].action == "noop()"


async def test_two_that_do_not_apply_are_a_typed_failure() -> None:
    env, _ = environment([answer("@back 7"), answer("@back 1\n= nothing like it\n+x")])
    await env.reset()
    step = await env.step("noop()")
    assert (step.outcome, step.observation) == (Outcome.MODEL_FAILED, None)
    assert "no line of the base begins with" in (step.detail or "")
    assert env.turns == ()


async def test_a_base_that_is_no_longer_in_the_context_does_not_apply() -> None:
    small = PROFILE.model_copy(update={"context": 4000, "attempts": 1})
    env, model = environment([], small)
    first = (await env.reset()).text
    filler = "\n".join(f"[{n}] link 'Row {n}'" for n in range(100))
    model._script = [answer(filler + f"\n[{i}] x" if i else filler) for i in range(4)] + [answer("@back 5")]
    for _ in range(4):
        assert (await env.step("noop()")).outcome is Outcome.OK
    assert env.missing > 0
    assert "goes further back" in str((await env.step("noop()")).detail)
    assert first


async def test_streaming_shows_no_delta_but_ends_in_the_whole() -> None:
    env, model = environment([])
    first = (await env.reset()).text
    model._script = [answer(write_delta(changed(first), first, 1))]
    items = [item async for item in env.stream("noop()")]
    assert not any(isinstance(item, Delta) and item.text for item in items)
    last = items[-1]
    assert isinstance(last, Step)
    assert last.observation is not None
    assert last.observation.text == changed(first)


@pytest.mark.parametrize("name", GUI)
def test_only_a_profile_that_asks_for_deltas_explains_them(name: str) -> None:
    domain, world = get_domain(name), load_world(name)
    full = PROFILE.model_copy(update={"state": "full"})
    initial = domain.initial_observation(world)
    assert "@back" in system_message(domain, world, PROFILE, initial)
    assert "@back" not in system_message(domain, world, full, initial)
    assert prompt_hash(domain, PROFILE) != prompt_hash(domain, full)


async def test_text_domains_have_no_deltas() -> None:
    world = World(name="box", domain="terminal", initial_state="")
    domain = get_domain("terminal")
    assert "@back" not in system_message(domain, world, PROFILE, domain.initial_observation(world))
    env = SimulatedEnvironment(world, domain, ScriptedModel([answer("@back 1")]), PROFILE)
    await env.reset()
    step = await env.step('[{"keystrokes": "cat delta.txt\\n", "duration": 1}]')
    assert step.observation is not None
    assert step.observation.text == "@back 1"

"""The embedded model as seven environments, and the same model through its own HTTP server."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from worldlm.core.errors import SetupError
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Model
from worldlm.core.types import DOMAIN_NAMES, Profile, Sampling, Step, World
from worldlm.domains import get_domain
from worldlm.domains.render import system_message
from worldlm.models import weights
from worldlm.models.embedded import EmbeddedModel
from worldlm.models.openai import OpenAIModel
from worldlm.rollout import read_script
from worldlm.simulate import SimulatedEnvironment, load_world

pytestmark = pytest.mark.anyio
EXAMPLES = Path(__file__).parents[2] / "examples"
# Few tokens: these tests are about the way there and back, not about quality.
PROFILE = Profile(
    name="short",
    prompt="compact",
    answer_tag=False,
    sampling=Sampling(temperature=0, max_tokens=24),
    context=8192,
    attempts=1,
)
CLOSED = {Outcome.OK, Outcome.CUT_OFF, Outcome.MODEL_FAILED}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def path() -> Path:
    try:
        found = weights.find()
    except SetupError as error:
        pytest.skip(str(error))
    if found is None:
        pytest.skip("needs the embedded weights: worldlm models pull")
    return found


@pytest.fixture(scope="module")
async def exact(path: Path) -> AsyncIterator[EmbeddedModel]:
    model = EmbeddedModel(path, deterministic=True)
    yield model
    await model.close()


@pytest.fixture(scope="module")
async def shared(path: Path) -> AsyncIterator[EmbeddedModel]:
    model = EmbeddedModel(path, slots=2)
    yield model
    await model.close()


async def play(model: Model, world: World, lines: Sequence[str]) -> list[Step]:
    environment = SimulatedEnvironment(world, get_domain(world.domain), model, PROFILE)
    await environment.reset(0)
    return [await environment.step(line) for line in lines]


def script(domain: str, turns: int) -> tuple[World, list[str]]:
    world = load_world(domain)
    return world, read_script(EXAMPLES / "scripts" / f"{domain}.txt", get_domain(domain), world)[:turns]


def check(steps: list[Step]) -> None:
    for step in steps:
        assert step.outcome in CLOSED, step.detail
        assert step.usage.prompt_tokens > 300
        assert (step.observation is None) == (step.outcome is not Outcome.OK)


@pytest.mark.parametrize("domain", ["terminal", pytest.param("android", marks=pytest.mark.long)])
async def test_a_text_and_a_gui_domain_step(shared: EmbeddedModel, domain: str) -> None:
    check(await play(shared, *script(domain, 1)))


@pytest.mark.long
@pytest.mark.parametrize("domain", DOMAIN_NAMES)
async def test_every_domain_steps_through_twenty_turns(shared: EmbeddedModel, domain: str) -> None:
    world, lines = script(domain, 20)
    environment = SimulatedEnvironment(world, get_domain(domain), shared, PROFILE)
    await environment.reset(0)
    asked = [step for step in [await environment.step(line) for line in lines] if step.usage.calls]
    assert len(asked) >= 10
    check(asked)


@pytest.mark.long
async def test_deterministic_mode_agrees_with_itself_and_with_its_own_server(exact: EmbeddedModel) -> None:
    world = World(name="tiny", domain="terminal", initial_state={"files": {"a.txt": "alpha\n"}})
    lines = [get_domain("terminal").from_line(line, world) for line in ("ls", "cat a.txt", "pwd")]
    first, again = await play(exact, world, lines), await play(exact, world, lines)
    server = OpenAIModel("embedded", exact.url, exact.api_key)
    served = await play(server, world, lines)
    await server.close()

    def seen(steps: list[Step]) -> list[object]:
        return [(step.outcome, step.observation) for step in steps]

    assert seen(first) == seen(again)
    assert seen(first) == seen(served)


@pytest.mark.long
async def test_a_whole_session_is_the_same_in_process_and_over_http(exact: EmbeddedModel) -> None:
    world, domain = load_world("terminal"), get_domain("terminal")
    lines = read_script(EXAMPLES / "terminal" / "session.txt", domain, world)
    in_process = await play(exact, world, lines)
    server = OpenAIModel("embedded", exact.url, exact.api_key)
    served = await play(server, world, lines)
    await server.close()
    assert len(lines) >= 12
    for line, ours, theirs in zip(lines, in_process, served, strict=True):
        assert (ours.outcome, ours.observation, ours.detail) == (theirs.outcome, theirs.observation, theirs.detail), (
            line
        )
    assert any(step.outcome is Outcome.OK for step in in_process)


async def test_the_prefix_of_a_session_is_evaluated_once(path: Path) -> None:
    world, lines = script("terminal", 3)
    model = EmbeddedModel(path, slots=1)
    steps = await play(model, world, lines)
    await model.close()
    assert steps[0].usage.cached_tokens < 50
    for step in steps[1:]:
        assert step.usage.cached_tokens > 0.8 * step.usage.prompt_tokens


async def test_compact_prompts_are_compact(exact: EmbeddedModel) -> None:
    for name in DOMAIN_NAMES:
        assert exact.count_tokens(get_domain(name).prompt("compact")) <= 250, name


async def test_default_worlds_leave_room_for_turns(exact: EmbeddedModel) -> None:
    for name in DOMAIN_NAMES:
        world, domain = load_world(name), get_domain(name)
        message = system_message(domain, world, PROFILE, domain.initial_observation(world))
        assert exact.count_tokens(message) < 5000, name

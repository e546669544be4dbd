"""The one conformance check over every simulated domain, each in a shipped world of its own."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from worldlm.core.types import DOMAIN_NAMES, Message, Profile, Sampling
from worldlm.domains import get_domain
from worldlm.domains.domain import schema_problem
from worldlm.rollout import read_script
from worldlm.simulate import SimulatedEnvironment, load_world
from worldlm.testing import ScriptedModel, check_environment

pytestmark = pytest.mark.anyio
SCRIPTS = Path(__file__).parent.parent / "examples" / "scripts"
PROFILES = {
    "compact": Profile(
        name="compact", prompt="compact", answer_tag=False, context=8192, sampling=Sampling(max_tokens=256)
    ),
    "full": Profile(name="full", prompt="full", thinking=True, context=32_768, sampling=Sampling(max_tokens=2048)),
}
INVALID = {
    "terminal": "ls",
    "swe": '{"name": "run", "arguments": {}}',
    "mcp": "list_projects",
    "search": "search",
    "web": "clik('12')",
    "android": '{"action_type": "tap"}',
    "os": "pyautogui.click(",
}


def answer(messages: Sequence[Message], sampling: Sampling) -> str:
    """Depends on the whole history, as a model's answer does."""
    seen = hashlib.sha256("\0".join(m.content for m in messages).encode()).hexdigest()[:12]
    return f"<think>{seen}</think><predicted_observation>answer {seen} {sampling.seed}</predicted_observation>"


@pytest.mark.parametrize("size", PROFILES)
@pytest.mark.parametrize("name", DOMAIN_NAMES)
async def test_simulated_domains_conform(name: str, size: str) -> None:
    world, domain = load_world(name), get_domain(name)
    script = Path(SCRIPTS / f"{name}.txt")
    actions = read_script(script, domain, world)
    assert len(actions) >= 20
    for action in actions:
        call = domain.parse_action(action, world)
        assert domain.parse_action(domain.format_action(call), world) == call
    result = await check_environment(
        lambda: SimulatedEnvironment(world, domain, ScriptedModel(answer), PROFILES[size]),
        actions[:6],
        invalid_action=INVALID[name],
    )
    assert result.agreement == 1
    assert result.skipped == {}


@pytest.mark.parametrize("name", ["swe", "mcp", "search"])
def test_example_scripts_call_tools_as_their_schemas_say(name: str) -> None:
    """All but the few calls that an environment is meant to refuse."""
    world, domain = load_world(name), get_domain(name)
    tools = {tool.name: tool for tool in domain.tools(world)}
    calls = [domain.parse_action(a, world) for a in read_script(SCRIPTS / f"{name}.txt", domain, world)]
    wrong = [call for call in calls if schema_problem(call.arguments, tools[call.name].parameters)]
    assert len(wrong) <= 1, wrong

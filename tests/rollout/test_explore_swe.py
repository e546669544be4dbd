"""The coding explorer: whatever it is told, and in a real repository."""

import json
import re
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.real.conftest import terminal_programs
from tests.real.test_swe import WORLD
from worldlm.core.errors import ActionError
from worldlm.core.outcomes import Outcome
from worldlm.core.types import Observation, Trajectory, Turn
from worldlm.domains.domain import bad_arguments
from worldlm.domains.swe import SWE, TOOLS, ShellResult, format_shell_result
from worldlm.real.swe import SweEnvironment
from worldlm.rollout import Job, RolloutLimits, run_episodes
from worldlm.rollout.explorers import make_explorer
from worldlm.rollout.explorers.explorer import Act
from worldlm.rollout.explorers.swe import ODD_COMMANDS, SHELL, SNIPPETS, behave

__all__ = ["terminal_programs"]  # a fixture that is shared with the tests of real environments

MOST = 400
INITIAL = Observation(text="The repository is in /home/ana/app:\nmain.py")
LISTED = {
    "list_directory": "/home/ana/app:\npkg/\ntests/\nREADME.md\nsetup.cfg",
    "glob": '2 files match "**/*.py" in /home/ana/app:\n/home/ana/app/pkg/core.py\n/home/ana/app/tests/test_core.py',
    "search_file_content": (
        '2 matches for "x" in /home/ana/app:\npkg/core.py:3: def run(x):\ntests/test_core.py:1: def test_run():'
    ),
    "read_file": "[lines 3-5 of 9]\ndef run(x):\n    if x == 1:\n        return x + 1",
}


def episode(seed: int, answers: Random | None = None, texts: list[str] | None = None) -> list[Act]:
    """What the explorer does when its calls are answered so."""
    running = behave(Random(seed), WORLD, INITIAL)
    acts: list[Act] = []
    act = next(running)
    try:
        while len(acts) < MOST:
            acts.append(act)
            text = answers.choice(texts) if answers and texts else answer(act)
            observation = None if text == "none" else Observation(text=text)
            outcome = Outcome.OK if observation else Outcome.INVALID_ACTION
            act = running.send(Turn(action=act.action, observation=observation, outcome=outcome, detail="x"))
    except StopIteration:
        pass
    return acts


def answer(act: Act) -> str:
    call = json.loads(act.action)
    if call["name"] == "run_shell_command":
        failed = ShellResult(
            command="x", directory="/", stdout="1 failed CONFLICT denied", exit_code=1, background_pids=(7,)
        )
        return format_shell_result(failed)
    return LISTED.get(call["name"], "Error: old_string occurs 2 times in x, expected 1")


ACTS = [act for seed in range(40) for act in episode(seed)]


def test_it_is_wide_and_errs_now_and_then() -> None:
    families = {act.label.removesuffix("/odd") for act in ACTS}
    assert len(families) >= 90
    assert {*SHELL, *ODD_COMMANDS} <= families
    assert 0.1 <= sum(act.label.endswith("/odd") for act in ACTS) / len(ACTS) <= 0.2
    assert len({act.action for act in ACTS}) > 0.5 * len(ACTS)
    assert {json.loads(act.action)["name"] for act in ACTS} >= {tool.name for tool in TOOLS}


def test_its_calls_are_as_the_tools_want_them_but_for_those_that_shall_not_be() -> None:
    tools = {tool.name: tool for tool in TOOLS}
    for act in ACTS:
        try:
            call = SWE.parse_action(act.action, WORLD)
        except ActionError:
            assert act.label == "arguments/odd"
            continue
        assert not bad_arguments(call, tools[call.name]) or act.label == "arguments/odd", act
        assert not re.search(r"(?<!\$)\{[a-z_]+\}", str(call.arguments.get("command", ""))), act


def test_one_seed_gives_one_episode() -> None:
    assert episode(7) == episode(7)
    assert episode(7) != episode(8)


@settings(max_examples=30)
@given(st.integers(), st.lists(st.text() | st.just("none"), min_size=1))
def test_no_answer_confuses_it(seed: int, texts: list[str]) -> None:
    assert len(episode(seed, Random(seed), texts)) > 20


def test_the_mistake_of_each_snippet_is_caught_by_its_cases() -> None:
    values = {"a": 3, "b": 8, "noun": "table", "verb": "scan"}
    for snippet in SNIPPETS:
        right, wrong, code = (text.format(**values) for text in (snippet.right, snippet.wrong, snippet.code))
        assert code.count(right) >= 1

        def holds(body: str, cases: tuple[tuple[str, str], ...] = snippet.cases) -> bool:
            scope: dict[str, object] = {}
            exec(f"def f(value):\n    {body}", scope)
            try:
                return all(eval(f"f({g.format(**values)}) == {w.format(**values)}", scope) for g, w in cases)
            except (ArithmeticError, TypeError):
                return False

        assert holds(code), code
        assert not holds(code.replace(right, wrong, 1)), code


@pytest.mark.anyio
@pytest.mark.usefixtures("terminal_programs")
async def test_in_a_real_repository_it_gets_things_done_and_every_result_has_its_form() -> None:
    async def explore() -> list[Trajectory]:
        found: list[Trajectory] = []
        limits = RolloutLimits(turns=40)
        jobs = [Job(str(n), lambda: SweEnvironment(WORLD), make_explorer("swe", n), n, None, limits) for n in (1, 2)]
        await run_episodes(jobs, found.append, concurrency=2)
        return sorted(found, key=lambda trajectory: trajectory.id)

    one, other = await explore(), await explore()
    outcomes = Counter(turn.outcome for trajectory in one for turn in trajectory.turns)
    assert set(outcomes) <= {Outcome.OK, Outcome.INVALID_ACTION}
    assert [trajectory.actions for trajectory in one] == [trajectory.actions for trajectory in other]
    for trajectory in one:
        for number, turn in enumerate(trajectory.turns):
            if turn.observation is not None:
                call = SWE.parse_action(turn.action, trajectory.world)
                checks = SWE.check(trajectory.world, trajectory.turns[:number], call, turn.observation)
                assert [check for check in checks if not check.passed] == []
    texts = [turn.observation.text for trajectory in one for turn in trajectory.turns if turn.observation]
    # How many of which session, hangs on how fast the machine is: what takes too long is asked otherwise.
    assert any(re.search(r"\b[1-9]\d* (?:passed|failed)\b", text) for text in texts)

"""The loop: every ending is a record, environments are closed, groups start alike."""

import math
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from worldlm.core.errors import InputError, PolicyError, SetupError, WorldlmError
from worldlm.core.jsonl import JsonlWriter, read_trajectories
from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.types import Observation, Profile, Sampling, Step, Tool, Trajectory, Turn, World
from worldlm.domains import get_domain
from worldlm.rollout import (
    Job,
    ModelPolicy,
    RolloutLimits,
    ScriptPolicy,
    group_jobs,
    read_script,
    run_episode,
    run_episodes,
)
from worldlm.rollout.explorers import Act, Behaviour, Explorer
from worldlm.testing import ScriptedModel, ToyEnvironment

pytestmark = pytest.mark.anyio
TERMINAL = get_domain("terminal")
WORLD = World(name="tiny", domain="terminal", initial_state={"user": "ada"})


async def run(
    actions: Sequence[str], environment: ToyEnvironment | None = None, **limits: Any
) -> tuple[Trajectory, ToyEnvironment]:
    toy = environment or ToyEnvironment()
    return await run_episode(ScriptPolicy(actions), toy, limits=RolloutLimits(**limits)), toy


async def test_a_finished_episode() -> None:
    trajectory, toy = await run(["add 2", "get"])
    assert trajectory.ending.kind is EndingKind.COMPLETED
    assert [turn.observation.text for turn in trajectory.turns if turn.observation] == ["count is 2", "count is 2"]
    assert trajectory.origin.source == "toy"
    assert not toy.open_sessions


@pytest.mark.parametrize(
    ("actions", "limits", "kind", "outcome", "turns"),
    [
        (["end", "get"], {}, EndingKind.TERMINATED, Outcome.OK, 1),
        (["get"] * 9, {"turns": 3}, EndingKind.TURN_LIMIT, Outcome.OK, 3),
        (["get", "boom", "get"], {}, EndingKind.FAILED, Outcome.INFRASTRUCTURE_FAILED, 2),
        (["boom", "get"], {"broken_steps": 2}, EndingKind.COMPLETED, Outcome.OK, 2),
        (
            ["boom", "boom", "get"],
            {"broken_steps": 2, "failed_steps": 9},
            EndingKind.FAILED,
            Outcome.INFRASTRUCTURE_FAILED,
            2,
        ),
        (["jump", "get"], {}, EndingKind.COMPLETED, Outcome.OK, 2),
        (["jump"] * 9, {"invalid_actions": 4}, EndingKind.FAILED, Outcome.INVALID_ACTION, 4),
    ],
)
async def test_endings(
    actions: list[str], limits: dict[str, Any], kind: EndingKind, outcome: Outcome, turns: int
) -> None:
    trajectory, toy = await run(actions, **limits)
    assert (trajectory.ending.kind, trajectory.ending.outcome) == (kind, outcome)
    assert len(trajectory.turns) == turns
    assert all((turn.observation is None) == (turn.outcome is not Outcome.OK) for turn in trajectory.turns)
    assert not toy.open_sessions


class Slow(ToyEnvironment):
    async def step(self, action: str) -> Step:
        if action == "sleep":
            await anyio.sleep(30)
        return await super().step(action)


async def test_the_time_limit_keeps_what_was_done() -> None:
    trajectory, toy = await run(["add 1", "sleep"], Slow(), seconds=0.2)
    assert trajectory.ending.kind is EndingKind.TIME_LIMIT
    assert len(trajectory.turns) == 1
    assert not toy.open_sessions


async def test_being_cancelled_is_recorded_and_goes_on() -> None:
    records: list[Trajectory] = []
    toy = Slow()
    with anyio.move_on_after(0.1) as scope:
        await run_episode(ScriptPolicy(["add 1", "sleep"]), toy, record=records.append)
    assert scope.cancelled_caught
    assert [(r.ending.kind, len(r.turns)) for r in records] == [(EndingKind.CANCELLED, 1)]
    assert not toy.open_sessions


class Flaky(ToyEnvironment):
    failures = 2

    async def step(self, action: str) -> Step:
        if self.failures:
            self.failures -= 1
            return Step(observation=None, outcome=Outcome.INFRASTRUCTURE_FAILED, detail="flake")
        return await super().step(action)


async def test_a_flake_is_tried_again_when_allowed() -> None:
    trajectory, _ = await run(["add 1"], Flaky(), step_attempts=3)
    assert trajectory.ending.kind is EndingKind.COMPLETED
    trajectory, _ = await run(["add 1"], Flaky(), step_attempts=2)
    assert trajectory.ending.kind is EndingKind.FAILED


class Broken(ToyEnvironment):
    def __init__(self, error: Exception, where: str):
        super().__init__()
        self.error, self.where = error, where

    async def reset(self, seed: int | None = None) -> Observation:
        if self.where == "reset":
            raise self.error
        return await super().reset(seed)

    async def step(self, action: str) -> Step:
        if self.where == "step":
            raise self.error
        return await super().step(action)


@pytest.mark.parametrize("where", ["reset", "step"])
@pytest.mark.parametrize("error", [SetupError("no bwrap"), RuntimeError("bug")])
async def test_an_environment_that_breaks_is_a_record(error: Exception, where: str) -> None:
    trajectory, _ = await run(["get"], Broken(error, where))
    assert trajectory.ending.kind is EndingKind.FAILED
    assert trajectory.ending.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert str(error) in (trajectory.ending.detail or "")
    assert (trajectory.initial is None) == (where == "reset")


async def test_bad_input_is_raised() -> None:
    with pytest.raises(InputError, match="too small"):
        await run(["get"], Broken(InputError("context too small"), "reset"))


class Gone(ToyEnvironment):
    """Fails in a way that ends the episode: there is nothing left to step in."""

    def __init__(self, outcome: Outcome):
        super().__init__()
        self.outcome = outcome

    async def step(self, action: str) -> Step:
        return Step(observation=None, outcome=self.outcome, detail="it is gone", truncated=True)


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [(Outcome.INFRASTRUCTURE_FAILED, EndingKind.FAILED), (Outcome.TIMED_OUT, EndingKind.TIME_LIMIT)],
)
async def test_an_environment_that_is_gone_is_no_turn_limit(outcome: Outcome, kind: EndingKind) -> None:
    trajectory = await run_episode(ScriptPolicy(["get", "get"]), Gone(outcome))
    assert (trajectory.ending.kind, trajectory.ending.outcome) == (kind, outcome)
    assert trajectory.ending.detail == "it is gone"
    assert len(trajectory.turns) == 1


async def test_what_only_a_start_can_tell_stands_in_the_trajectory() -> None:
    class Discovering(ToyEnvironment):
        async def reset(self, seed: int | None = None) -> Observation:
            first = await super().reset(seed)
            self.world = self.world.model_copy(update={"tools": (Tool(name="add"),)})
            return first

    trajectory = await run_episode(ScriptPolicy(["get"]), Discovering())
    assert [tool.name for tool in trajectory.world.tools] == ["add"]


async def test_the_label_of_a_policy_and_the_time_of_a_step_are_in_the_turn() -> None:
    def behave(random: Random, world: World, initial: Observation) -> Behaviour:
        turn = yield Act("get", "look")
        yield Act("boom" if turn.observation else "get", "look/odd")

    first, second = (await run_episode(Explorer("test", behave, 1), ToyEnvironment())).turns
    assert [first.label, second.label] == ["look", "look/odd"]
    assert first.usage.seconds > 0
    assert second.outcome is Outcome.INFRASTRUCTURE_FAILED


async def test_an_environment_that_does_not_close_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clings(ToyEnvironment):
        async def close(self) -> None:
            await anyio.sleep(30)

    monkeypatch.setattr("worldlm.rollout.rollout.CLOSE_SECONDS", 0.1)
    with anyio.fail_after(10):
        trajectory, _ = await run(["get"], Clings())
    assert trajectory.ending.kind is EndingKind.COMPLETED
    assert len(trajectory.turns) == 1


class CutOff(ToyEnvironment):
    async def step(self, action: str) -> Step:
        return Step(observation=None, outcome=Outcome.CUT_OFF, detail="too long")


async def test_a_script_may_go_on_after_the_models_failures() -> None:
    trajectory, _ = await run(["a", "b", "c"], CutOff(), failed_steps=9)
    assert (trajectory.ending.kind, len(trajectory.turns)) == (EndingKind.COMPLETED, 3)
    trajectory, _ = await run(["a", "b", "c"], CutOff(), failed_steps=2, broken_steps=9)
    assert (trajectory.ending.outcome, len(trajectory.turns)) == (Outcome.CUT_OFF, 2)


async def test_an_environment_that_fails_to_close_is_a_record_all_the_same() -> None:
    class Jams(ToyEnvironment):
        async def close(self) -> None:
            raise OSError("the lock is gone")

    records: list[Trajectory] = []
    jobs = [Job(f"e{n}", Jams, ScriptPolicy(["get"])) for n in range(3)]
    await run_episodes(jobs, records.append)
    assert [(r.ending.kind, len(r.turns)) for r in records] == [(EndingKind.COMPLETED, 1)] * 3
    assert "the lock is gone" in (records[0].ending.detail or "")


async def test_many_episodes_are_isolated_and_flushed(tmp_path: Path) -> None:
    path, running, peak = tmp_path / "t.jsonl", 0, 0

    class Counting(ToyEnvironment):
        async def reset(self, seed: int | None = None) -> Observation:
            nonlocal running, peak
            running += 1
            peak = max(peak, running)
            await anyio.sleep(0.01)
            return await super().reset(seed)

        async def close(self) -> None:
            nonlocal running
            running -= 1
            await super().close()

    scripts = [["get"], ["boom"], ["end"], ["jump", "get"]] * 5
    jobs = [Job(f"e{n}", Counting, ScriptPolicy(script), seed=n) for n, script in enumerate(scripts)]
    with JsonlWriter(path) as writer:

        def record(trajectory: Trajectory) -> None:
            writer.write(trajectory)
            assert read_trajectories(path).items[-1] == trajectory

        await run_episodes(jobs, record, concurrency=6)
    written = read_trajectories(path).items
    assert sorted(t.id for t in written) == sorted(job.id for job in jobs)
    assert sum(t.ending.kind is EndingKind.FAILED for t in written) == 5
    assert peak == 6
    assert running == 0


async def test_a_run_in_which_nothing_works_stops_early() -> None:
    records: list[Trajectory] = []
    jobs = [Job(f"e{n}", ToyEnvironment, ScriptPolicy(["boom"])) for n in range(100)]
    with pytest.raises(WorldlmError, match=r"first 8 episodes all failed.*boom"):
        await run_episodes(jobs, records.append, concurrency=1)
    assert len(records) == 8


async def test_bad_input_stops_a_run_at_once() -> None:
    jobs = [Job(f"e{n}", lambda: Broken(InputError("too small"), "reset"), ScriptPolicy(["get"])) for n in range(9)]
    with pytest.raises(InputError, match="too small"):
        await run_episodes(jobs, lambda trajectory: None)


async def test_cancelled_runs_record_what_was_running() -> None:
    records: list[Trajectory] = []
    jobs = [Job(f"e{n}", Slow, ScriptPolicy(["get", "sleep"])) for n in range(10)]
    with anyio.move_on_after(0.2):
        await run_episodes(jobs, records.append, concurrency=3)
    assert [r.ending.kind for r in records] == [EndingKind.CANCELLED] * 3


async def test_members_of_a_group_share_seed_and_start() -> None:
    records: list[Trajectory] = []
    limits = RolloutLimits(turns=5)
    jobs = group_jobs("g", ToyEnvironment, [ScriptPolicy(["get"]), ScriptPolicy(["add 1"])], 4, limits)
    await run_episodes(jobs, records.append)
    assert {(r.group, r.initial.text if r.initial else None) for r in records} == {("g", "count is 4")}

    class Lucky(ToyEnvironment):
        draws = iter(range(100))

        async def reset(self, seed: int | None = None) -> Observation:
            return await super().reset(next(self.draws))

    records.clear()
    await run_episodes(group_jobs("g", Lucky, [ScriptPolicy(["get"])] * 3, 4, limits), records.append, concurrency=1)
    assert [r.ending.kind for r in records] == [EndingKind.COMPLETED, EndingKind.FAILED, EndingKind.FAILED]
    assert "first observation differs" in (records[-1].ending.detail or "")


# Policies.


def test_a_script_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "s.txt"
    path.write_text('# a comment\nls -l\n\n[{"keystrokes": "x", "duration": 0}]\nC-c\n')
    actions = read_script(path, TERMINAL, WORLD)
    assert actions == [
        TERMINAL.from_line("ls -l", WORLD),
        '[{"keystrokes": "x", "duration": 0}]',
        TERMINAL.from_line("C-c", WORLD),
    ]
    many = tmp_path / "s.jsonl"
    many.write_text('"a\\nb"\n"c"\n')
    assert read_script(many, TERMINAL, WORLD) == ["a\nb", "c"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("s.txt", "# nothing\n", "holds no action"),
        ("s.jsonl", '"ok"\n{"a": 1}\n', r"s\.jsonl:2: an action is a JSON string"),
        ("missing.txt", None, "cannot read script"),
    ],
)
def test_a_bad_script_is_named(tmp_path: Path, name: str, content: str | None, words: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=words):
        read_script(path, TERMINAL, WORLD)


PROFILE = Profile(name="agent", sampling=Sampling(max_tokens=50), context=2000)


async def test_a_model_acts_until_it_is_done() -> None:
    model = ScriptedModel(["<think>hm</think>add 2", "```\nget\n```", "DONE"])
    policy = ModelPolicy(model, TERMINAL, PROFILE, "count to two")
    trajectory = await run_episode(policy, ToyEnvironment())
    assert trajectory.actions == ["add 2", "get"]
    assert trajectory.ending.kind is EndingKind.COMPLETED
    system, first, *rest = model.requests[-1][0]
    assert "count to two" in system.content
    assert first.content == "count is 0"
    assert [m.content for m in rest] == ["add 2", "count is 2", "get", "count is 2"]


async def test_a_model_policy_sees_the_words_of_a_failure() -> None:
    model = ScriptedModel(["jump", "DONE"])
    await run_episode(ModelPolicy(model, TERMINAL, PROFILE, "go"), ToyEnvironment())
    assert "unknown action 'jump'" in model.requests[-1][0][-1].content


async def test_a_model_policy_keeps_the_newest_turns() -> None:
    turns = [Turn(action=f"a{n}", observation=Observation(text="x" * 300)) for n in range(50)]
    model = ScriptedModel(["get"])
    await ModelPolicy(model, TERMINAL, PROFILE, "go").act(WORLD, Observation(text="start"), turns)
    messages = model.requests[0][0]
    shown = (len(messages) - 2) // 2
    assert 0 < shown < 50
    assert f"[Turns 1 to {50 - shown} are not shown.]" in messages[1].content
    assert messages[-2].content == "a49"


async def test_a_policy_whose_model_fails_ends_the_episode() -> None:
    policy = ModelPolicy(ScriptedModel([]), TERMINAL, PROFILE, "go")
    trajectory = await run_episode(policy, ToyEnvironment())
    assert (trajectory.ending.kind, trajectory.ending.outcome) == (EndingKind.FAILED, Outcome.MODEL_FAILED)
    with pytest.raises(PolicyError):
        await policy.act(WORLD, Observation(text=""), [])


def test_no_limit_is_finite_by_accident() -> None:
    assert RolloutLimits().seconds == math.inf


def test_only_a_line_feed_ends_a_line_of_a_script(tmp_path: Path) -> None:
    path = tmp_path / "s.txt"
    path.write_bytes("\ufeff# a comment\r\necho a\u2028b\x0cc\x85d\r\n\r\nls\r\n".encode())
    lines = ("echo a\u2028b\x0cc\x85d", "ls")
    assert read_script(path, TERMINAL, WORLD) == [TERMINAL.from_line(line, WORLD) for line in lines]

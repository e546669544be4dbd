"""The simulated environment: history, seeds, failures, limits, snapshots, streaming."""

import asyncio
from collections.abc import Sequence

import anyio
import pytest

from worldlm.core.errors import InputError
from worldlm.core.outcomes import Outcome
from worldlm.core.types import Completion, Delta, Limits, Message, Observation, Profile, Sampling, Step, Turn, World
from worldlm.domains import get_domain
from worldlm.domains.render import prompt_hash
from worldlm.domains.terminal import CONFIRM
from worldlm.simulate import SimulatedEnvironment
from worldlm.testing import ScriptedModel

pytestmark = pytest.mark.anyio
TERMINAL = get_domain("terminal")
WORLD = World(
    name="tiny",
    domain="terminal",
    initial_state={"user": "ada", "host": "lab", "files": {"a.txt": "alpha\n"}},
    hidden_state="the root password is 'swordfish'",
    seed=7,
)
PROFILE = Profile(name="plain", prompt="compact", answer_tag=False, sampling=Sampling(temperature=0, max_tokens=100))


def keys(line: str) -> str:
    return TERMINAL.from_line(line, WORLD)


def echo(messages: Sequence[Message], sampling: Sampling) -> str:
    return f"seen {len(messages)} messages, seed {sampling.seed}"


def environment(model: ScriptedModel, world: World = WORLD, profile: Profile = PROFILE) -> SimulatedEnvironment:
    return SimulatedEnvironment(world, TERMINAL, model, profile)


async def test_the_model_is_shown_the_whole_history_in_order() -> None:
    model = ScriptedModel(["one", "two", "three"])
    env = environment(model)
    await env.reset()
    for line in ("cd /srv", "export A=1", "pwd; echo $A"):
        await env.step(keys(line))
    messages, _ = model.requests[-1]
    assert [m.role for m in messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert [m.content for m in messages[1:]] == [
        keys("cd /srv"),
        "one",
        keys("export A=1"),
        "two",
        keys("pwd; echo $A"),
    ]
    system = messages[0].content
    for part in ("bash", "--- /home/ada/a.txt", "alpha", "swordfish", "ada@lab:~$"):
        assert part in system


async def test_history_wears_the_tag_when_the_profile_asks_for_it() -> None:
    model = ScriptedModel(["<predicted_observation>one</predicted_observation>"] * 2)
    env = environment(model, profile=PROFILE.model_copy(update={"answer_tag": True}))
    await env.reset()
    step = await env.step(keys("ls"))
    await env.step(keys("ls"))
    assert step.observation == Observation(text="one")
    assert model.requests[-1][0][2].content == "<predicted_observation>one</predicted_observation>"


async def test_the_agent_does_not_see_hidden_state() -> None:
    env = environment(ScriptedModel([]))
    assert env.world.hidden_state is None
    assert "swordfish" not in env.world.model_dump_json()


async def test_seeds_follow_seed_history_and_action() -> None:
    async def seeds(seed: int | None, lines: Sequence[str]) -> list[int | None]:
        model = ScriptedModel(lambda messages, sampling: "same")
        env = environment(model)
        await env.reset(seed)
        for line in lines:
            await env.step(keys(line))
        return [sampling.seed for _, sampling in model.requests]

    base = await seeds(None, ["ls", "ls", "pwd"])
    assert base == await seeds(7, ["ls", "ls", "pwd"])  # the world's own seed
    assert len(set(base)) == 3
    assert base[0] != (await seeds(8, ["ls"]))[0]
    assert base[2] != (await seeds(7, ["ls", "pwd", "pwd"]))[2]


async def test_a_failure_does_not_advance_history_and_can_be_retried() -> None:
    failure = Completion(outcome=Outcome.INFRASTRUCTURE_FAILED, finish="error", detail="HTTP 500")
    model = ScriptedModel([failure, "fine"])
    env = environment(model)
    await env.reset()
    step = await env.step(keys("ls"))
    assert (step.observation, step.outcome, step.detail) == (None, Outcome.INFRASTRUCTURE_FAILED, "HTTP 500")
    assert env.turns == ()
    step = await env.step(keys("ls"))
    assert step.observation == Observation(text="fine")
    assert model.requests[0] == model.requests[1]


@pytest.mark.parametrize(
    ("reply", "outcome", "calls"),
    [
        ("", Outcome.MODEL_FAILED, 3),
        ("<think>for ever", Outcome.CUT_OFF, 1),
        (Completion(text="half", finish="length"), Outcome.CUT_OFF, 1),
        (Completion(outcome=Outcome.TIMED_OUT, detail="60 s"), Outcome.TIMED_OUT, 1),
        (Completion(outcome=Outcome.BUDGET_EXHAUSTED, detail="spent"), Outcome.BUDGET_EXHAUSTED, 1),
    ],
)
async def test_calls_for_one_step_are_bounded(reply: str | Completion, outcome: Outcome, calls: int) -> None:
    profile = PROFILE.model_copy(update={"attempts": 3, "sampling": Sampling(temperature=1.0)})
    model = ScriptedModel([reply] * 9)
    env = environment(model, profile=profile)
    await env.reset()
    step = await env.step(keys("ls"))
    assert (step.observation, step.outcome) == (None, outcome)
    assert len(model.requests) == calls
    assert step.usage.calls == calls
    assert len({sampling.seed for _, sampling in model.requests}) == calls


async def test_an_invalid_action_tells_why_and_costs_no_call() -> None:
    model = ScriptedModel(["fine"])
    env = environment(model)
    await env.reset()
    step = await env.step('[{"keystroke": "ls\\n"}]')
    assert step.outcome is Outcome.INVALID_ACTION
    assert "did you mean 'keystrokes'" in (step.detail or "")
    assert not model.requests
    assert (await env.step(keys("ls"))).outcome is Outcome.OK


async def test_the_harness_answers_a_claim_of_completion() -> None:
    model = ScriptedModel(["fine"])
    env = environment(model)
    await env.reset()
    first = await env.step("[]")
    assert first.observation == Observation(text=CONFIRM)
    assert not first.terminated
    assert (await env.step(keys("ls"))).outcome is Outcome.OK
    await env.step("[]")
    assert (await env.step("[]")).terminated
    after = await env.step(keys("ls"))
    assert after.observation is None
    assert after.terminated
    assert len(model.requests) == 1


async def test_the_turn_limit_truncates_and_does_not_terminate() -> None:
    env = environment(ScriptedModel(echo), WORLD.model_copy(update={"limits": Limits(turns=2)}))
    await env.reset()
    steps = [await env.step(keys("ls")) for _ in range(2)]
    assert [(s.truncated, s.terminated) for s in steps] == [(False, False), (True, False)]


async def test_violations_are_noted_and_not_hidden() -> None:
    env = environment(ScriptedModel(["ada@lab:~$ ls\na.txt\nada@lab:~$", "```\nwrong\n```"]))
    await env.reset()
    assert (await env.step(keys("ls"))).violations == ()
    step = await env.step(keys("ls"))
    assert {check.rule for check in step.violations} == {"echo", "prompt"}
    assert env.turns[-1].violations == step.violations


async def test_history_that_outgrows_the_context_is_shortened_and_marked() -> None:
    profile = PROFILE.model_copy(update={"context": 2400})
    model = ScriptedModel(lambda messages, sampling: "x" * 300)
    env = environment(model, profile=profile)
    await env.reset()
    for number in range(60):
        assert (await env.step(keys(f"echo {number}"))).outcome is Outcome.OK
    messages, _ = model.requests[-1]
    assert messages[0].role == "system"
    assert "alpha" in messages[0].content
    assert messages[-1].content.endswith(keys("echo 59"))
    shown = (len(messages) - 2) // 2
    assert messages[1].content.startswith(f"[Turns 1 to {59 - shown} are not shown")
    assert messages[-3].content.endswith(keys("echo 58"))
    # Turns go several at a time, so that the prompt's prefix holds between.
    prefixes = {request[1].content for request, _ in model.requests}
    assert len(prefixes) < 20


async def test_a_retried_step_does_not_change_what_is_shown() -> None:
    profile = PROFILE.model_copy(update={"context": 2400})
    plain = ScriptedModel(lambda messages, sampling: "x" * 300)
    one, other = (
        environment(plain, profile=profile),
        environment(ScriptedModel(lambda m, s: "x" * 300), profile=profile),
    )
    await one.reset()
    await other.reset()
    for number in range(30):
        await one.step(keys(f"echo {number}"))
        await other.step(keys(f"echo {number}"))
    model = ScriptedModel([Completion(outcome=Outcome.TIMED_OUT, detail="slow")] * 5 + ["fine"])
    retried = environment(model, profile=profile)
    assert one.initial is not None
    await retried.resume(one.initial, one.turns, 7)
    for _ in range(6):
        await retried.step(keys("echo " + "y" * 900))
    await one.step(keys("echo " + "y" * 900))
    assert all(request == plain.requests[-1] for request in model.requests)


async def test_an_overflow_that_the_server_reports_drops_old_turns() -> None:
    def small_server(messages: Sequence[Message], sampling: Sampling) -> Completion:
        if len(messages) > 6:
            return Completion(finish="context_overflow", outcome=Outcome.INFRASTRUCTURE_FAILED, detail="too long")
        return Completion(text="fine")

    profile = PROFILE.model_copy(update={"attempts": 4})
    env = environment(ScriptedModel(small_server), profile=profile)
    await env.reset()
    for _ in range(8):
        step = await env.step(keys("ls"))
        assert step.outcome is Outcome.OK


async def test_a_world_that_does_not_fit_is_refused_with_the_numbers() -> None:
    world = WORLD.model_copy(update={"context": "long " * 2000})
    with pytest.raises(InputError, match=r"tokens.*larger context"):
        await environment(ScriptedModel([]), world, PROFILE.model_copy(update={"context": 1024})).reset()


async def test_fork_continues_from_any_turn() -> None:
    model = ScriptedModel(lambda messages, sampling: f"answer {len(messages)} {sampling.seed}")
    env = environment(model)
    await env.reset()
    steps = [await env.step(keys(f"echo {n}")) for n in range(4)]
    branch = await env.fork(2)
    assert [turn.action for turn in branch.turns] == [keys("echo 0"), keys("echo 1")]
    assert (await branch.step(keys("echo 2"))).observation == steps[2].observation
    other = await branch.step(keys("echo other"))
    assert other.observation != steps[3].observation
    assert len(env.turns) == 4
    with pytest.raises(InputError, match="turns 0 to 4"):
        await env.fork(5)


async def test_snapshots_refuse_what_is_none() -> None:
    env = environment(ScriptedModel([]))
    await env.reset()
    with pytest.raises(InputError, match="not a snapshot"):
        await env.restore({"turns": []})


async def test_resume_leaves_failed_turns_out() -> None:
    model = ScriptedModel(["fine"])
    env = environment(model)
    failed = Turn(action=keys("x"), observation=None, outcome=Outcome.TIMED_OUT, detail="slow")
    await env.resume(Observation(text="$"), [Turn(action=keys("ls"), observation=Observation(text="a")), failed])
    await env.step(keys("pwd"))
    assert [m.content for m in model.requests[0][0][1:]] == [keys("ls"), "a", keys("pwd")]


async def test_streaming_shows_text_and_thinking_and_ends_in_the_step() -> None:
    env = environment(ScriptedModel(["<think>hm</think><predicted_observation>a\nb</predicted_observation>"]))
    await env.reset()
    items = [item async for item in env.stream(keys("ls"))]
    deltas = [item for item in items if isinstance(item, Delta)]
    assert "".join(d.text for d in deltas) == "a\nb"
    assert "".join(d.thinking for d in deltas) == "hm"
    assert isinstance(items[-1], Step)
    assert items[-1].observation == Observation(text="a\nb")
    assert items[-1].thinking == "hm"


async def test_steps_of_one_environment_run_one_after_another() -> None:
    model = ScriptedModel(lambda messages, sampling: str(len(messages)), delay=0.01)
    env = environment(model)
    await env.reset()
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(env.step, keys("ls"))
    assert [len(messages) for messages, _ in model.requests] == [2, 4, 6, 8, 10]


async def test_the_origin_names_model_profile_and_prompt() -> None:
    env = environment(ScriptedModel([]))
    await env.reset(3)
    simulator = env.origin.simulator
    assert simulator is not None
    assert (simulator.model, simulator.profile, env.origin.seed) == ("scripted", "plain", 3)
    assert simulator.prompt_hash == prompt_hash(TERMINAL, PROFILE)
    assert simulator.prompt_hash != prompt_hash(TERMINAL, PROFILE.model_copy(update={"prompt": "full"}))


async def test_a_lone_surrogate_is_replaced_at_the_boundary() -> None:
    env = environment(ScriptedModel(["half \ud83d pair"]))
    await env.reset()
    step = await env.step(keys("ls"))
    assert step.observation == Observation(text="half \ufffd pair")
    step.model_dump_json()


class _Slow:
    name = "slow"

    def __init__(self) -> None:
        self.asked = anyio.Event()
        self.go = anyio.Event()

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        self.asked.set()
        await self.go.wait()
        return Completion(text="late")


@pytest.mark.parametrize("change", ["close", "reset", "restore", "resume"])
async def test_a_step_never_lands_in_another_history(change: str) -> None:
    model = _Slow()
    env = SimulatedEnvironment(WORLD, TERMINAL, model, PROFILE)
    initial = await env.reset()
    saved = await env.snapshot()
    steps: list[Step] = []

    async def act() -> None:
        steps.append(await env.step(keys("ls")))

    async with anyio.create_task_group() as group:
        group.start_soon(act)
        await model.asked.wait()
        if change == "close":
            await env.close()
        elif change == "reset":
            await env.reset()
        elif change == "restore":
            await env.restore(saved)
        else:
            await env.resume(initial, ())
        model.go.set()
    assert [step.outcome for step in steps] == [Outcome.CANCELLED]
    assert env.turns == ()


async def test_what_is_no_snapshot_of_this_world_is_an_input_error() -> None:
    env = environment(ScriptedModel(["one"]))
    await env.reset()
    saved = await env.snapshot()
    other = environment(ScriptedModel([]), WORLD.model_copy(update={"name": "other"}))
    with pytest.raises(InputError, match="a snapshot of world 'tiny', and not of 'other'"):
        await other.restore(saved)
    bad: object
    for bad in (None, [], {}, 3, saved | {"turns": 3}, saved | {"turns": [{}]}, saved | {"seed": "x"}):
        with pytest.raises(InputError, match="not a snapshot"):
            await env.restore(bad)  # type: ignore[arg-type]


async def test_a_branch_of_an_episode_that_is_over_is_over() -> None:
    env = environment(ScriptedModel(["one"]))
    await env.reset()
    await env.step("[]")
    await env.step("[]")
    over, before = await env.fork(), await env.fork(1)
    assert (await over.step(keys("ls"))).terminated
    assert (await before.step(keys("ls"))).outcome is Outcome.OK


async def test_finished_steps_leave_nothing_for_the_event_loop() -> None:
    env = environment(ScriptedModel(echo))
    await env.reset()
    before = len(asyncio.all_tasks())
    for _ in range(50):
        await env.step(keys("ls"))
    await asyncio.sleep(0)  # what was put off becomes tasks now
    assert len(asyncio.all_tasks()) == before

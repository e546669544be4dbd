"""Answers out of files: recorded calls and recorded trajectories."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from worldlm.core.errors import InputError
from worldlm.core.jsonl import JsonlWriter
from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.types import (
    Completion,
    Ending,
    Message,
    Observation,
    Origin,
    Profile,
    Sampling,
    Trajectory,
    Turn,
    World,
)
from worldlm.domains import get_domain
from worldlm.models import RecordedCall, ReplayModel, get_profile
from worldlm.simulate.environment import SimulatedEnvironment

pytestmark = pytest.mark.anyio

GREEDY = Sampling(temperature=0.0)
WORLD = World(name="box", domain="terminal", initial_state={"files": {"a.txt": "hello\n"}})


def keys(text: str) -> str:
    return '[{"keystrokes": "%s\\n", "duration": 0.5}]' % text  # noqa: UP031 - braces


def trajectory(pairs: Sequence[tuple[str, str | None]], initial: str = "user@box:~$ ", name: str = "t") -> Trajectory:
    turns = tuple(
        Turn(action=action, observation=None, outcome=Outcome.INVALID_ACTION, detail="what?")
        if text is None
        else Turn(action=action, observation=Observation(text=text), thinking=f"about {text}")
        for action, text in pairs
    )
    return Trajectory(
        id=name,
        world=WORLD,
        initial=Observation(text=initial),
        turns=turns,
        ending=Ending(kind=EndingKind.COMPLETED),
        policy="script",
        origin=Origin(kind="real", source="test"),
    )


def stored(path: Path, *trajectories: Trajectory) -> Path:
    with JsonlWriter(path) as writer:
        for item in trajectories:
            writer.write(item)
    return path


def request(*contents: str, system: str = "s") -> list[Message]:
    """System, then user and assistant in turn."""
    roles = ("user", "assistant")
    talk = [Message.model_validate({"role": roles[n % 2], "content": text}) for n, text in enumerate(contents)]
    return [Message(role="system", content=system), *talk]


def text_of(completion: Completion) -> str:
    assert completion.outcome is Outcome.OK, completion.detail
    return completion.text.removeprefix("<predicted_observation>").removesuffix("</predicted_observation>")


SESSION = [
    (keys("ls"), "user@box:~$ ls\na.txt\nuser@box:~$ "),
    ("nonsense", None),
    (keys("cat a.txt"), "user@box:~$ cat a.txt\nhello\nuser@box:~$ "),
    ('[{"keystrokes": "", "duration": 1}]', ""),
    (keys("ls"), "user@box:~$ ls\n<think>a.txt</think>\nuser@box:~$ "),
]


@pytest.mark.parametrize("profile", [get_profile("replay"), get_profile("embedded"), get_profile("full")])
async def test_a_session_with_the_actions_of_a_recording_gets_its_observations(
    tmp_path: Path, profile: Profile
) -> None:
    model = ReplayModel.load(stored(tmp_path / "t.jsonl", trajectory(SESSION)))
    environment = SimulatedEnvironment(WORLD, get_domain("terminal"), model, profile)
    await environment.reset()
    steps = [await environment.step(action) for action, _ in SESSION]
    seen = [step.observation.text if step.observation else None for step in steps]
    assert seen == [text for _, text in SESSION]
    assert steps[0].thinking == "about user@box:~$ ls\na.txt\nuser@box:~$ "
    assert steps[1].outcome is Outcome.INVALID_ACTION


async def test_a_history_that_was_shortened_still_fits(tmp_path: Path) -> None:
    pairs = [(keys(f"echo {n}"), f"out {n} " + "x" * 300) for n in range(60)]
    model = ReplayModel.load(stored(tmp_path / "t.jsonl", trajectory(pairs)))
    small = get_profile("embedded").model_copy(update={"context": 2048})
    environment = SimulatedEnvironment(WORLD, get_domain("terminal"), model, small)
    await environment.reset()
    for action, text in pairs:
        step = await environment.step(action)
        assert step.observation is not None, step.detail
        assert step.observation.text == text


async def test_another_action_is_a_miss_that_names_the_nearest(tmp_path: Path) -> None:
    model = ReplayModel.load(stored(tmp_path / "t.jsonl", trajectory([("list files", "a.txt"), ("count", "1")])))
    completion = await model.complete(request("list file"), GREEDY)
    assert completion.outcome is Outcome.MODEL_FAILED
    assert completion.text == ""
    assert "t.jsonl" in (completion.detail or "")
    assert "'list files'" in (completion.detail or "")


@pytest.mark.parametrize("talk", [("count",), ("count", "1", "list"), ("list", "a", "list"), ("x", "y", "count")])
async def test_an_action_elsewhere_in_the_recording_is_a_miss(tmp_path: Path, talk: tuple[str, ...]) -> None:
    model = ReplayModel.load(stored(tmp_path / "t.jsonl", trajectory([("list", "a.txt"), ("count", "1")])))
    assert (await model.complete(request(*talk), GREEDY)).outcome is Outcome.MODEL_FAILED


async def test_an_action_that_ends_like_another_is_a_miss(tmp_path: Path) -> None:
    model = ReplayModel.load(stored(tmp_path / "t.jsonl", trajectory([("ls", "a.txt")])))
    assert (await model.complete(request("echo ls"), GREEDY)).outcome is Outcome.MODEL_FAILED


async def test_of_several_recordings_the_one_with_the_same_observations_counts(tmp_path: Path) -> None:
    one = trajectory([("roll", "3"), ("roll", "4"), ("sum", "7")], initial="dice A", name="one")
    two = trajectory([("roll", "5"), ("roll", "6"), ("sum", "11")], initial="dice B", name="two")
    model = ReplayModel.load(stored(tmp_path / "t.jsonl", one, two))
    assert text_of(await model.complete(request("roll", "5", "roll", "6", "sum"), GREEDY)) == "11"
    tagged = ("roll", "<predicted_observation>3</predicted_observation>", "roll", "4", "sum")
    assert text_of(await model.complete(request(*tagged), GREEDY)) == "7"
    assert text_of(await model.complete(request("roll", system="# First observation\ndice B"), GREEDY)) == "5"
    assert text_of(await model.complete(request("roll", "3", "roll", system="dice A"), GREEDY)) == "4"


async def test_an_observation_is_written_as_its_domain_writes_it(tmp_path: Path) -> None:
    path = stored(tmp_path / "t.jsonl", trajectory([("list", "a.txt")]))
    model = ReplayModel.load(path, write_observation=lambda seen: f"[{seen.text}]")
    assert text_of(await model.complete(request("list"), GREEDY)) == "[a.txt]"


async def test_recorded_calls_are_found_by_the_exact_request(tmp_path: Path) -> None:
    def call(text: str, completion: Completion, seed: int = 1) -> RecordedCall:
        sampling = Sampling(seed=seed)
        return RecordedCall(model="m", messages=tuple(request(text)), sampling=sampling, completion=completion)

    failure = Completion(finish="error", outcome=Outcome.TIMED_OUT, detail="late")
    calls = [call("a", failure), call("a", Completion(text="good")), call("a", failure), call("b", failure)]
    with JsonlWriter(tmp_path / "calls.jsonl") as writer:
        for item in calls:
            writer.write(item)
    model = ReplayModel.load(tmp_path / "calls.jsonl")
    assert (await model.complete(request("a"), Sampling(seed=1))).text == "good"
    assert (await model.complete(request("b"), Sampling(seed=1))).outcome is Outcome.TIMED_OUT
    for messages, seed in ((request("a"), 2), (request("c"), 1), ([], 1)):
        miss = await model.complete(messages, Sampling(seed=seed))
        assert miss.outcome is Outcome.MODEL_FAILED
        assert "calls.jsonl" in (miss.detail or "")


@pytest.mark.parametrize("content", ["", "{}\n", "not JSON\n", '{"schema": "other/1"}\n', "[]\n"])
def test_a_file_of_something_else(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.jsonl").write_text(content)
    with pytest.raises(InputError, match=r"x\.jsonl"):
        ReplayModel.load(tmp_path / "x.jsonl")


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    path = stored(tmp_path / "t.jsonl", trajectory([("list", "a.txt")]))
    with path.open("a") as file:
        file.write('{"schema": "worldlm.traj')
    with pytest.raises(InputError, match=r"t\.jsonl:2: .*cut off"):
        ReplayModel.load(path)


def test_a_file_that_is_absent(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        ReplayModel.load(tmp_path / "none.jsonl")

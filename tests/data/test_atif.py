"""ATIF: every version, strictly and leniently; what we write is ours again, and Harbor's validator takes it."""

import copy
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.kit import pairs, read, read_one, told
from tests.data.samples import ATIF, trajectory
from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.types import DOMAIN_NAMES, Check, Ending, Observation, Trajectory, Turn, Usage, World
from worldlm.data.formats import ReadOptions, RecordError
from worldlm.data.formats.atif import VERSIONS, breach, document

STRICT = ReadOptions(strict=True)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def atif(**more: Any) -> dict[str, Any]:
    return {**copy.deepcopy(ATIF), **more}


def with_results(*results: dict[str, Any], calls: int = 1, **step: Any) -> dict[str, Any]:
    """A file whose agent makes so many calls and gets these results."""
    value = atif()
    value["steps"][1]["tool_calls"] = value["steps"][1]["tool_calls"][:calls]
    value["steps"][1]["observation"]["results"] = list(results)
    value["steps"][1].update(step)
    return value


def test_calls_are_turns_with_the_results_that_name_them() -> None:
    made, losses = read_one(ATIF)
    assert pairs(made) == [
        ('{"arguments":{"path":"."},"name":"list"}', "x y"),
        ('{"arguments":{"path":"x"},"name":"size"}', "12"),
    ]
    assert made.world.domain == "mcp"
    assert made.world.context == "The agent was asked:\nWhat is in the folder?"
    assert [tool.name for tool in made.world.tools] == ["list", "size"]
    assert made.policy == "walker 0.3 (m)"
    assert made.origin.version == "ATIF-v1.4"
    assert made.id == "atif-s1"
    assert told(losses)["key steps[].reasoning_content"] == 1
    assert told(losses)["what the agent says"] == 1


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("options", [ReadOptions(), STRICT])
def test_every_version_is_read(version: str, options: ReadOptions) -> None:
    made, _ = read_one(atif(schema_version=version), options)
    assert made.origin.version == version
    assert len(made.turns) == 2


def test_a_result_that_names_no_call_is_a_plain_observation() -> None:
    made, losses = read_one(with_results({"content": "seen"}))
    assert [seen for _, seen in pairs(made)] == ["seen"]
    assert told(losses)["a result that names no call is the plain observation of the call at its place"] == 1
    assert read_one(with_results({"content": "seen"}), STRICT)[0].turns == made.turns


def test_a_result_that_names_a_foreign_call_is_one_too_and_breaks_a_rule() -> None:
    value = with_results({"source_call_id": "zz", "content": "seen"})
    assert [seen for _, seen in pairs(read_one(value)[0])] == ["seen"]
    with pytest.raises(
        RecordError, match=r"steps\.1\.observation\.results\.0\.source_call_id: the step has no call 'zz'"
    ):
        read(value, STRICT)


def test_fewer_results_than_calls_are_the_last_calls() -> None:
    made, losses = read_one(with_results({"content": "both done"}, calls=2))
    assert pairs(made) == [('{"arguments":{"path":"x"},"name":"size"}', "both done")]
    assert told(losses)["a call without a result"] == 1


def test_more_results_than_calls_are_counted() -> None:
    made, losses = read_one(with_results({"source_call_id": "a", "content": "1"}, {"content": "2"}))
    assert [seen for _, seen in pairs(made)] == ["1"]
    assert told(losses)["a result that belongs to no call of its step"] == 1


def test_words_that_the_environment_answered_are_a_call() -> None:
    made, _ = read_one(with_results({"content": "heard"}, calls=0, message="ls -l"))
    assert pairs(made) == [('{"arguments":{"content":"ls -l"},"name":"message"}', "heard")]
    assert made.turns[0].label == "message"


def test_keys_that_are_typed_are_a_terminal() -> None:
    keys = [
        {"tool_call_id": "a", "function_name": "bash_command", "arguments": {"keystrokes": "ls\n", "duration": 0.1}},
        {"tool_call_id": "b", "function_name": "bash_command", "arguments": {"keystrokes": "", "duration": 2}},
    ]
    value = with_results({"content": "user@box:~$ ls"}, tool_calls=keys)
    made, _ = read_one(value)
    assert made.world.domain == "terminal"
    action = '[{"duration":0.1,"keystrokes":"ls\\n"},{"duration":2,"keystrokes":""}]'
    assert pairs(made) == [(action, "user@box:~$ ls")]
    assert read_one(value, ReadOptions(domain="mcp"))[0].world.domain == "mcp"


def test_arguments_in_a_string_are_a_mapping_and_no_strict_file() -> None:
    value = atif()
    value["steps"][1]["tool_calls"][0]["arguments"] = '{"path": "."}'
    assert pairs(read_one(value)[0]) == pairs(read_one(ATIF)[0])
    with pytest.raises(RecordError, match=r"steps\.1\.tool_calls\.0\.arguments"):
        read(value, STRICT)


def test_what_is_no_text_is_dropped() -> None:
    parts = [
        {"type": "text", "text": "seen"},
        {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}},
    ]
    made, losses = read_one(with_results({"source_call_id": "a", "content": parts}))
    assert [seen for _, seen in pairs(made)] == ["seen"]
    assert told(losses)["content of type 'image': observations are text"] == 1


def test_copied_steps_are_not_used_again() -> None:
    value = atif()
    value["steps"].append({**copy.deepcopy(value["steps"][1]), "step_id": 3, "is_copied_context": True})
    made, losses = read_one(value)
    assert len(made.turns) == 2
    assert told(losses)["a step that is copied from an earlier file"] == 1


def test_subagents_are_trajectories_of_the_same_group() -> None:
    child = atif(schema_version="ATIF-v1.7", trajectory_id="child")
    made, _ = read(atif(schema_version="ATIF-v1.7", subagent_trajectories=[child]), STRICT)
    assert [(one.id, one.group) for one in made] == [("atif-s1", "s1"), ("atif-child", "s1")]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (atif(colour="red"), "colour: Extra inputs are not permitted"),
        (atif(agent={"name": "x"}), r"agent\.version: Field required"),
        (atif(session_id=None), "session_id: ATIF-v1.4 needs it"),
        (atif(steps=[{**ATIF["steps"][0], "step_id": 2}]), r"steps\.0\.step_id: 2, .* must be 1"),
        (atif(steps=[{**ATIF["steps"][0], "model_name": "m"}]), r"steps\.0\.model_name: only an agent's step"),
        (with_results(llm_call_count=0), r"steps\.1: llm_call_count is 0"),
        (
            atif(schema_version="ATIF-v1.7", subagent_trajectories=[atif(session_id="x")]),
            r"subagent_trajectories\.0\.trajectory_id",
        ),
    ],
)
def test_strict_reading_names_the_key_of_the_broken_rule(value: dict[str, Any], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        read(value, STRICT)


def test_an_agent_that_did_nothing_is_no_record() -> None:
    with pytest.raises(RecordError, match="no turn"):
        read(atif(steps=[ATIF["steps"][0]]))


# What we write.


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    """Trajectories of every domain, with actions that parse and actions that do not."""
    domain = draw(st.sampled_from(DOMAIN_NAMES))
    actions = {
        "terminal": ['[{"keystrokes": "ls\\n"}]', '[{"duration":1.0,"keystrokes":"ls\\n"}]', "[]"],
        "swe": ['{"name": "read_file", "arguments": {"file_path": "a"}}'],
        "mcp": ['{"arguments":{},"name":"x"}', '{"name": "x"}'],
        "search": ['{"name": "web_search", "arguments": {"query": "q"}}'],
        "web": ['click("a1")', "noop()", "scroll(0, 20.5)"],
        "android": ['{"action_type": "click", "index": 3}'],
        "os": ["pyautogui.click(1, 2)", "DONE"],
    }[domain]
    failure = draw(st.sampled_from([Outcome.INVALID_ACTION, Outcome.TIMED_OUT, Outcome.CUT_OFF]))
    good = st.builds(
        Turn,
        action=st.sampled_from(actions) | text,
        raw_action=st.none() | text,
        observation=st.builds(
            Observation,
            text=text,
            is_error=st.booleans(),
            structured=st.none() | st.dictionaries(text, text),
            raw=st.none() | text,
        ),
        thinking=st.none() | text,
        label=st.none() | text,
        usage=st.builds(Usage, calls=st.integers(0, 3), seconds=st.floats(0, 9)),
        violations=st.lists(st.builds(Check, rule=text, passed=st.booleans()), max_size=2).map(tuple),
    )
    bad = st.builds(Turn, action=text, observation=st.none(), outcome=st.just(failure), detail=st.none() | text)
    initial = draw(st.none() | st.builds(Observation, text=text))
    world = World(name="w", domain=domain, context=draw(text), hidden_state=draw(st.none() | text))
    return trajectory().model_copy(
        update={
            "world": world,
            "initial": initial,
            "turns": tuple(draw(st.lists(good | bad, max_size=4))),
            "ending": Ending(kind=draw(st.sampled_from(EndingKind)), detail=draw(st.none() | text)),
            "group": draw(st.none() | text),
        }
    )


@given(trajectories())
def test_what_we_write_keeps_the_rules_and_is_ours_again(ours: Trajectory) -> None:
    value = json.loads(json.dumps(document(ours)))
    assert breach(value) is None
    again, losses = read_one(value, STRICT)
    assert again == ours
    assert not told(losses)


def test_what_is_not_as_we_write_it_is_named() -> None:
    value = document(trajectory())
    del value["steps"][1]["extra"]
    with pytest.raises(RecordError, match=r"extra\.worldlm: not as we write it"):
        read(value)


_VALIDATE = """\
import json, sys
from harbor.utils.trajectory_validator import TrajectoryValidator
validator = TrajectoryValidator()
print(json.dumps([[validator.validate(path), validator.get_errors()] for path in sys.argv[1:]]))
"""


@pytest.fixture
def harbor() -> str:
    """A Python that has Harbor."""
    python = os.environ.get("WORLDLM_HARBOR_PYTHON")
    if not python:
        pytest.skip("WORLDLM_HARBOR_PYTHON names no Python with Harbor; docs/data.md says how to have one")
    return python


def _verdicts(python: str, files: list[Path]) -> list[Any]:
    run = subprocess.run(
        [python, "-c", _VALIDATE, *map(str, files)], capture_output=True, text=True, check=True, timeout=120
    )
    return list(json.loads(run.stdout.splitlines()[-1]))


def _save(folder: Path, values: list[Any]) -> list[Path]:
    files = [folder / f"{number}.json" for number in range(len(values))]
    for file, value in zip(files, values, strict=True):
        file.write_text(json.dumps(value))
    return files


def test_harbor_takes_what_we_write(harbor: str, tmp_path: Path) -> None:
    values: list[Any] = []

    @settings(max_examples=40, database=None)
    @given(trajectories())
    def collect(ours: Trajectory) -> None:
        values.append(document(ours))

    collect()
    verdicts = _verdicts(harbor, _save(tmp_path, values))
    assert [errors for good, errors in verdicts if not good] == []


def test_our_rules_are_harbors(harbor: str, tmp_path: Path) -> None:
    values = [
        ATIF,
        *(atif(schema_version=version) for version in VERSIONS),
        atif(colour="red"),
        atif(agent={"name": "x"}),
        atif(steps=[]),
        atif(steps=[{**ATIF["steps"][0], "step_id": 2}]),
        atif(steps=[{**ATIF["steps"][0], "model_name": "m"}]),
        with_results(llm_call_count=0),
        with_results({"source_call_id": "zz", "content": "x"}),
        with_results({"content": "x"}),
        with_results({"content": "x", "colour": "red"}),
        with_results({"content": "x"}, timestamp="2026-11-30T12:00:00Z"),
        with_results({"content": "x"}, timestamp="yesterday"),
        with_results({"content": "x"}, metrics={"prompt_tokens": 3}),
        with_results({"content": "x"}, metrics={"colour": "red"}),
        with_results({"content": [{"type": "text", "text": "x"}]}),
        with_results({"content": [{"type": "text"}]}),
        with_results({"content": [{"type": "video", "text": "x"}]}),
        with_results({"content": "x"}, message=[{"type": "image", "text": "x"}]),
        atif(final_metrics={"total_steps": 2, "colour": 1}),
        atif(schema_version="ATIF-v1.7", subagent_trajectories=[atif()]),
        atif(schema_version="ATIF-v1.7", subagent_trajectories=[atif(trajectory_id="c")]),
        atif(schema_version="ATIF-v9.9"),
    ]
    ours = [breach(value) is None for value in values]
    assert ours == [good for good, _ in _verdicts(harbor, _save(tmp_path, values))]

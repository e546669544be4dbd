"""`worldlm train think`, over a server on loopback and without a model."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.cli.cli_kit import Cli
from tests.models.chat_server import Answer, ChatServer, chat, error, serving
from tests.train.derivation_sessions import SESSIONS, shell
from worldlm.core.jsonl import read_trajectories
from worldlm.core.types import Trajectory

SESSION = shell([("echo hi", "hi\n"), ("pwd", "/home/ines\n"), ("whoami", "ines\n")])
ANSWERS = {
    json.loads(turn.action)[0]["keystrokes"]: turn.observation.text for turn in SESSION.turns if turn.observation
}


def write(path: Path, *trajectories: Trajectory) -> Path:
    path.write_text("".join(one.model_dump_json() + "\n" for one in trajectories))
    return path


def answer(body: dict[str, Any], index: int) -> Answer:
    """Thinks, and is right about all but the folder."""
    typed = json.loads(body["messages"][-1]["content"])[0]["keystrokes"]
    said = "no idea" if typed.startswith("pwd") else ANSWERS[typed]
    return chat(f"<think>\nThe shell prints it.\n</think>\n\n<predicted_observation>{said}</predicted_observation>")


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving(answer) as state:
        yield state


def test_derived_thinking_of_every_domain_is_written_with_its_figures(cli: Cli, tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", *(make() for make in SESSIONS.values()))
    output = tmp_path / "out.jsonl"
    told = cli("train", "think", "--programmatic", source, output, "--json").json
    assert set(told["domains"]) == set(SESSIONS)
    made = read_trajectories(output).items
    for one in made:
        figures = told["domains"][one.world.domain]
        assert figures["false_claims"] == 0
        assert figures["derived"] == sum(turn.thinking is not None for turn in one.turns)
        assert 0 < figures["mean_tokens"] <= 60
    assert [one.id for one in made] == [make().id for make in SESSIONS.values()]


def test_derived_thinking_is_told_in_a_table_and_only_of_the_domains_that_are_wanted(cli: Cli, tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", *(make() for make in SESSIONS.values()))
    result = cli("train", "think", "--programmatic", source, tmp_path / "out.jsonl", "--domain", "terminal")
    assert result.code == 0
    assert [line.split()[0] for line in result.out.splitlines()[:2]] == ["domain", "terminal"]
    others = [one for one in read_trajectories(tmp_path / "out.jsonl").items if one.world.domain != "terminal"]
    assert not any(turn.thinking for one in others for turn in one.turns)
    assert "there already" in cli("train", "think", "--programmatic", source, tmp_path / "out.jsonl").error


def test_sampled_thinking_is_written_and_a_rerun_asks_for_nothing(cli: Cli, tmp_path: Path, server: ChatServer) -> None:
    source, output = write(tmp_path / "in.jsonl", SESSION), tmp_path / "out.jsonl"
    words = ("train", "think", source, output, "--model", f"openai:m@{server.url}", "--profile", "compact")
    told = cli(*words, "--samples", 2, "--json").json
    assert (told["asked"], told["already"], told["usage"]["calls"]) == (3, 0, 6)
    figures = told["domains"]["terminal"]
    assert (figures["turns"], figures["kept_turns"], figures["traces"]) == (3, 2, 2)
    assert figures["samples"] == {"kept": 2, "not_best": 2, "below": 2}
    (made,) = read_trajectories(output).items
    assert [turn.thinking for turn in made.turns] == ["The shell prints it.", None, "The shell prints it."]
    assert [turn.observation for turn in made.turns] == [turn.observation for turn in SESSION.turns]
    assert {body["temperature"] for body in server.bodies} == {0.8}
    assert all("<think>" in body["messages"][0]["content"] for body in server.bodies)
    again = cli(*words, "--samples", 2, "--json").json
    assert (again["asked"], again["already"], len(server.bodies)) == (0, 3, 6)
    assert "other settings" in cli(*words, "--samples", 3).error


def test_settings_come_from_a_file_and_an_option_wins(cli: Cli, tmp_path: Path, server: ChatServer) -> None:
    source = write(tmp_path / "in.jsonl", SESSION)
    config = tmp_path / "think.yaml"
    config.write_text("samples: 3\nthreshold: 0\n")
    words = ("--model", f"openai:m@{server.url}", "--profile", "compact", "--config", config, "--json")
    told = cli("train", "think", source, tmp_path / "out.jsonl", *words, "--samples", 1).json
    assert told["usage"]["calls"] == 3
    assert told["domains"]["terminal"]["kept_turns"] == 3  # also what is wrong
    config.write_text("sample: 3\n")
    error = cli("train", "think", source, tmp_path / "other.jsonl", *words).error
    assert "there is no setting sample" in error
    assert "samples" in error


def test_a_judge_grades_besides_the_rules(cli: Cli, tmp_path: Path, server: ChatServer) -> None:
    def grade(body: dict[str, Any], index: int) -> Answer:
        return chat('{"scores": {"format": 1, "factuality": 1, "consistency": 1, "realism": 1, "quality": 1}}')

    source = write(tmp_path / "in.jsonl", SESSION)
    with serving(grade) as strict:
        judged = ("--judge", f"openai:j@{strict.url}")
        words = ("--model", f"openai:m@{server.url}", "--profile", "compact", "--samples", 1, "--json")
        told = cli("train", "think", source, tmp_path / "out.jsonl", *words, *judged).json
        assert strict.bodies
    assert told["domains"]["terminal"]["kept_turns"] == 0


def test_a_server_that_refuses_stops_it_with_its_words(cli: Cli, tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", SESSION)
    with serving([error(401, "that key is not known")]) as server:
        result = cli("train", "think", source, tmp_path / "out.jsonl", "--model", f"openai:m@{server.url}")
    assert result.code == 1
    assert "that key is not known" in result.error
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nowhere.jsonl", "out.jsonl"), "nowhere.jsonl"),
        (("in.jsonl", "in.jsonl"), "what is read"),
        (("in.jsonl", "out.jsonl", "--keep", "some", "--programmatic"), "keep"),
        (("in.jsonl", "out.jsonl", "--domain", "moon", "--programmatic"), "domains"),
        (("in.jsonl", "out.jsonl", "--temperature", "0", "--model", "openai:m@http://127.0.0.1:9"), "temperature"),
    ],
)
def test_what_cannot_be_is_one_clear_line(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "in.jsonl", SESSION)
    result = cli("train", "think", *words)
    assert result.code == 2
    assert told in result.error
    assert not (tmp_path / "out.jsonl").exists()


def test_the_verb_is_registered_with_one_line() -> None:
    from worldlm.cli.train_think import register

    app = typer.Typer()
    register(app)
    assert [command.name for command in app.registered_commands] == ["think"]

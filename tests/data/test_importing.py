"""Batches: every format is recognised, bad files are named and counted and stop nothing, nothing goes unsaid."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.data.samples import (
    ATIF,
    AUTODROID,
    AWB,
    CHAT,
    DROIDBOT,
    JSON_SAMPLES,
    MINIWOB,
    OPENHANDS_1,
    SWE,
    TAU,
    trajectory,
)
from worldlm.core.errors import InputError
from worldlm.core.jsonl import JsonlWriter, read_trajectories
from worldlm.core.types import Trajectory
from worldlm.data import (
    FORMATS,
    LossReport,
    ReadOptions,
    WriteOptions,
    export_trajectories,
    get_format,
    import_trajectories,
    sniff,
)
from worldlm.data.formats import Format
from worldlm.data.report import Losses
from worldlm.domains import get_domain


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def run(path: Path, expected: Format | None = None, **options: Any) -> tuple[list[Trajectory], LossReport]:
    report = LossReport()
    return list(import_trajectories(path, expected, ReadOptions(**options), report)), report


@pytest.mark.parametrize(("name", "version"), JSON_SAMPLES)
def test_every_format_is_recognised_and_no_other(tmp_path: Path, name: str, version: str) -> None:
    value = JSON_SAMPLES[name, version]
    found = sniff(write(tmp_path / "a.json", value))
    assert found is not None
    assert (found[0].name, found[1]) == (name, version)
    assert version in found[0].versions
    claims = {each.name for each in FORMATS.values() if each.sniff(value) is not None}
    assert claims - {"openai-chat"} <= {name}


@pytest.mark.parametrize(("name", "version"), JSON_SAMPLES)
@pytest.mark.parametrize("ending", ["json", "jsonl", "json.gz"])
def test_every_format_is_imported_from_any_wrapping(tmp_path: Path, name: str, version: str, ending: str) -> None:
    text = json.dumps(JSON_SAMPLES[name, version])
    path = tmp_path / f"a.{ending}"
    path.write_bytes(
        gzip.compress(text.encode())
        if ending == "json.gz"
        else (text + "\n" + text + "\n").encode()
        if ending == "jsonl"
        else text.encode()
    )
    made, report = run(path)
    assert made
    assert report.bad == 0
    assert report.files[0].format == name
    assert report.files[0].versions == {version}
    assert report.turns == sum(len(one.turns) for one in made)
    assert len({one.id for one in made}) == len(made)
    for one in made:
        assert one.origin.licence
        assert one.origin.source
        assert one.turns
        for turn in one.turns:
            get_domain(one.world.domain).parse_action(turn.action, one.world)


def test_yaml_is_recognised_by_its_ending(tmp_path: Path) -> None:
    path = write(tmp_path / "utg.yaml", AUTODROID)
    assert sniff(path) == (get_format("autodroid"), "utg")
    assert len(run(path)[0]) == 1


def test_a_list_of_records_is_as_many_records(tmp_path: Path) -> None:
    made, report = run(write(tmp_path / "results.json", [TAU, {"what": 1}, TAU]))
    assert len(made) == 2
    assert report.files[0].problems == [
        f"{tmp_path / 'results.json'}[1]: of no known format (known: {', '.join(FORMATS)})"
    ]


def test_one_bad_file_never_stops_a_batch(tmp_path: Path) -> None:
    good = write(tmp_path / "a.traj", SWE)
    cut = write(tmp_path / "b.traj", json.dumps(SWE, indent=1)[:200])
    foreign = write(tmp_path / "c.txt", "Dear all,\n")
    also_good = write(tmp_path / "d" / "e.json", CHAT)
    made, report = run(tmp_path)
    assert len(made) == 2
    assert [(file.path, file.bad) for file in report.files] == [
        (str(good), 0),
        (str(cut), 1),
        (str(foreign), 1),
        (str(also_good), 0),
    ]
    assert report.files[1].problems[0].startswith(f"{cut}: not JSON: ")
    assert report.files[1].problems[0].endswith("the file was cut off")
    assert report.bad_share == 0.5


def test_an_unknown_version_is_told_the_known_ones(tmp_path: Path) -> None:
    values = {
        "atif.json": {**ATIF, "schema_version": "ATIF-v3.0"},
        "mini.json": {"trajectory_format": "mini-swe-agent-7", "messages": []},
        "ours.json": {"schema": "worldlm.trajectory/9"},
    }
    for name, value in values.items():
        write(tmp_path / name, value)
    made, report = run(tmp_path)
    assert made == []
    assert [file.problems[0].partition(": ")[2] for file in report.files] == [
        f"atif of version 'ATIF-v3.0' is not known; known: {', '.join(FORMATS['atif'].versions)}",
        "mini-swe-agent of version 'mini-swe-agent-7' is not known; known: mini-swe-agent-1, mini-swe-agent-1.1",
        "worldlm of version 'worldlm.trajectory/9' is not known; known: worldlm.trajectory/1",
    ]


def test_a_record_of_another_format_than_was_said_is_named(tmp_path: Path) -> None:
    _, report = run(write(tmp_path / "a.json", SWE), get_format("atif"))
    assert report.files[0].problems == [f"{tmp_path / 'a.json'}: not of the format atif; it looks like swe-agent"]


def test_folders_that_are_one_recording(tmp_path: Path) -> None:
    for number, part in enumerate(DROIDBOT):
        folder, name = ("states", "state") if "views" in part else ("events", "event")
        write(tmp_path / "bot" / folder / f"{name}_{number}.json", part)
    for number, event in enumerate(OPENHANDS_1):
        write(tmp_path / "hands" / "events" / f"event-{number:05}-x.json", event)
    made, report = run(tmp_path)
    assert report.bad == 0
    assert [one.id.partition("-")[0] for one in made] == ["droidbot", "droidbot", "openhands"]
    assert sniff(tmp_path / "bot") == (get_format("droidbot"), "1")


def test_a_half_surrogate_is_no_reason_to_lose_a_record(tmp_path: Path) -> None:
    broken = json.dumps(CHAT).replace('"21"', '"\\ud83d 21"')
    made, report = run(write(tmp_path / "a.json", broken))
    assert made[0].turns[0].observation is not None
    assert made[0].turns[0].observation.text == "\ufffd 21"
    assert "a lone half of a surrogate pair is U+FFFD" in [row["reason"] for row in report.losses.to_json()]
    with JsonlWriter(tmp_path / "out.jsonl") as writer:
        writer.write(made[0])
    assert read_trajectories(tmp_path / "out.jsonl").items == made


def test_who_names_source_and_licence(tmp_path: Path) -> None:
    path = write(tmp_path / "a.traj", SWE)
    (unnamed,), report = run(path)
    assert unnamed.origin.licence == "unknown"
    assert "the source names no licence: it is given as unknown" in [row["reason"] for row in report.losses.to_json()]
    (named,), _ = run(path, source="me/mine@1", licence="MIT")
    assert (named.origin.source, named.origin.licence) == ("me/mine@1", "MIT")


def test_losses_of_a_bad_record_are_not_counted(tmp_path: Path) -> None:
    _, report = run(write(tmp_path / "a.json", {**AWB, "turn_idx": 9, "gen": "x"}))
    assert report.bad == 1
    assert report.losses.to_json() == []


def test_the_report_counts_and_names_places(tmp_path: Path) -> None:
    _, report = run(write(tmp_path / "a.jsonl", "\n".join(json.dumps(CHAT) for _ in range(5))))
    rows = {row["reason"]: row for row in report.to_json()["losses"]}
    row = rows["the agent's system prompt"]
    assert (row["effect"], row["count"], len(row["examples"])) == ("dropped", 5, 3)
    assert row["examples"][0] == f"{tmp_path / 'a.jsonl'}:1: messages[0]"
    effects = [effect for effect, *_ in report.rows()]
    assert effects == sorted(effects, key=["changed", "verbatim", "dropped"].index)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file or folder"):
        run(tmp_path / "none")
    assert run(write(tmp_path / "empty.jsonl", ""))[1].bad == 1
    assert sniff(tmp_path / "empty.jsonl") is None


# Exporting.


@pytest.mark.parametrize("name", ["worldlm", "atif"])
def test_what_is_exported_without_loss_is_the_same_again(tmp_path: Path, name: str) -> None:
    ours = [trajectory(), trajectory().model_copy(update={"id": "Shop 2"})]
    losses = Losses()
    written = export_trajectories(ours, get_format(name), tmp_path / "out", WriteOptions(), losses)
    assert sum(written.values()) == 2
    assert not losses.reasons
    assert run(tmp_path / "out")[0] == ours


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    for name in ("worldlm", "atif", "agentworldbench", "openai-chat"):
        output = tmp_path / name
        export_trajectories([trajectory()], get_format(name), output, WriteOptions(), Losses())
        with pytest.raises(InputError, match="is there already"):
            export_trajectories([trajectory()], get_format(name), output, WriteOptions(), Losses())


def test_a_format_that_cannot_be_written_says_which_can(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="these can be written: worldlm, agentworldbench, atif, openai-chat"):
        export_trajectories([], get_format("miniwob"), tmp_path / "out", WriteOptions(), Losses())


def test_a_demonstration_as_it_is_published(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(json.dumps(MINIWOB).encode()))
    assert sniff(path) == (get_format("miniwob"), "1")

"""Trajectories on disk: what is written is read, and what cannot be read is named."""

import bz2
import gzip
import json
import lzma
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.jsonl import (
    COMPRESSED,
    JsonlWriter,
    dump_line,
    iter_jsonl,
    parse_trajectory,
    read_jsonl,
    read_trajectories,
)
from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.text import digest
from worldlm.core.types import (
    Check,
    Ending,
    Observation,
    Origin,
    Sampling,
    Simulator,
    Tool,
    Trajectory,
    Turn,
    Usage,
    World,
)

WORLD = World(name="tiny", domain="terminal", initial_state="a shell")


def trajectory(name: str = "t", text: str = "out", action: str = "in") -> Trajectory:
    return Trajectory(
        id=name,
        world=WORLD,
        initial=Observation(text="$"),
        turns=(Turn(action=action, observation=Observation(text=text)),),
        ending=Ending(kind=EndingKind.COMPLETED),
        policy="script",
        origin=Origin(kind="real"),
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
observations = st.builds(
    Observation, text=st.text(), structured=json_values, is_error=st.booleans(), raw=st.none() | st.text()
)
turns = st.one_of(
    st.builds(Turn, action=st.text(), observation=observations, thinking=st.none() | st.text()),
    st.builds(
        Turn,
        action=st.text(),
        observation=st.none(),
        outcome=st.sampled_from([o for o in Outcome if o is not Outcome.OK]),
        detail=st.text(),
    ),
)


@given(turns=st.lists(turns, max_size=4), initial=st.none() | observations, group=st.none() | st.text())
def test_what_is_written_is_read(turns: list[Turn], initial: Observation | None, group: str | None) -> None:
    before = trajectory().model_copy(update={"turns": tuple(turns), "initial": initial, "group": group})
    line = dump_line(before)
    assert "\n" not in line
    assert parse_trajectory(json.loads(line)) == before


def test_a_lone_surrogate_is_saved_and_loses_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with JsonlWriter(path) as writer:
        writer.write(trajectory(text=json.loads('"caf\\u00e9 \\ud83d \\ud83d\\ude00"')))
    (read,) = read_trajectories(path).items
    assert read.turns[0].observation == Observation(text="café \ufffd 😀")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "not JSON"),
        ('{"schema": "worldlm.trajectory/9"}', r"schema 'worldlm.trajectory/9' is not known.*reads"),
        ('{"id": "x"}', "no 'schema' key"),
        ("[1]", "a trajectory is a JSON object, not list"),
        ('{"schema": "worldlm.trajectory/1", "id": "x"}', "world: Field required"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(tmp_path: Path, line: str | bytes, words: str) -> None:
    path = tmp_path / "t.jsonl"
    bad = line if isinstance(line, bytes) else line.encode()
    path.write_bytes(b"\n".join([dump_line(trajectory("a")).encode(), b"", bad, dump_line(trajectory("b")).encode()]))
    with pytest.raises(InputError, match=rf"t\.jsonl:3: .*{words}"):
        read_trajectories(path)
    records = read_trajectories(path, lenient=True)
    assert [t.id for t in records.items] == ["a", "b"]
    assert len(records.errors) == 1


def test_unknown_keys_are_refused_and_not_dropped(tmp_path: Path) -> None:
    value = json.loads(dump_line(trajectory()))
    value["turns"][0]["reward"] = 1
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(value))
    with pytest.raises(InputError, match=r"turns\.0\.reward"):
        read_trajectories(path)


def test_a_cut_off_file_says_so_and_writing_goes_on_after_the_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    whole = dump_line(trajectory("a")) + "\n"
    path.write_text(whole + whole[:50])
    with pytest.raises(InputError, match=r"t\.jsonl:2: .*the file was cut off"):
        read_trajectories(path)
    with JsonlWriter(path) as writer:
        writer.write(trajectory("b"))
    assert [t.id for t in read_trajectories(path).items] == ["a", "b"]
    assert path.with_name("t.jsonl.torn").read_text() == whole[:50] + "\n"


def test_two_writers_of_one_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with JsonlWriter(path), pytest.raises(InputError, match="being written already"):
        JsonlWriter(path)
    with JsonlWriter(path) as writer:
        writer.write(trajectory())
    assert len(read_trajectories(path).items) == 1


def test_a_killed_writer_loses_no_finished_line(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    script = (
        "import sys, time; from pathlib import Path; from worldlm.core.jsonl import JsonlWriter\n"
        "writer = JsonlWriter(Path(sys.argv[1]))\n"
        "for n in range(5): writer.write({'n': n})\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
    assert [json.loads(line)["n"] for line in path.read_text().splitlines()] == [0, 1, 2, 3, 4]
    deadline = time.monotonic() + 5
    while True:  # the lock goes with its process
        try:
            JsonlWriter(path).close()
            break
        except InputError:
            assert time.monotonic() < deadline


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*none\.jsonl"):
        read_trajectories(tmp_path / "none.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(InputError, match=r"cannot write .*folder\.jsonl"):
        JsonlWriter(tmp_path / "folder.jsonl")


LONE = "\ud83d"


def test_a_lone_surrogate_anywhere_in_a_trajectory_does_not_break_saving(tmp_path: Path) -> None:
    def spoilt(value: object) -> object:
        if isinstance(value, dict):
            return {key: spoilt(item) for key, item in value.items()}
        if isinstance(value, list):
            return [spoilt(item) for item in value]
        return f"free{LONE}" if value == "free" else value

    turn = Turn(
        action="free",
        observation=Observation(text="free", structured={"free": "free"}, raw="free"),
        thinking="free",
        violations=(Check(rule="free", passed=False, message="free"),),
    )
    simulator = Simulator(model="free", profile="free", prompt_hash="free", sampling=Sampling(stop=("free",)))
    whole = Trajectory(
        id="free",
        world=World(name="w", domain="mcp", tools=(Tool(name="free", description="free"),), engine="free"),
        initial=Observation(text="free"),
        turns=(turn, Turn(action="free", observation=None, outcome=Outcome.MODEL_FAILED, detail="free")),
        ending=Ending(kind=EndingKind.FAILED, detail="free"),
        policy="free",
        group="free",
        origin=Origin(kind="simulated", source="free", version="free", licence="free", simulator=simulator),
    )
    path = tmp_path / "t.jsonl"
    with JsonlWriter(path) as writer:
        writer.write(Trajectory.model_validate(spoilt(whole.model_dump(mode="json"))))
    (read,) = read_trajectories(path).items
    assert read.id == read.policy == read.turns[0].violations[0].message == "free\ufffd"


def test_values_that_json_does_not_have_are_refused() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    for value in (float("nan"), float("inf"), b"x", {1, 2}, deep, {1: "a", "1": "b"}, {(1,): "a"}):
        with pytest.raises(ValueError, match=r"JSON|deep|same text|must be text"):
            Observation(text="x", structured={"value": value})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="finite"):
        Usage(seconds=float("nan"))
    assert Observation(text="x", structured={1: {2: "a"}}).structured == {"1": {"2": "a"}}  # type: ignore[dict-item]


def test_a_line_that_is_nested_without_end_is_a_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("[" * 100_000 + "\n" + dump_line(trajectory("a")) + "\n")
    with pytest.raises(InputError, match=r"t\.jsonl:1: nested too deeply"):
        read_trajectories(path)
    assert [t.id for t in read_trajectories(path, lenient=True).items] == ["a"]


def test_an_outcome_that_does_not_fit_its_observation_is_a_bad_line(tmp_path: Path) -> None:
    value = json.loads(dump_line(trajectory()))
    value["turns"][0] |= {"observation": None, "outcome": "ok"}
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(value) + "\n")
    with pytest.raises(InputError, match="turn 1 has outcome 'ok' and no observation"):
        read_trajectories(path)


def test_a_last_line_that_lacks_only_its_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(dump_line(trajectory("a")) + "\n" + dump_line(trajectory("b")))
    with JsonlWriter(path) as writer:
        writer.write(trajectory("c"))
    assert [t.id for t in read_trajectories(path).items] == ["a", "b", "c"]
    assert not path.with_name("t.jsonl.torn").exists()


def test_no_path_and_no_full_disk_is_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot write"):
        JsonlWriter(tmp_path / "file" / "t.jsonl")
    with (
        JsonlWriter(Path("/dev/full")) as writer,
        pytest.raises(WorldlmError, match="cannot write /dev/full: No space"),
    ):
        writer.write({"n": 1})
    path = tmp_path / "t.jsonl"
    script = (
        "import resource, signal, sys; from pathlib import Path; from worldlm.core.jsonl import JsonlWriter\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "writer = JsonlWriter(Path(sys.argv[1])); writer.write({'n': 1}); writer.write({'n': 'x' * 5000})"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
    assert "File too large; free some space" in ended.stderr
    assert path.read_text() == '{"n": 1}\n'


# Compressed files.

PACKED: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def test_every_way_to_compress_has_a_test() -> None:
    assert set(PACKED) == set(COMPRESSED)


@pytest.mark.parametrize("ending", PACKED)
@given(lines=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.none(), max_size=8))
def test_a_compressed_file_reads_as_the_plain_one(
    tmp_path_factory: pytest.TempPathFactory, ending: str, lines: list[str | None]
) -> None:
    data = "".join("\n" if line is None else f"{dump_line({'text': line})}\n" for line in lines).encode()
    folder = tmp_path_factory.mktemp("packed")
    plain, packed = folder / "a.jsonl", folder / f"a.jsonl{ending}"
    plain.write_bytes(data)
    packed.write_bytes(PACKED[ending](data))
    told = [(place.rpartition(":")[2], value) for place, value in iter_jsonl(packed, as_it_is)]
    assert told == [(place.rpartition(":")[2], value) for place, value in iter_jsonl(plain, as_it_is)]
    assert [value["text"] for _, value in told] == [line for line in lines if line is not None]


def as_it_is(value: Any) -> Any:
    return value


@pytest.mark.parametrize("ending", PACKED)
def test_a_bad_line_of_a_compressed_file_is_named_by_its_number(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t.jsonl{ending}"
    path.write_bytes(PACKED[ending](f"{dump_line(trajectory('a'))}\n\nno json\n".encode()))
    with pytest.raises(InputError, match=rf"t\.jsonl\{ending}:3: not JSON: Expecting value at column 1; mend"):
        read_trajectories(path)
    assert [each.id for each in read_trajectories(path, lenient=True).items] == ["a"]


@pytest.mark.parametrize("ending", PACKED)
@pytest.mark.parametrize("damage", ["cut off", "cut in its head", "not compressed"])
def test_a_damaged_archive_is_one_clear_line(tmp_path: Path, ending: str, damage: str) -> None:
    text = "".join(dump_line({"n": digest(str(number))}) + "\n" for number in range(500)).encode()
    packed = PACKED[ending](text)
    path = tmp_path / f"t.jsonl{ending}"
    path.write_bytes({"cut off": packed[:-9], "cut in its head": packed[:5], "not compressed": text}[damage])
    with pytest.raises(InputError) as raised:
        read_jsonl(path, as_it_is)
    words = str(raised.value)
    assert words.startswith(f"cannot read {path}: it is damaged, cut off, or not compressed as its name says (")
    assert "\n" not in words


@pytest.mark.parametrize("ending", PACKED)
@given(data=st.data())
def test_a_bit_that_flipped_is_found_out(
    tmp_path_factory: pytest.TempPathFactory, ending: str, data: st.DataObject
) -> None:
    text = "".join(dump_line({"n": digest(str(number))}) + "\n" for number in range(20)).encode()
    packed = bytearray(PACKED[ending](text))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path_factory.mktemp("flipped") / f"t.jsonl{ending}"
    path.write_bytes(packed)
    try:
        values, words = read_jsonl(path, as_it_is).items, ""
    except InputError as error:
        values, words = None, str(error)
    if values is None:
        assert str(path) in words
        assert "\n" not in words
    else:  # it lay in the header, in a date or a name
        assert [dump_line(value) + "\n" for value in values] == text.decode().splitlines(keepends=True)


def test_what_cannot_be_unpacked_here_says_how(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd")
    with pytest.raises(InputError, match=r"t\.jsonl\.zst: .*zstd.*unpack it first"):
        read_jsonl(path, as_it_is)


@pytest.mark.parametrize("ending", [*PACKED, ".zst"])
def test_lines_are_not_written_under_a_name_that_says_compressed(tmp_path: Path, ending: str) -> None:
    with pytest.raises(InputError, match=rf"not compressed; leave out \{ending}"):
        JsonlWriter(tmp_path / f"t.jsonl{ending}")
    assert list(tmp_path.iterdir()) == []

import bz2
import gzip
import json
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench.kit import foreign
from worldlm.core.errors import InputError
from worldlm.core.text import digest
from worldlm.data import LossReport, ReadOptions, import_trajectories
from worldlm.data.formats.files import Found, Unit, read_file, read_unit, units
from worldlm.data.importing import sniff
from worldlm.data.report import Losses


def found(path: Path) -> list[Found]:
    return list(read_file(path, Losses()))


def write(path: Path, data: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


@pytest.mark.parametrize("pretty", [None, 2])
def test_a_file_is_one_value_whatever_its_ending(tmp_path: Path, pretty: int | None) -> None:
    path = write(tmp_path / "a.traj", json.dumps({"a": [1]}, indent=pretty))
    assert found(path) == [Found(str(path), {"a": [1]})]


def test_lines_are_values_with_their_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"a": 1}\n\n{"a": 2}\n')
    assert found(path) == [Found(f"{path}:1", {"a": 1}), Found(f"{path}:3", {"a": 2})]


def test_a_bad_line_is_a_problem_and_the_others_go_on(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"a": 1}\nnot json\n{"a": 2}\n{"a": ')
    first, second, third, last = found(path)
    assert (first.value, third.value) == ({"a": 1}, {"a": 2})
    assert second == Found(f"{path}:2", problem="not JSON: Expecting value at column 1")
    assert last.problem is not None
    assert last.problem.endswith("the file was cut off")


@pytest.mark.parametrize(
    "data", ['{"trajectory": [{"action": "ls", "obs', '{\n "a": [1,\n  2,', b'{"a": "\xff"}', "", "[" * 5000]
)
def test_a_broken_file_is_one_named_problem(tmp_path: Path, data: str | bytes) -> None:
    (one,) = found(write(tmp_path / "a.traj", data))
    assert one.place == str(tmp_path / "a.traj")
    assert one.problem


def test_a_cut_off_file_says_so(tmp_path: Path) -> None:
    (one,) = found(write(tmp_path / "a.traj", '{\n "a": [1,\n  2,'))
    assert one.problem is not None
    assert "line 3" in one.problem
    assert "cut off" in one.problem


def test_gzip_and_its_broken_end(tmp_path: Path) -> None:
    data = gzip.compress(json.dumps({"a": "b" * 1000}).encode())
    assert found(write(tmp_path / "a.json.gz", data))[0].value == {"a": "b" * 1000}
    assert "cannot be read" in (found(write(tmp_path / "b.json.gz", data[:-10]))[0].problem or "")
    assert "cannot be read" in (found(write(tmp_path / "c.json.gz", b"{}"))[0].problem or "")


PACKED: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("ending", PACKED)
def test_whatever_is_compressed_reads_as_it_would_plain(tmp_path: Path, ending: str) -> None:
    texts = {"a.jsonl": '{"a": 1}\n\n{"a": 2}\n{', "b.json": '{\n "a": [1]\n}', "c.traj": "{}", "d.yaml": "a: 1\n"}
    for name, text in texts.items():
        plain = found(write(tmp_path / name, text))
        packed = found(write(tmp_path / f"{name}{ending}", PACKED[ending](text.encode())))
        assert [(each.value, each.problem) for each in packed] == [(each.value, each.problem) for each in plain]
        assert [each.place for each in packed] == [each.place.replace(name, name + ending) for each in plain]


@pytest.mark.parametrize("ending", PACKED)
def test_a_damaged_archive_is_one_problem_and_what_came_before_is_kept(tmp_path: Path, ending: str) -> None:
    text = "".join(json.dumps({"n": digest(str(number))}) + "\n" for number in range(20_000)).encode()
    data = PACKED[ending](text)
    *good, last = found(write(tmp_path / f"a.jsonl{ending}", data[: len(data) - 100]))
    assert last == Found(last.place, problem=last.problem)
    assert last.place == str(tmp_path / f"a.jsonl{ending}")
    assert last.problem is not None
    assert last.problem.startswith("cannot be read: it is damaged, cut off, or not compressed as its name says")
    assert good
    assert all(each.problem is None for each in good)
    (one,) = found(write(tmp_path / f"b.jsonl{ending}", b'{"a": 1}\n'))
    assert "not compressed as its name says" in (one.problem or "")


def test_zstd_says_what_to_do(tmp_path: Path) -> None:
    (one,) = found(write(tmp_path / "a.jsonl.zst", b"\x28\xb5\x2f\xfd"))
    assert "unpack it first" in (one.problem or "")


def test_a_compressed_part_is_imported_as_the_plain_one(tmp_path: Path) -> None:
    text = "".join(json.dumps(foreign(number)) + "\n" for number in (1, 2)).encode()
    write(tmp_path / "plain" / "terminal_test.jsonl", text)
    for ending, pack in PACKED.items():
        write(tmp_path / "packed" / f"terminal_test.jsonl{ending}", pack(text))
    reports = LossReport(), LossReport()
    plain, packed = (
        list(import_trajectories(tmp_path / name, None, ReadOptions(strict=True), report))
        for name, report in zip(("plain", "packed"), reports, strict=True)
    )
    assert [each.turns for each in packed] == 3 * [each.turns for each in plain]
    assert [report.bad for report in reports] == [0, 0]
    assert sniff(tmp_path / "packed") == sniff(tmp_path / "plain")


def test_yaml_and_what_is_wrong_with_it(tmp_path: Path) -> None:
    losses = Losses()
    (one,) = read_file(write(tmp_path / "a.yaml", "a: 2024-01-02\n"), losses)
    assert one.value == {"a": "2024-01-02"}
    assert [row["reason"] for row in losses.to_json()] == ["a date is its text"]
    assert "line 2" in (found(write(tmp_path / "b.yaml", "a: 1\n  b: [\n"))[0].problem or "")


def test_lone_surrogates_are_replaced_and_counted(tmp_path: Path) -> None:
    losses = Losses()
    (one,) = read_file(write(tmp_path / "a.json", '{"text": "\\ud83d!", "k\\udc00": 1}'), losses)
    assert one.value == {"text": "\ufffd!", "k\ufffd": 1}
    assert losses.to_json()[0]["reason"] == "a lone half of a surrogate pair is U+FFFD"


def test_what_json_does_not_have_is_null_and_counted(tmp_path: Path) -> None:
    losses = Losses()
    (one,) = read_file(write(tmp_path / "a.json", '{"cost": NaN}'), losses)
    assert one.value == {"cost": None}
    assert losses.to_json()[0]["count"] == 1


def test_a_byte_order_mark_is_no_problem(tmp_path: Path) -> None:
    assert found(write(tmp_path / "a.json", b'\xef\xbb\xbf{"a": 1}'))[0].value == {"a": 1}


def test_units_of_a_folder(tmp_path: Path) -> None:
    one = write(tmp_path / "z.json", "{}")
    write(tmp_path / ".hidden" / "x.json", "{}")
    events = [
        write(tmp_path / "run" / folder / name, "{}")
        for folder, name in (("events", "event_1.json"), ("states", "state_1.json"))
    ]
    assert units(tmp_path) == [Unit(tmp_path / "run", tuple(events)), Unit(one, (one,))]
    assert [each.value for each in read_unit(units(tmp_path)[0], Losses())] == [[{}, {}]]


def test_a_bad_part_of_a_recording_is_named(tmp_path: Path) -> None:
    write(tmp_path / "event_1.json", "{}")
    write(tmp_path / "state_1.json", "{")
    first, second = read_unit(units(tmp_path)[0], Losses())
    assert first.place.endswith("state_1.json")
    assert first.problem
    assert second.value == [{}]


def test_no_file_and_no_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file or folder"):
        units(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no files"):
        units(tmp_path / "empty")


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_blank_lines_before_lines_do_not_matter(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, '\n{"a": 1}\n\n{"a": 2}\n')
    assert [each.place for each in found(path)] == [f"{path}:2", f"{path}:4"]


def test_lines_whose_first_is_bad_lose_only_that(tmp_path: Path) -> None:
    first, second = found(write(tmp_path / "a.jsonl", '{"a": \n{"a": 2}\n'))
    assert first.problem is not None
    assert second.value == {"a": 2}


def test_what_is_no_file_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("1")
    (tmp_path / "dangling.jsonl").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.jsonl")
    losses = Losses()
    every = [each for unit in units(tmp_path) for each in read_unit(unit, losses)]
    assert [(Path(each.place).name, each.value, each.problem is None) for each in every] == [
        ("a.json", 1, True),
        ("dangling.jsonl", None, False),
        ("pipe.jsonl", None, False),
    ]


def test_a_pipe_by_itself_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(InputError, match=r"pipe\.jsonl: it is no regular file; write what it gives to a file first"):
        units(tmp_path / "pipe.jsonl")

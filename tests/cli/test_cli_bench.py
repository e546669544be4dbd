"""`worldlm bench`: all verbs against a real server, killed and gone on with."""

import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.kit import foreign, lines, own, perfect, screen, session, write
from tests.bench.report_kit import results
from tests.bench.test_choosing import knowing
from tests.bench.test_judging import JUDGED, gen, honest
from tests.cli.cli_kit import Cli
from tests.judge.judges import honest as honest_judge
from tests.judge.judges import is_choice, position_biased
from tests.models.chat_server import Answer, ChatServer, chat, error, serving
from worldlm.bench.results import read_results, write_results
from worldlm.core.jsonl import JsonlWriter
from worldlm.judge.verdicts import CHOICE_FORMAT, SCORES_FORMAT

JUDGE = ("--judge", "openai:judge@http://127.0.0.1:9/v1")


@pytest.fixture
def chats() -> Iterator[ChatServer]:
    with serving(perfect) as server:
        yield server


def spec(server: ChatServer) -> str:
    return f"openai:served@{server.url}"


def slow(body: dict[str, Any], index: int) -> Answer:
    return Answer(perfect(body, index).body, delay=0.05)


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def finished(path: Path) -> list[int]:
    return [json.loads(line)["id"] for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def test_the_whole_chain_step_by_step_and_at_once_give_the_same_numbers(
    tmp_path: Path, cli: Cli, chats: ChatServer
) -> None:
    with JsonlWriter(tmp_path / "t.jsonl") as writer:
        for run in range(4):
            writer.write(session(f"s{run}", [f"r{run}t{turn}" for turn in range(6)]))
    built = cli("bench", "build", tmp_path / "t.jsonl", tmp_path / "b", "--per-domain", 10, "--json")
    assert (built.code, built.json["samples"]) == (0, {"terminal": 10})

    asked = cli("bench", "infer", tmp_path / "b", tmp_path / "p.jsonl", "-m", spec(chats), "--json")
    assert (asked.code, asked.err, asked.json["outcomes"]) == (0, "", {"ok": 10})
    judged = cli("bench", "judge", tmp_path / "p.jsonl", tmp_path / "s.jsonl", "--json")
    assert (judged.code, judged.json["outcomes"]) == (0, {"ok": 10})
    scored = cli("bench", "score", tmp_path / "s.jsonl", "--out", tmp_path / "r.json", "--json")
    assert scored.code == 0
    assert scored.json["tables"][0]["headline"]["mean"] == 100
    assert scored.json["infer"]["model"].startswith("served@")
    assert scored.json["infer"]["prompt"] == "own"
    assert scored.json["infer"]["prompt_hashes"]["terminal"]

    ran = cli("bench", "run", tmp_path / "b", tmp_path / "run", "-m", spec(chats), "--json")
    assert ran.code == 0
    assert ran.json["tables"] == scored.json["tables"]
    assert (tmp_path / "run" / "report.html").read_text().startswith("<!")
    before = len(chats.bodies)
    again = cli("bench", "run", tmp_path / "b", tmp_path / "run", "-m", spec(chats))
    assert (again.code, len(chats.bodies)) == (0, before)
    assert "mean of domains" in again.out

    page = cli("bench", "report", tmp_path / "r.json", tmp_path / "run" / "results.json", "--out", tmp_path / "x.html")
    assert (page.code, (tmp_path / "x.html").stat().st_size > 1000) == (0, True)
    compared = cli("bench", "compare", tmp_path / "r.json", tmp_path / "run" / "results.json", "--json")
    assert compared.json["overall"]["ties"] == 10
    assert "ties" in cli("bench", "compare", tmp_path / "r.json", tmp_path / "run" / "results.json").out


def test_the_results_of_another_benchmark_are_not_replaced(tmp_path: Path, cli: Cli, chats: ChatServer) -> None:
    first = write(tmp_path / "a.jsonl", [foreign(number) for number in range(4)])
    second = write(tmp_path / "b.jsonl", [foreign(number, run=number + 10) for number in range(4)])
    out, asking = tmp_path / "run", ("-m", spec(chats))
    assert cli("bench", "run", first, out, *asking, "--limit", 2).code == 0
    assert cli("bench", "run", first, out, *asking).code == 0
    before, asked = (out / "results.json").read_bytes(), len(chats.bodies)
    refused = cli("bench", "run", second, out, *asking)
    assert refused.code == 2
    assert f"it holds 4 samples of {first}, and none of them is among the 4 of {second}; name another" in refused.error
    assert ((out / "results.json").read_bytes(), len(chats.bodies)) == (before, asked)
    both = tmp_path / "both"  # holds the first: the same benchmark, and more of it
    both.mkdir()
    for file in (first, second):
        records = [json.loads(line) for line in file.read_text().splitlines()]
        write(both / file.name, [{**record, "task": f"{file.stem}/{record['task']}"} for record in records])
    assert cli("bench", "run", both, out, *asking).code == 2, "tasks of other names are other samples"


@pytest.mark.parametrize("held", ["predictions.run.json", "scores.run.json", "results.json"])
@pytest.mark.parametrize("same_name", [True, False], ids=["other samples", "another file"])
def test_whatever_a_folder_holds_of_another_benchmark_is_left_alone(
    tmp_path: Path, cli: Cli, chats: ChatServer, held: str, same_name: bool
) -> None:
    benchmark, out, asking = tmp_path / "b.jsonl", tmp_path / "run", ("-m", spec(chats))
    assert cli("bench", "run", write(benchmark, [foreign(number) for number in range(3)]), out, *asking).code == 0
    for file in out.iterdir():
        if file.name != held:
            file.unlink()
    before, asked = (out / held).read_bytes(), len(chats.bodies)
    other = benchmark if same_name else tmp_path / "c.jsonl"
    write(other, [foreign(number, run=number + 10) for number in range(4)])
    refused = cli("bench", "run", other, out, *asking)
    assert refused.code == 2
    assert f"it holds 3 samples of {benchmark}, and none of them is among the 4 of {other}" in refused.error
    assert "name another folder" in refused.error
    assert ((out / held).read_bytes(), len(chats.bodies), [file.name for file in out.iterdir()]) == (
        before,
        asked,
        [held],
    )


def test_a_part_of_a_benchmark_more_of_it_and_a_mended_one_go_on(tmp_path: Path, cli: Cli, chats: ChatServer) -> None:
    records = [foreign(number, task=task) for task in ("terminal", "held/terminal") for number in range(3)]
    records += [foreign(9, task="os")]
    benchmark, out = write(tmp_path / "b.jsonl", records), tmp_path / "run"
    mended = [*records[:-1], records[-1] | {"system_str": "Another."}]
    for which, more, asked in (
        (records, ("--limit", 1), 2),
        (records, ("--domain", "os"), 0),
        (records, ("--id", "terminal/2"), 1),
        (records, (), 4),
        (mended, ("--limit", 1), 1),
        ([*mended, foreign(7)], (), 1),
    ):
        before = len(chats.bodies)
        write(benchmark, which)
        result = cli("bench", "run", benchmark, out, "-m", spec(chats), *more)
        assert (result.code, len(chats.bodies) - before) == (0, asked), result.err
    moved = benchmark.rename(tmp_path / "moved.jsonl")
    assert cli("bench", "run", moved, out, "-m", spec(chats)).code == 0


def test_every_verb_leaves_the_files_of_another_benchmark_alone(tmp_path: Path, cli: Cli, chats: ChatServer) -> None:
    one = write(tmp_path / "p.jsonl", [gen(1), gen(2)])
    other = write(tmp_path / "q.jsonl", [foreign(n, run=n + 10) | {"gen": screen("x")} for n in (1, 2)])
    with serving(judging_by(position_biased)) as judge:
        turing = ("--protocol", "turing", "--judge", spec(judge))
        for verb, first, second in (
            ("infer", (one, tmp_path / "i.jsonl", "-m", spec(chats)), (other, tmp_path / "i.jsonl", "-m", spec(chats))),
            ("judge", (one, tmp_path / "s.jsonl"), (other, tmp_path / "s.jsonl")),
            ("judge", (one, tmp_path / "t.jsonl", *turing), (other, tmp_path / "t.jsonl", *turing)),
            ("score", (one, "--out", tmp_path / "r.json"), (other, "--out", tmp_path / "r.json")),
            (
                "judge",
                (one, tmp_path / "u.jsonl", *turing, "--out", tmp_path / "u.json"),
                (other, tmp_path / "v.jsonl", *turing, "--out", tmp_path / "u.json"),
            ),
        ):
            assert cli("bench", verb, *first).code == 0
            before = {path: path.read_bytes() for path in tmp_path.iterdir()}
            asked = len(chats.bodies) + len(judge.bodies)
            refused = cli("bench", verb, *second)
            assert refused.code == 2
            assert "is of another benchmark: it holds 2 samples of " in refused.err
            assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
            assert len(chats.bodies) + len(judge.bodies) == asked
            assert cli("bench", verb, *first).code == 0
        nowhere = cli("bench", "judge", one, tmp_path / "w.jsonl", *turing, "--out", one / "w.json")
        assert (nowhere.code, len(judge.bodies)) == (2, asked - len(chats.bodies))
        assert f"{one} is a file and no folder; name another place" in nowhere.err
    kept = write(tmp_path / "notes.json", [{"mine": 1}])
    assert "no result of a benchmark; name another place" in cli("bench", "score", one, "--out", kept).error
    assert lines(kept) == [{"mine": 1}]


def test_a_run_that_is_killed_half_way_loses_nothing_and_does_nothing_twice(
    tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"], chats: ChatServer
) -> None:
    chats.script = slow
    benchmark = write(tmp_path / "b.jsonl", [foreign(number, 1 + number % 3, run=number // 3) for number in range(60)])
    out = tmp_path / "p.jsonl"
    at_once = 4
    process = start("bench", "infer", benchmark, out, "-m", spec(chats), "--concurrency", at_once)
    wait_for(lambda: out.exists() and len(finished(out)) >= 30)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    half = finished(out)
    assert 30 <= len(half) < 60
    asked_before = len(chats.bodies)
    rest = start("bench", "infer", benchmark, out, "-m", spec(chats), "--concurrency", 16, "--json")
    told, said = rest.communicate(timeout=120)
    assert (rest.returncode, said) == (0, "")
    assert json.loads(told)["already"] == len(half)
    assert Counter(finished(out)) == dict.fromkeys(range(60), 1)
    assert len(chats.bodies) - asked_before == 60 - len(half)
    assert asked_before - len(half) <= at_once


def test_ctrl_c_keeps_everything_and_says_how_to_go_on(
    tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"], chats: ChatServer
) -> None:
    chats.script = slow
    benchmark = write(tmp_path / "b.jsonl", [foreign(number) for number in range(60)])
    out = tmp_path / "p.jsonl"
    process = start("bench", "infer", benchmark, out, "-m", spec(chats), "--concurrency", 2)
    wait_for(lambda: out.exists() and len(finished(out)) >= 5)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on" in said
    assert "Traceback" not in said
    assert 5 <= len(lines(out)) < 60
    judged = start("bench", "judge", out, tmp_path / "s.jsonl", "--json")
    assert judged.communicate(timeout=60)[1] == ""
    scored = start("bench", "score", tmp_path / "s.jsonl")
    table, complaint = scored.communicate(timeout=60)
    assert scored.returncode == 1
    assert "coverage of terminal is" in complaint
    assert "mean of domains" in table


def test_a_judge_scores_and_the_public_way_stands_beside_it(tmp_path: Path, cli: Cli) -> None:
    source = write(tmp_path / "p.jsonl", [gen(number) for number in range(4)])
    with serving(honest) as judge:
        ran = cli("bench", "judge", source, tmp_path / "s.jsonl", "--judge", spec(judge), "--json")
    assert (ran.code, ran.json["outcomes"], ran.json["usage"]["calls"]) == (0, {"ok": 4}, 4)
    scored = cli("bench", "score", tmp_path / "s.jsonl", "--out", tmp_path / "r.json")
    assert scored.code == 0
    results = read_results(tmp_path / "r.json")
    assert [table.headline.mean for table in results.tables] == [100, 75, pytest.approx(77.5)]
    assert results.judging.rubric
    public = cli("bench", "score", "--public", tmp_path / "s.jsonl", "--json")
    assert (public.json["overall"]["total"], public.json["overall"]["percent"]) == (4.0, 75.0)
    assert "the public way" in cli("bench", "score", "--public", tmp_path / "s.jsonl").out


@pytest.mark.parametrize("reply", ["no verdict from me", "", "9"])
def test_a_judge_of_which_nothing_can_be_used_is_an_error_and_its_lines_are_kept(
    tmp_path: Path, cli: Cli, reply: str
) -> None:
    source = write(tmp_path / "p.jsonl", [gen(number) for number in range(3)])
    with serving(lambda body, index: chat(reply)) as judge:
        ran = cli("bench", "judge", source, tmp_path / "s.jsonl", "--judge", spec(judge))
    assert ran.code == 1
    assert "none of 3 verdicts can be used; the first: " in ran.err
    assert len((tmp_path / "s.jsonl").read_text().splitlines()) == 3


def test_a_server_that_refuses_ends_the_run_in_one_line_with_its_own_words(
    tmp_path: Path, cli: Cli, chats: ChatServer
) -> None:
    chats.script = lambda body, index: error(401, "this key was revoked")
    benchmark = write(tmp_path / "b.jsonl", [foreign(number) for number in range(30)])
    result = cli("bench", "infer", benchmark, tmp_path / "p.jsonl", "-m", spec(chats), "--concurrency", 2)
    assert result.code == 1
    assert "this key was revoked" in result.error
    assert len(chats.bodies) < 15


def test_prompts_and_sessions(tmp_path: Path, cli: Cli, chats: ChatServer) -> None:
    benchmark = write(tmp_path / "b.jsonl", [own(1), own(2)])
    for prompt in ("own", "sample", "environment"):
        result = cli(
            "bench", "infer", benchmark, tmp_path / f"{prompt}.jsonl", "-m", spec(chats), "--prompt", prompt, "--json"
        )
        assert (result.code, result.json["outcomes"]) == (0, {"ok": 2})
        record = min(lines(tmp_path / f"{prompt}.jsonl"), key=lambda each: each["id"])  # whichever came first
        assert record["worldlm"]["prediction"]["observation"]["text"] == screen("r1t3")
    asked = [sorted(json.dumps(body["messages"]) for body in chats.bodies[start : start + 2]) for start in (0, 2, 4)]
    assert asked[0] == asked[2] != asked[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("infer", "{b}", "{o}", "--prompt", "owm"), "did you mean 'own'"),
        (("infer", "{b}", "{o}", "--domain", "terminl"), "did you mean 'terminal'"),
        (("infer", "{b}", "{o}", "--id", "terminal/77"), "has no sample"),
        (("infer", "nowhere", "{o}"), "no file or folder nowhere"),
        (("infer", "{b}", "{o}", "-m", "gpt"), "no model"),
        (("infer", "{bad}", "{o}"), "sample terminal/1: turn_idx: 9, and total_turns is 3"),
        (
            ("infer", "{b}", "{p}/o.jsonl", "-m", "openai:x@http://127.0.0.1:9"),
            "p.jsonl is a file and no folder; name another place",
        ),
        (
            ("run", "{b}", "{p}", "-m", "openai:x@http://127.0.0.1:9"),
            "p.jsonl is a file and no folder; name another place",
        ),
        (("infer", "{e}", "{o}"), "holds no sample; name a file or folder that does"),
        (("judge", "{e}", "{o}"), "holds no prediction; `worldlm bench infer` makes some"),
        (("report", "{p}/o.json"), "name a file of results"),
        (("report", "{e}"), "make it again with one of them"),
        (("compare", "{e}", "{e}"), "make it again with one of them"),
        (("compare", "{p}/o.json", "{p}"), "name a file of results"),
        (("score", "{p}", "--out", "{p}/o.json"), "p.jsonl is a file and no folder; name another place"),
        (("score", "{p}", "--out", "{f}"), "is a folder and no file; name another place"),
        (("report", "{r}", "--out", "{p}/o.html"), "p.jsonl is a file and no folder; name another place"),
        (("judge", "{p}"), "file for the scores"),
        (("judge", "{p}", "{p}"), "a file of their own"),
        (("judge", "{b}", "{o}"), "has no 'gen'"),
        (("judge", "{p}", "{o}", "--no-rules"), "needs a --judge"),
        (("judge", "{p}", "{o}", "--protocol", "turning"), "did you mean 'turing'"),
        (("judge", "{p}", "{o}", "--protocol", "turing"), "needs a --judge"),
        (("judge", "{p}", "{o}", "--protocol", "pairwise", *JUDGE), "needs --against"),
        (("judge", "{p}", "{o}", "--protocol", "turing", "--against", "{p}", *JUDGE), "pairwise, and no other"),
        (("judge", "{p}", "{o}", "--protocol", "pairwise", "--against", "{q}", *JUDGE), "share no sample"),
        (("judge", "{p}", "{o}", "--against", "{p}"), "go with --protocol"),
        (("judge", "{p}", "{o}", *JUDGE, *JUDGE), "names one model twice"),
        (("judge", "--audit", "--protocol", "turing", *JUDGE), "no protocol"),
        (("judge", "--audit"), "needs a --judge"),
        (("judge", "{p}", "--audit"), "takes no files"),
        (("score", "nowhere.jsonl"), "cannot read"),
        (("score", "--public", "{p}", "--out", "{o}"), "no result file"),
        (("report", "{p}"), "no result of"),
        (("compare", "{p}", "{p}"), "no result of"),
        (("compare", "{p}", "{p}", "--metric", "rule"), "did you mean 'rules'"),
        (("build", "{p}x", "{o}"), "no file or folder"),
    ],
)
def test_bad_input_is_one_line_and_2(tmp_path: Path, cli: Cli, arguments: tuple[str, ...], words: str) -> None:
    paths = {
        "b": write(tmp_path / "b.jsonl", [foreign(1)]),
        "bad": write(tmp_path / "bad.jsonl", [foreign(1) | {"turn_idx": 9}]),
        "p": write(tmp_path / "p.jsonl", [gen(1)]),
        "q": write(tmp_path / "q.jsonl", [gen(2)]),
        "e": write(tmp_path / "e.jsonl", []),
        "f": tmp_path,
        "r": tmp_path / "r.json",
        "o": tmp_path / "o.jsonl",
    }
    write_results(results(), paths["r"])
    result = cli("bench", *(each.format(**paths) for each in arguments))
    assert result.code == 2
    assert words in result.error
    assert not paths["o"].exists()


def test_one_of_anything_is_told_as_one(tmp_path: Path, cli: Cli, chats: ChatServer) -> None:
    with JsonlWriter(tmp_path / "t.jsonl") as writer:
        writer.write(session("s", ["a", "b"]))
    one, other = write(tmp_path / "p.jsonl", [gen(1, "x")]), write(tmp_path / "q.jsonl", [gen(1), gen(2)])
    run, choices = tmp_path / "run", ("bench", "judge", one, "--repeats", 1, "--protocol")
    asking = ("-m", spec(chats), "--concurrency", 1)
    with serving(judging_by(position_biased)) as judge:
        told = [
            cli("bench", "build", tmp_path / "t.jsonl", tmp_path / "b", "--per-domain", 1),
            cli("bench", "run", tmp_path / "b", run, *asking),
            cli("bench", "run", tmp_path / "b", run, *asking),
            cli("bench", "report", run / "results.json", "--out", tmp_path / "r.html"),
            cli(*choices, "turing", tmp_path / "c.jsonl", "--judge", spec(judge)),
            cli(*choices, "pairwise", tmp_path / "d.jsonl", "--against", other, "--judge", spec(judge)),
            cli("bench", "score", other, "--out", tmp_path / "q.json"),
            cli("bench", "score", one, "--out", tmp_path / "p.json"),
            cli("bench", "compare", tmp_path / "p.json", tmp_path / "q.json"),
        ]
    assert [result.code for result in told] == [0] * len(told)
    write(one, [foreign(1) | {"gen": None}])
    told += [cli("bench", "score", one), cli("bench", "score", "--public", one)]
    with serving(lambda body, index: error(401, "no key")) as judge:
        told += [cli("bench", "judge", other, tmp_path / "e.jsonl", "--judge", spec(judge), "--no-rules")]
    words = "\n".join(result.out + result.err for result in told)
    assert not re.findall(r"(?<![\d.,])1 (?!is\b|was\b)[a-z]+s\b", words)
    for said in ("1 sample (", ": 1 run\n", "1 call, ", "1 pick ", "1 sample, none scored"):
        assert said in words


def test_a_file_judged_elsewhere_is_scored(tmp_path: Path, cli: Cli) -> None:
    path = write(tmp_path / "s.jsonl", [gen(1) | JUDGED, gen(2) | JUDGED])
    result = cli("bench", "score", path, "--json")
    assert result.json["tables"][1]["headline"]["mean"] == 75


# Choices.


def judging_by(character: Callable[[str], str]) -> Callable[[dict[str, Any], int], Answer]:
    """A judge behind a server that takes a schema."""

    def answer(body: dict[str, Any], index: int) -> Answer:
        prompt = body["messages"][-1]["content"]
        assert body["response_format"] == (CHOICE_FORMAT if is_choice(prompt) else SCORES_FORMAT)
        return chat(character(prompt))

    return answer


def test_a_turing_test_and_a_comparison_by_command(tmp_path: Path, cli: Cli) -> None:
    right = write(tmp_path / "p.jsonl", [gen(number) for number in range(6)])
    wrong = write(tmp_path / "o.jsonl", [gen(number, f"x{number}") for number in range(6)])
    with serving(judging_by(position_biased)) as judge:
        command = ("bench", "judge", wrong, tmp_path / "t.jsonl", "--protocol", "turing", "--judge", spec(judge))
        ran = cli(*command, "--repeats", 8)
        assert ran.code == 0
        assert len(judge.bodies) == 48
        assert "mean of domains" in ran.out
        assert "100.0% of 48 picks fell on what was shown first" in ran.out
        assert "goes by position" in ran.out
        again = cli(*command, "--repeats", 8, "--json")
        assert (again.code, again.json["already"], len(judge.bodies)) == (0, 6, 48)
        kept = json.loads((tmp_path / "t.results.json").read_text())
        assert again.json["results"] == {key: kept[key] for key in kept if key not in ("samples", "telling")}
        assert kept["positions"][0]["biased"] is True
        assert kept["judging"]["structured"] is True
        refused = cli(*command, "--repeats", 8, "--no-structured")
        assert (refused.code, len(judge.bodies)) == (2, 48)
        assert "other settings (structured: True there, False now)" in refused.err

        judge.script = judging_by(honest_judge)
        compared = cli(
            "bench", "judge", right, tmp_path / "c.jsonl", "--protocol", "pairwise", "--against", wrong,
            "--judge", spec(judge), "--out", tmp_path / "c.json", "--json",
        )  # fmt: skip
    assert (compared.code, compared.json["results"]["headline"]["mean"]) == (0, 100)
    assert compared.json["results"]["judging"]["against"] == "o.jsonl"
    assert json.loads((tmp_path / "c.json").read_text())["protocol"] == "pairwise"
    counted = cli("bench", "score", tmp_path / "c.jsonl", "--json")
    assert counted.json["results"]["headline"]["mean"] == 100
    assert "o.jsonl, pairwise" in cli("bench", "score", tmp_path / "c.jsonl").out

    page = tmp_path / "report.html"
    assert cli("bench", "report", tmp_path / "t.results.json", tmp_path / "c.json", "--out", page).code == 0
    told = page.read_text()
    assert "goes by position" in told
    assert "<mark>x" in told
    assert "Predicted by o.jsonl" in told
    few = write(tmp_path / "few.jsonl", [gen(number) for number in range(2)])
    with serving(judging_by(position_biased)) as judge:
        pairwise = ("bench", "judge", wrong, tmp_path / "few.out.jsonl", "--protocol", "pairwise", "--against", few)
        told_before = cli(*pairwise, "--judge", spec(judge), "--json")
        assert f"{few} has no prediction of 4 of 6 samples" in told_before.err
        assert told_before.json["outcomes"] == {"ok": 2}
        assert told_before.json["results"]["overall"]["missing"] == {"not_in_other": 4}
        assert len(judge.bodies) == 2
    lines = cli("bench", "report", tmp_path / "c.jsonl", "--out", page)
    assert (lines.code, page.read_text()) == (2, told)
    assert "is no result of `worldlm bench score --out`" in lines.error


def test_a_comparison_that_is_killed_half_way_loses_nothing_and_does_nothing_twice(
    tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    source = write(tmp_path / "p.jsonl", [gen(number, f"x{number}") for number in range(40)])
    out = tmp_path / "t.jsonl"

    def patient(body: dict[str, Any], index: int) -> Answer:
        return Answer(chat(knowing(body["messages"][-1]["content"])).body, delay=0.05)

    with serving(patient) as judge:
        command = ("bench", "judge", source, out, "--protocol", "turing", "--judge", spec(judge), "--json")
        process = start(*command, "--concurrency", 4)
        wait_for(lambda: out.exists() and len(finished(out)) >= 15)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        half, asked_before = finished(out), len(judge.bodies)
        assert 15 <= len(half) < 40
        rest = start(*command, "--concurrency", 16)
        told, _ = rest.communicate(timeout=120)
        assert (rest.returncode, json.loads(told)["already"]) == (0, len(half))
        assert Counter(finished(out)) == dict.fromkeys(range(40), 1)
        assert len(judge.bodies) - asked_before == 40 - len(half)


def test_words_about_a_format_name_the_way_without_one(tmp_path: Path, cli: Cli) -> None:
    source = write(tmp_path / "p.jsonl", [gen(number) for number in range(20)])

    def odd(body: dict[str, Any], index: int) -> Answer:
        if "response_format" in body:
            return error(400, "guided decoding went wrong with this grammar")
        return honest(body, index)

    with serving(odd) as judge:
        result = cli("bench", "judge", source, tmp_path / "s.jsonl", "--judge", spec(judge))
        assert result.code == 1
        assert "guided decoding went wrong" in result.err
        assert "--no-structured" in result.err
        plain = cli("bench", "judge", source, tmp_path / "t.jsonl", "--judge", spec(judge), "--no-structured", "--json")
        assert (plain.code, plain.json["outcomes"]) == (0, {"ok": 20})


# The audit.


def audit_of(server: ChatServer, out: Path, *more: object) -> tuple[object, ...]:
    return ("bench", "judge", "--audit", "--judge", spec(server), "--domain", "mcp", "--bases", 1, "--out", out, *more)


def test_an_audit_is_bounded_says_what_it_stands_on_and_costs_nothing_twice(tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "audit.json"
    with serving(judging_by(honest_judge)) as judge:
        first = cli(*audit_of(judge, out, "--questions", 2, "--json"))
        assert first.code == 0
        (audited,) = first.json["judges"]
        assert audited["coverage"] == 1
        assert audited["usage"]["calls"] == len(judge.bodies)
        assert (first.json["questions"], first.json["selection"]) == (2, "mcp 2 of 24 questions, drawn by seed 0")
        assert json.loads(out.read_text()) == first.json
        before = len(judge.bodies)
        again = cli(*audit_of(judge, out, "--questions", 2))
        assert (again.code, len(judge.bodies)) == (0, before)
        assert "mcp 2 of 24 questions" in again.err
        assert f"0 calls, {before} replies there already" in again.err
        more = cli(*audit_of(judge, out, "--questions", 3, "--json"))  # the same two, and a further one
        assert more.code == 0
        assert before < len(judge.bodies) <= 2 * before
        assert more.json["judges"][0]["usage"]["calls"] == len(judge.bodies) - before


def test_an_audit_that_is_killed_goes_on_where_it_was(
    tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    def patient(body: dict[str, Any], index: int) -> Answer:
        return Answer(chat(honest_judge(body["messages"][-1]["content"])).body, delay=0.02)

    out = tmp_path / "audit.json"
    with serving(patient) as judge:
        command = audit_of(judge, out, "--questions", 3, "--concurrency", 4, "--json")
        process = start(*command)
        wait_for(lambda: len(judge.bodies) >= 25)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        before = len(judge.bodies)
        told, _ = start(*command).communicate(timeout=120)
        planned = json.loads(told)["judges"][0]["planned"]
        assert planned <= len(judge.bodies) <= planned + 4  # what was under way is asked again
        assert before < planned


def test_a_judge_that_never_answers_well_ends_its_audit_early_in_its_own_words(tmp_path: Path, cli: Cli) -> None:
    with serving(lambda body, index: chat("no verdict from me")) as judge:
        result = cli(*audit_of(judge, tmp_path / "audit.json", "--json"))
        assert len(judge.bodies) < 150
    assert result.code == 1
    assert "gave no usable verdict in its first 24" in result.error
    assert "no verdict from me" in result.error
    assert not (tmp_path / "audit.json").exists()

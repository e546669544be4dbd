import subprocess
import sys

import pytest

from tests.cli.cli_kit import Cli

HEAVY = ("pydantic", "yaml", "aiohttp", "xllamacpp", "prompt_toolkit", "rich", "jsonschema", "anyio")


def test_help_lists_the_verbs_and_loads_nothing_heavy() -> None:
    code = f"import sys; from worldlm.cli.main import run; run(['--help']); print(set({HEAVY!r}) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    for verb in ("simulate", "worlds", "models", "collect"):
        assert f"\n  {verb} " in done.stdout
    assert done.stdout.endswith("\nset()\n")
    assert done.stderr == ""


@pytest.mark.parametrize("verb", ["simulate", "worlds", "models", "collect"])
def test_each_verb_has_help(cli: Cli, verb: str) -> None:
    result = cli(verb, "--help")
    assert result.code == 0
    assert f"worldlm {verb}" in result.out
    assert result.err == ""


def test_no_arguments_is_help(cli: Cli) -> None:
    result = cli()
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("Usage: worldlm")


def test_version(cli: Cli) -> None:
    result = cli("--version")
    assert result.code == 0
    assert result.out.startswith("worldlm 0.")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["simulat"], "did you mean 'simulate'?"),
        (["--nope"], "No such option: --nope"),
        (["simulate"], "Missing argument 'WORLD'"),
        (["simulate", "terminal", "--sed", "1"], "--seed"),
        (["simulate", "terminal", "--seed", "x"], "--seed"),
        (["worlds"], "Missing command"),
        (["worlds", "shw"], "'show'"),
        (["worlds", "show", "search-ferris"], "did you mean 'search-ferries'?"),
        (["worlds", "list", "--domain", "termnal"], "did you mean 'terminal'?"),
        (["simulate", "search-ferris"], "did you mean 'search-ferries'?"),
        (["simulate", "search", "--model", "embeded"], "did you mean 'embedded'?"),
        (["simulate", "search", "--model", "openai:x"], "openai:NAME@URL"),
        (["simulate", "search", "--profile", "ful"], "did you mean 'full'?"),
        (["simulate", "search", "--json"], "--script"),
        (["simulate", "search", "--free"], "--compare"),
        (["simulate", "search", "--script", "no/such.txt"], "no/such.txt"),
        (["simulate", "search", "--compare", "no/such.jsonl"], "no/such.jsonl"),
        (["simulate", "search", "--model", "replay:no/such.jsonl"], "no/such.jsonl"),
        (["collect", "mcp", "--policy", "script:x", "--out", "x.jsonl"], "cannot read script x"),
        (["collect", "mcp", "--world", "swe-toolz", "--out", "x.jsonl"], "is of domain swe, not mcp"),
        (["collect", "swe", "--world", "swe-tolz", "--out", "x.jsonl"], "did you mean 'swe-toolz'"),
        (["collect", "swe", "--policy", "solutions:bfcl", "--out", "x.jsonl"], "is for `collect mcp`"),
        (["collect", "mcp", "--policy", "solutions:git", "--out", "x.jsonl"], "brings no solved tasks"),
        (["collect", "all", "--world", "swe-toolz", "--out", "x"], "leave --world"),
        (["collect", "all", "--out", __file__], "is a file"),
        (["collect", "termnal", "--policy", "script:x", "--out", "x.jsonl"], "did you mean 'terminal'?"),
        (["models", "pull", "qwen"], "qwen-agentworld"),
        (["models", "pull", "qwen-agentworld"], "served"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_line_and_exit_2(cli: Cli, arguments: list[str], told: str) -> None:
    result = cli(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert told in result.error
    assert result.error.startswith("worldlm: ")


def test_a_reader_that_leaves_is_no_error() -> None:
    command = f"{sys.executable} -m worldlm.cli.main worlds show search-ferries | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_at_the_start_are_empty_ones(closed: str) -> None:
    command = f"{sys.executable} -m worldlm.cli.main worlds list {closed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_output_that_cannot_be_written_is_one_line_and_exit_1() -> None:
    command = f"{sys.executable} -m worldlm.cli.main worlds list > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "worldlm: No space left on device\n")

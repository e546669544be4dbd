"""The documentation says what is so: its code runs, its commands, files and links exist, and the site builds.

Conventions of README.md and docs/:

- The `python` fences of a page are one program, run from top to bottom. A `text title="output"` fence after one
  holds what it prints; `title="output, for example"` says that it prints, and may print something else.
- In a `console` fence a line after `$ ` is a command. With `<!-- run -->` before the fence it is run, and the lines
  below it are its output (stdout, then stderr).
- `<!-- needs: bwrap tmux -->` before a fence names what it cannot run without: programs, or `weights`.
- On the page of a domain, `title="first observation"`, `title="action"` and `title="observation"` fences are a session
  in its first shipped world: that is how it starts, an action parses, an observation keeps the rules.
- A `yaml title="a world"` fence is a whole world.
"""

import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from worldlm.cli.interactive import COMMANDS
from worldlm.cli.main import app
from worldlm.core.jsonl import read_trajectories
from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.types import DOMAIN_NAMES, Limits, Observation, Turn, World
from worldlm.domains import get_domain
from worldlm.domains.files import FileState
from worldlm.models import PROFILES, weights
from worldlm.simulate import load_world, parse_world

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
IDS = [str(page.relative_to(ROOT)) for page in PAGES]
PROGRAM = """\
import contextlib, io, json, sys
namespace = {"__name__": "__main__"}
printed = []
for source, name in json.load(sys.stdin):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(source, name, "exec"), namespace)
    printed.append(out.getvalue())
json.dump(printed, sys.stdout)
"""

each_page = pytest.mark.parametrize("page", PAGES, ids=IDS)


@dataclass(frozen=True)
class Fence:
    """A code block of a page."""

    language: str
    title: str
    text: str
    line: int
    notes: str
    """The comments directly before it."""

    @property
    def run(self) -> bool:
        return "<!-- run -->" in self.notes

    @property
    def lacks(self) -> list[str]:
        """What it needs and this machine does not have."""
        found = re.search(r"<!-- needs: (.*?) -->", self.notes)
        return [need for need in (found[1].split() if found else []) if not _has(need)]


@cache
def _has(need: str) -> bool:
    return weights.find() is not None if need == "weights" else shutil.which(need) is not None


_FENCE = re.compile(
    r"(?P<notes>(?:^[ ]*<!--[^\n]*-->\n+)*)^(?P<indent> *)```(?P<language>\w+)(?P<head>[^\n]*)\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)


def fences(page: Path) -> list[Fence]:
    source = page.read_text("utf-8")
    found = []
    for match in _FENCE.finditer(source):
        title = re.search(r'title="([^"]*)"', match["head"])
        indent = match["indent"]
        text = "".join(line.removeprefix(indent) for line in match["text"].splitlines(keepends=True))
        line = source.count("\n", 0, match.start("text")) + 1
        found.append(Fence(match["language"], title[1] if title else "", text, line, match["notes"]))
    return found


def spans(page: Path) -> list[str]:
    """The inline code of a page."""
    prose = re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


@pytest.mark.timeout(600)  # the embedded model is slow on a machine that is busy with other work
@each_page
def test_python_runs_and_prints_what_the_page_says(page: Path, tmp_path: Path) -> None:
    blocks = fences(page)
    pairs = zip(blocks, [*blocks[1:], None], strict=False)
    programs = [(block, after) for block, after in pairs if block.language == "python"]
    able = [(block, after) for block, after in programs if not block.lacks]
    sources = [("\n" * (block.line - 1) + block.text, page.name) for block, _ in able]
    if sources:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PROGRAM],
            input=json.dumps(sources),
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        for (block, after), printed in zip(able, json.loads(done.stdout), strict=True):
            title = after.title if after else ""
            if title == "output" and after:
                assert _lines(printed) == _lines(after.text), f"{page.name}:{block.line} prints something else"
            else:
                assert bool(printed.strip()) == (title == "output, for example"), f"{page.name}:{block.line}: {printed}"
    if lacking := sorted({need for block, _ in programs for need in block.lacks}):
        pytest.skip(f"left out what needs {', '.join(lacking)}")


@dataclass(frozen=True)
class Command:
    """A command of a `console` fence with what the page shows below it."""

    words: str
    output: str


def commands(fence: Fence) -> list[Command]:
    parts = re.split(r"^\$ ", fence.text, flags=re.MULTILINE)[1:]
    found = []
    for part in parts:
        command = re.match(r"(?:[^\n]*\\\n)*[^\n]*", part)
        assert command is not None
        found.append(Command(command[0].replace("\\\n", " "), part[command.end() + 1 :]))
    return found


@each_page
def test_commands_marked_to_run_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    shown = [fence for fence in fences(page) if fence.language == "console" and fence.run]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for fence in shown:
        if fence.lacks:
            pytest.skip(f"left out what needs {', '.join(fence.lacks)}")
        for command in commands(fence):
            done = subprocess.run(
                ["bash", "-c", command.words],
                capture_output=True,
                text=True,
                cwd=tmp_path,
                env={**os.environ, "PATH": path, "COLUMNS": "100"},
                timeout=150,
                check=False,
            )
            assert _lines(done.stdout + done.stderr) == _lines(command.output), f"{page.name}:{fence.line}"


@cache
def options(words: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """Flags and subcommands that `worldlm WORDS --help` lists."""
    done = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"}, prog_name="worldlm")
    assert done.exit_code == 0, f"`worldlm {shlex.join(words)}` does not exist: {done.output}"
    _, _, listed = done.stdout.partition("\nCommands:\n")
    columns = re.findall(r"^  (-[-a-z]+(?:, -[-a-z]+)*)", done.stdout, re.MULTILINE)
    flags = [flag for column in columns for flag in column.split(", ")]
    return frozenset(flags), frozenset(re.findall(r"^  ([a-z][-a-z]*)\b", listed, re.MULTILINE))


def check_usage(text: str) -> None:
    """Whether each `worldlm …` in a shell line names a verb that exists, with flags that it has."""
    words = shlex.split(text, comments=True)
    for start, word in enumerate(words):
        if word != "worldlm":
            continue
        path: tuple[str, ...] = ()
        for follower in words[start + 1 :]:
            if follower in ("|", "&&", ";", "||", ">", "2>", "<"):
                break
            if follower in ("…", "..."):
                continue
            flags, verbs = options(path)
            if follower.startswith("-"):
                assert follower.partition("=")[0] in flags, f"`{text}`: there is no {follower}"
            elif verbs:
                choices = follower.split("|")
                assert set(choices) <= verbs, f"`{text}`: there is no {follower!r} among {sorted(verbs)}"
                path = (*path, choices[0])


def shell_lines(page: Path) -> Iterator[str]:
    for fence in fences(page):
        if fence.language == "console":
            yield from (command.words for command in commands(fence))
    yield from (span for span in spans(page) if re.match(r"worldlm [a-z-]", span))


@each_page
def test_commands_name_verbs_and_flags_that_exist(page: Path) -> None:
    for line in shell_lines(page):
        if "<<" not in line:
            check_usage(line)


def _every_command(path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for verb in sorted(options(path)[1]):
        yield from _every_command((*path, verb))


def test_the_page_of_the_command_line_names_every_verb_and_flag() -> None:
    page = ROOT / "docs" / "cli.md"
    text = page.read_text("utf-8")
    for path in _every_command():
        assert f"worldlm {' '.join(path)}".strip() in text
        section = text.partition(f"## worldlm {path[0]}")[2].partition("\n## ")[0] if path else text
        for flag in options(path)[0] - {"--help", "--install-completion", "--show-completion"}:
            assert f"`{flag}`" in section, f"cli.md does not name {flag} of {path}"


def test_tables_of_the_pages_are_complete() -> None:
    words, models, cli, worlds = (
        (ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in ("words", "models", "cli", "worlds")
    )
    for outcome in Outcome:
        assert f"| `{outcome.name}` |" in words
    for ending in EndingKind:
        assert f"`{ending.value}`" in words
    for command in COMMANDS:
        assert f"`/{command}" in cli
    for field in (*World.model_fields, *Limits.model_fields, *FileState.model_fields):
        assert f"`{field.rstrip('_')}`" in worlds
    for profile in PROFILES.values():
        sampling = profile.sampling
        tag, thinking = ("yes" if value else "no" for value in (profile.answer_tag, profile.thinking))
        numbers = f"{sampling.temperature:g} | {sampling.max_tokens:,} | {profile.context:,}"
        assert f"| `{profile.name}` | {profile.prompt} | {tag} | {thinking} | {numbers} |" in models


@pytest.mark.parametrize("name", DOMAIN_NAMES)
def test_the_page_of_a_domain_names_its_rules_tools_and_arguments(name: str) -> None:
    page = (ROOT / "docs" / "domains" / f"{name}.md").read_text("utf-8")
    domain, world = get_domain(name), load_world(name)
    module = inspect.getsource(sys.modules[domain.parse_action.__module__])
    for rule in set(re.findall(r'(?:rule=|_exactly\(|_check_none\()"(\w+)"', module)):
        assert f"`{rule}`" in page, f"{name}.md does not name the rule {rule}"
    if not world.tools and name not in ("terminal", "os"):
        for tool in domain.tools(world):
            for word in (tool.name, *tool.parameters["properties"]):
                assert f"`{word}`" in page, f"{name}.md does not name {word!r}"


@each_page
def test_make_targets_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for line in [*shell_lines(page), *spans(page)]:
        for target in re.findall(r"\bmake ([a-z-]+)$", line):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"there is no `make {target}`"


_PATH = re.compile(
    r"(?:src|tests|examples|benchmarks|docs|configs|\.ci)/[\w./*-]*|[A-Z]+(?:\.md)?|[\w-]+\.(?:toml|yml)"
)


@each_page
def test_files_that_are_mentioned_exist(page: Path) -> None:
    mentioned = [span for span in spans(page) if "/" in span or span.endswith((".md", ".toml", ".yml"))]
    for line in shell_lines(page):
        mentioned += [word for word in re.split(r"[\s=]", line) if word.startswith(("examples/", "benchmarks/"))]
    for name in mentioned:
        if _PATH.fullmatch(name):
            assert list(ROOT.glob(name.rstrip("/"))), f"{page.name} mentions {name}, which is not there"


@each_page
def test_names_that_are_mentioned_exist(page: Path) -> None:
    for span in spans(page):
        if not re.fullmatch(r"worldlm(\.\w+)+", span) or span.endswith((".yaml", ".md")):
            continue
        parts = span.split(".")
        value: Any = None
        for length in range(len(parts), 0, -1):
            try:
                value = import_module(".".join(parts[:length]))
            except ImportError:
                continue
            for part in parts[length:]:
                value = getattr(value, part)
            break
        assert value is not None, f"there is no {span}"


def _anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    words = [re.sub(r"[^\w\s-]", "", head.lower()).strip() for head in heads]
    return {re.sub(r"[\s]+", "-", head) for head in words}


@each_page
def test_links_resolve(page: Path) -> None:
    prose = re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{page.name} links to {target}, which is not there"
        assert not anchor or anchor in _anchors(file), f"{page.name}: {target} names no heading"


def test_the_examples_of_the_terminal_were_recorded() -> None:
    (recording,) = read_trajectories(ROOT / "examples" / "terminal" / "recording.jsonl").items
    turns = {(turn.action, turn.observation.text) for turn in recording.turns if turn.observation}
    shown = [fence for fence in fences(ROOT / "docs" / "domains" / "terminal.md") if fence.title]
    for before, fence in pairwise(shown):
        if fence.title == "observation":
            assert (before.text.rstrip("\n"), fence.text.removesuffix("\n")) in turns, f"line {fence.line}"


@pytest.mark.parametrize("name", DOMAIN_NAMES)
def test_examples_of_a_domain_are_of_that_domain(name: str) -> None:
    domain, world = get_domain(name), load_world(name)
    call, turns = None, list[Turn]()
    shown = fences(ROOT / "docs" / "domains" / f"{name}.md")
    for fence in shown:
        text = fence.text.removesuffix("\n")
        if fence.title == "action":
            call = domain.parse_action(text, world)
            assert domain.parse_action(domain.format_action(call), world) == call
        elif fence.title == "first observation":
            assert Observation(text=text) == domain.initial_observation(world)
            turns = []
        elif fence.title == "observation":
            assert call is not None
            observation = domain.read_observation(world, call, text)
            broken = [check for check in domain.check(world, turns, call, observation) if not check.passed]
            assert not broken, f"line {fence.line}: {broken}"
            turns.append(Turn(action=domain.format_action(call), observation=observation))
    assert {"action", "observation"} <= {fence.title for fence in shown}


@each_page
def test_worlds_that_are_shown_are_worlds(page: Path) -> None:
    for fence in fences(page):
        if fence.language == "yaml" and fence.title == "a world":
            parse_world(fence.text, f"{page.name}:{fence.line}")


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (done.stdout + done.stderr).strip()

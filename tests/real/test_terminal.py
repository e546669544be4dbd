import asyncio
import json
import os

import pytest

from tests.real.terminal_session import WORLD, family, left_of, needs, opened, typed, world_with
from worldlm.core.errors import InputError, SetupError
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Environment, HasOrigin
from worldlm.core.types import Observation, Turn, World
from worldlm.domains.terminal import COLUMNS, CONFIRM, ROWS, TERMINAL, from_line, scrolled_off
from worldlm.real.terminal import TerminalEnvironment
from worldlm.testing import check_environment

pytestmark = [pytest.mark.usefixtures("terminal_programs")]
PROMPT = "ana@box:~/app$"


# What it is.


@pytest.mark.anyio
async def test_it_keeps_the_contract_of_an_environment() -> None:
    lines = ("cat a.txt", "wc -l a.txt", "echo three >> a.txt && tail -n 1 a.txt")
    actions = [from_line(line, WORLD) for line in lines]
    found = await check_environment(lambda: TerminalEnvironment(WORLD), actions, invalid_action="ls")
    assert found.agreement == 1.0


@pytest.mark.anyio
async def test_it_says_where_its_trajectories_come_from() -> None:
    environment = TerminalEnvironment(WORLD)
    assert isinstance(environment, Environment)
    assert isinstance(environment, HasOrigin)
    assert environment.origin.kind == "real"
    assert "bash" in environment.origin.version


@pytest.mark.anyio
async def test_the_agents_view_hides_what_it_must_not_see() -> None:
    world = WORLD.model_copy(update={"hidden_state": "secret"})
    assert TerminalEnvironment(world).world.hidden_state is None


@pytest.mark.anyio
async def test_another_domain_is_refused() -> None:
    with pytest.raises(InputError, match="'mcp'"):
        TerminalEnvironment(WORLD.model_copy(update={"domain": "mcp"}))


@pytest.mark.anyio
async def test_missing_programs_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worldlm.real.sandbox._program", lambda name: None if name == "bwrap" else f"/usr/bin/{name}")
    with pytest.raises(SetupError, match=r"apt-get install bubblewrap$"):
        await TerminalEnvironment(WORLD).reset()


# The world.


@pytest.mark.anyio
async def test_files_user_folder_modes_and_times_are_the_worlds() -> None:
    world = World(
        name="tree",
        domain="terminal",
        initial_state={
            "user": "kim",
            "host": "node-7",
            "cwd": "/srv/site",
            "mtime": "2024-02-29T12:00:00+00:00",
            "files": {
                "run.sh": {"content": "echo run\n", "mode": "750"},
                "/srv/site/index.html": "<p>é漢\n",
                "/var/log/site/access.log": "1\n2\n",
                "/etc/site.conf": "port = 80\n",
                "/srv/site/empty/": "",
            },
        },
    )
    async with opened(world) as terminal:
        assert terminal.initial.text == "kim@node-7:/srv/site$"
        listing = await terminal.line("TZ=UTC stat -c '%A %U %y %n' ~/run.sh index.html empty /var/log/site/*")
        rows = listing.split("\n")[1:-1]
        assert [row.split()[0] for row in rows] == ["-rwxr-x---", "-rw-r--r--", "drwxr-xr-x", "-rw-r--r--"]
        assert all("kim 2024-02-29 12:00:00.000000000" in row for row in rows)
        assert await terminal.line("cat index.html /etc/site.conf") == (
            "kim@node-7:/srv/site$ cat index.html /etc/site.conf\n<p>é漢\nport = 80\nkim@node-7:/srv/site$"
        )
        assert "kim\n" in await terminal.line("whoami")


@pytest.mark.anyio
async def test_home_lies_on_one_file_system_with_the_root() -> None:
    needs(git="git")
    async with opened() as terminal:
        assert "fatal: not a git repository (or any of the parent directories): .git\n" in await terminal.line(
            "git log"
        )


@pytest.mark.anyio
async def test_setup_commands_have_run_and_left_the_worlds_time() -> None:
    state = {**WORLD.initial_state, "setup": ["mkdir made", "echo 5 > made/five", "export GONE=1"]}  # type: ignore[dict-item]
    async with opened(WORLD.model_copy(update={"initial_state": state})) as terminal:
        assert terminal.initial.text == PROMPT
        assert "5\n" in await terminal.line("cat made/five")
        assert "2026-01-15" in await terminal.line("stat -c %y made/five made")
        past = "    1  cat made/five\n    2  stat -c %y made/five made\n    3  history"
        assert await terminal.line("history") == f"{PROMPT} history\n{past}\n{PROMPT}"


@pytest.mark.anyio
async def test_a_failing_setup_command_names_itself() -> None:
    state = {**WORLD.initial_state, "setup": ["ls /nowhere"]}  # type: ignore[dict-item]
    environment = TerminalEnvironment(WORLD.model_copy(update={"initial_state": state}))
    with pytest.raises(SetupError, match=r"'box': a command of initial_state.setup failed: .*/nowhere"):
        await environment.reset()
    await environment.close()


@pytest.mark.parametrize("path", ["/usr/bin/x", "/x", "/proc/x"])
@pytest.mark.anyio
async def test_files_where_none_can_be_are_refused(path: str) -> None:
    world = WORLD.model_copy(update={"initial_state": {"files": {path: "x"}}})
    with pytest.raises(InputError, match=path):
        await TerminalEnvironment(world).reset()


# Waiting.


@pytest.mark.anyio
async def test_type_ahead_waits_for_its_last_prompt() -> None:
    async with opened() as terminal:
        text = await terminal.keys(("sleep 0.2; echo A\nsleep 0.2; echo B\necho C\n", 9))
        assert [row for row in text.split("\n") if row in "ABC"] == ["A", "B", "C"]
        assert text.endswith(f"\n{PROMPT}")


@pytest.mark.anyio
async def test_keys_typed_into_a_running_command_wait_for_their_own_prompt() -> None:
    async with opened() as terminal:
        first = await terminal.keys(("sleep 0.6\n", 0.1))
        assert first == f"{PROMPT} sleep 0.6"
        text = await terminal.keys(("echo later\n", 9))
        assert text.endswith(f"{PROMPT} echo later\nlater\n{PROMPT}")


@pytest.mark.anyio
async def test_loops_continuation_and_here_documents() -> None:
    async with opened() as terminal:
        assert await terminal.keys(("for i in 1 2; do\n echo n$i\ndone\n", 9)) == (
            f"{PROMPT} for i in 1 2; do\n>  echo n$i\n> done\nn1\nn2\n{PROMPT}"
        )
        assert await terminal.keys(("cat <<'EOF' > h\nx $HOME\nEOF\n", 9)) == (
            f"{PROMPT} cat <<'EOF' > h\n> x $HOME\n> EOF\n{PROMPT}"
        )
        assert "x $HOME\n" in await terminal.line("cat h")
        assert await terminal.keys(("echo 'a\n", 0.1)) == f"{PROMPT} echo 'a\n>"
        assert await terminal.keys(("b'\n", 9)) == f"> b'\na\nb\n{PROMPT}"


@pytest.mark.anyio
async def test_a_command_that_eats_its_input() -> None:
    async with opened() as terminal:
        assert await terminal.keys(("cat\n", 0.3), ("hello\n", 0.3)) == f"{PROMPT} cat\nhello\nhello"
        assert await terminal.keys(("C-d", 9)) == PROMPT
        assert (await terminal.keys(("cat\nhello\n", 0.3))).endswith("\nhello")
        assert await terminal.keys(("C-d", 9)) == PROMPT
        # What is typed before a program reads is echoed by nobody, as on any terminal.
        assert await terminal.keys(("read x; echo got $x\nword\n", 9)) == (
            f"{PROMPT} read x; echo got $x\ngot word\n{PROMPT}"
        )


@pytest.mark.anyio
async def test_long_input_arrives_whole() -> None:
    lines = [f"line {i} " + "é" * 40 for i in range(600)]
    async with opened() as terminal:
        text = await terminal.keys(("cat > big <<'EOF'\n" + "\n".join(lines) + "\nEOF\n", 60))
        assert text.endswith(f"> EOF\n{PROMPT}")
        assert "[" in text.split("\n")[0]
        expected = len(("\n".join(lines) + "\n").encode())
        assert f"\n{expected} big\n" in await terminal.line("wc -c big")


@pytest.mark.anyio
async def test_text_without_return_stays_on_the_line() -> None:
    async with opened() as terminal:
        assert await terminal.keys(("echo ha", 0.1)) == f"{PROMPT} echo ha"
        assert await terminal.keys(("lf\n", 9)) == f"{PROMPT} echo half\nhalf\n{PROMPT}"


@pytest.mark.anyio
async def test_output_between_steps_is_not_lost() -> None:
    async with opened() as terminal:
        await terminal.keys(("(sleep 0.2; echo late) &\n", 9))
        assert "late" in await terminal.keys(("", 0.5))


@pytest.mark.anyio
async def test_waiting_ends_when_the_command_does() -> None:
    async with opened() as terminal:
        await terminal.keys(("sleep 0.3; echo over\n", 0.05))
        started = asyncio.get_running_loop().time()
        assert await terminal.keys(("", 30)) == f"over\n{PROMPT}"
        assert asyncio.get_running_loop().time() - started < 20


@pytest.mark.anyio
async def test_a_steps_waiting_is_bounded() -> None:
    async with opened(world_with(step_seconds=0.3)) as terminal:
        started = asyncio.get_running_loop().time()
        await terminal.keys(("sleep 50\n", 60), ("", 60))
        assert asyncio.get_running_loop().time() - started < 20


# The shell as it is without us.


@pytest.mark.anyio
async def test_status_last_argument_and_pipe_status_survive_the_prompt() -> None:
    async with opened() as terminal:
        assert "\n3\n" in await terminal.keys(("(exit 3)\n", 9), ("echo $?\n", 9))
        assert "\nword\n" in await terminal.keys(("true word\n", 9), ("echo $_\n", 9))
        assert "\n1 0\n" in await terminal.keys(("false | true\n", 9), ("echo ${PIPESTATUS[@]}\n", 9))


@pytest.mark.anyio
async def test_tracing_and_strict_modes_show_nothing_of_ours() -> None:
    async with opened() as terminal:
        assert await terminal.line("set -xu") == f"{PROMPT} set -xu\n{PROMPT}"
        assert await terminal.line("echo a") == f"{PROMPT} echo a\n+ echo a\na\n{PROMPT}"


@pytest.mark.anyio
async def test_the_prompt_may_be_changed_and_shells_nested() -> None:
    async with opened() as terminal:
        assert await terminal.keys(("PS1='x '\n", 30)) == f"{PROMPT} PS1='x '\nx"
        assert await terminal.keys(("bash\n", 30)) == f"x bash\n{PROMPT}"
        assert await terminal.keys(("echo $SHLVL\n", 30)) == f"{PROMPT} echo $SHLVL\n2\n{PROMPT}"
        assert await terminal.keys(("exit\n", 30)) == f"{PROMPT} exit\nexit\nx"
        assert await terminal.keys(("PS1=\n", 30), ("pwd\n", 30)) == "x PS1=\npwd\n/home/ana/app"


@pytest.mark.anyio
async def test_control_keys() -> None:
    async with opened() as terminal:
        await terminal.keys(("sleep 50\n", 0.1))
        assert await terminal.keys(("C-c", 9)) == f"^C\n{PROMPT}"
        await terminal.keys(("sleep 50\n", 0.1))
        assert "Stopped" in await terminal.keys(("C-z", 9))
        assert "sleep 50" in await terminal.line("jobs")
        assert await terminal.keys(("kill %1; wait\n", 9), ("echo abc", 0.05), ("C-c", 9)) != ""
        assert await terminal.keys(("C-l", 9)) == PROMPT
        edited = await terminal.keys(("echo wxyz", 0.05), ("\x1b[D\x7f", 0.05), ("\n", 9))
        assert edited == f"{PROMPT} echo wxz\nwxz\n{PROMPT}"


@pytest.mark.anyio
async def test_the_end_of_the_shell_ends_the_episode() -> None:
    async with opened() as terminal:
        step = await terminal.step(("exit 3\n", 9))
        assert step.terminated
        assert terminal.text(step) == f"{PROMPT} exit 3\nexit"
        after = await terminal.step(("ls\n", 1))
        assert after.outcome is Outcome.INVALID_ACTION
        assert after.terminated
        assert (await terminal.environment.reset()).text == PROMPT


# The screen.


@pytest.mark.anyio
async def test_the_screen_has_its_size() -> None:
    async with opened() as terminal:
        assert f"{ROWS} {COLUMNS}" in await terminal.line("stty size")
        assert "/dev/pts/0" in await terminal.line("tty")
        assert f"{COLUMNS}" in await terminal.line("tput cols")


@pytest.mark.anyio
async def test_only_the_last_rows_are_shown_and_the_marker_counts() -> None:
    async with opened() as terminal:
        exact = await terminal.line("seq 38")
        assert exact.split("\n") == [f"{PROMPT} seq 38", *map(str, range(1, 39)), PROMPT]
        assert len(exact.split("\n")) == ROWS
        for count in (39, 100, 5000):
            text = await terminal.line(f"seq {count}")
            assert text.split("\n") == [scrolled_off(count + 2), *map(str, range(count - 38, count + 1)), PROMPT]
        assert await terminal.keys(("seq 60000\n", 30)) == "\n".join(
            [scrolled_off(60002), *map(str, range(59962, 60001)), PROMPT]
        )


@pytest.mark.anyio
async def test_clear_shows_what_came_after_it() -> None:
    async with opened() as terminal:
        await terminal.line("seq 90")
        assert await terminal.line("clear") == PROMPT
        assert await terminal.line("seq 90 > /dev/null; clear; echo x") == f"x\n{PROMPT}"
        assert (await terminal.line("clear; seq 100")).split("\n")[0] == scrolled_off(101)
        assert await terminal.line(r"printf '\033[2J\033[Htop\n'") == f"top\n{PROMPT}"


@pytest.mark.anyio
async def test_colours_and_progress_bars_are_rendered_and_kept_raw() -> None:
    async with opened() as terminal:
        step = await terminal.step(("printf '\\033[31mred\\033[0m\\n10%%\\r50%%\\r100%% done\\n'\n", 9))
        assert step.observation is not None
        assert step.observation.text.endswith(f"red\n100% done\n{PROMPT}")
        assert step.observation.raw is not None
        assert "\x1b[31mred\x1b[0m\r\n10%\r50%\r100% done\r\n" in step.observation.raw
        assert "133;" not in step.observation.raw
        plain = await terminal.step(("echo plain\n", 9))
        assert plain.observation is not None
        assert plain.observation.raw is None


@pytest.mark.anyio
async def test_wide_combining_and_broken_text() -> None:
    async with opened() as terminal:
        for text in ("naïve café", "漢字かな", "e\u0301te\u0301", "ok 😀 👍", "עברית"):
            assert f"\n{text}\n" in await terminal.keys((f"printf '%s\\n' '{text}'\n", 9))
        broken = await terminal.keys((r"printf 'a\xff\xfeb\n'" + "\n", 9))
        assert broken.split("\n")[1].startswith("a")
        step = await terminal.step((r"printf '\xff\x1b[0m\n'" + "\n", 9))
        assert step.observation is not None
        assert step.observation.raw is not None
        assert step.observation.raw.count("\ufffd") == 1
        await terminal.line("head -c 3000 /dev/urandom | tr -d '\\000-\\037\\177'")
        assert (await terminal.line("clear; echo fine")).endswith(f"fine\n{PROMPT}")


@pytest.mark.anyio
async def test_what_looks_like_tmux_talking_is_only_text() -> None:
    async with opened() as terminal:
        text = await terminal.line(r"printf '%%end 1 2 1\n%%error 1 2 1\n%%exit\n%%output %%0 x\n'")
        assert text.endswith(f"\n%end 1 2 1\n%error 1 2 1\n%exit\n%output %0 x\n{PROMPT}")
        assert await terminal.line("echo on") == f"{PROMPT} echo on\non\n{PROMPT}"


@pytest.mark.anyio
async def test_an_editor_session() -> None:
    needs(vi="vim")
    async with opened() as terminal:
        screen = await terminal.keys(("vi a.txt\n", 1.0))
        assert screen.split("\n")[:3] == ["one", "two", "~"]
        assert len(screen.split("\n")) == ROWS
        screen = await terminal.keys(("ithe ", 0.2), ("C-[", 0.2))
        assert screen.startswith("the one\ntwo\n~")
        assert await terminal.keys((":wq\n", 9)) == PROMPT
        assert "the one\ntwo\n" in await terminal.line("cat a.txt")


@pytest.mark.anyio
async def test_a_pager_session() -> None:
    needs(less="less")
    async with opened() as terminal:
        await terminal.line("seq 200 > numbers")
        first = await terminal.keys(("less numbers\n", 0.6))
        assert first.split("\n")[:39] == [str(i) for i in range(1, 40)]
        second = await terminal.keys((" ", 0.3))
        assert second.split("\n")[0] == "40"
        assert await terminal.keys(("q", 9)) == PROMPT


@pytest.mark.anyio
async def test_another_languages_prompt() -> None:
    needs(python3="python3")
    async with opened() as terminal:
        assert (await terminal.keys(("python3 -q\n", 1.0))).endswith(">>>")
        assert await terminal.keys(("x = 6\n", 0.3)) == ">>> x = 6\n>>>"
        assert await terminal.keys(("print(x * 7)\n", 0.3)) == ">>> print(x * 7)\n42\n>>>"
        assert (await terminal.keys(("C-d", 9))).endswith(PROMPT)


# Limits, failures, endings.


@pytest.mark.anyio
async def test_claims_of_completion_are_answered_by_the_harness() -> None:
    async with opened() as terminal:
        assert await terminal.keys() == CONFIRM
        step = await terminal.step()
        assert step.terminated


@pytest.mark.anyio
async def test_an_invalid_action_is_a_value() -> None:
    async with opened() as terminal:
        step = await terminal.environment.step("ls")
        assert step.outcome is Outcome.INVALID_ACTION
        assert step.detail is not None
        assert "JSON" in step.detail
        assert PROMPT in await terminal.line("true")


@pytest.mark.anyio
async def test_the_turn_limit_truncates() -> None:
    async with opened(world_with(turns=2)) as terminal:
        assert not (await terminal.step(("true\n", 9))).truncated
        assert (await terminal.step(("true\n", 9))).truncated


@pytest.mark.anyio
async def test_the_episodes_time_ends_everything() -> None:
    async with opened(world_with(episode_seconds=1)) as terminal:
        step = await terminal.step(("sleep 100\n", 60))
        assert step.outcome is Outcome.TIMED_OUT
        assert step.truncated
        assert (await terminal.step(("ls\n", 1))).outcome is Outcome.INVALID_ACTION


@pytest.mark.anyio
async def test_a_dead_sandbox_is_an_infrastructure_failure() -> None:
    async with opened() as terminal:
        sandbox = terminal.environment._sandbox
        assert sandbox is not None
        sandbox._process.kill()
        step = await terminal.step(("ls\n", 9))
        assert step.outcome is Outcome.INFRASTRUCTURE_FAILED
        assert step.detail


@pytest.mark.anyio
async def test_a_cancelled_step_closes_the_environment() -> None:
    async with opened() as terminal:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await terminal.step(("sleep 50\n", 60))
        with pytest.raises(InputError, match="reset"):
            await terminal.step(("ls\n", 1))
        assert (await terminal.environment.reset()).text == PROMPT


@pytest.mark.anyio
async def test_closing_during_a_step_ends_the_step() -> None:
    async with opened() as terminal:
        step = asyncio.create_task(terminal.step(("sleep 50\n", 60)))
        await asyncio.sleep(0.1)
        await terminal.environment.close()
        assert (await step).outcome is Outcome.CANCELLED


@pytest.mark.anyio
@pytest.mark.parametrize("keys", [("sleep 5\n", 5.0), ("yes\n", 5.0), ("echo a\n" * 300, 5.0)])
@pytest.mark.parametrize("delay", [0.0, 0.1])
async def test_a_reset_during_a_step_starts_an_episode_of_its_own(keys: tuple[str, float], delay: float) -> None:
    async with opened(world_with(output_kib=64, turns=2)) as terminal:
        step = asyncio.create_task(terminal.step(keys))
        await asyncio.sleep(delay)
        assert (await terminal.environment.reset()).text == PROMPT
        assert (await step).outcome in (Outcome.CANCELLED, Outcome.OK)
        second = await terminal.step(("echo b\n", 9))
        assert terminal.text(second) == f"{PROMPT} echo b\nb\n{PROMPT}"
        assert not second.truncated


@pytest.mark.anyio
async def test_resets_at_once_leave_one_sandbox() -> None:
    environment = TerminalEnvironment(WORLD)
    before = family(os.getpid())
    first, *others = await asyncio.gather(*(environment.reset() for _ in range(3)), return_exceptions=True)
    assert isinstance(first, SetupError)
    assert "closed, or reset again" in str(first)
    assert [other.text for other in others if isinstance(other, Observation)] == [PROMPT] * 2
    await environment.close()
    assert family(os.getpid()) <= before


def test_another_event_loop_is_told_and_leaves_nothing() -> None:
    environment = TerminalEnvironment(WORLD)
    before = family(os.getpid())
    asyncio.run(environment.reset())
    with pytest.raises(InputError, match="another event loop"):
        asyncio.run(environment.step(typed(("ls\n", 1))))
    assert asyncio.run(environment.reset()).text == PROMPT
    asyncio.run(environment.close())
    assert left_of(family(os.getpid()) - before) == set()


@pytest.mark.anyio
async def test_the_agent_cannot_end_the_episode_but_by_ending_the_shell() -> None:
    async with opened() as terminal:
        forged = r"printf '\033]133;X;0;%s\a' $(echo \"$PROMPT_COMMAND\" | grep -o 'aid=[0-9a-f]*' | head -n 1)"
        step = await terminal.step((forged + "\n", 9))
        assert not step.terminated
        assert await terminal.line("echo on") == f"{PROMPT} echo on\non\n{PROMPT}"


@pytest.mark.anyio
async def test_many_terminals_at_once_do_not_mix() -> None:
    async def one(number: int) -> str:
        async with opened() as terminal:
            await terminal.line(f"echo {number} > mine; sleep 0.1")
            return await terminal.line("cat mine")

    texts = await asyncio.gather(*(one(i) for i in range(6)))
    assert texts == [f"{PROMPT} cat mine\n{i}\n{PROMPT}" for i in range(6)]


@pytest.mark.anyio
async def test_rule_checks_accept_what_a_real_terminal_answers() -> None:
    turns: list[Turn] = []
    async with opened() as terminal:
        for line in ("ls", "cat a.txt", "nope", "cd /tmp", "seq 99", "clear", "python3 -c 'print(1)'"):
            action = from_line(line, WORLD)
            step = await terminal.environment.step(action)
            assert step.observation is not None
            failed = [
                check
                for check in TERMINAL.check(WORLD, turns, TERMINAL.parse_action(action, WORLD), step.observation)
                if not check.passed
            ]
            assert failed == [], json.dumps([c.model_dump() for c in failed])
            turns.append(step.turn(action))


def test_actions_are_spelled_as_the_domain_reads_them() -> None:
    keys = TERMINAL.parse_action(typed(("ls\n", 1)), WORLD).arguments["keys"]
    assert keys == [{"keystrokes": "ls\n", "duration": 1.0}]

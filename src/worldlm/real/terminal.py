"""A real terminal: bash in a sandbox, typed into through tmux.

How a step goes: the bytes of each element are sent to the pane; then the step waits until the shell has
drawn its next prompt with no input waiting, or for the element's `duration`. While a program without
such a prompt has the terminal (an editor, a pager, another language's prompt, a here-document), that is exactly
`duration`. The observation is what tmux shows from the row on which the last one ended.

Runs in an asyncio event loop. Cancelling a step closes the environment: keys that were typed cannot be taken back.
"""

import asyncio
import contextlib
import re
import secrets
import subprocess
import time
from functools import cache
from typing import Any, NoReturn

from worldlm.core.errors import InputError, SetupError
from worldlm.core.outcomes import Outcome
from worldlm.core.text import digest
from worldlm.core.types import Limits, Observation, Origin, Step, Usage, World
from worldlm.domains.files import file_state
from worldlm.domains.terminal import ROWS, TERMINAL, control_key, interrupted, scrolled_off
from worldlm.real.episode import Episode
from worldlm.real.sandbox import SETUP_FAILED, Ended, Sandbox, require_programs, terminal_plan
from worldlm.real.surroundings import HERE, Surroundings
from worldlm.real.tmux import HISTORY, Output, Screen, Tmux, TmuxError

START_SECONDS = 30.0
"""How long the sandbox and the world's set-up commands may take."""
SETTLE_SECONDS = 0.05
"""How long a prompt must stand when the shell may still be reading what was typed before."""
GRACE_SECONDS = 1.0
"""Between the interrupt of a program that floods the screen and its end."""
NUDGE_SECONDS = 0.25
"""After which a C-c at the shell's prompt is pressed again."""
SURE_BYTES = 1024
"""Typed text up to this length is in the shell's hands before it can draw a prompt."""

# What a rendering loses: control sequences, and overwriting by return or backspace.
_LOST = re.compile(r"[\x00-\x07\x08\x0b-\x0c\x0e-\x1f\x7f]|\r(?![\r\n])")


class TerminalEnvironment:
    """Satisfies `Environment` and `HasOrigin`. Steps run one at a time."""

    def __init__(self, world: World, around: Surroundings = HERE):
        """Cheap: nothing starts before `reset`. `around`: another clock, process ids and host than usual."""
        if world.domain != "terminal":
            raise InputError(f"world {world.name!r} is of domain {world.domain!r}, not 'terminal'")
        self._world = world
        self._around = around
        self._view = world.agent_view()
        given = world.limits.model_dump(exclude_none=True)
        self._limits: Limits = TERMINAL.limits.model_copy(update=given)
        self._lock = asyncio.Lock()
        self._sandbox: Sandbox | None = None
        self._tmux: Tmux | None = None
        self._episode = Episode(TERMINAL, self._limits)
        self._row = 0
        self._seen = 0
        self._unanswered = False
        self._leaving: asyncio.Future[None] | None = None

    @property
    def world(self) -> World:
        """The agent's view of the world."""
        return self._view

    @property
    def origin(self) -> Origin:
        """Real: which shell, in which sandbox."""
        return Origin(kind="real", source="bash in bubblewrap under tmux", version=_versions())

    async def reset(self, seed: int | None = None) -> Observation:
        """Start a fresh sandbox; the first observation is its first prompt. (Nothing depends on the seed.)

        Raises SetupError when programs are missing or the system refuses a sandbox, InputError when the world's
        files or set-up commands fail.
        """
        self._abandon()  # a step or another start that is under way ends by this
        async with self._lock:
            await self.close()
            state = file_state(self._world)
            nonce = digest("terminal", self._world.name, str(self._world.seed))[:12]
            secret = secrets.token_hex(8)
            require_programs()
            sandbox = Sandbox(terminal_plan(state, self._limits, nonce, secret, self._around), self._limits)
            flood = (self._limits.output_kib or 1) * 1024
            tmux = Tmux(sandbox.stdin, sandbox.stdout, nonce, secret, rows=ROWS, flood=flood)
            self._sandbox, self._tmux = sandbox, tmux
            self._episode = Episode(TERMINAL, self._limits)
            self._unanswered, self._row, self._seen = False, 0, 0
            try:
                if not await tmux.prompt(0, START_SECONDS):
                    await self._explain_failed_start(tmux, sandbox)
                return await self._observe(tmux)
            except BaseException as error:
                self._abandon()
                if isinstance(error, TmuxError):
                    raise SetupError(f"the sandbox did not start: {error}") from error
                raise

    async def step(self, action: str) -> Step:
        """Type the action's keys, wait, and look."""
        async with self._lock:
            sandbox, tmux = self._sandbox, self._tmux
            if sandbox is None or tmux is None:
                raise InputError("the environment has not been reset (or is closed): call reset first")
            if tmux.loop is not asyncio.get_running_loop():
                raise InputError("the environment was reset in another event loop: reset it in this one")
            call = self._episode.read(action, self._world)
            if isinstance(call, Step):
                return call
            started = time.monotonic()
            try:
                observation = await self._type(tmux, sandbox, call.arguments["keys"])
            except TmuxError as error:
                return self._failed(sandbox, error)
            except BaseException:
                # The keys are typed and the answer is lost: there is no way back to before the step.
                self._abandon()
                raise
            usage = Usage(seconds=time.monotonic() - started)
            ended = tmux.output.exit_code is not None
            return self._episode.finish(action, Step(observation=observation, terminated=ended, usage=usage))

    async def close(self) -> None:
        """End the sandbox and everything in it, and wait until it is gone."""
        await asyncio.shield(self._abandon())

    def _abandon(self) -> asyncio.Future[None]:
        """End the sandbox at once; the future is done when nothing is left of it."""
        sandbox, tmux = self._sandbox, self._tmux
        self._sandbox = self._tmux = None
        loop = asyncio.get_running_loop()
        if sandbox is not None and tmux is not None:
            sandbox.kill(Ended.CLOSED)
            with contextlib.suppress(RuntimeError):  # its event loop may be over
                tmux.close()
            self._leaving = loop.run_in_executor(None, sandbox.close)
        return self._leaving if self._leaving and self._leaving.get_loop() is loop else _done(loop)

    # How a step is made.

    async def _type(self, tmux: Tmux, sandbox: Sandbox, keys: list[dict[str, Any]]) -> Observation:
        end = time.monotonic() + (self._limits.step_seconds or 0)
        for key in keys:
            seconds = max(0.0, min(key["duration"], end - time.monotonic()))
            await self._element(tmux, key["keystrokes"], seconds)
            if tmux.flooded:
                await self._interrupt(tmux, sandbox)
                return await self._observe(tmux, flooded=True)
            if tmux.output.exit_code is not None:
                break
        return await self._observe(tmux)

    async def _element(self, tmux: Tmux, keystrokes: str, seconds: float) -> None:
        """Send the keys; wait for the prompt that follows them, or `seconds`."""
        output = tmux.output
        data = (control_key(keystrokes) or keystrokes).encode("utf-8", "replace")
        # When the next prompt may belong to what was typed before, or more keys may be on their way to the shell, then
        # a prompt that says "idle" is not yet certain to come after them.
        unsure = bool(data) and (output.running or self._unanswered or len(data) > SURE_BYTES or data[-1] >= 0x20)
        seen = output.prompts if data else self._seen
        output.expect_redraw = data.endswith(b"\x0c")
        deadline = time.monotonic() + seconds
        tmux.type(data)
        self._unanswered = bool(data)
        if data == b"\x03" and not output.running and not await tmux.prompt(seen, min(seconds, NUDGE_SECONDS)):
            # An interrupt that comes between readline's last check and its read is only noticed with the next key.
            tmux.type(data)
        while await tmux.prompt(seen, deadline - time.monotonic()):
            if unsure:
                await asyncio.sleep(max(0.0, min(SETTLE_SECONDS, deadline - time.monotonic())))
            self._unanswered = output.running
            if not output.running:
                break
            seen = output.prompts

    async def _interrupt(self, tmux: Tmux, sandbox: Sandbox) -> None:
        """Stop a flood: by C-c as a person would, and by ending every program if that does not help."""
        tmux.draining = True
        seen = tmux.output.prompts
        tmux.type(b"\x03")
        stopped = await tmux.prompt(seen, GRACE_SECONDS) and await tmux.quiet(SETTLE_SECONDS, GRACE_SECONDS)
        if not stopped and tmux.output.exit_code is None:
            sandbox.kill_programs()
            await tmux.prompt(seen, GRACE_SECONDS)
            await tmux.quiet(SETTLE_SECONDS, GRACE_SECONDS)
        tmux.draining = False

    async def _observe(self, tmux: Tmux, *, flooded: bool = False) -> Observation:
        output = tmux.output
        screen = await tmux.screen()
        rows, total = self._new_rows(screen, output)
        self._row, self._seen = screen.saved_row, output.prompts
        marks = [interrupted(self._limits.output_kib or 1)] if flooded else []
        if total > ROWS:
            marks.append(scrolled_off(total))
        raw = output.raw()
        output.restart()
        return Observation(text="\n".join(marks + rows), raw=raw if _LOST.search(raw) else None)

    def _new_rows(self, screen: Screen, output: Output) -> tuple[list[str], int]:
        """The rows to show, and how many are new.

        Rows are counted from the top of the screen as it was at the last observation, when the history was emptied.
        """
        above = len(screen.lines) - ROWS
        if screen.full:
            return _without_blank_end(screen.lines[above:]), 0
        first = screen.history - above
        start = min(self._row, screen.history + screen.row)
        if output.cleared_at is not None:
            # `clear` empties the history as well: what is there has come since. A bare clearing of the screen does not.
            start = 0 if output.newlines - output.cleared_at >= ROWS else screen.history
        written = _without_blank_end(screen.lines)
        end = max(first + len(written), start + 1)
        total = end - start
        if screen.history > 0.8 * HISTORY:  # tmux has begun to forget rows: lines are the better count
            total = max(total, output.newlines + 1)
        return written[max(start, end - ROWS) - first :], total

    def _failed(self, sandbox: Sandbox, error: TmuxError) -> Step:
        self._episode.over = True
        if sandbox.ended is Ended.TIME:
            detail = f"{Ended.TIME.value} ({self._limits.episode_seconds:g} s); everything in the sandbox was ended"
            return Step(observation=None, outcome=Outcome.TIMED_OUT, detail=detail, truncated=True)
        if sandbox.ended is Ended.CLOSED:
            return Step(
                observation=None, outcome=Outcome.CANCELLED, detail="the environment was closed during the step"
            )
        why = sandbox.ended.value if sandbox.ended else f"the sandbox is gone: {sandbox.errors() or error}"
        return Step(observation=None, outcome=Outcome.INFRASTRUCTURE_FAILED, detail=why, truncated=True)

    async def _explain_failed_start(self, tmux: Tmux, sandbox: Sandbox) -> NoReturn:
        if sandbox.ended is Ended.CLOSED:
            raise SetupError("the environment was closed, or reset again, while it started")
        if tmux.gone:
            told = sandbox.errors() or "tmux ended at once"
            raise SetupError(
                f"the sandbox did not start: {told.splitlines()[0]}; unprivileged user namespaces must be allowed: "
                "see user.max_user_namespaces, kernel.unprivileged_userns_clone, apparmor_restrict_unprivileged_userns"
            )
        told = " / ".join(line for line in (await tmux.screen()).lines if line)[-500:] or "nothing was printed"
        if tmux.output.exit_code == SETUP_FAILED:
            raise SetupError(f"world {self._world.name!r}: a command of initial_state.setup failed: {told}")
        if tmux.output.exit_code is not None:
            raise SetupError(f"the shell's sandbox did not start: {told}")
        raise SetupError(f"no prompt within {START_SECONDS:g} s (set-up commands included): {told}")


def _without_blank_end(lines: list[str]) -> list[str]:
    end = len(lines)
    while end and not lines[end - 1]:
        end -= 1
    return lines[:end]


def _done(loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
    future: asyncio.Future[None] = loop.create_future()
    future.set_result(None)
    return future


@cache
def _versions() -> str:
    """The programs that a real terminal consists of, with their versions."""
    told = []
    for command in (["bash", "--version"], ["bwrap", "--version"], ["tmux", "-V"]):
        with contextlib.suppress(OSError):
            lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
            told += lines[:1]
    return ", ".join(told)

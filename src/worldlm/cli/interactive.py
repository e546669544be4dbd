"""The interactive session: each line is an action, or one of the commands."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from worldlm.cli.console import note, out, show, show_rows, waiting
from worldlm.cli.lines import Lines
from worldlm.cli.session import INTERRUPTED, QUIT, Session
from worldlm.cli.signals import Signals
from worldlm.core.errors import InputError, nearest, user_path
from worldlm.core.jsonl import JsonlWriter
from worldlm.core.outcomes import Outcome
from worldlm.core.types import Delta, Step, Turn, Usage, World
from worldlm.domains import Domain

HINT = "A line is an action; /help lists the commands, Ctrl-D ends."


@dataclass
class Repl:
    """A session with its lines: reads, acts, shows."""

    session: Session
    world: World
    domain: Domain
    lines: Lines
    signals: Signals
    over: bool = False

    async def run(self, writer: JsonlWriter | None) -> None:
        """Until the lines end, `/quit`, or a signal. `writer` gets each branch on any ending."""
        initial = self.session.branch.environment.initial
        assert initial is not None
        if self.lines.by_hand:
            note(f"{self.world.name} ({self.domain.name}): {self.world.summary or self.domain.summary} {HINT}")
        show(initial.text)
        ending = INTERRUPTED
        try:
            while not self.over and (line := await self._line()) is not None:
                await self._take(line)
            await self.signals.check()  # whoever ends us with a signal often ends our input as well
            ending = QUIT
        finally:
            if writer:
                for number in self.session.branches:
                    writer.write(self.session.trajectory(number, ending))

    async def _line(self) -> str | None:
        branch = f"{self.session.current}:" if len(self.session.branches) > 1 else ""
        while True:
            try:
                return await self.lines.next(f"[{branch}{self.session.branch.length + 1}]> ")
            except KeyboardInterrupt:
                note("Ctrl-D or /quit ends the session.")

    async def _take(self, line: str) -> None:
        command = re.fullmatch(r"/([a-z]+)(?:\s+(.*?))?\s*", line)
        try:
            if command is None:
                await self.act(line.removeprefix("/") if line.startswith("//") else line)
            else:
                await _command(command[1], line).run(self, command[2] or "")
        except InputError as error:
            show(f"[{error}]", "red")

    async def act(self, line: str) -> None:
        """Do what a line says."""
        action = self.domain.from_line(line, self.world)
        with waiting(f"turn {self.session.branch.length + 1}") as stop:
            view = StreamView(stop)
            if not self.lines.by_hand:
                view.end(await self.session.act(action, view.feed))
                return
            with self.signals.step() as scope:
                view.end(await self.session.act(action, view.feed))
        if scope.cancelled_caught:
            show("\n[cancelled: nothing has changed]", "yellow")


class StreamView:
    """Shows an observation while it is made; what the step says at its end is what stands."""

    def __init__(self, stop_waiting: Callable[[], None]):
        self._stop_waiting = stop_waiting
        self._thinking = False
        self._shown = ""

    def feed(self, delta: Delta) -> None:
        """Show a piece."""
        if not out.is_terminal:
            return
        self._stop_waiting()
        if delta.thinking:
            show(delta.thinking, "dim italic", end="")
            self._thinking = True
        if delta.text:
            self._close_thinking()
            show(delta.text, end="")
            self._shown += delta.text

    def _close_thinking(self) -> None:
        if self._thinking:
            show("")
            self._thinking = False

    def end(self, step: Step) -> None:
        """Show what is missing of the step."""
        self._stop_waiting()
        self._close_thinking()
        text = step.observation.text if step.observation else None
        if text is not None and text.startswith(self._shown):
            show(text[len(self._shown) :])
        else:
            if self._shown:
                show("")
                note("(that was a draft)")
            if text is not None:
                show(text)
        if failure := failure_line(step, " (nothing has changed; the step may be tried again)"):
            show(failure, "red")
        for check in step.violations:
            note(f"rule {check.rule}: {check.message}")
        if step.terminated:
            show("[the episode is over; /undo or /fork N goes back, /quit ends]", "yellow")
        elif step.truncated:
            show("[the world's turn limit is reached]", "yellow")


def failure_line(step: Step | Turn, after: str = "") -> str | None:
    """What went wrong, in words, or None for an observation. `after` is added when the step may be tried again."""
    if step.outcome is Outcome.OK:
        return None
    again = "" if step.outcome is Outcome.INVALID_ACTION else after
    return f"[{step.outcome.value}] {step.detail or 'no detail given'}{again}"


def usage_line(usage: Usage) -> str:
    """Calls, tokens and time in words."""
    cost = f", {usage.cost_usd:.4f} USD" if usage.cost_usd else ""
    cached = f" ({usage.cached_tokens} from the prefix cache)" if usage.cached_tokens else ""
    return (
        f"{usage.calls} model call{'s' * (usage.calls != 1)}, {usage.prompt_tokens} prompt tokens{cached}, "
        f"{usage.completion_tokens} completion tokens, {usage.seconds:.1f} s{cost}"
    )


# The commands.


@dataclass(frozen=True)
class Command:
    """What a command does, with its line in the help."""

    usage: str
    help: str
    run: Callable[[Repl, str], Awaitable[None]]


async def _undo(repl: Repl, argument: str) -> None:
    undone = await repl.session.undo()
    show(f"[taken back: {undone.action}]", "yellow")
    show(_last_text(repl))


async def _fork(repl: Repl, argument: str) -> None:
    number = await repl.session.fork(_number(argument, "turn") if argument else None)
    show(f"[branch {number}, from {repl.session.branch.origin}]", "yellow")
    show(_last_text(repl))


async def _branches(repl: Repl, argument: str) -> None:
    for number, branch in repl.session.branches.items():
        mark = "*" if number == repl.session.current else " "
        show(f"{mark} {number}: {branch.length} turns, from {branch.origin}")


async def _switch(repl: Repl, argument: str) -> None:
    repl.session.switch(_number(argument, "branch"))
    show(_last_text(repl))


async def _why(repl: Repl, argument: str) -> None:
    if not repl.session.branch.turns:
        raise InputError("there is no turn yet")
    turn = repl.session.branch.turns[-1]
    show(turn.thinking or "[no thinking was given]", "dim italic")
    if failure := failure_line(turn):
        show(failure)
    for check in turn.violations:
        show(f"rule {check.rule}: {check.message}")
    if not turn.violations and turn.observation:
        show("all rule checks that apply passed")
    show(usage_line(turn.usage))


async def _state(repl: Repl, argument: str) -> None:
    session, environment = repl.session, repl.session.branch.environment
    simulator = environment.origin.simulator
    assert simulator is not None
    show(f"world    {repl.world.name} ({repl.domain.name})")
    show(f"model    {simulator.model}, profile {simulator.profile}, prompt {simulator.prompt_hash}")
    show(f"seed     {session.seed}")
    failed = len(session.branch.turns) - session.branch.length
    turns = f"{session.branch.length} ({environment.missing} no longer shown to the model)"
    show(f"turns    {turns}, {failed} failed steps")
    show(f"usage    {usage_line(session.usage)}")
    show(f"initial state:\n{repl.domain.render_state(repl.world)}")


async def _save(repl: Repl, argument: str) -> None:
    if not argument:
        raise InputError("/save needs a file: /save FILE.jsonl")
    path = user_path(argument)
    with JsonlWriter(path) as writer:
        writer.write(repl.session.trajectory(repl.session.current, QUIT))
    show(f"[branch {repl.session.current} appended to {argument}]", "yellow")


async def _seed(repl: Repl, argument: str) -> None:
    if argument:
        await repl.session.reseed(_number(argument, "seed"))
    show(f"seed {repl.session.seed}")


async def _paste(repl: Repl, argument: str) -> None:
    lines = []
    while (line := await repl.lines.next("... ")) is not None and line.strip() != "/end":
        lines.append(line)
    if lines:
        await repl.act("\n".join(lines))


async def _help(repl: Repl, argument: str) -> None:
    show_rows([(command.usage, command.help) for command in COMMANDS.values()])
    show("Any other line is an action. In a terminal world it is typed, with Return; C-c alone is a control key.")
    show("A line that begins with // is sent with one slash. Alt-Enter starts a new line inside the input.")
    show("Ctrl-C cancels the step that is running; Ctrl-D ends the session.")


async def _quit(repl: Repl, argument: str) -> None:
    repl.over = True


COMMANDS = {
    "undo": Command("/undo", "take back the last turn", _undo),
    "fork": Command("/fork [N]", "branch off after turn N (now, without N)", _fork),
    "branches": Command("/branches", "list the branches", _branches),
    "switch": Command("/switch N", "go to branch N", _switch),
    "why": Command("/why", "the last turn's thinking, broken rules, cost, and why it failed", _why),
    "state": Command("/state", "world, model, seed, turns, tokens, initial state", _state),
    "save": Command("/save FILE", "append this branch to a file, as a trajectory", _save),
    "seed": Command("/seed [N]", "show the seed, or go on with another", _seed),
    "paste": Command("/paste", "read an action of several lines, up to a line /end", _paste),
    "help": Command("/help", "this list", _help),
    "quit": Command("/quit", "end the session", _quit),
}


def _command(name: str, line: str) -> Command:
    try:
        return COMMANDS[name]
    except KeyError:
        hint = nearest(name, COMMANDS)
        raise InputError(f"there is no command /{name}; {hint} (to send the line itself, write /{line})") from None


def _number(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(f"{what} must be a number, not {text!r}") from None


def _last_text(repl: Repl) -> str:
    environment = repl.session.branch.environment
    last = environment.turns[-1].observation if environment.turns else environment.initial
    assert last is not None
    return last.text

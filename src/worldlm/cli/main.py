"""The entry point: the table of verbs, and the one place where an error becomes a line and an exit code.

A verb's module is imported when the verb is chosen, so `worldlm --help` stays quick.
"""

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from worldlm.core.errors import WorldlmError, nearest

VERBS = {
    "simulate": "Act in a world that a language model plays: by hand, by script, or against a recording.",
    "worlds": "List, show and check worlds.",
    "models": "List models and fetch the embedded one.",
    "collect": "Record trajectories of a real environment.",
    "data": "Bring trajectories of others in, write them for others, check files.",
    "bench": "Measure a world model on single turns of real trajectories.",
    "export": "Write a trained adapter for llama.cpp, transformers or vLLM, and compare the logits.",
    "train": "Train a world model: continual pre-training and supervised fine-tuning of an adapter.",
}
"""Each verb with its line in the help. `worldlm.cli.VERB` holds its typer application, `app`."""


class _Stopped(WorldlmError):  # noqa: N818
    """Ctrl-C; the message says what is left."""

    exit_code = 130


class _Verbs(TyperGroup):
    """The verbs, each imported when it is asked for."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:  # typer would end without a word
            raise _Stopped(str(error) or "stopped") from error

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in VERBS:
            return None
        return typer.main.get_command(import_module(f"worldlm.cli.{cmd_name}").app)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in VERBS:
            ctx.fail(f"there is no command {args[0]!r}; {nearest(args[0], VERBS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


app = typer.Typer(cls=_Verbs, add_completion=False, rich_markup_mode=None, invoke_without_command=True)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata  # takes as long to import as the rest of this module

        print(f"worldlm {metadata.version('worldlm')}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Language world models: a language model plays the environment that your agent acts in."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code: 0 done, 1 failed, 2 wrong usage or input.

    A signal ends it with 128 + its number (130 for Ctrl-C). Errors go to stderr, in one line.
    """
    # A stream that was closed when we started (`<&-`) is an empty one.
    nothing = Path(os.devnull)
    sys.stdin = sys.stdin or nothing.open()
    sys.stdout = sys.stdout or nothing.open("w")
    sys.stderr = sys.stderr or nothing.open("w")
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = typer.main.get_command(app).main(list(arguments), prog_name="worldlm", standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        return _fail(f"{error.format_message()} (see `{_command(error)} --help`)", error.exit_code)
    except WorldlmError as error:
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _discard_output()  # whoever read it has left
        return 1
    except OSError as error:
        _discard_output()
        return _fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", 1)
    return code if isinstance(code, int) else 0


def _command(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return context.command_path if context else "worldlm"


def _discard_output() -> None:
    """Output that cannot be written is not tried again at interpreter exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int) -> int:
    print("worldlm: " + " ".join(message.split()), file=sys.stderr)
    return code


def main() -> None:
    """The `worldlm` program."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()

"""`worldlm worlds`: list, show and check worlds."""

from pathlib import Path
from typing import Annotated

import typer

from worldlm.cli.console import complain, show, show_json, show_rows
from worldlm.core.errors import InputError
from worldlm.core.types import World
from worldlm.domains import get_domain
from worldlm.simulate import dump_world, load_world, shipped_worlds

app = typer.Typer(rich_markup_mode=None, help="List, show and check worlds.")

_Json = Annotated[bool, typer.Option("--json", help="Report as JSON.")]


@app.command("list")
def list_worlds(
    as_json: _Json = False,
    domain: Annotated[str | None, typer.Option(help="Only the worlds of this domain.")] = None,
) -> None:
    """List the shipped worlds; the first of a domain is what its bare name means."""
    if domain is not None:
        get_domain(domain)
    worlds = [world for world in shipped_worlds().values() if domain in (None, world.domain)]
    if as_json:
        show_json([_row(world) for world in worlds])
    elif worlds:
        show_rows([(world.name, world.domain, " ".join(world.summary.split())) for world in worlds])


def _row(world: World) -> dict[str, str | int]:
    return {"name": world.name, "domain": world.domain, "summary": world.summary, "tools": len(world.tools)}


@app.command("show")
def show_world(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A shipped world, a domain, or a world's YAML file.")],
    as_json: _Json = False,
) -> None:
    """Print a world, as the YAML that one's own world may start from."""
    world = load_world(name)
    if as_json:
        show_json(world.model_dump(mode="json"))
    else:
        show(dump_world(world), end="")


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="World files (YAML).")],
    as_json: _Json = False,
) -> None:
    """Check world files: one line each. Exits with 2 when one is bad."""
    results = [(str(file), _problem(file)) for file in files]
    if as_json:
        show_json([{"file": file, "ok": problem is None, "problem": problem} for file, problem in results])
    else:
        for file, problem in results:
            if problem is None:
                show(f"{file}: OK")
            else:
                complain(problem)
    if any(problem for _, problem in results):
        raise typer.Exit(2)


def _problem(file: Path) -> str | None:
    """What is wrong with a world file, or None."""
    # A path without a folder or an ending would be taken for a shipped world's name.
    name = str(file)
    try:
        load_world(name if file.suffix in (".yaml", ".yml") else str(file.absolute()))
    except InputError as error:
        return str(error)
    return None

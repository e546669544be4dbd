"""`worldlm data build`: a whole data set from a recipe, from playing to the card."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from worldlm.cli.console import show, show_json, show_rows
from worldlm.core.errors import InputError, SetupError
from worldlm.core.jsonl import JsonlWriter
from worldlm.data.realturns import RECIPE, TEST_PARTS, shipped
from worldlm.data.settings import read_settings

app = typer.Typer(rich_markup_mode=None)

LOG = "build.jsonl"


@app.command("build")
def build_data(
    output: Annotated[Path, typer.Argument(metavar="OUT", help="The folder for the data set and what lies between.")],
    config: Annotated[
        Path | None, typer.Option(help="A recipe (YAML) of your own in place of the package's, RealTurns.")
    ] = None,
    tests: Annotated[
        bool, typer.Option("--tests", help="Choose the test parts anew, in place of those that the package brings.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes of the corpus steps at once.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON: the whole card.")] = False,
) -> None:
    """Build RealTurns, or another data set: play, clean, filter, split, decontaminate, mix, and write the card.

    A build that was stopped goes on where it was, and what is done already is left alone. Test parts are chosen where
    there are none yet: with a recipe of your own, or with --tests.
    """
    try:
        from worldlm.cli import data_build_corpus as corpus
        from worldlm.cli import data_build_play as playing
        from worldlm.cli.data_build_stages import Stages
        from worldlm.data.realturns.recipe import Recipe
        from worldlm.data.steps.pipeline import Execution
    except ModuleNotFoundError as error:
        raise SetupError(f"a build needs the library {error.name}: pip install 'worldlm[data]'") from error
    recipe = read_settings(config or RECIPE, Recipe)
    brought = {part: shipped(part) for part in TEST_PARTS}
    ready = None if tests or config is not None or not brought["a"] else brought
    sides = playing.sides_of(recipe)
    if ready is None:
        playing.require_surroundings(recipe)
    else:
        sides = {playing.TRAINING: sides[playing.TRAINING]}
    documents = corpus.documents_of(recipe)
    if output.is_file():
        raise InputError(f"OUT {output} is a file; the data set is a folder")
    with JsonlWriter(output / LOG) as log:
        stages = Stages(output, log, Execution(workers), hidden=as_json)
        card = corpus.build(stages, recipe, playing.Plays(recipe, stages, sides), ready, documents)
    if as_json:
        show_json(card)
    else:
        _report(card, output)


def _report(card: Mapping[str, Any], output: Path) -> None:
    rows: Sequence[tuple[str, ...]] = [
        (part, domain, str(mine["trajectories"]), str(mine["turns"]))
        for part, by in card["parts"].items()
        for domain, mine in by.items()
    ]
    show_rows([("part", "domain", "trajectories", "turns"), *rows])
    gap = card["overlap"]
    show(
        f"of the tests' {gap['test_runs']} runs of {gap['words']} words {gap['runs_in_training']} stand in training, "
        f"and {gap['common_runs']} common ones"
    )
    for short in card["shortfalls"]:
        show(f"short of the recipe: {short}")
    show(f"training: {output / 'train.jsonl'}; the card: {output / 'card.md'}")

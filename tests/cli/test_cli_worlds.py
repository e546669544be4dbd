from pathlib import Path

import pytest

from tests.cli.cli_kit import WORLD, Cli
from worldlm.core.types import World
from worldlm.simulate import load_world, parse_world, shipped_worlds


def test_list_names_every_shipped_world(cli: Cli) -> None:
    result = cli("worlds", "list")
    assert result.code == 0
    assert [line.split()[0] for line in result.out.splitlines()] == list(shipped_worlds())


def test_list_of_a_domain_as_json(cli: Cli) -> None:
    rows = cli("worlds", "list", "--domain", "search", "--json").json
    assert rows
    assert {row["domain"] for row in rows} == {"search"}


def test_show_prints_yaml_that_is_the_world(cli: Cli) -> None:
    result = cli("worlds", "show", "search")
    assert parse_world(result.out, "shown") == load_world("search")


def test_show_as_json_is_the_world(cli: Cli, world: Path) -> None:
    assert World.model_validate(cli("worlds", "show", world, "--json").json) == load_world(str(world))


def test_check_tells_good_from_bad(cli: Cli, world: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(WORLD.replace("context:", "contxt:"))
    result = cli("worlds", "check", world, bad, tmp_path / "none.yaml")
    assert result.code == 2
    assert result.out == f"{world}: OK\n"
    first, second = result.err.splitlines()
    assert str(bad) in first
    assert "did you mean 'context'?" in first
    assert "none.yaml" in second


@pytest.mark.parametrize("good", [True, False])
def test_check_as_json(cli: Cli, world: Path, good: bool) -> None:
    if not good:
        world.write_text("name: [")
    result = cli("worlds", "check", world, "--json")
    assert result.code == (0 if good else 2)
    assert [row["ok"] for row in result.json] == [good]
    assert result.err == ""

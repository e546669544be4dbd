"""RealTurns: our own data set of real turns, its recipe, and the test parts that the package brings.

The training part is not shipped: `worldlm data build` makes it from the recipe's seeds.
"""

from pathlib import Path

from worldlm.core.errors import InputError, nearest

TEST_PARTS = ("a", "b")
"""Part A asks of worlds and kinds of actions that training knows, part B of kinds that it never saw."""
RECIPE = Path(__file__).with_name("recipe.yaml")
"""How the data set is made. It lies beside the code, so that an installed package has it too."""
CARD = Path(__file__).with_name("card.json")
"""Figures of the build from which the shipped test parts are."""


def shipped(part: str) -> list[Path]:
    """The files of a test part that this package brings; none where it brings none. Raises InputError for no part."""
    if part not in TEST_PARTS:
        raise InputError(f"RealTurns has no test part {part!r}; {nearest(part, TEST_PARTS)}")
    return sorted(Path(__file__).with_name(f"test-{part}").glob("*_test.jsonl.xz"))


def realturns_files(part: str) -> list[Path]:
    """The files of a test part, `DOMAIN_test.jsonl.xz` each, in AgentWorldBench's format.

    Raises InputError for a part that there is not, and where the package brings none.
    """
    files = shipped(part)
    if not files:
        raise InputError(f"this package brings no test part {part!r}; make it: worldlm data build OUT --tests")
    return files


__all__ = ["CARD", "RECIPE", "TEST_PARTS", "realturns_files", "shipped"]

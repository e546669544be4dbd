"""The verifiers on the calibration set: which pairs they order rightly, and how many turns one core does a second.

`--trajectories FILE` makes the set of your own trajectories in place of the shipped one. `--build FOLDER` collects
anew what the shipped set is made of (real environments, and the stand-in phone of the tests) into a folder and
writes the set to the package; what is in the folder already is not collected again.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

from worldlm.core.jsonl import read_trajectories
from worldlm.core.types import DOMAIN_NAMES, DomainName
from worldlm.judge.calibration import (
    CalibrationItem,
    load_calibration,
    make_calibration,
    measure_order,
    write_calibration,
)
from worldlm.judge.verifiers import verify

ROOT = Path(__file__).parent.parent
PACKAGED = ROOT / "src/worldlm/judge/calibration"
SEED = 7
GROUPS = 24
"""Questions a domain in the shipped set."""
LAST_TURN = 7
"""The last turn asked about there, so that a question carries at most seven turns of history."""
WORLDS: dict[str, Sequence[str]] = {
    "terminal": (),
    "swe": ("swe-ledger", "swe-duration"),
    "mcp": ("mcp-sqlite-shop", "mcp-files-office", "mcp-files-project", "mcp-git-rates", "mcp-memory", "mcp-time"),
    "search": (),
    "web": ("web-bookshop", "web-tracker"),
    "os": (),
}
"""Where the shipped set comes from: worlds whose texts are our own. Empty: all of the domain's real ones."""


def show(domain: str, items: Sequence[CalibrationItem]) -> None:
    began = time.process_time()
    values = {item.id: verify(item.question, item.predicted).value for item in items}
    seconds = time.process_time() - began
    groups = len({item.group for item in items})
    for row in measure_order(items, lambda item: values[item.id]):
        share = f"{100 * row.share:5.1f} %" if row.share is not None else "      –"
        print(f"| {domain} | {row.pair} | {row.right} of {row.total} | {share} |")
    copies = copied(items)
    print(f"| {domain} | {groups} questions | {len(items) / seconds:.0f} turns/s of a core | {copies} |", flush=True)


def copied(items: Iterable[CalibrationItem]) -> str:
    """What the screen before earns as a prediction, where something changed."""
    values = [
        verify(item.question, before).value
        for item in items
        if item.kind == "real" and (before := item.question.before) is not None and before.text != item.predicted.text
    ]
    if not values:
        return "–"
    return f"the observation before again: {sum(values) / len(values):.1f} on average, at most {max(values):.1f}"


def build(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for domain, worlds in WORLDS.items():
        if domain == "search":
            worlds = (str(_documentation(folder)),)
        collect(domain, folder / f"{domain}.jsonl", worlds)
    android(folder)
    for domain in DOMAIN_NAMES:
        write(domain, folder / f"{domain}.jsonl")


def write(domain: DomainName, path: Path) -> None:
    """The questions of one domain, of as many trajectories as there are."""
    trajectories = read_trajectories(path).items
    items = list(make_calibration(trajectories, SEED, per_trajectory=6, last_turn=LAST_TURN))
    groups = sorted({item.group for item in items})
    kept = set(Random(SEED).sample(groups, min(GROUPS, len(groups))))
    target = PACKAGED / f"{domain}.jsonl.xz"
    count = write_calibration([item for item in items if item.group in kept], target)
    print(f"{target.name}: {count} questions, {target.stat().st_size:,} bytes", flush=True)


def collect(domain: str, path: Path, worlds: Sequence[str], episodes: int = 14, turns: int = 14) -> None:
    if path.exists():
        return
    named = [word for world in worlds for word in ("--world", world)]
    command = [sys.executable, "-m", "worldlm.cli.main", "collect", domain, "--out", str(path), *named]
    subprocess.run(
        [*command, "--episodes", str(episodes), "--turns", str(turns), "--concurrency", "2"], check=True, cwd=ROOT
    )


def _documentation(folder: Path) -> Path:
    """A search world over the pages of our own documentation."""
    path = folder / "search-documentation.yaml"
    path.write_text(
        "schema: worldlm.world/1\nname: search-documentation\ndomain: search\n"
        "context: A search engine over the pages of the documentation of worldlm.\n"
        "initial_state: {documents: [{path: ./docs, url: 'https://docs.example/worldlm/', files: '*.md'}]}\n"
    )
    return path


def android(folder: Path) -> None:
    """The stand-in phone of the tests, whose apps are our own."""
    sys.path.insert(0, str(ROOT))
    from tests.real.adb_server import AdbServer, Phone

    with AdbServer(**{"emulator-5554": Phone()}) as server:
        path = folder / "android-phone.yaml"
        path.write_text(
            "schema: worldlm.world/1\nname: android-phone\ndomain: android\n"
            "context: A phone with two apps, Notes and Clock.\n"
            f"initial_state: {{server: '{server.address}', package: dev.tern.notes, pause: 0}}\n"
        )
        collect("android", folder / "android.jsonl", (str(path),))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trajectories", type=Path, action="append", help="make the set of these trajectories")
    parser.add_argument("--each", type=int, default=3, help="questions a trajectory (of your own)")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--build", type=Path, metavar="FOLDER", help="collect into this folder, and rewrite the set")
    arguments = parser.parse_args()
    if arguments.build:
        build(arguments.build.resolve())
        return
    sets: dict[str, list[CalibrationItem]] = {}
    for path in arguments.trajectories or ():
        for item in make_calibration(read_trajectories(path).items, arguments.seed, per_trajectory=arguments.each):
            sets.setdefault(item.domain, []).append(item)
    if not arguments.trajectories:
        sets = {domain: load_calibration(domain) for domain in DOMAIN_NAMES}
    print("| domain | pair | right | share |\n| --- | --- | --- | --- |")
    for domain, items in sets.items():
        show(domain, items)


if __name__ == "__main__":
    main()

"""What the tests of the benchmark share: samples in the public format, and a server that answers them."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.models.chat_server import Answer, chat
from worldlm.bench.results import InferSettings
from worldlm.bench.runs import Manifest, plan
from worldlm.bench.samples import Sample, benchmark_digest, load_samples
from worldlm.core.outcomes import EndingKind
from worldlm.core.types import Ending, Observation, Origin, Trajectory, Turn, World
from worldlm.data.formats.agentworldbench import make_sample, wrap_action, wrap_observation

PROMPT = "user@box:~$"


def action(word: str) -> str:
    """Types `echo WORD`."""
    return json.dumps([{"keystrokes": f"echo {word}\n", "duration": 1.0}])


def screen(word: str) -> str:
    """What a terminal shows after that."""
    return f"{PROMPT} echo {word}\n{word}\n{PROMPT}"


def foreign(
    number: int, turn: int = 3, turns: int = 3, *, run: int | None = None, task: str = "terminal"
) -> dict[str, Any]:
    """A sample as the public files have it: turn `turn` of a session of `turns`, whose words say which run it is."""
    words = [f"r{number if run is None else run}t{each}" for each in range(1, turns + 1)]
    prompt = [wrap_action(each, action(word), PROMPT if each == 1 else None) for each, word in enumerate(words, 1)]
    return {
        "task": task,
        "id": number,
        "system_str": f"You are the terminal of run {number if run is None else run}.",
        "prompt": prompt,
        "response": [wrap_observation(screen(word)) for word in words],
        "current_prompt": prompt[turn - 1],
        "turn_idx": turn,
        "total_turns": turns,
    }


def session(name: str, words: Sequence[str]) -> Trajectory:
    """A real session of ours."""
    world = World(
        name="box", domain="terminal", context="A plain machine.", initial_state={"user": "user", "host": "box"}
    )
    return Trajectory(
        id=name,
        world=world,
        initial=Observation(text=PROMPT),
        turns=tuple(Turn(action=action(word), observation=Observation(text=screen(word))) for word in words),
        ending=Ending(kind=EndingKind.COMPLETED),
        policy="script",
        origin=Origin(kind="real", source="test", licence="Apache-2.0"),
    )


def own(number: int, turn: int = 3, *, words: Sequence[str] | None = None, name: str | None = None) -> dict[str, Any]:
    """A sample of ours: it brings its world."""
    said = words or [f"r{number}t{each}" for each in range(1, turn + 1)]
    return make_sample(session(name or f"session-{number}", said), turn - 1, number)


def write(path: Path, samples: Iterable[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    """The records of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def manifest_of(samples: Sequence[Sample], settings: InferSettings) -> Manifest:
    digest = benchmark_digest((sample.key, sample.digest) for sample in samples)
    return Manifest(benchmark="test", benchmark_digest=digest, infer=settings, planned=plan(samples))


def loaded(path: Path, samples: Iterable[dict[str, Any]]) -> list[Sample]:
    return load_samples(str(write(path, samples)))


def asked_word(body: dict[str, Any]) -> str:
    """The word that the last message of a request echoes."""
    found = re.findall(r"echo ([\w-]+)\\n", body["messages"][-1]["content"])
    return str(found[-1])


def perfect(body: dict[str, Any], index: int) -> Answer:
    """The answer of a terminal."""
    return chat(f"<predicted_observation>{screen(asked_word(body))}</predicted_observation>")

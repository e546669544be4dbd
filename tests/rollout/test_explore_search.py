"""The explorer of search: repeatable, wide, goal-directed, and wrong as often as it should be."""

import json
from collections import Counter
from collections.abc import Sequence
from functools import cache

import pytest

from worldlm.core.errors import ActionError
from worldlm.core.outcomes import Outcome
from worldlm.core.types import Observation, Step, Trajectory, Turn, World
from worldlm.domains.search import SEARCH, format_results, parse_results, world_pages
from worldlm.rollout import RolloutLimits, run_episode
from worldlm.rollout.explorers import make_explorer
from worldlm.simulate import load_world

pytestmark = pytest.mark.anyio
WORLD = load_world("search-ferries")


class PageTurner:
    """A search over a world's pages that shows all that hold a word of the query. Small, exact, and in memory."""

    def __init__(self, world: World = WORLD):
        self.world = world
        self._pages = world_pages(world)
        self._turns: list[Turn] = []

    async def reset(self, seed: int | None = None) -> Observation:
        self._turns = []
        return SEARCH.initial_observation(self.world)

    async def step(self, action: str) -> Step:
        try:
            call = SEARCH.parse_action(action, self.world)
        except ActionError as error:
            return Step(observation=None, outcome=Outcome.INVALID_ACTION, detail=str(error))
        answered = SEARCH.harness(self.world, self._turns, call)
        if answered:
            text = answered.observation.text
        elif call.name == "web_extractor":
            page = self._pages.get(call.arguments["url"])
            text = f"# {page.title}\n\n{page.text}" if page else f"Error: page not found: {call.arguments['url']}"
        elif "query" in call.arguments:
            text = self._results(call.arguments["query"])
        else:
            queries = call.arguments["queries"]
            text = "\n\n".join(f"## Results for: {' '.join(q.split())}\n\n{self._results(q)}" for q in queries)
            text = self._results(queries[0]) if len(queries) == 1 else text
        step = Step(observation=Observation(text=text))
        self._turns.append(step.turn(action))
        return step

    async def close(self) -> None:
        self._turns = []

    def _results(self, query: str) -> str:
        words = {word for word in query.casefold().split() if len(word) > 3}
        return found(tuple(sorted(words)))


@cache
def found(words: tuple[str, ...]) -> str:
    from worldlm.domains.search import SearchResult

    pages = [
        page for page in world_pages(WORLD).values() if any(w in f"{page.title} {page.text}".casefold() for w in words)
    ]
    return format_results(
        [
            SearchResult(url=page.url, title=page.title, snippet=" ".join(page.text.split())[:120], date=page.date)
            for page in pages[:10]
        ]
    )


async def explored(seeds: Sequence[int]) -> list[Trajectory]:
    limits = RolloutLimits(turns=100)
    return [await run_episode(make_explorer("search", seed), PageTurner(), seed=seed, limits=limits) for seed in seeds]


def turns_of(trajectories: Sequence[Trajectory]) -> list[Turn]:
    return [turn for trajectory in trajectories for turn in trajectory.turns]


async def test_one_seed_gives_one_script_and_another_another() -> None:
    (first, second), (again, _) = await explored([3, 4]), await explored([3, 4])
    assert first.actions == again.actions
    assert [turn.label for turn in first.turns] == [turn.label for turn in again.turns]
    assert first.actions != second.actions


async def test_it_is_wide_and_wrong_now_and_then() -> None:
    trajectories = await explored(range(40))
    turns = turns_of(trajectories)
    assert all(trajectory.ending.kind.value in ("completed", "turn_limit") for trajectory in trajectories)
    assert min(len(trajectory.turns) for trajectory in trajectories) >= 5
    labels = Counter(turn.label for turn in turns)
    assert None not in labels
    odd = sum(count for label, count in labels.items() if label and label.endswith("/odd")) / len(turns)
    assert 0.1 <= odd <= 0.2
    families = {str(label).removesuffix("/odd").split(".")[0] for label in labels}
    assert families == {"web_search", "web_extractor", "dict_memory", "unknown_tool", "bad_json"}
    wanted = {"add", "update", "get", "remove", "list"}
    assert {f"dict_memory.{action}" for action in wanted} <= set(labels)
    kinds = {"question", "several", "phrase", "typo", "foreign", "refined", "again", "quote", "keywords", "operators"}
    assert {f"web_search.{kind}" for kind in kinds} <= set(labels)
    assert len({turn.action for turn in turns}) > len(turns) * 0.4  # of a web of a dozen pages


async def test_only_odd_actions_do_not_parse_or_have_wrong_arguments() -> None:
    for turn in turns_of(await explored(range(20))):
        wrong = turn.observation is None or turn.observation.text.startswith("Error: wrong arguments")
        assert not wrong or str(turn.label).endswith("/odd"), turn


async def test_what_it_opens_it_has_seen_and_what_it_notes_it_finds_again() -> None:
    for trajectory in await explored(range(10)):
        shown: set[str] = set()
        notes: dict[str, str] = {}
        for turn in trajectory.turns:
            if turn.observation is None or str(turn.label).endswith("/odd"):
                # An odd action may change the memory too; what it says then counts.
                arguments = json.loads(turn.action).get("arguments", {}) if turn.observation else {}
                if turn.observation and turn.observation.text.startswith(("Added", "Updated")):
                    notes[arguments["key"]] = arguments["value"]
                elif turn.observation and turn.observation.text.startswith("Removed"):
                    notes.pop(arguments["key"])
                continue
            arguments = json.loads(turn.action)["arguments"]
            text = turn.observation.text
            if str(turn.label) == "web_extractor.result":
                assert arguments["url"] in shown
            elif str(turn.label).startswith("web_search") and "query" in arguments:
                shown |= {result.url for result in parse_results(text)}
            elif str(turn.label).startswith("web_search"):
                shown |= {line.split(" ", 1)[1] for line in text.split("\n") if line[:1] == "["}
            elif str(turn.label) == "dict_memory.get":
                assert text == notes[arguments["key"]]
            elif str(turn.label) in ("dict_memory.add", "dict_memory.update"):
                notes[arguments["key"]] = arguments["value"]
            elif str(turn.label) == "dict_memory.remove":
                notes.pop(arguments["key"])


async def test_an_environment_that_finds_nothing_does_not_stop_it() -> None:
    empty = WORLD.model_copy(update={"hidden_state": {"pages": []}})

    class Nothing(PageTurner):
        def _results(self, query: str) -> str:
            return "No results found."

    trajectory = await run_episode(make_explorer("search", 1), Nothing(empty), seed=1)
    assert trajectory.ending.kind.value == "completed"
    assert trajectory.turns

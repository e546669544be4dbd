"""RealTurns: its recipe, how test turns are chosen, the parts as files, and the card."""

import json
import lzma
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.corpus import make, said, write
from worldlm.core.errors import InputError
from worldlm.core.types import Observation, Trajectory
from worldlm.data import realturns_files
from worldlm.data.content import ContentClass
from worldlm.data.formats import Reading, WriteOptions, get_format
from worldlm.data.realturns import RECIPE, shipped
from worldlm.data.realturns.card import BEGIN, END, card_figures, put_card, render_card
from worldlm.data.realturns.card import main as card_main
from worldlm.data.realturns.choosing import POSITIONS, Candidate, Seen, candidates, choose, with_contents
from worldlm.data.realturns.parts import asked_turns, overlap, part_figures, read_part, write_part
from worldlm.data.realturns.recipe import Asking, Recipe, Share
from worldlm.data.report import Losses
from worldlm.data.settings import read_settings
from worldlm.data.steps.decontaminate import Leaks
from worldlm.data.steps.splits import SplitPlan

LEAKS = Leaks(n=5, common=None)
TINY: dict[str, Any] = {"domains": {"terminal": {"episodes": 2, "turns": 4, "tests": 1}}}


def seen(*trajectories: Trajectory, leaks: Leaks = LEAKS) -> Seen:
    return Seen.of(lambda: trajectories, leaks)


def found(trajectory: Trajectory, known: Seen, tests: Asking = Asking()) -> tuple[list[int], dict[str, int]]:  # noqa: B008
    why: Counter[str] = Counter()
    return [each.turn for each in candidates(trajectory, None, tests, known, why)], dict(why)


# The recipe.


def test_the_recipe_of_the_package_is_sound() -> None:
    recipe = read_settings(RECIPE, Recipe)
    assert set(recipe.domains) == {"terminal", "swe", "mcp", "search", "web", "os"}
    assert sorted(name for lane in recipe.lane_list() for name in lane) == sorted(recipe.domains)
    assert recipe.tests.least_a >= 100
    assert recipe.least_turns >= 20_000


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsiodes": 3}, "there is no setting epsiodes"),
        ({"tests": {"per_trajectry": 3}}, "there is no setting tests.per_trajectry; did you mean 'per_trajectory'"),
        ({"domains": {}}, "domains"),
        ({"domains": {"teminal": TINY["domains"]["terminal"]}}, "domains.teminal"),
        ({"split": {"held_out": {"mcp": {"worlds": ["x"]}}}}, "split.held_out.mcp: no such domain is played"),
        ({"split": {"held_out": {"terminal": {"labels": ["x"]}}}}, "domains.terminal.held_out: part B needs episodes"),
        ({"domains": {"terminal": {**TINY["domains"]["terminal"], "held_out": 2}}}, "holds nothing of terminal out"),
        ({"lanes": [["web"]]}, "lanes: web is not played"),
        ({"lanes": [["terminal"], ["terminal"]]}, "a domain stands twice"),
        ({"texts": {"python": {"kind": "professional", "characters": 9}}}, "weights: give one to each of professional"),
        ({"weights": {"trajectories": 0}}, "above 0"),
        ({"tests": {"positions": [5, 2]}}, "must rise"),
        ({"tests": {"classes": {"deterministic": 1}}}, "a share above 0 for each of"),
        ({"cleaning": {"leave": ["home nam"]}}, "did you mean 'home name'"),
        ({"split": {"test": 1.5}}, "split.test"),
    ],
)
def test_a_wrong_recipe_is_refused_by_the_name_of_the_key(change: Any, words: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump({**TINY, **change}))
    with pytest.raises(InputError) as refused:
        read_settings(path, Recipe)
    assert words in str(refused.value)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("text", ["[1, 2]", "a: [", "\0"])
def test_what_is_no_recipe_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match="recipe"):
        read_settings(path, Recipe)
    with pytest.raises(InputError, match="cannot read"):
        read_settings(tmp_path / "none.yaml", Recipe)


def test_domains_without_a_lane_are_in_the_first() -> None:
    share = Share(episodes=1, turns=2, tests=1)
    recipe = Recipe(domains={"terminal": share, "web": share, "os": share}, lanes=(("terminal",), ("web",)))
    assert recipe.lane_list() == [["os", "terminal"], ["web"]]
    assert Recipe(domains={"web": share}).lane_list() == [["web"]]


# Candidates.


def test_a_turn_that_training_shows_is_no_test() -> None:
    asked = make("t", said(1))
    assert found(asked, seen(make("x", said(2)))) == ([0, 1, 2, 3], {})
    assert found(asked, seen(make("x", [said(1)[2]]))) == ([0, 1, 3], {"it stands in training": 1})
    words = " ".join(said(1)[1][1].split()[4:12])  # eight words of an observation, in another turn
    assert found(asked, seen(make("x", [("other", words)]))) == ([0, 2, 3], {"it stands in training": 1})


def test_a_turn_of_few_words_is_no_test_where_training_has_it_too() -> None:
    asked = make("t", [("pwd", "/home"), ("id", "0")])
    assert found(asked, seen(make("x", [("pwd", "/home"), ("id", "1")]))) == ([1], {"it stands in training": 1})


def test_what_stands_everywhere_does_not_refuse_a_turn() -> None:
    banner = "welcome to the machine that everybody shares today"
    asked = make("t", [("login", f"{banner} 1")])
    training = [make(f"x{n}", [("login", f"{banner} and {n}")]) for n in range(4)]
    common = Leaks(n=5, common=3)
    assert found(asked, seen(*training, leaks=common))[0] == [0]
    assert found(asked, seen(*training))[0] == []


def test_a_turn_whose_observation_is_not_whole_is_no_test() -> None:
    cut = "head\n[cut: 2 of 90 lines and 9 of 900 characters are shown]\ntail"
    asked = make("t", [("a", cut), ("b", " \n"), ("c", "all of it")])
    assert found(asked, seen(make("x", said(2)))) == ([2], {"its observation is cut": 1, "its observation is blank": 1})


def test_a_history_must_fit_the_context() -> None:
    asked = make("t", said(1, turns=30))
    turns, why = found(asked, seen(make("x", said(2))), Asking(context=2500))
    assert turns == list(range(len(turns)))
    assert 0 < len(turns) < 30
    assert why == {"its history is too long": 30 - len(turns)}


@pytest.mark.parametrize(
    ("licence", "taken"), [("", 4), ("MIT", 4), ("MIT, BSD-3-Clause", 4), ("GPL-2.0", 0), ("MIT, GPL-2.0", 0)]
)
def test_a_licence_must_allow_to_pass_a_turn_on(licence: str, taken: int) -> None:
    asked = make("t", said(1))
    asked = asked.model_copy(update={"origin": asked.origin.model_copy(update={"licence": licence})})
    turns, why = found(asked, seen(make("x", said(2))), Asking(licences=("MIT", "BSD*")))
    assert (len(turns), why.get("its licence", 0)) == (taken, 4 - taken)


def test_only_the_turns_that_are_asked_for_are_candidates() -> None:
    pool = list(candidates(make("t", said(1)), [1, 3], Asking(), seen(make("x", said(2))), Counter()))
    assert [each.turn for each in pool] == [1, 3]


# Choosing.


def pool_of(count: int, turns: int = 12) -> list[Candidate]:
    kinds = list(ContentClass)
    made = []
    for number in range(count):
        labels = [f"kind{(number + turn) % 5}" for turn in range(turns)]
        trajectory = make(f"t{number}", said(number, turns=turns), world=f"world{number % 3}", labels=labels)
        for turn in range(turns):
            position = POSITIONS[0 if turn < 3 else 1 if turn < 8 else 2]
            made.append(Candidate(trajectory, turn, position, content=kinds[(number + turn) % 3]))
    return made


@settings(max_examples=25)
@given(st.integers(1, 8), st.integers(1, 60), st.integers(1, 4))
def test_a_choice_keeps_its_limits_and_depends_on_the_pool_alone(count: int, wanted: int, most: int) -> None:
    pool = pool_of(count)
    chosen = choose(pool, wanted, most, Asking())
    assert len(chosen) == min(wanted, most * count)
    assert max(Counter(each.trajectory.id for each in chosen).values()) <= most
    assert len({each.text for each in chosen}) == len(chosen)
    assert chosen == choose(pool, wanted, most, Asking())
    assert {each.text for each in chosen} == {each.text for each in choose(pool[::-1], wanted, most, Asking())}


def test_a_choice_is_spread() -> None:
    chosen = choose(pool_of(40), 90, 3, Asking())
    positions = Counter(each.position for each in chosen)
    assert max(positions.values()) - min(positions.values()) <= 2
    classes = Counter(each.content for each in chosen)
    assert classes[ContentClass.DETERMINISTIC] == pytest.approx(54, abs=3)
    assert classes[ContentClass.METADATA] == pytest.approx(9, abs=3)
    for counts in (
        Counter(each.kind for each in chosen),
        Counter(each.trajectory.world.name for each in chosen),
    ):
        assert max(counts.values()) <= 2 * min(counts.values())


def test_no_turn_is_asked_twice() -> None:
    twice = [make(name, [("ls", "a b")]) for name in "ab"]
    pool = [Candidate(each, 0, "early") for each in twice]
    assert len(choose(pool, 2, 3, Asking())) == 1


def test_a_turn_without_a_class_is_not_asked() -> None:
    played = make("t", [(f"do {number}", f"It is {number}.") for number in range(4)])
    pool = [Candidate(played, turn, "early") for turn in range(4)]
    changed = played.turns[1].model_copy(update={"observation": Observation(text="It is 77.")})
    again = played.model_copy(update={"turns": (played.turns[0], changed, played.turns[2])})  # it ended early
    told: Counter[str] = Counter()
    found = with_contents(pool, {"t": [again] * 3}, set(), told)
    assert [(each.turn, each.content) for each in found] == [
        (0, ContentClass.DETERMINISTIC),
        (1, ContentClass.METADATA),
        (2, ContentClass.DETERMINISTIC),
    ]
    assert told == {"deterministic": 2, "metadata": 1, "departed": 1}
    assert with_contents(pool, {}, set(), Counter()) == []


def test_a_long_session_of_whole_states_is_shown_from_a_later_one() -> None:
    page = "The river carries barges, timber, grain and copper down towards several harbours."
    turns = [("look", page), *said(1, turns=30), ("back", page)]
    played = make("t", turns, domain="os", world="desk")
    pool = list(candidates(played, None, Asking(context=3500), seen(make("x", said(2))), Counter()))
    assert [each.turn for each in pool] == list(range(32))
    assert pool[0].start == 0 < pool[-1].start < 31
    last = pool[-1].session
    assert last.initial == played.turns[pool[-1].start - 1].observation
    assert last.turns == played.turns[pool[-1].start :]
    # What the shorter history does not tell any more is news.
    (known,) = with_contents([pool[-1]], {"t": [played] * 3}, set(), Counter())
    assert known.content is ContentClass.PRE_EXISTING
    (known,) = with_contents([replace(pool[-1], start=0)], {"t": [played] * 3}, set(), Counter())
    assert known.content is ContentClass.DETERMINISTIC


# Parts as files.


@pytest.fixture
def part(tmp_path: Path) -> Path:
    labels = ["ls", "tar-list/odd", "ls", "cd"]
    chosen = [
        Candidate(make("one", said(1), labels=labels), 1, "early", content=ContentClass.PRE_EXISTING),
        Candidate(make("two", said(2), labels=labels, world="hut"), 3, "middle", content=ContentClass.METADATA),
    ]
    path = tmp_path / "test-b" / "terminal_test.jsonl.xz"
    write_part(chosen, "b", path)
    before = path.read_bytes()
    write_part(chosen, "b", path)
    assert path.read_bytes() == before
    return path


def test_a_part_holds_what_came_before_and_the_answer(part: Path) -> None:
    (first, one), (second, two) = read_part([part])
    assert (first["task"], first["id"], first["turn_idx"], first["total_turns"]) == ("held-out/terminal", 1, 2, 2)
    assert (first["worldlm"]["content"], first["worldlm"]["trajectory"]) == ("pre-existing", "one")
    assert [turn.action for turn in one.turns] == [action for action, _ in said(1)[:2]]
    assert one.world == make("one", said(1)).world
    assert len(two.turns) == second["turn_idx"] == 4
    assert [turn.observation for each in asked_turns([part]) for turn in each.turns] == [
        Observation(text=said(1)[1][1]),
        Observation(text=said(2)[3][1]),
    ]


def test_the_figures_of_a_part(part: Path) -> None:
    assert part_figures([part]) == {
        "terminal": {
            "turns": 2,
            "trajectories": 2,
            "kinds_of_actions": 2,
            "content": {"metadata": 1, "pre-existing": 1},
            "worlds": {"box": 1, "hut": 1},
        }
    }


def test_a_damaged_part_is_named(part: Path) -> None:
    data = part.read_bytes()
    part.write_bytes(data[:-40])
    with pytest.raises(InputError, match=r"cannot read .*terminal_test.*: it is damaged"):
        list(read_part([part]))
    part.write_bytes(lzma.compress(b'{"task": "terminal"}\n'))
    with pytest.raises(InputError, match=r"terminal_test\.jsonl\.xz:1"):
        list(read_part([part]))


def test_overlap_counts_what_stands_in_training_and_is_not_common(part: Path) -> None:
    def tests() -> list[Trajectory]:
        return list(asked_turns([part]))

    def count(*training: Trajectory, common: tuple[str, ...] = ()) -> dict[str, int]:
        return overlap(lambda: training, tests, LEAKS, common)

    runs = count(make("x", said(9)))["test_runs"]
    assert count(make("x", said(9))) == {"test_runs": runs, "common_runs": 0, "runs_in_training": 0}
    words = said(1)[1][1].split()[3:9]
    again = make("x", [("other", " ".join(words))])
    assert count(again)["runs_in_training"] == 2
    one = count(again, common=(" ".join(words[:5]),))
    assert (one["common_runs"], one["runs_in_training"]) == (1, 1)


def test_a_part_that_there_is_not() -> None:
    with pytest.raises(InputError, match="no test part 'c'"):
        realturns_files("c")
    for name in ("a", "b"):
        if not shipped(name):
            with pytest.raises(InputError, match="--tests"):
                realturns_files(name)


# The card.


def test_the_card_counts_what_the_files_hold(part: Path, tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", [make(f"t{n}", said(10 + n), seed=n) for n in range(3)])
    recipe = Recipe(
        domains={"terminal": Share(episodes=3, turns=4, tests=1)}, split=SplitPlan(validation=0), leaks=LEAKS
    )
    tests = {"a": [], "b": [part]}
    card = card_figures(recipe, {"train": train}, tests, cut={"terminal": 0.25}, common=[])
    assert card["parts"]["train"] == {"terminal": {"trajectories": 3, "turns": 12}}
    assert card["domains"]["terminal"]["sources"] == [{"source": "test 1", "licence": "CC0-1.0", "trajectories": 3}]
    assert card["overlap"]["runs_in_training"] == 0
    assert card["shortfalls"] == ["test-a asks of 0 turns in terminal, and 100 are wanted"]
    card |= {"texts": {}, "replays": {"terminal": {"deterministic": 3, "metadata": 1, "departed": 1}}}
    page = put_card(f"# RealTurns\n\n{BEGIN}\nold\n{END}\n\nThe end.\n", card)
    assert render_card(card) in page
    assert "old" not in page
    assert page.endswith("The end.\n")
    assert "| terminal | 5 | 60.0% | 20.0% | 20.0% |" in page
    assert put_card(page, card) == page
    (tmp_path / "card.json").write_text(json.dumps(card))
    (tmp_path / "page.md").write_text(page.replace("60.0%", "?"))
    assert card_main([str(tmp_path / "card.json"), str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text() == page
    (tmp_path / "page.md").write_text("no marks")
    assert card_main([str(tmp_path / "card.json"), str(tmp_path / "page.md")]) == 2
    assert (tmp_path / "page.md").read_text() == "no marks"


# What the package brings.


if shipped("a"):

    def test_every_shipped_sample_is_sound_and_round_trips() -> None:
        awb = get_format("agentworldbench")
        assert awb.write is not None
        for name in ("a", "b"):
            for sample, trajectory in read_part(realturns_files(name)):
                (again,) = awb.write([trajectory], WriteOptions(), Losses())
                assert again.value == sample
                assert sample["worldlm"]["content"] in list(ContentClass)
                assert awb.sniff(sample) == "1"
                assert awb.read(sample, Reading("x", "agentworldbench", "1")) == [trajectory]

    def test_as_many_are_shipped_as_the_recipe_wants() -> None:
        recipe = read_settings(RECIPE, Recipe)
        a, b = (part_figures(realturns_files(name)) for name in ("a", "b"))
        assert {domain: each["turns"] >= recipe.tests.least_a for domain, each in a.items()} == dict.fromkeys(
            recipe.domains, True
        )
        assert {domain: each["turns"] >= recipe.tests.least_b for domain, each in b.items()} == dict.fromkeys(
            recipe.split.held_out, True
        )
        assert b["terminal"]["kinds_of_actions"] >= 20
        assert sum(path.stat().st_size for name in ("a", "b") for path in realturns_files(name)) < 6 << 20

"""Content classes: what is told, what was there before, what is chance, and where a replay says nothing any more."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldlm.core.errors import InputError
from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.types import Ending, Observation, Origin, Trajectory, Turn, World
from worldlm.data.content import (
    Content,
    ContentClass,
    Unclassed,
    common_language,
    content_classes,
    contents,
    free_spans,
)

WORLD = World(
    name="desk",
    domain="terminal",
    context="A desk.",
    initial_state={"user": "rosa", "files": {"plan.txt": "water the garden\nfeed the cat\n"}},
)


def told(*turns: tuple[str, str | None], start: str = "rosa@box:~$", world: World = WORLD) -> Trajectory:
    """A trajectory of actions and observations; None: the turn failed."""
    return Trajectory(
        id="one",
        world=world,
        initial=Observation(text=start),
        turns=tuple(
            Turn(
                action=action,
                observation=None if text is None else Observation(text=text),
                outcome=Outcome.OK if text is not None else Outcome.INVALID_ACTION,
            )
            for action, text in turns
        ),
        ending=Ending(kind=EndingKind.COMPLETED),
        policy="script",
        origin=Origin(kind="real"),
    )


def one(action: str, *texts: str) -> Content:
    """The content of a turn's observation, the first of the texts, from its replays."""
    return contents(told((action, texts[0])), [told((action, text)) for text in texts[1:]])[0]


def free(*texts: str) -> list[str]:
    """What of the first text is free beside the others."""
    spans = free_spans(Observation(text=texts[0]), [Observation(text=text) for text in texts[1:]])
    return [texts[0][start:end] for start, end in spans]


# Classes.


def test_what_the_context_tells_is_deterministic() -> None:
    turns = told(("grep cat plan.txt", "feed the cat"), ("sort plan.txt | wc -l", "2"), ("tac plan.txt", "feed water"))
    assert content_classes(turns, [turns, turns]) == [ContentClass.DETERMINISTIC] * 3


def test_what_nothing_has_told_is_pre_existing_and_known_from_then_on() -> None:
    listing = "zebra quince yarrow lupin"
    turns = told(("ls /shed", listing), ("ls -r /shed", "yarrow quince zebra lupin"))
    assert content_classes(turns, [turns]) == [ContentClass.PRE_EXISTING, ContentClass.DETERMINISTIC]
    assert contents(turns, [turns])[0].unknown == 1


def test_a_passage_with_one_unknown_word_is_pre_existing_and_a_new_order_alone_is_not() -> None:
    common = ["the", "of", "and", "in", "to", "is", "was", "by"]
    passage = "the garden was in the cat and the water is of the quince"
    turns = told(("cat /shed/note", passage))
    assert content_classes(turns, [turns], common) == [ContentClass.PRE_EXISTING]
    turns = told(("shuf", passage.replace("quince", "cat")))
    assert content_classes(turns, [turns], common) == [ContentClass.DETERMINISTIC]


@pytest.mark.parametrize(
    "text", ["4711 0.25 1e9", "c95eac7 a375d7ea6401754c826f", "H4sIAAAAAAAAA0vUSeIy1DECAKIsw5gHAAAA"]
)
def test_numbers_and_ids_are_no_words(text: str) -> None:
    assert one("compute", text, text) == Content(kind=ContentClass.DETERMINISTIC)


def test_what_programs_say_everywhere_is_no_content_of_a_world() -> None:
    message = "ls: cannot access 'x': No such file or directory"
    elsewhere = [told(("ls x", message), world=WORLD.model_copy(update={"name": name})) for name in ("attic", "barn")]
    turns = told(("ls x", message))
    assert content_classes(turns, [turns]) == [ContentClass.PRE_EXISTING]
    common = common_language(elsewhere)
    assert {"cannot", "no such file"} <= common
    assert content_classes(turns, [turns], common) == [ContentClass.DETERMINISTIC]
    assert common_language(elsewhere[:1] * 3) == frozenset()


def test_what_differs_in_one_replay_is_metadata() -> None:
    found = one("echo $$", "$ echo $$\n12", "$ echo $$\n12", "$ echo $$\n731")
    assert (found.kind, found.free) == (ContentClass.METADATA, ((10, 12),))


def test_what_differs_beside_the_text_is_metadata() -> None:
    ours, theirs = told(("now", "now")), told(("now", "now"))
    (turn,) = theirs.turns
    other = Observation(text="now", structured={"at": 1})
    theirs = theirs.model_copy(update={"turns": (turn.model_copy(update={"observation": other}),)})
    assert contents(ours, [theirs]) == [Content(kind=ContentClass.METADATA, unknown=0.0)]


# Where there is no class.


def test_a_turn_without_observation_has_no_class_and_those_behind_it_have() -> None:
    turns = told(("what", None), ("true", ""))
    assert [c.why for c in contents(turns, [turns])] == [Unclassed.NO_OBSERVATION, None]


def test_without_a_replay_nothing_is_told() -> None:
    assert contents(told(("true", "")), [])[0].why is Unclassed.NO_REPLAY


@pytest.mark.parametrize(
    "replay",
    [
        told(("a", "cat"), ("b", None), ("c", "cat")),  # failed
        told(("a", "cat")),  # ended
        told(("a", "cat"), ("b", "garden " * 90), ("c", "cat")),  # something else altogether
    ],
)
def test_from_where_a_replay_departs_no_turn_has_a_class(replay: Trajectory) -> None:
    turns = told(("a", "cat"), ("b", "water\n" * 90), ("c", "cat"))
    found = contents(turns, [turns, replay])
    assert [c.kind for c in found] == [ContentClass.DETERMINISTIC, None, None]
    assert [c.why for c in found] == [None, Unclassed.DEPARTED, Unclassed.DEPARTED]


def test_an_action_that_names_what_is_chance_leads_away() -> None:
    turns = told(("sleep 9 &", "[1] 4242"), ("kill 4242", "[1]+ Terminated"), ("jobs", ""))
    replay = told(("sleep 9 &", "[1] 977"), ("kill 4242", "no such process"), ("jobs", "[1]+ Running"))
    found = contents(turns, [replay])
    assert [c.kind for c in found] == [ContentClass.METADATA, None, None]
    # One that names it and is answered alike has led nowhere.
    same = told(("sleep 9 &", "[1] 977"), ("kill 4242", "[1]+ Terminated"), ("jobs", ""))
    assert all(c.kind for c in contents(turns, [same]))


def test_a_replay_that_starts_elsewhere_tells_nothing() -> None:
    turns = told(("true", ""))
    for start in (turns.model_copy(update={"initial": None}), told(("true", ""), start="garden " * 90)):
        ours = told(("true", ""), start="water\n" * 90)
        assert contents(ours, [start])[0].why is Unclassed.DEPARTED


def test_a_replay_of_other_actions_is_refused() -> None:
    with pytest.raises(InputError, match="no replay of 'one': they differ at turn 2"):
        contents(told(("a", ""), ("b", "")), [told(("a", ""), ("c", ""))])


# Spans.


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("same", "same"), []),
        (("pid 12 and 14", "pid 731 and 733"), ["12", "14"]),
        (("Mon Nov 30 15:31:43 UTC 2026", "Fri Nov 30 15:31:43 UTC 2028"), ["Mon Nov 30 15:31:43 UTC 2026"]),
        (("at 2026-11-30T15:31:43Z.", "at 2026-11-30T15:32:43Z."), ["2026-11-30T15:31:43Z"]),
        (("x Nov 30 13:26 a.txt", "x Nov 30 13:27 a.txt"), ["Nov 30 13:26"]),
        (("x Nov 30 13:26 a.txt", "x Nov 30  2026 a.txt"), ["Nov 30 13:26"]),
        (("took 0.44s", "took 0.51s"), ["0.44"]),
        (("commit c95eac7 is", "commit 1f00d42 is"), ["c95eac7"]),
        (("a\nb\n", "a\nx\nb\n"), [""]),
        (("a\nx\nb\n", "a\nb\n"), ["x\n"]),
        (("1 2 3", "1 9 3", "8 2 3"), ["1", "2"]),
        (
            ("id 123e4567-e89b-12d3-a456-426614174000", "id 123e4567-e89b-12d3-a456-426614174999"),
            ["123e4567-e89b-12d3-a456-426614174000"],
        ),
    ],
)
def test_what_is_free(texts: tuple[str, ...], expected: list[str]) -> None:
    assert free(*texts) == expected


TEXTS = st.lists(st.sampled_from(["a", "b", " ", "\n", "12", "3:45", "2026-01-02", ":", "é", "\t"]), max_size=30).map(
    "".join
)


@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_what_is_not_free_stands_in_each_of_the_others_in_order(text: str, others: list[str]) -> None:
    spans = free_spans(Observation(text=text), [Observation(text=other) for other in others])
    assert bool(spans) == any(other != text for other in others)
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert all(end < start for (_, end), (start, _) in pairwise(spans))
    kept = "".join(text[a:b] for (_, a), (b, _) in zip(((0, 0), *spans), (*spans, (len(text), 0)), strict=True))
    for other in others:
        rest = iter(other)
        assert all(character in rest for character in kept)


@given(TEXTS, TEXTS)
def test_a_turn_beside_itself_is_never_metadata(action: str, text: str) -> None:
    turns = told((action, text))
    assert contents(turns, [turns, turns])[0].kind in (ContentClass.DETERMINISTIC, ContentClass.PRE_EXISTING)

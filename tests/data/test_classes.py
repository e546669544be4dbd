"""The four ratios by hand-computed cases, the edges of each class, and which turns are trained."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.data.sessions import UNSTABLE, session, shell, turn, typed
from worldlm.core.errors import InputError
from worldlm.data.classes import (
    TURN_CLASSES,
    Features,
    MaskConfig,
    chance,
    default_config,
    features,
    label_turns,
    said,
    words,
)
from worldlm.data.settings import read_settings
from worldlm.domains import get_domain

TERMINAL = get_domain("terminal")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", set()),
        ("... --- !", set()),
        ("Cat CAT cat", {"cat"}),
        ("my_file-2.txt", {"my_file", "2", "txt"}),
        ("Ünïcode 北京|上海 x²", {"ünïcode", "北京", "上海", "x²"}),
        ("a\tb\nc", {"a", "b", "c"}),
    ],
)
def test_words(text: str, expected: set[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("action", "observation", "expected"),
    [
        # Wact {cat, a, txt}, Wobs {a, txt, one, two}: shared {a, txt}.
        ("cat a.txt", "a.txt: one two", Features(2 / 3, 2 / 4, 2 / 5, 14 / 9)),
        # One word, three times, is one word type.
        ("go go go", "went", Features(0, 1, 0, 4 / 8)),
        ("Echo hi", "ECHO HI", Features(1, 0, 1, 1)),
        # The denominator is empty: the ratio is 0.
        ("", "one two", Features(0, 1, 0, 0)),
        ("ls", "", Features(0, 0, 0, 0)),
        ("", "", Features(0, 0, 0, 0)),
        ("!!", "??", Features(0, 0, 0, 1)),
        # Lengths are in characters, not in bytes.
        ("дом", "дом и сад", Features(1, 2 / 3, 1 / 3, 3)),
    ],
)
def test_ratios(action: str, observation: str, expected: Features) -> None:
    found = features(action, observation)
    assert (found.overlap, found.novelty, found.jaccard, found.length) == pytest.approx(
        (expected.overlap, expected.novelty, expected.jaccard, expected.length)
    )


@given(st.text(), st.text())
def test_ratios_keep_their_laws(action: str, observation: str) -> None:
    ratios = features(action, observation)
    for share in (ratios.overlap, ratios.novelty, ratios.jaccard):
        assert 0 <= share <= 1
    assert ratios.jaccard <= ratios.overlap
    acts, observed = words(action), words(observation)
    if observed:
        assert ratios.novelty == pytest.approx(1 - len(acts & observed) / len(observed))
    assert features(observation, action).jaccard == ratios.jaccard


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ('[{"duration":1.0,"keystrokes":"ls -l\\n"},{"keystrokes":"C-c"}]', "ls -l\nC-c"),
        ('{"name":"mv","arguments":{"from":"a","to":["b",3,true,null]}}', "mv\na\nb\n3\ntrue"),
        ('click("5")', 'click("5")'),
        ("12", "12"),
        ("[]", ""),
    ],
)
def test_what_an_action_says(action: str, expected: str) -> None:
    assert said(action) == expected


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        (Features(0.6, 0.4, 0.5, 1), "echo"),
        (Features(0.59, 0.4, 0.5, 1), "transform"),
        (Features(0.6, 0.41, 0.5, 1), "transform"),
        (Features(0.6, 0.4, 0.5, 0.1), "echo"),
        (Features(0, 0, 0, 0), "boilerplate"),
        (Features(0.3, 0.9, 0.1, 0.25), "boilerplate"),
        (Features(0.3, 0.9, 0.1, 0.26), "action"),
        (Features(0.5, 0.8, 0.2, 100), "transform"),
        (Features(0.5, 0.8, 0.19, 5), "expansion"),
        (Features(0.5, 0.8, 0.19, 4.9), "action"),
        (Features(0.49, 0.8, 0.2, 5), "action"),
        (Features(0.49, 0.85, 0.1, 10), "retrieval"),
        (Features(0.49, 0.84, 0.1, 10), "action"),
        (Features(0.49, 0.84, 0.1, 10.1), "other"),
    ],
)
def test_the_edges_of_the_classes(ratios: Features, expected: str) -> None:
    assert default_config().classify(ratios).name == expected


@pytest.mark.parametrize(
    ("action", "observation", "expected"),
    [
        (typed("mv lamp-6 chain64"), "kim@lab:~$ mv lamp-6 chain64\nkim@lab:~$", "echo"),
        (
            typed("wc -l a.txt b.txt"),
            "kim@lab:~$ wc -l a.txt b.txt\n 61 a.txt\n  5 b.txt\n 66 total\nkim@lab:~$",
            "transform",
        ),
        (
            typed("git status"),
            "kim@lab:~$ git status\nOn branch main\nChanges not staged for commit:\n  modified:   a.txt\nkim@lab:~$",
            "expansion",
        ),
        (
            '{"arguments":{"path":"a.md","content":"A guide for all of us, in parts"},"name":"write"}',
            "null",
            "boilerplate",
        ),
        ('{"arguments":{"amount":50.5,"from":"USD"},"name":"exchange"}', '{"value": 65.65}', "action"),
        (
            '{"arguments":{"path":"README"},"name":"read"}',
            "# Title\n" + "Some quite different prose here. " * 8,
            "retrieval",
        ),
    ],
)
def test_classes_mean_what_their_names_say(action: str, observation: str, expected: str) -> None:
    assert default_config().classify(features(said(action), observation)).name == expected


def test_the_packages_own_configuration() -> None:
    config = default_config()
    keep = {rule.name: rule.keep for rule in config.classes}
    assert set(keep) == set(TURN_CLASSES)
    assert (keep["boilerplate"], keep["echo"], keep["retrieval"]) == (0.1, 0.05, 1.0)
    assert MaskConfig.model_validate(config.model_dump()) == config


def written(tmp_path: Path, change: dict[str, object] | str) -> Path:
    path = tmp_path / "masks.yaml"
    if isinstance(change, str):
        path.write_text(change)
    else:
        value = default_config().model_dump(exclude_defaults=True, mode="json")
        path.write_text(yaml.safe_dump({**value, **change}))
    return path


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("seed: 1", "classes: Field required"),
        ("- 1", "no mapping"),
        ("a: [", "not YAML"),
        ({"sede": 3}, "there is no setting sede; did you mean 'seed'"),
        ({"classes": [{"name": "echo", "keep": 2}]}, "classes.0.keep"),
        ({"classes": [{"name": "echoes", "keep": 1}]}, "classes.0.name"),
        ({"classes": [{"name": "other", "keep": 1}]}, "there is no class 'retrieval'"),
        (
            {"classes": [{"name": "echo", "keep": 1, "overlap": {"mni": 0.5}}]},
            "there is no setting classes.0.overlap.mni; did you mean 'min'",
        ),
        (
            {"classes": [*({"name": name, "keep": 1} for name in TURN_CLASSES), {"name": "echo", "keep": 1}]},
            "'echo' stands there twice",
        ),
        (
            {"classes": [{"name": "other", "keep": 1}, *({"name": n, "keep": 1} for n in TURN_CLASSES[:-1])]},
            "the last class is 'other'",
        ),
    ],
)
def test_a_configuration_that_is_wrong_is_refused(tmp_path: Path, change: dict[str, object] | str, told: str) -> None:
    with pytest.raises(InputError, match=r"masks\.yaml") as caught:
        read_settings(written(tmp_path, change), MaskConfig)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("seed: 1\nclasses: [\n", "not YAML: expected the node content, but found '<stream end>' at line 3, column 1"),
        ("a: [1\nb: 2\n", "not YAML: expected ',' or ']', but got ':' at line 2, column 2"),
        ("seed: 1\n\tkeep: 2\n", "at line 2, column 1"),
        ('a: "never closed\n', "not YAML: found unexpected end of stream at line 2, column 1"),
        ("a: &x 1\nb: *y\n", "not YAML: found undefined alias 'y' at line 2, column 4"),
        ("a: !!python/name:os.system 1\n", "at line 1, column 4"),
        ("a: \0\n", "not YAML: special characters are not allowed at character 4"),
        ("a: 2024-99-99\n", "not YAML: month must be in 1..12"),
        ("a: " + "[" * 5000, "not YAML: nested too deeply"),
    ],
)
def test_a_fault_of_yaml_is_told_once_with_the_file_and_the_place(tmp_path: Path, text: str, told: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_settings(path, MaskConfig)
    message = str(caught.value)
    assert message.startswith(f"{path} is not YAML: ")
    assert message.endswith(told)
    assert "<" not in message.replace("<stream end>", "")


def test_a_configuration_of_ones_own(tmp_path: Path) -> None:
    config = read_settings(written(tmp_path, {"seed": 7, "per_turn": True}), MaskConfig)
    assert (config.seed, config.per_turn, config.classes) == (7, True, default_config().classes)
    with pytest.raises(InputError, match=r"cannot read .*none\.yaml"):
        read_settings(tmp_path / "none.yaml", MaskConfig)


def test_what_is_never_trained_and_why() -> None:
    keep_all = MaskConfig(classes=tuple(rule.model_copy(update={"keep": 1.0}) for rule in default_config().classes))
    trajectory = session(
        [
            shell("uname", "Linux"),
            turn(typed("sleep 99"), None),
            shell("top", "a screen", violations=UNSTABLE),
            turn("[]", "Are you sure?"),
            turn("not an action of the domain", "something all the same"),
        ]
    )
    labels = label_turns(trajectory, TERMINAL, keep_all)
    assert [label.trained for label in labels] == [True, False, False, False, True]
    assert [label.why for label in labels[1:4]] == [
        "failed (timed_out)",
        "still changing when it was taken",
        "answered by the harness",
    ]
    assert (labels[1].turn_class, labels[1].ratios) == (None, None)
    assert [label.turn for label in labels] == [1, 2, 3, 4, 5]


def test_a_check_that_passed_or_is_another_does_not_bar_a_turn() -> None:
    passed = [check.model_copy(update={"passed": True}) for check in UNSTABLE]
    other = [check.model_copy(update={"rule": "prompt"}) for check in UNSTABLE]
    trajectory = session([shell("uname -a", "Linux box 6.1 x86_64 GNU", violations=(*passed, *other))])
    assert [label.trained for label in label_turns(trajectory, TERMINAL)] == [True]


def test_the_kept_part_is_the_one_that_is_asked_for() -> None:
    drawn = [chance(0, f"trajectory-{n // 20}", n % 20) for n in range(4000)]
    assert sum(value < 0.1 for value in drawn) / 4000 == pytest.approx(0.1, abs=0.02)
    assert all(0 <= value < 1 for value in drawn)
    assert [chance(1, "trajectory-0", n) for n in range(20)] != drawn[:20]


def test_the_same_turns_are_kept_in_every_process() -> None:
    code = "from worldlm.data.classes import chance; print([chance(3, 'a', n) < 0.5 for n in range(1, 30)])"
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert runs == {f"{[chance(3, 'a', n) < 0.5 for n in range(1, 30)]}\n"}

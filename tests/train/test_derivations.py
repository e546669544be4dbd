"""Thinking that a program writes: what it says, that it is true, and that a wrong answer refutes it."""

import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.train.derivation_sessions import NOTES, PROMPT, SAID, SESSIONS, TERMINAL, keys, shell, terminal, trajectory
from worldlm.core.text import estimate_tokens
from worldlm.core.types import Observation, World
from worldlm.train.derivations import derivations, false_claims, refutations
from worldlm.train.derivations.claims import Kind, repeats
from worldlm.train.derivations.shell import Shell, formatted, parse
from worldlm.train.think import Coverage, derived

each_domain = pytest.mark.parametrize("domain", SESSIONS)


@each_domain
def test_each_turn_is_told_of_as_the_table_says(domain: str) -> None:
    told = dict(derivations(SESSIONS[domain]()))
    for turn, sentence in enumerate(SAID[domain], 1):
        found = told[turn]
        assert found is not None, f"{domain}, turn {turn}"
        assert sentence in found.text.split("\n"), f"{domain}, turn {turn}: {found.text}"


def test_each_rule_of_the_terminal_is_the_one_that_is_meant() -> None:
    rules = [found.rule if found else None for _, found in derivations(terminal())]
    assert rules == [rule for _, _, rule, _ in TERMINAL]


@each_domain
def test_what_is_written_is_read_back_as_true_and_short(domain: str) -> None:
    session = SESSIONS[domain]()
    told = dict(derivations(session))
    turns = tuple(
        turn.model_copy(update={"thinking": found.text if (found := told.get(number)) else None})
        for number, turn in enumerate(session.turns, 1)
    )
    assert not list(false_claims(session.model_copy(update={"turns": turns})))
    assert all(estimate_tokens(turn.thinking) <= 60 for turn in turns if turn.thinking)


@each_domain
def test_a_line_that_is_no_claim_or_is_false_is_named(domain: str) -> None:
    session = SESSIONS[domain]()
    turn = session.turns[-1].model_copy(update={"thinking": "It will surely be fine.\nNothing changes at turn 99."})
    found = list(false_claims(session.model_copy(update={"turns": (*session.turns[:-1], turn)})))
    assert [line for _, line in found] == ["It will surely be fine.", "Nothing changes at turn 99."]
    assert {number for number, _ in found} == {len(session.turns)}


@each_domain
def test_another_answer_refutes_a_derivation(domain: str) -> None:
    told = derived(SESSIONS[domain](), Coverage())
    found = [refuted for _, refuted in refutations(told)]
    assert len(found) > len(told.turns) / 2
    assert sum(found) / len(found) > 0.8


@each_domain
def test_what_a_turn_is_told_does_not_hang_on_what_follows(domain: str) -> None:
    session = SESSIONS[domain]()
    whole = [found and found.text for _, found in derivations(session)]
    for length in range(len(session.turns)):
        part = session.model_copy(update={"turns": session.turns[:length]})
        assert [found and found.text for _, found in derivations(part)] == whole[:length]


def test_a_premise_that_stands_after_the_turn_is_false() -> None:
    session = terminal()
    at = next(turn for turn, (line, *_) in enumerate(TERMINAL, 1) if line == "cat new.txt")
    for line in (
        f"Turn {at} made or changed new.txt.",
        "Turn 99 made or changed new.txt.",
        "new.txt was there at the start.",
    ):
        turns = list(session.turns)
        turns[at - 1] = turns[at - 1].model_copy(update={"thinking": line})
        assert [told for _, told in false_claims(session.model_copy(update={"turns": tuple(turns)}))] == [line]


def test_what_is_too_long_loses_premises_and_then_is_left_out() -> None:
    session = shell([("cat notes.txt", NOTES)])
    short = [found and found.text for _, found in derivations(session, most_tokens=18)]
    assert short == ["The 4 lines of notes.txt are printed as they are."]
    assert [found for _, found in derivations(session, most_tokens=3)] == [None]


def test_a_derivation_does_not_hold_an_answer_that_is_long() -> None:
    words = "lantern gravel orchid plinth saddle thicket walnut"
    (found,) = (found for _, found in derivations(shell([(f"echo '{words}'", f"{words}\n")])))
    assert found is not None
    assert words not in found.text
    assert repeats(f"It prints {words}.", words)
    assert not repeats("It prints 3.", "3")


def test_a_wrong_answer_gets_no_derivation_that_explains_the_right_one() -> None:
    (found,) = (found for _, found in derivations(shell([("head -n 2 notes.txt", "one\nthree\n")])))
    assert found is None or "first 2" not in found.text


def test_keys_that_are_no_commands() -> None:
    world = World(name="box", domain="terminal", initial_state={"user": "ines", "host": "box"})
    vim = "\n".join(["~"] * 39 + ['"a.txt" [New]'])
    session = trajectory(
        world,
        PROMPT,
        [
            (keys("vim a.txt\n"), vim),
            (keys("j"), vim),
            (keys(":q\n"), PROMPT),
            (keys("echo 'a\n"), f"{PROMPT} echo 'a\n>"),
            (keys("C-c"), f"> ^C\n{PROMPT}"),
            (keys("ls"), f"{PROMPT} ls"),
            (keys("C-l"), PROMPT),
            (keys("cat <<'E' > b.txt\nx\ny\nE\n"), f"{PROMPT} cat <<'E' > b.txt\n> x\n> y\n> E\n{PROMPT}"),
            (keys("cat b.txt\n"), f"{PROMPT} cat b.txt\nx\ny\n{PROMPT}"),
        ],
    )
    told = [found.text if found else "" for _, found in derivations(session)]
    expected = [
        "vim takes the terminal: no prompt returns.",
        "Nothing happens: the screen stays as it is.",
        "vim ends, and the prompt returns.",
        "The command is not complete, so > waits for more.",
        "C-c breaks off, and a prompt returns.",
        "No newline was typed, so the line only stands there.",
        "The screen is cleared but for the prompt.",
        "The here-document's 2 lines are echoed, each after >.",
        "The 2 lines of b.txt are printed as they are.",
    ]
    for said, sentence in zip(told, expected, strict=True):
        assert sentence in said.split("\n"), said
    assert "Turn 8 made or changed b.txt." in told[-1]


@pytest.mark.parametrize("domain", [*SESSIONS, "android"])
def test_a_session_that_never_began_has_none(domain: str) -> None:
    world = World(name="none", domain=domain)  # type: ignore[arg-type]
    session = trajectory(world, "", []).model_copy(update={"initial": None})
    assert list(derivations(session)) == []
    assert list(false_claims(session)) == []
    assert list(refutations(session)) == []


@each_domain
@given(action=st.text(max_size=40), answer=st.text(max_size=60), data=st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_stands_in_a_turn_what_is_derived_is_true(
    domain: str, action: str, answer: str, data: st.DataObject
) -> None:
    session = SESSIONS[domain]()
    at = data.draw(st.integers(0, len(session.turns) - 1))
    turn = session.turns[at].model_copy(
        update={
            "action": data.draw(st.sampled_from([action, session.turns[at].action])),
            "observation": Observation(text=data.draw(st.sampled_from([answer, session.turns[-1].observation.text]))),  # type: ignore[union-attr]
        }
    )
    changed = session.model_copy(update={"turns": (*session.turns[:at], turn, *session.turns[at + 1 :])})
    told = dict(derivations(changed))
    turns = tuple(
        turn.model_copy(update={"thinking": found.text if (found := told.get(number)) else None})
        for number, turn in enumerate(changed.turns, 1)
    )
    assert not list(false_claims(changed.model_copy(update={"turns": turns})))


# The parts.


def test_kinds_read_back_what_they_write() -> None:
    kind: Kind[object] = Kind("{name} was written at turn {turn}.", lambda scene, **gaps: True)  # type: ignore[type-var]
    assert kind.read("a b.txt was written at turn 3.") == {"name": "a b.txt", "turn": "3"}
    assert kind.read("a.txt was written at turn 3. And more") is None


@pytest.mark.parametrize(
    "line", ["echo 'a", "for x in 1; do echo; done", "f() { ls; }", "ls >", "| ls", 'echo "a', "if true; then ls; fi"]
)
def test_a_line_that_is_more_than_simple_commands_is_not_parsed(line: str) -> None:
    assert parse(line) is None


def test_a_line_is_parsed_into_its_commands() -> None:
    commands = parse("cat 'a b' < in.txt | grep -c \"x;y\" >> out.txt && echo done; ls 2>&1 # why")
    assert commands is not None
    assert [(each.before, each.program, each.arguments) for each in commands] == [
        ("", "cat", ["a b"]),
        ("|", "grep", ["x;y"]),
        ("&&", "echo", ["done"]),
        (";", "ls", []),
    ]
    assert [(each.operator, each.target) for each in (*commands[0].redirects, *commands[1].redirects)] == [
        ("<", "in.txt"),
        (">>", "out.txt"),
    ]


@given(
    words=st.lists(st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1), min_size=1, max_size=4)
)
def test_quoted_words_are_read_as_the_shell_library_writes_them(words: list[str]) -> None:
    commands = parse(f"echo {shlex.join(words)}")
    assert commands is not None
    assert [word.text for word in commands[0].words[1:]] == words


@given(
    form=st.lists(st.sampled_from(["%s", "%d", "%%", "\\n", "\\t", "a", " ", "\\\\"]), max_size=6).map("".join),
    arguments=st.lists(st.integers(0, 999).map(str), max_size=4),
)
@settings(max_examples=40, deadline=None)
def test_printf_is_what_the_program_prints(form: str, arguments: list[str]) -> None:
    done = subprocess.run(["printf", form, *arguments], capture_output=True, text=True, check=False)
    assert formatted(form, arguments) == done.stdout


def test_files_follow_what_is_typed() -> None:
    shell_ = Shell("/home/ines")
    lines = [
        "printf 'a\\n' > x",
        "cp x y",
        "mkdir d",
        "mv y d",
        "echo b >> x",
        "rm -f z",
        "touch e",
        "N=1; echo $N > n",
        "cd d && pwd > p",
    ]
    for turn, line in enumerate(lines, 1):
        shell_.follow(line, "/home/ines", [], turn)
    assert {path.removeprefix("/home/ines/"): (known.turn, known.content) for path, known in shell_.files.items()} == {
        "x": (5, "a\nb\n"),
        "d/": (3, None),
        "d/y": (4, "a\n"),
        "e": (7, None),
        "n": (8, "1\n"),
        "d/p": (9, None),
    }


# What was said falsely once.


def test_a_file_that_a_script_may_have_changed_is_not_compared_with_what_it_was() -> None:
    session = shell([("./run.sh", "hi\n"), ("grep t notes.txt", "two\n"), ("cat notes.txt", NOTES)])
    _, second, third = (found for _, found in derivations(session))
    assert second is None or "lines of notes.txt" not in second.text
    assert third is not None
    assert "The 4 lines of notes.txt are printed as they are." in third.text  # what is printed confirms it


def test_what_may_not_have_been_run_leaves_nothing() -> None:
    session = shell([("test -e no && echo x > y.txt", ""), ("ls", "notes.txt  run.sh\n"), ("false || echo a > z", "")])
    for _, found in derivations(session):
        assert found is None or "made or changed" not in found.text
    shell_ = Shell("/home/ines")
    shell_.follow("test -e no && echo x > y.txt", "/home/ines", [], 1)
    assert not shell_.files
    assert shell_.stale == 1


def test_a_redirect_that_failed_writes_nothing() -> None:
    shell_ = Shell("/home/ines")
    shell_.follow("echo x > y.txt", "/home/ines", ["bash: y.txt: Permission denied"], 1)
    assert not shell_.files


def test_a_variable_in_single_quotes_is_not_explained() -> None:
    _, found = (found for _, found in derivations(shell([("N=Ada", ""), ("echo '$N'", "$N\n")])))
    assert found is not None
    assert "was set" not in found.text


def test_a_file_that_was_there_and_is_changed_is_not_called_new() -> None:
    lines = [("sed -i 's/one/ONE/' notes.txt", ""), ("ls", "notes.txt  run.sh\n")]
    _, found = (found for _, found in derivations(shell(lines)))
    assert found is not None
    assert "notes.txt, of turn 1, is among them." in found.text
    assert "new" not in found.text


def test_a_file_of_the_same_name_elsewhere_is_another_one() -> None:
    lines = [("mkdir d", ""), ("echo a > d/x.txt", ""), ("cat x.txt", "cat: x.txt: No such file or directory\n")]
    *_, found = (found for _, found in derivations(shell(lines)))
    assert found is not None
    assert "made or changed x.txt" not in found.text
    assert "x.txt is not there: it fails." in found.text

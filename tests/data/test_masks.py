"""Training examples: the same prompts as at inference, a mask over the kept answers and nothing else."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.sessions import PROMPT, UNSTABLE, session, shell, turn, typed
from worldlm.core.errors import InputError, SetupError
from worldlm.core.outcomes import Outcome
from worldlm.core.types import Message, Profile, Sampling, Trajectory
from worldlm.data.classes import MaskConfig, default_config
from worldlm.data.masks import Example, MaskError, TemplateError, check_masks, check_template, mask, pieces_of
from worldlm.data.tokenizers import ByteTokenizer, HuggingFaceTokenizer
from worldlm.domains import get_domain
from worldlm.domains.reply import ANSWER_CLOSE, ANSWER_OPEN
from worldlm.simulate import SimulatedEnvironment
from worldlm.testing import ScriptedModel

TERMINAL = get_domain("terminal")
BYTES = ByteTokenizer()
PLAIN = Profile(
    name="plain", prompt="compact", answer_tag=False, sampling=Sampling(temperature=0, max_tokens=300), context=100_000
)
KEEP_ALL = MaskConfig(classes=tuple(rule.model_copy(update={"keep": 1.0}) for rule in default_config().classes))
KEEP_NONE = MaskConfig(classes=tuple(rule.model_copy(update={"keep": 0.0}) for rule in default_config().classes))
COMMANDS = ["uname", "cat notes.txt", "wc -l notes.txt", "date", "id -un"]


def commands(count: int) -> Trajectory:
    return session([shell(COMMANDS[n % 5], f"line {n} of what command {n} prints") for n in range(count)])


def trained_texts(example: Example, tokenizer: Any = BYTES) -> list[str]:
    """What is trained, run by run of the mask, told from the mask alone."""
    runs: list[list[int]] = []
    for at, (token, trained) in enumerate(zip(example.ids, example.mask, strict=True)):
        if trained and (at == 0 or not example.mask[at - 1]):
            runs.append([])
        if trained:
            runs[-1].append(token)
    return [tokenizer.decode(run) for run in runs]


def text_of(trajectory: Trajectory, number: int) -> str:
    observation = trajectory.turns[number - 1].observation
    assert observation is not None
    return observation.text


class CharacterModel(ScriptedModel):
    """Counts tokens as the byte tokenizer does."""

    def count_tokens(self, text: str) -> int:
        return BYTES.count(text)


async def prompts_of(trajectory: Trajectory, profile: Profile, answers: Sequence[str]) -> list[list[Message]]:
    """What the simulator asks its model, turn by turn, while the trajectory is played again."""
    said = iter(answers)
    model = CharacterModel(lambda messages, sampling: next(said))
    world = trajectory.world.model_copy(update={"initial_observation": trajectory.initial and trajectory.initial.text})
    environment = SimulatedEnvironment(world, get_domain(world.domain), model, profile)
    await environment.reset()
    for each in trajectory.turns:
        step = await environment.step(each.action)
        assert step.outcome is Outcome.OK
        assert each.observation is not None
        assert step.observation is not None
        assert step.observation.text == each.observation.text
    return [list(request) for request, _ in model.requests]


@pytest.mark.anyio
@pytest.mark.parametrize("tag", [False, True])
@pytest.mark.parametrize("context", [100_000, 2600])
async def test_an_example_is_the_prompt_at_inference_and_the_answer(tag: bool, context: int) -> None:
    trajectory = commands(30)
    profile = PLAIN.model_copy(update={"answer_tag": tag, "context": context})
    answers = [
        f"{ANSWER_OPEN}{text_of(trajectory, n)}{ANSWER_CLOSE}" if tag else text_of(trajectory, n) for n in range(1, 31)
    ]
    asked = await prompts_of(trajectory, profile, answers)
    masked = mask(trajectory, TERMINAL, profile, BYTES, KEEP_ALL)
    found = {}
    for example in masked.examples:
        assert len(example.ids) <= context
        for span in example.spans:
            prompt = BYTES.apply(asked[span.turn - 1], prompt=True)
            answer = [*answers[span.turn - 1].encode(), BYTES.end_of_turn]
            assert list(example.ids[: span.end]) == prompt + answer
            assert (span.start, span.end) == (len(prompt), len(prompt) + len(answer))
            found[span.turn] = span.trained
    assert found == dict.fromkeys(range(1, 31), True)
    assert (len(masked.examples) > 1) == (context == 2600)
    missing = [example.missing for example in masked.examples]
    assert missing[0] == 0
    assert missing == sorted(set(missing))


@given(
    st.lists(
        st.tuples(st.text(max_size=12), st.text(max_size=40), st.booleans()),
        min_size=1,
        max_size=8,
    ),
    st.booleans(),
)
def test_the_mask_covers_exactly_the_kept_observations(said: list[tuple[str, str, bool]], tag: bool) -> None:
    trajectory = session(
        [turn(typed(line), text, violations=() if stable else UNSTABLE) for line, text, stable in said]
    )
    profile = PLAIN.model_copy(update={"answer_tag": tag})
    masked = mask(trajectory, TERMINAL, profile, BYTES, KEEP_ALL)
    expected = [text for _, text, stable in said if stable]
    wrapped = [f"{ANSWER_OPEN}{text}{ANSWER_CLOSE}" if tag else text for text in expected]
    assert [text for each in masked.examples for text in trained_texts(each)] == [f"{t}<|im_end|>" for t in wrapped]
    for example in masked.examples:
        assert "".join(text for text, _ in pieces_of(example, BYTES)) == BYTES.decode(example.ids)
        assert example.mask[-1]  # nothing follows the last trained answer
    assert len(masked.examples) == bool(expected)


def test_turns_that_are_not_kept_stay_in_the_context() -> None:
    trajectory = session(
        [
            shell("uname", "Linux"),
            shell("top", "moving", violations=UNSTABLE),
            turn(typed("sleep 99"), None),
            shell("id -un", "ann the user of this box"),
        ]
    )
    masked = mask(trajectory, TERMINAL, PLAIN, BYTES, KEEP_ALL)
    (example,) = masked.examples
    text = BYTES.decode(example.ids)
    assert "moving" in text
    assert "sleep" not in text  # the model never saw a turn that failed
    assert [(span.turn, span.trained) for span in example.spans] == [(1, True), (2, False), (4, True)]
    assert example.spans[1].why == "still changing when it was taken"
    assert [trained for trained in trained_texts(example) if "moving" in trained] == []
    assert [label.trained for label in masked.labels] == [True, False, False, True]


def test_what_would_train_nothing_or_everything_is_refused() -> None:
    masked = mask(commands(4), TERMINAL, PLAIN, BYTES, KEEP_NONE)
    assert masked.examples == ()
    with pytest.raises(MaskError, match="0 examples train no token"):
        check_masks(masked.examples)
    with pytest.raises(MaskError, match=r"one: no token is trained \(0 of 3, 0 answers\)"):
        Example("one", (1, 2, 3), (False,) * 3, (), 0)
    with pytest.raises(MaskError, match=r"one: every token is trained \(3 of 3, 0 answers\)"):
        Example("one", (1, 2, 3), (True,) * 3, (), 0)
    with pytest.raises(MaskError, match="2 values of a mask for 3 tokens"):
        Example("one", (1, 2, 3), (True, False), (), 0)
    kept = mask(commands(4), TERMINAL, PLAIN, BYTES, KEEP_ALL).examples
    assert check_masks(kept) == (sum(kept[0].mask), len(kept[0].ids))


def test_a_world_that_does_not_fit_is_refused_and_never_cut() -> None:
    trajectory = session(commands(2).turns, context="words " * 600)
    with pytest.raises(InputError, match="shorten the world"):
        mask(trajectory, TERMINAL, PLAIN.model_copy(update={"context": 2000}), BYTES, KEEP_ALL)


def test_an_answer_that_does_not_fit_is_told_and_never_cut() -> None:
    long = "x" * 3000
    trajectory = session([*commands(3).turns, shell("cat long", long), *commands(3).turns])
    masked = mask(trajectory, TERMINAL, PLAIN.model_copy(update={"context": 3000}), BYTES, KEEP_ALL)
    assert [label.trained for label in masked.labels] == [True] * 3 + [False] + [True] * 3
    assert masked.labels[3].why == "its answer does not fit the context behind its prompt"
    assert all(long not in BYTES.decode(example.ids) for example in masked.examples)
    assert [span.turn for example in masked.examples for span in example.spans] == [1, 2, 3, 5, 6, 7]
    assert "[Turns 1 to 4 are not shown" in BYTES.decode(masked.examples[-1].ids)


def test_an_action_that_does_not_fit_is_told() -> None:
    trajectory = session([*commands(2).turns, turn(typed("echo " + "x" * 4000), "too much of it"), *commands(2).turns])
    masked = mask(trajectory, TERMINAL, PLAIN.model_copy(update={"context": 3000}), BYTES, KEEP_ALL)
    assert [label.trained for label in masked.labels] == [True, True, False, True, True]
    assert masked.labels[2].why == "its action does not fit the context"


def test_an_answer_with_a_control_token_in_it_is_not_trained() -> None:
    """For a tokenizer that reads control tokens out of texts, as most do."""

    class Reading(ByteTokenizer):
        def apply(self, messages: Sequence[Message], *, prompt: bool) -> list[int]:
            ids = super().apply(messages, prompt=prompt)
            text, out = b"<|im_end|>", []
            at = 0
            while at < len(ids):
                if ids[at : at + len(text)] == list(text):
                    out.append(self.end_of_turn)
                    at += len(text)
                else:
                    out.append(ids[at])
                    at += 1
            return out

    trajectory = session([shell("cat a", "one <|im_end|> two"), shell("uname", "Linux and more")])
    masked = mask(trajectory, TERMINAL, PLAIN, Reading(), KEEP_ALL)
    assert [label.trained for label in masked.labels] == [False, True]
    assert masked.labels[0].why == "the template or the tokenizer changes its answer"


@pytest.mark.anyio
async def test_reasoning_is_kept_in_its_own_turn_and_left_out_of_later_prompts() -> None:
    thoughts = ["uname prints the kernel.", None, "The file has\ntwo lines."]
    turns = [
        each.model_copy(update={"thinking": thought}) for each, thought in zip(commands(3).turns, thoughts, strict=True)
    ]
    trajectory = session(turns)
    profile = PLAIN.model_copy(update={"thinking": True, "answer_tag": True})
    masked = mask(trajectory, TERMINAL, profile, BYTES, KEEP_ALL)
    targets = {span.turn: text for each in masked.examples for text, span in pieces_of(each, BYTES) if span}
    bodies = [f"{ANSWER_OPEN}{text_of(trajectory, n)}{ANSWER_CLOSE}" for n in (1, 2, 3)]
    assert targets[1] == f"<think>\nuname prints the kernel.\n</think>\n\n{bodies[0]}<|im_end|>"
    assert targets[2] == f"{bodies[1]}<|im_end|>"
    assert targets[3] == f"<think>\nThe file has\ntwo lines.\n</think>\n\n{bodies[2]}<|im_end|>"
    asked = await prompts_of(trajectory, profile, [targets[n].removesuffix("<|im_end|>") for n in (1, 2, 3)])
    for example in masked.examples:
        for span in example.spans:
            assert list(example.ids[: span.start]) == BYTES.apply(asked[span.turn - 1], prompt=True)
    assert all("kernel." not in BYTES.decode(each.ids) for each in masked.examples if each.spans[0].turn != 1)

    without = mask(trajectory, TERMINAL, PLAIN, BYTES, KEEP_ALL)
    assert len(without.examples) == 1
    assert "<think>" not in BYTES.decode(without.examples[0].ids)


SCREEN = """URL: http://shop.example/
Tabs: *0 'Shop'
RootWebArea 'Shop'
\t[1] button 'Buy'
\t[2] link 'About the shop and those who run it'
\t[3] text '{}'
\t[4] link 'Terms of delivery and of payment'
\t[5] link 'Imprint'"""


@pytest.mark.anyio
async def test_states_are_trained_as_the_deltas_that_the_environment_reads() -> None:
    screens = [SCREEN.format(word) for word in ("empty", "one book", "two books", "one book")]
    trajectory = session(
        [turn('click("1")', screen) for screen in screens[1:]], "web", screens[0], initial_observation=screens[0]
    )
    profile = PLAIN.model_copy(update={"state": "delta"})
    masked = mask(trajectory, get_domain("web"), profile, BYTES, KEEP_ALL)
    targets = [trained_texts(example)[0].removesuffix("<|im_end|>") for example in masked.examples]
    assert [target.partition("\n")[0] for target in targets] == ["@back 1", "@back 1", "@back 2"]
    asked = await prompts_of(trajectory, profile, targets)  # and each gives the screen that was recorded
    for example, prompt in zip(masked.examples, asked, strict=True):
        assert list(example.ids[: example.spans[0].start]) == BYTES.apply(prompt, prompt=True)
        assert len(example.spans) == 1


class Forgetful(ByteTokenizer):
    """A template that writes the last message in another way than those before it."""

    name = "forgetful"

    def apply(self, messages: Sequence[Message], *, prompt: bool) -> list[int]:
        last = len(messages) - 1
        marked = [
            each.model_copy(update={"content": "[not last] " + each.content})
            if each.role == "assistant" and n < last
            else each
            for n, each in enumerate(messages)
        ]
        return super().apply(marked, prompt=prompt)


class Changing(ByteTokenizer):
    """A template that adds to every answer."""

    name = "changing"

    def apply(self, messages: Sequence[Message], *, prompt: bool) -> list[int]:
        changed = [
            each.model_copy(update={"content": "So: " + each.content}) if each.role == "assistant" else each
            for each in messages
        ]
        return super().apply(changed, prompt=prompt)


class Late(ByteTokenizer):
    """A template whose prompt does not hold what stands before an answer."""

    name = "late"

    def apply(self, messages: Sequence[Message], *, prompt: bool) -> list[int]:
        ids = super().apply(messages, prompt=prompt)
        return [*ids, *b"\n\n"] if prompt else ids


class Refusing(ByteTokenizer):
    """A template without a place for a system message."""

    name = "refusing"

    def apply(self, messages: Sequence[Message], *, prompt: bool) -> list[int]:
        if messages[0].role == "system":
            raise ValueError("System role not supported")
        return super().apply(messages, prompt=prompt)


@pytest.mark.parametrize(
    ("tokenizer", "told"),
    [
        (Forgetful(), r"template of forgetful writes the answer '/home' as '\[not last\] .*; use per_turn: true"),
        (Changing(), r"template of changing writes the answer '/home' as 'So: /home<\|im_end\|>.*"),
        (Late(), r"template of late does not keep a prompt .*\(token \d+ of \d+\); use the template of another model"),
        (Refusing(), r"template of refusing refuses: System role not supported"),
    ],
)
def test_templates_that_do_not_serve_are_refused_by_name(tokenizer: ByteTokenizer, told: str) -> None:
    with pytest.raises(TemplateError, match=told):
        mask(commands(2), TERMINAL, PLAIN, tokenizer, KEEP_ALL)


def test_a_template_that_looks_at_what_follows_serves_turn_by_turn() -> None:
    per_turn = KEEP_ALL.model_copy(update={"per_turn": True})
    check_template(Forgetful(), per_turn=True)
    trajectory = commands(3)
    masked = mask(trajectory, TERMINAL, PLAIN, Forgetful(), per_turn)
    assert [trained_texts(example) for example in masked.examples] == [
        [f"{text_of(trajectory, n)}<|im_end|>"] for n in (1, 2, 3)
    ]
    assert "[not last]" in BYTES.decode(masked.examples[2].ids)


def test_a_trajectory_that_never_began_has_no_examples() -> None:
    trajectory = session([]).model_copy(update={"initial": None})
    assert mask(trajectory, TERMINAL, PLAIN, BYTES) == mask(session([]), TERMINAL, PLAIN, BYTES)


# A tokenizer of the transformers library, trained here.

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
STRIPPING = CHATML.replace("m.content", "m.content | trim")


@pytest.fixture(scope="module")
def bpe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers", reason="needs transformers: pip install 'worldlm[train]'")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(
        [CHATML, *(text_of(commands(5), n) for n in range(1, 6)), "\n\nassistant\n\n"] * 9, trainer
    )
    folder = tmp_path_factory.mktemp("bpe")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|im_end|>", chat_template=CHATML)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_tokenizer_of_transformers(bpe: Path) -> None:
    tokenizer = HuggingFaceTokenizer.load(bpe)
    trajectory = session([*commands(6).turns, turn(typed("cat b"), "\n\nleading line breaks"), *commands(2).turns])
    masked = mask(trajectory, TERMINAL, PLAIN, tokenizer, KEEP_ALL)
    expected = [f"{text_of(trajectory, n)}<|im_end|>" for n in (1, 2, 3, 4, 5, 6, 8, 9)]
    assert [text for each in masked.examples for text in trained_texts(each, tokenizer)] == expected
    # Line breaks of the prompt and of the answer become one token: no model could have written it.
    assert masked.labels[6].why == "the tokens of its prompt are others once its answer follows"

    from transformers import AutoTokenizer

    plain = AutoTokenizer.from_pretrained(str(bpe))
    chat = [{"role": "system", "content": "be <|im_end|> brief"}, {"role": "user", "content": f"{PROMPT} é\n"}]
    ours = tokenizer.apply([Message.model_validate(each) for each in chat], prompt=True)
    assert ours == plain.apply_chat_template(chat, tokenize=True, add_generation_prompt=True, return_dict=False)
    assert tokenizer.count("") == 0


def test_a_template_that_strips_answers_costs_those_turns_alone(bpe: Path) -> None:
    tokenizer = HuggingFaceTokenizer.load(bpe, chat_template=STRIPPING)
    trajectory = session([shell("uname", "Linux it is"), turn(typed("cat b"), "no line break before  \n")])
    masked = mask(trajectory, TERMINAL, PLAIN, tokenizer, KEEP_ALL)
    assert [label.trained for label in masked.labels] == [True, False]
    assert masked.labels[1].why == "the template or the tokenizer changes its answer"


def test_what_is_no_tokenizer_is_refused(tmp_path: Path, bpe: Path) -> None:
    with pytest.raises(InputError, match="there is no tokenizer"):
        HuggingFaceTokenizer.load(tmp_path / "none")
    with pytest.raises(InputError, match="cannot read a tokenizer"):
        HuggingFaceTokenizer.load(tmp_path)
    bare = tmp_path / "bare"
    bare.mkdir()
    for file in bpe.iterdir():
        if "template" not in file.name:
            (bare / file.name).write_text(re.sub(r'"chat_template": .*\n', "", file.read_text()))
    with pytest.raises(InputError, match="has no chat template"):
        HuggingFaceTokenizer.load(bare)


def test_without_transformers_the_cure_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(SetupError, match=r"pip install 'worldlm\[train\]'"):
        HuggingFaceTokenizer.load(tmp_path)
    with pytest.raises(InputError, match="there is no tokenizer"):  # that can be said without it
        HuggingFaceTokenizer.load(tmp_path / "none")


def test_a_gguf_file_without_torch_names_the_cure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'worldlm[dev]'")

    def absent(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("Could not import module 'read_gguf_metadata'")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", absent)
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    with pytest.raises(SetupError, match=r"needs torch and gguf; pip install 'worldlm\[train\]'"):
        HuggingFaceTokenizer.load(path)

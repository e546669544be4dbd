"""From a trajectory to what a model is trained on: token ids, and a mask over the observations that are kept.

A training example is the prompt that the model gets when it plays the environment (`domains.render.Conversation`, the
same functions) with the true answers in it, and each answer lies where the model would have begun to write it. Where
that is tells the chat template alone: an answer begins where the prompt up to it ends, and ends with the first
end-of-turn token. So one example holds all turns that share a prompt: when old turns go because the context is full,
the next example begins, and a turn whose answer is not what later prompts show of it (a delta, or one with thinking)
has an example of its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from worldlm.core.errors import InputError
from worldlm.core.types import Message, Profile, Trajectory
from worldlm.data.classes import MaskConfig, TurnClass, TurnLabel, default_config, label_turns
from worldlm.data.targets import targets
from worldlm.data.tokenizers import ChatTokenizer
from worldlm.domains.domain import Domain
from worldlm.domains.reply import THINK_OPEN


class MaskError(InputError):
    """What would train nothing, or everything."""


class TemplateError(MaskError):
    """A chat template under which an answer cannot be told from its prompt."""


@dataclass(frozen=True, slots=True)
class Span:
    """An answer in an example."""

    turn: int
    """Its number in the trajectory, from 1."""
    start: int
    end: int
    """Its tokens are `ids[start:end]`, the end-of-turn token included."""
    turn_class: TurnClass | None
    trained: bool
    why: str


@dataclass(frozen=True, slots=True)
class Example:
    """Token ids, and which of them are trained. Raises MaskError when that is none, or all."""

    trajectory: str
    ids: tuple[int, ...]
    mask: tuple[bool, ...]
    """One for each id. The loss at a position is that of predicting its token from those before."""
    spans: tuple[Span, ...]
    """The answers of the turns that are this example's own, trained or not; earlier ones are only its context."""
    missing: int
    """How many of the oldest turns are not shown, because they do not fit."""

    def __post_init__(self) -> None:
        if len(self.mask) != len(self.ids):
            raise MaskError(f"{self.trajectory}: {len(self.mask)} values of a mask for {len(self.ids)} tokens")
        if self.trained in (0, len(self.ids)):
            what = "no token" if not self.trained else "every token"
            raise MaskError(
                f"{self.trajectory}: {what} is trained ({self.trained} of {len(self.ids)}, {len(self.spans)} answers)"
            )

    @property
    def trained(self) -> int:
        """Tokens that are trained."""
        return sum(self.mask)


@dataclass(frozen=True, slots=True)
class Masked:
    """The examples of a trajectory, and what became of each of its turns."""

    labels: tuple[TurnLabel, ...]
    examples: tuple[Example, ...]
    """None where no turn is trained."""


def mask(
    trajectory: Trajectory,
    domain: Domain,
    profile: Profile,
    tokenizer: ChatTokenizer,
    config: MaskConfig | None = None,
) -> Masked:
    """The training examples of a trajectory: each kept turn is trained in exactly one of them.

    `profile.context` bounds an example. What does not fit goes from its oldest turns, as when the model is asked; a
    turn whose answer does not fit behind its prompt is not trained, and its label says so. Never cut are the system
    message and an answer.

    Raises InputError when the world alone does not fit, TemplateError when the template does not serve.
    """
    config = config or default_config()
    check_template(tokenizer, per_turn=config.per_turn)
    labels = {label.turn: label for label in label_turns(trajectory, domain, config)}
    if trajectory.initial is None or not any(label.trained for label in labels.values()):
        return Masked(tuple(labels.values()), ())
    pieces = _pieces(trajectory, domain, profile, tokenizer, config, labels)
    examples = [example for piece in pieces if (example := _example(trajectory.id, piece, tokenizer, labels))]
    return Masked(tuple(labels.values()), tuple(examples))


def check_masks(examples: Iterable[Example]) -> tuple[int, int]:
    """Tokens that are trained, and tokens in all. Raises MaskError when nothing is trained."""
    trained = total = count = 0
    for example in examples:
        trained, total, count = trained + example.trained, total + len(example.ids), count + 1
    if not trained:
        raise MaskError(f"the masks of {count} examples train no token: see why with worldlm data show-mask")
    return trained, total


# Prompts that go on from each other.


@dataclass(slots=True)
class _Answer:
    turn: int
    at: int
    """Its message is the piece's `messages[at]`."""
    prompt: list[int]
    text: str


@dataclass(slots=True)
class _Piece:
    """Messages for one example."""

    messages: list[Message]
    missing: int
    answers: list[_Answer] = field(default_factory=list)


def _pieces(
    trajectory: Trajectory,
    domain: Domain,
    profile: Profile,
    tokenizer: ChatTokenizer,
    config: MaskConfig,
    labels: dict[int, TurnLabel],
) -> list[_Piece]:
    pieces: list[_Piece] = []
    shared: _Piece | None = None
    for target in targets(trajectory, domain, profile, tokenizer.count):
        number, label = target.turn, labels[target.turn]
        if target.prompt is None:
            labels[number] = _untrained(label, "its action does not fit the context")
            shared = None
            continue
        history = target.shown()
        reply = target.reply(tokenizer.count) if label.trained else history
        prompt = tokenizer.apply(target.prompt, prompt=True)
        messages = [*target.prompt, Message(role="assistant", content=reply)]
        answer = _Answer(number, len(target.prompt), prompt, reply)
        if len(prompt) + tokenizer.count(reply) + 1 > profile.context:
            labels[number] = _untrained(label, "its answer does not fit the context behind its prompt")
            shared = None
        elif reply != history or (config.per_turn and label.trained):
            pieces.append(_Piece(messages, target.missing, [answer]))
        elif not config.per_turn:
            if shared is None or shared.missing != target.missing:
                shared = _Piece([], target.missing)
                pieces.append(shared)
            shared.messages = messages
            shared.answers.append(answer)
    return pieces


def _untrained(label: TurnLabel, why: str) -> TurnLabel:
    return replace(label, trained=False, why=why) if label.trained else label


def _example(trajectory: str, piece: _Piece, tokenizer: ChatTokenizer, labels: dict[int, TurnLabel]) -> Example | None:
    """The example of a piece, up to its last trained answer; None when it has none."""
    trained = [answer.at for answer in piece.answers if labels[answer.turn].trained]
    if not trained:
        return None
    ids = tokenizer.apply(piece.messages[: trained[-1] + 1], prompt=False)
    values = [False] * len(ids)
    spans = []
    end = 0
    for answer in piece.answers:
        if answer.at > trained[-1]:
            break
        label, start = labels[answer.turn], len(answer.prompt)
        found = _end_of(answer, ids, tokenizer)
        if isinstance(found, str):
            labels[answer.turn] = _untrained(label, found)
            continue
        if label.trained:
            values[start:found] = [True] * (found - start)
            end = found
        spans.append(Span(answer.turn, start, found, label.turn_class, label.trained, label.why))
    if not end:
        return None
    kept = tuple(span for span in spans if span.end <= end)
    return Example(trajectory, tuple(ids[:end]), tuple(values[:end]), kept, piece.missing)


def _end_of(answer: _Answer, ids: Sequence[int], tokenizer: ChatTokenizer) -> int | str:
    """Where an answer ends, its end-of-turn token included, or why that cannot be told."""
    start = len(answer.prompt)
    if ids[:start] != answer.prompt:
        return "the tokens of its prompt are others once its answer follows"
    try:
        end = ids.index(tokenizer.end_of_turn, start)
    except ValueError:
        return "no end-of-turn token follows its answer"
    written = tokenizer.decode(ids[start:end])
    if written == answer.text:
        return end + 1
    # Some templates open the thinking in the prompt, and the reply goes on from there.
    opened = answer.text[: len(answer.text) - len(written)]
    if written and answer.text.endswith(written) and opened.strip() == THINK_OPEN:
        return end + 1
    return "the template or the tokenizer changes its answer"


# Templates.

_PROBE = (
    Message(role="system", content="You are a shell."),
    Message(role="user", content="pwd"),
    Message(role="assistant", content="/home"),
    Message(role="user", content="id -un"),
    Message(role="assistant", content="root"),
)


def check_template(tokenizer: ChatTokenizer, *, per_turn: bool = False) -> None:
    """Raises TemplateError, with the template's name and the place, unless an answer follows its prompt unchanged.

    Without `per_turn` the first answer of a conversation must also stand unchanged when more turns follow.
    """
    lengths = [(2, 3), (4, 5)] if per_turn else [(2, 3), (4, 5), (2, 5)]
    for asked, whole in lengths:
        try:
            prompt = tokenizer.apply(_PROBE[:asked], prompt=True)
            ids = tokenizer.apply(_PROBE[:whole], prompt=False)
        except Exception as error:  # a template is a program of somebody else's, and raises what it likes
            raise TemplateError(f"the chat template of {tokenizer.name} refuses: {error}") from error
        same = next(
            (i for i, (a, b) in enumerate(zip(prompt, ids, strict=False)) if a != b), min(len(prompt), len(ids))
        )
        cure = "use per_turn: true" if whole - asked > 1 else "use the template of another model"
        if same < len(prompt):
            raise TemplateError(
                f"the chat template of {tokenizer.name} does not keep a prompt as it is when an answer follows: "
                f"{tokenizer.decode(prompt[same:][:8])!r} became {tokenizer.decode(ids[same:][:8])!r} "
                f"(token {same + 1} of {len(prompt)}); {cure}"
            )
        found = _end_of(_Answer(0, asked, prompt, _PROBE[asked].content), ids, tokenizer)
        if isinstance(found, str):
            raise TemplateError(
                f"the chat template of {tokenizer.name} writes the answer {_PROBE[asked].content!r} as "
                f"{tokenizer.decode(ids[len(prompt) :][:24])!r}, and an answer must stand as it is, up to the "
                f"end-of-turn token; {cure}"
            )


# To look at.


def pieces_of(example: Example, tokenizer: ChatTokenizer) -> list[tuple[str, Span | None]]:
    """The text of an example in order; an answer that is its own with its span."""
    out: list[tuple[str, Span | None]] = []
    at = 0
    for span in example.spans:
        out += [
            (tokenizer.decode(example.ids[at : span.start]), None),
            (tokenizer.decode(example.ids[span.start : span.end]), span),
        ]
        at = span.end
    return out

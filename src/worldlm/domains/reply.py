"""Reading what a world model says: thinking apart, the answer as it stands, or a typed failure.

The rules: leading thinking is skipped, one or several blocks; a reply
that begins inside thinking and closes it is normal, because chat templates open the tag in the prompt;
the answer runs from the first `<predicted_observation>` after closed thinking to the *last* closing tag;
nothing inside the tag is ever stripped; without a tag the rest is the answer; thinking that never closes
is CUT_OFF, even if a draft of an answer stands in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from worldlm.core.outcomes import Outcome
from worldlm.core.text import goes_round
from worldlm.core.types import Completion, Delta
from worldlm.domains.delta import DeltaError, bases, is_delta, read_delta

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
ANSWER_OPEN, ANSWER_CLOSE = "<predicted_observation>", "</predicted_observation>"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with its thinking; `text` is None exactly when `outcome` is not OK."""

    text: str | None
    outcome: Outcome = Outcome.OK
    thinking: str | None = None
    detail: str | None = None


def read_reply(completion: Completion) -> Reply:
    """Split a completion into thinking and answer. Never raises."""
    if completion.outcome is not Outcome.OK:
        return Reply(None, completion.outcome, completion.thinking, completion.detail)
    cut_off = completion.finish == "length"
    thoughts = [completion.thinking] if completion.thinking else []
    inside, rest = _split_thinking(completion.text)
    thoughts += [thought for thought in inside if thought]
    thinking = "\n".join(thoughts) or None
    round_and_round = ": it repeats itself without end" if cut_off and goes_round(completion.text) else ""
    if rest is None:
        return Reply(None, Outcome.CUT_OFF, thinking, f"the thinking never closed{round_and_round}")

    start = rest.find(ANSWER_OPEN)
    if start >= 0:
        start += len(ANSWER_OPEN)
        end = rest.rfind(ANSWER_CLOSE)
        if end >= start:
            return Reply(rest[start:end], thinking=thinking)
        if cut_off:
            return Reply(
                None, Outcome.CUT_OFF, thinking, f"the reply hit the length limit inside its answer{round_and_round}"
            )
        return Reply(rest[start:], thinking=thinking)  # a stop sequence swallowed the closing tag

    if cut_off:
        return Reply(None, Outcome.CUT_OFF, thinking, f"the reply hit the length limit{round_and_round}")
    if not rest.strip():
        return Reply(None, Outcome.MODEL_FAILED, thinking, "the reply holds no answer")
    return Reply(rest.lstrip("\n") if inside else rest, thinking=thinking)


def whole_state(reply: Reply, states: Sequence[str], shown: int) -> Reply:
    """The reply with the state that it stands for, where its text is a delta; any other reply as it is.

    `states` are those of the session, of which a delta may name the first and the `shown` newest (`delta.bases`). A
    delta that does not apply is a failure of the model.
    """
    text = (reply.text or "").strip("\n")
    if not is_delta(text):
        return reply
    try:
        return Reply(read_delta(text, bases(states, shown)), thinking=reply.thinking)
    except DeltaError as error:
        return Reply(None, Outcome.MODEL_FAILED, reply.thinking, f"not a delta that applies: {error}")


def _split_thinking(text: str) -> tuple[list[str], str | None]:
    """Thoughts, and what follows them; None in place of the rest when thinking never closes."""
    thoughts: list[str] = []
    while True:
        answer = text.find(ANSWER_OPEN)
        opened, closed = text.find(THINK_OPEN), text.find(THINK_CLOSE)
        before_answer = 0 <= opened < answer
        if text.lstrip().startswith(THINK_OPEN) or (before_answer and (closed < 0 or opened < closed)):
            closed = text.find(THINK_CLOSE, opened)
            if closed < 0:
                return [*thoughts, text[opened + len(THINK_OPEN) :].strip()], None
            thoughts.append((text[:opened] + text[opened + len(THINK_OPEN) : closed]).strip())
        elif closed >= 0 and not thoughts and not 0 <= opened < closed and not _inside_answer(text, closed):
            thoughts.append(text[:closed].strip())  # the template had opened the tag in the prompt
        else:
            return thoughts, text
        text = text[closed + len(THINK_CLOSE) :]


def _inside_answer(text: str, position: int) -> bool:
    """Whether `position` lies in the answer: a tag opens before it, closes after it, and none opens later.

    (A later opening tag means that the earlier one was a draft in thinking that began in the prompt.)
    """
    opened = text.find(ANSWER_OPEN)
    return (
        0 <= opened < position
        and text.find(ANSWER_OPEN, position) < 0
        and (text.rfind(ANSWER_CLOSE) > position or text.find(ANSWER_CLOSE) < 0)
    )


class ReplyStream:
    """Shows an answer while it streams. A preview: `read_reply` on the whole text is authoritative.

    `feed` returns what may be shown now: thinking as thinking, the answer without its tags.
    """

    def __init__(self) -> None:
        self._buffer = ""
        self._state = "start"

    def feed(self, delta: Delta) -> Delta:
        """Take the next piece; give what of it can be shown."""
        self._buffer += delta.text
        text, thinking = "", delta.thinking
        while True:
            piece, more = self._advance()
            if self._state == "thinking" or (more and self._last == "thinking"):
                thinking += piece
            else:
                text += piece
            if not more:
                return Delta(text=text, thinking=thinking)

    def _advance(self) -> tuple[str, bool]:
        """One move of the state machine: text to show in the state left, and whether to move again."""
        self._last = self._state
        if self._state == "start":
            head = self._buffer.lstrip()
            if head.startswith(THINK_OPEN):
                self._state, self._buffer = "thinking", head[len(THINK_OPEN) :]
                return "", True
            if head.startswith(ANSWER_OPEN):
                self._state, self._buffer = "answer", head[len(ANSWER_OPEN) :]
                return "", True
            if not head or any(tag.startswith(head) for tag in (THINK_OPEN, ANSWER_OPEN)):
                return "", False
            self._state = "plain"
            return "", True
        if self._state == "thinking":
            return self._until(THINK_CLOSE, "start")
        if self._state == "answer":
            return self._until(ANSWER_CLOSE, "done")
        if self._state == "plain":
            piece, self._buffer = self._buffer, ""
            return piece, False
        self._buffer = ""
        return "", False

    def _until(self, tag: str, then: str) -> tuple[str, bool]:
        end = self._buffer.find(tag)
        if end >= 0:
            piece, self._buffer, self._state = self._buffer[:end], self._buffer[end + len(tag) :], then
            return piece, True
        keep = next((n for n in range(len(tag) - 1, 0, -1) if self._buffer.endswith(tag[:n])), 0)
        cut = len(self._buffer) - keep
        piece, self._buffer = self._buffer[:cut], self._buffer[cut:]
        return piece, False

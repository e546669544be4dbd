"""A judge whose server is asked for verdicts by a JSON schema: one for grades, another for choices.

A server that refuses is asked without, by its model's own rule, and whatever comes is read the same way
(`judge.verdicts`).
"""

from collections.abc import Sequence

from worldlm.core.protocols import Closes, Model
from worldlm.core.text import digest
from worldlm.core.types import Completion, Message, Sampling
from worldlm.judge.asking import read_prompt

CHOOSING = ("turing.txt", "pairwise.txt")
"""System prompts that ask for a choice; all others ask for grades."""


class StructuredJudge:
    """One judge behind two models of the same server, each asking in its own format. Satisfies `Model` and `Closes`.

    It has one name whatever it is asked, so that an audit vouches for the judge that grades.
    """

    def __init__(self, grading: Model, choosing: Model):
        self._grading, self._choosing = grading, choosing
        formats = digest(grading.name, choosing.name)[:8]
        self.name = f"{grading.name.rsplit('#', 1)[0]}#{formats}"

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """The answer, in the format of what is asked."""
        chooses = messages[0].content in map(read_prompt, CHOOSING)
        return await (self._choosing if chooses else self._grading).complete(messages, sampling)

    async def close(self) -> None:
        """Close both."""
        for model in (self._grading, self._choosing):
            if isinstance(model, Closes):
                await model.close()

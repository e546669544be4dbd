"""What a run tells while it goes: one value for each thing that happens, in order.

The loop hands them to a callable; whoever gets them writes files and draws progress (`train.report`). A figure is a
finite number, always: what is not finite is told in words.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias

from pydantic import Field

from worldlm.core.types import Text, Value

Kind: TypeAlias = Literal["start", "resume", "step", "skip", "validation", "save", "sample", "warning", "end"]


class Event(Value):
    """Something that happened in a run. A line of `metrics.jsonl`.

    | kind | figures | texts |
    | --- | --- | --- |
    | `start` | `steps`, `processes`, `parameters`, `trained_parameters`; `rows`, `tokens`, `targets` of the set, also by domain (`rows/DOMAIN`, …); `planned_tokens` of the whole run | `run`, `stage`, `base`; `unfit/REASON` and `left_out/REASON` are figures too (turns) |
    | `resume` | `step` that it goes on after | `from` |
    | `step` | `loss` (nats a target), `gradient_norm` (before clipping), `learning_rate`, `epoch`, `step_tokens`, `step_targets`, `tokens_per_second`; `router_loss` where there is one; `memory_mib` (peak) | |
    | `skip` | `in_a_row` | `why`: the loss or the gradient was not finite |
    | `validation` | `loss` (mean of the domains'), `loss/DOMAIN`, `targets/DOMAIN`; `best` 1 or 0 | |
    | `save` | `bytes` | `path` |
    | `sample` | `entropy` (nats a token, mean), `distinct` (share of tokens that are different ones), `ended` 1 or 0, `generated` tokens | `prompt` (its end), `expected`, `text` |
    | `warning` | | `what` |
    | `end` | `steps`, `tokens`, `targets`, `seconds` of this slice | `why`: `finished`, `minutes` or `signal` |
    """  # noqa: E501

    kind: Kind
    time: float
    """Seconds since 1970."""
    step: int = Field(ge=0)
    """Steps taken so far, of all slices."""
    steps: int = Field(ge=0)
    """Steps of the whole run."""
    tokens: int = Field(default=0, ge=0)
    """Tokens read so far, without padding."""
    figures: dict[Text, float] = Field(default_factory=dict)
    texts: dict[Text, Text] = Field(default_factory=dict)


Emit: TypeAlias = Callable[[Event], None]

__all__ = ["Emit", "Event", "Kind"]

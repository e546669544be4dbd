"""Whatever a record holds, reading it gives trajectories or says what is wrong: nothing else is raised."""

import copy
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.samples import AUTODROID, JSON_SAMPLES
from worldlm.core.jsonl import parse_trajectory
from worldlm.data.formats import FORMATS, ReadOptions, RecordError
from worldlm.data.formats.files import Found
from worldlm.data.importing import read_record
from worldlm.data.report import FileReport

SAMPLES = [*JSON_SAMPLES.values(), yaml.safe_load(AUTODROID)]
odd = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.just(1.5)
    | st.sampled_from(["", "x", "null", "1", "[start]", "<p id=0>a</p>"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["role", "content", "x", "type"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every piece of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [way for key, item in items for way in paths(item, (*path, key))]


@settings(max_examples=150)
@given(st.data())
def test_a_record_with_odd_pieces_is_read_or_refused(data: st.DataObject) -> None:
    value = copy.deepcopy(data.draw(st.sampled_from(SAMPLES)))
    for _ in range(data.draw(st.integers(1, 3))):
        ways = paths(value)
        if not ways:
            return
        *way, last = data.draw(st.sampled_from(ways))
        piece = value
        for key in way:
            piece = piece[key]
        if data.draw(st.booleans()):
            piece[last] = data.draw(odd)
        else:
            del piece[last]
    options = ReadOptions(strict=data.draw(st.booleans()), domain=data.draw(st.sampled_from([None, "terminal", "web"])))
    report = FileReport("here")
    expected = data.draw(st.sampled_from([None, *FORMATS.values()]))
    try:
        made = read_record(Found("here", value), expected, options, report)
    except RecordError:
        return
    for one in made:
        assert parse_trajectory(one.model_dump(mode="json")) == one

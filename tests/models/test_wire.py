"""The events of a stream, in whatever pieces the bytes come."""

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from worldlm.models.wire import EventReader

CHUNKS = st.lists(st.dictionaries(st.text(max_size=3), st.text()), max_size=5)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
BESIDE = st.sampled_from(["", ": a comment", "event: ping", "id: 3", "retry: 10", "data"])


@given(CHUNKS, ENDS, BESIDE, st.lists(st.integers(0, 400), max_size=10))
def test_events_are_the_same_however_their_bytes_are_cut(
    chunks: list[dict[str, str]], end: str, beside: str, cuts: list[int]
) -> None:
    text = "".join(
        f"{beside}{end}{end}data:{' ' if index % 2 else ''}{json.dumps(chunk, ensure_ascii=False)}{end}{end}"
        for index, chunk in enumerate(chunks)
    )
    sent = text.encode()
    places = [0, *sorted(min(cut, len(sent)) for cut in cuts), len(sent)]
    reader = EventReader()
    found = [data for start, stop in pairwise(places) for data in reader.feed(sent[start:stop])]
    assert [json.loads(data) for data in found] == chunks


def test_lines_of_one_event_belong_together() -> None:
    assert list(EventReader().feed(b'data: {"a":\ndata: 1}\n\n')) == ['{"a":\n1}']


def test_an_event_without_its_end_is_none() -> None:
    assert list(EventReader().feed(b"data: 1\n\ndata: 2\n")) == ["1"]

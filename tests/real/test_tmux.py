from hypothesis import given
from hypothesis import strategies as st

from worldlm.real.tmux import KEPT, Output, mark

NONCE = "abc123"
IDLE, BUSY, DRAWN, RUNS = (mark(kind, NONCE) for kind in "ADBC")
PIECES = st.lists(
    st.sampled_from(
        [
            b"text\r\n",
            "é漢😀".encode(),
            IDLE,
            BUSY,
            DRAWN,
            RUNS,
            b"\x1b[1m",
            b"\x1b[H\x1b[J",
            mark("B", "other"),
            b"\x1b",
        ]
    ),
    max_size=12,
)


def fed(chunks: list[bytes]) -> Output:
    output = Output(NONCE)
    for chunk in chunks:
        output.feed(chunk)
    output.feed(b"\x1b[0m")
    return output


@given(PIECES, st.integers(1, 9))
def test_marks_are_found_however_the_stream_is_cut(pieces: list[bytes], size: int) -> None:
    stream = b"".join(pieces)
    whole, cut = fed([stream]), fed([stream[i : i + size] for i in range(0, len(stream), size)])
    assert (whole.prompts, whole.running, whole.size, whole.newlines) == (
        cut.prompts,
        cut.running,
        cut.size,
        cut.newlines,
    )
    assert whole.raw() == cut.raw()
    assert NONCE not in whole.raw()


def test_a_prompt_counts_when_no_input_waits() -> None:
    output = Output(NONCE)
    assert output.running
    output.feed(IDLE + b"$ " + DRAWN)
    assert (output.prompts, output.running) == (1, False)
    output.feed(b"ls\r\n" + RUNS)
    assert output.running
    output.feed(BUSY + b"$ " + DRAWN)
    assert output.prompts == 1
    output.feed(IDLE + b"$ " + DRAWN)
    assert (output.prompts, output.running) == (2, False)


def test_a_prompt_drawn_again_counts_only_where_that_is_expected() -> None:
    output = Output(NONCE)
    output.feed(IDLE + b"$ " + DRAWN + b"\x1b[H\x1b[J$ " + DRAWN)
    assert output.prompts == 1
    output.expect_redraw = True
    output.feed(b"\x1b[H\x1b[J$ " + DRAWN)
    assert output.prompts == 2


def test_another_shells_marks_do_not_count() -> None:
    output = Output(NONCE)
    output.feed(mark("A", "other") + b"$ " + mark("B", "other"))
    assert output.prompts == 0
    assert "133;A;aid=other" in output.raw()


def test_the_end_of_the_shell_carries_its_exit_code() -> None:
    output = Output(NONCE)
    output.feed(b"exit\r\n" + mark("X;130", NONCE))
    assert output.exit_code == 130


def test_a_long_output_keeps_both_ends_and_says_what_is_missing() -> None:
    output = Output(NONCE)
    output.feed(b"START" + b"x" * (5 * KEPT) + b"END")
    raw = output.raw()
    assert raw.startswith("START")
    assert raw.endswith("END")
    assert f"[{3 * KEPT + 8} bytes left out]" in raw
    output.restart()
    assert output.raw() == ""


def test_clearing_counts_only_on_the_shells_own_screen() -> None:
    output = Output(NONCE)
    output.feed(b"a\r\n\x1b[?1049h\x1b[H\x1b[J\x1b[?1049l")
    assert output.cleared_at is None
    output.feed(b"b\r\n\x1b[H\x1b[Jc\r\n")
    assert output.cleared_at == 2

import asyncio
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldlm.real.tmux import KEPT, Output, Screen, Tmux, mark

NONCE, SECRET = "abc123", "def456"
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
            mark("X;1", NONCE),
            b"\x1b",
        ]
    ),
    max_size=12,
)


def fed(chunks: list[bytes]) -> Output:
    output = Output(NONCE, SECRET)
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
    assert NONCE not in whole.raw().replace(mark("X;1", NONCE).decode(), "")
    assert whole.exit_code is None


def test_a_prompt_counts_when_no_input_waits() -> None:
    output = Output(NONCE, SECRET)
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
    output = Output(NONCE, SECRET)
    output.feed(IDLE + b"$ " + DRAWN + b"\x1b[H\x1b[J$ " + DRAWN)
    assert output.prompts == 1
    output.expect_redraw = True
    output.feed(b"\x1b[H\x1b[J$ " + DRAWN)
    assert output.prompts == 2


def test_another_shells_marks_do_not_count() -> None:
    output = Output(NONCE, SECRET)
    output.feed(mark("A", "other") + b"$ " + mark("B", "other"))
    assert output.prompts == 0
    assert "133;A;aid=other" in output.raw()


def test_the_end_of_the_shell_carries_its_exit_code() -> None:
    output = Output(NONCE, SECRET)
    output.feed(b"exit\r\n" + mark("X;130", SECRET))
    assert output.exit_code == 130


@pytest.mark.parametrize("forged", [mark("X;0", NONCE), mark("A", SECRET), mark(f"X;{'9' * 5000}", SECRET)])
def test_the_end_of_the_shell_cannot_be_forged(forged: bytes) -> None:
    output = Output(NONCE, SECRET)
    output.feed(forged)
    assert output.exit_code is None
    assert output.raw() == forged.decode()


def test_the_screen_is_never_taken_for_an_error_or_its_own_end() -> None:
    def shown(pane: int, rows: list[bytes]) -> None:
        stamp = b"1 2 1"
        for lines in ([b"0 1 0 0"], rows, []):
            os.write(
                pane, b"%begin " + stamp + b"\n" + b"".join(line + b"\n" for line in lines) + b"%end " + stamp + b"\n"
            )

    async def session() -> Screen:
        (commands, stdin), (stdout, pane) = os.pipe(), os.pipe()
        tmux = Tmux(stdin, stdout, NONCE, SECRET, rows=4, flood=9999)
        try:
            os.write(pane, b"%begin 1 1 0\n%end 1 1 0\n")
            screen = asyncio.create_task(tmux.screen())
            await asyncio.sleep(0)
            shown(pane, [b"%error 1 2 1", b"%end 1 2 1", b"%exit", b"%output %0 x"])
            return await asyncio.wait_for(screen, 10)
        finally:
            tmux.close()
            for fd in (commands, stdin, stdout, pane):
                os.close(fd)

    assert asyncio.run(session()).lines == ["%error 1 2 1", "%end 1 2 1", "%exit", "%output %0 x"]


def test_a_long_output_keeps_both_ends_and_says_what_is_missing() -> None:
    output = Output(NONCE, SECRET)
    output.feed(b"START" + b"x" * (5 * KEPT) + b"END")
    raw = output.raw()
    assert raw.startswith("START")
    assert raw.endswith("END")
    assert f"[{3 * KEPT + 8} bytes left out]" in raw
    output.restart()
    assert output.raw() == ""


def test_clearing_counts_only_on_the_shells_own_screen() -> None:
    output = Output(NONCE, SECRET)
    output.feed(b"a\r\n\x1b[?1049h\x1b[H\x1b[J\x1b[?1049l")
    assert output.cleared_at is None
    output.feed(b"b\r\n\x1b[H\x1b[Jc\r\n")
    assert output.cleared_at == 2

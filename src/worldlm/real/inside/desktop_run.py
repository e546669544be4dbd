"""Inside a desktop's sandbox: runs blocks of Python, each in a process of its own, forked from one with `pyautogui`.

Reads a line of JSON `{"code", "seconds"}` a block and answers with `{"output", "error"}`. Output is what the block and
its children wrote (standard output and error, at most `OUTPUT_BYTES`); error is the last line of the traceback, or
null.
"""

import contextlib
import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from typing import Any, NoReturn

import pyautogui
from pyautogui import _pyautogui_x11
from Xlib.display import Display

OUTPUT_BYTES = 8192
ERROR_CHARS = 500
PAUSE_SECONDS = 0.02
"""After each call of pyautogui, in place of its own 0.1 s: the desktop is waited for after the block anyway."""


def run(code: str, error: int) -> NoReturn:
    """The child: never returns. What it raised goes to the descriptor `error`."""
    status = 0
    try:
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # in order with what children write
        # A connection to the X server cannot be shared with the parent.
        _pyautogui_x11._display = Display()
        exec(
            compile(code, "<action>", "exec"), {"__name__": "__main__", "pyautogui": pyautogui, "os": os, "time": time}
        )
    except SystemExit as exit_:
        if isinstance(exit_.code, str):
            print(exit_.code, file=sys.stderr)
        status = 0 if exit_.code is None else 1
    except BaseException as raised:
        with contextlib.suppress(BaseException):
            os.write(error, told(raised).encode("utf-8", "replace"))
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
        _pyautogui_x11._display.sync()  # whatever was pressed has arrived
    os._exit(status)


def told(raised: BaseException) -> str:
    """The last line of the traceback, as one line."""
    return " ".join(traceback.format_exception_only(raised)[-1].split("\n")).strip()[:ERROR_CHARS]


def block(code: str, seconds: float) -> dict[str, Any]:
    """Run a block and wait for its end, or end it when its time is over."""
    ready, error = os.pipe()
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if not child:
            os.setsid()
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.closerange(3, error)
            os.closerange(error + 1, 1024)
            run(code, error)
        os.close(error)
        exited = os.pidfd_open(child)
        late = not select.select([exited], [], [], seconds)[0]
        if late:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        os.close(exited)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.set_blocking(ready, False)
        try:
            line = os.read(ready, 4 * ERROR_CHARS).decode("utf-8", "replace")
        except BlockingIOError:
            line = ""
        os.close(ready)
        if late:
            line = f"TimeoutError: the code was ended after {seconds:g} s"
        elif status < 0:
            line = f"the code's process was ended by {signal.Signals(-status).name}"
        size = os.fstat(output.fileno()).st_size
        text = os.pread(output.fileno(), OUTPUT_BYTES, 0).decode("utf-8", "replace")
        if size > OUTPUT_BYTES:
            text += f"\n[{size - OUTPUT_BYTES} bytes more]"
    return {"output": text, "error": line or None}


def main() -> None:
    """Serve until the other end closes."""
    pyautogui.PAUSE = PAUSE_SECONDS
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    print(json.dumps({}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(block(**json.loads(line))), file=answers, flush=True)


main()

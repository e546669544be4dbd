"""Small records of every format, written for these tests."""

import copy
from typing import Any

from worldlm.core.outcomes import EndingKind
from worldlm.core.types import Ending, Observation, Origin, Tool, Trajectory, Turn, World

SHELL = "user@box:~$"


def trajectory() -> Trajectory:
    """One of ours."""
    world = World(
        name="shop", domain="mcp", context="A shop.", tools=(Tool(name="stock", description="Count an item."),)
    )
    turns = (
        Turn(action='{"arguments":{"item":"lamp"},"name":"stock"}', observation=Observation(text="3")),
        Turn(action='{"arguments":{"item":"sofa"},"name":"stock"}', observation=Observation(text="0", is_error=True)),
    )
    return Trajectory(
        id="shop-1",
        world=world,
        initial=Observation(text="Connected."),
        turns=turns,
        ending=Ending(kind=EndingKind.COMPLETED),
        policy="script",
        origin=Origin(kind="real", source="test", version="1", licence="CC0-1.0"),
    )


AWB: dict[str, Any] = {
    "task": "held/terminal",
    "id": 7,
    "system_str": "You are a terminal.",
    "prompt": [
        f"### Turn 1\n**Current State:**\n{SHELL}\n\n**Action:**\n"
        '```json\n[\n  {\n    "keystrokes": "ls\\n"\n  }\n]\n```',
        '### Turn 2\n**Action:**\n```json\n[{"keystrokes": "pwd\\n", "duration": 1.0}]\n```',
    ],
    "response": [
        f"**Environment Observation:**\n{SHELL} ls\na.txt\n{SHELL}",
        f"**Environment Observation:**\n{SHELL} pwd\n/home/user\n{SHELL}",
    ],
    "current_prompt": '### Turn 2\n**Action:**\n```json\n[{"keystrokes": "pwd\\n", "duration": 1.0}]\n```',
    "turn_idx": 2,
    "total_turns": 2,
}

ATIF: dict[str, Any] = {
    "schema_version": "ATIF-v1.4",
    "session_id": "s1",
    "agent": {"name": "walker", "version": "0.3", "model_name": "m"},
    "steps": [
        {"step_id": 1, "source": "user", "message": "What is in the folder?"},
        {
            "step_id": 2,
            "source": "agent",
            "message": "I look.",
            "reasoning_content": "Two things at once.",
            "tool_calls": [
                {"tool_call_id": "a", "function_name": "list", "arguments": {"path": "."}},
                {"tool_call_id": "b", "function_name": "size", "arguments": {"path": "x"}},
            ],
            "observation": {
                "results": [{"source_call_id": "b", "content": "12"}, {"source_call_id": "a", "content": "x y"}]
            },
        },
    ],
    "final_metrics": {"total_steps": 2},
}

RECORDING: dict[str, Any] = {
    "source": "someone/repo@1:file.json#1",
    "licence": "MIT",
    "domain": "mcp",
    "task": "Find it.",
    "turns": [{"action": '{"name": "find", "arguments": {"q": "it"}}', "observation": "here"}],
}

SWE: dict[str, Any] = {
    "environment": "swe_main",
    "trajectory": [
        {"action": "ls\n", "observation": "a.py", "response": "r", "state": '{"open_file": "n/a"}', "thought": "t"},
        {"action": "open a.py\n", "observation": "[File: a.py]", "response": "r", "state": "{}", "thought": "t"},
    ],
    "history": [
        {"role": "system", "content": "You are."},
        {"role": "user", "content": "A demonstration.", "is_demo": True},
        {"role": "user", "content": "Mend the file."},
    ],
    "info": {"exit_status": "submitted"},
}

MINI: dict[str, Any] = {
    "trajectory_format": "mini-swe-agent-1.1",
    "info": {"exit_status": "Submitted", "mini_version": "2.4.6"},
    "messages": [
        {"role": "system", "content": "You are."},
        {"role": "user", "content": "Mend it."},
        {
            "role": "assistant",
            "content": "I look.",
            "extra": {"actions": [{"command": "ls", "tool_call_id": "1"}, {"command": "pwd", "tool_call_id": "2"}]},
        },
        {"role": "tool", "tool_call_id": "2", "content": "/app", "extra": {"returncode": 0}},
        {"role": "tool", "tool_call_id": "1", "content": "a.py", "extra": {"returncode": 0}},
        {"role": "exit", "content": "done", "extra": {"exit_status": "Submitted"}},
    ],
}

MINI_1: dict[str, Any] = {
    "trajectory_format": "mini-swe-agent-1",
    "info": {"exit_status": "LimitsExceeded"},
    "messages": [
        {"role": "user", "content": "Mend it."},
        {"role": "assistant", "content": "First:\n```bash\nls -l\n```"},
        {"role": "user", "content": "<output>a.py</output>"},
        {"role": "assistant", "content": "no block"},
        {"role": "user", "content": "One block, please."},
    ],
}

OPENHANDS: list[dict[str, Any]] = [
    {"id": 0, "source": "user", "action": "message", "args": {"content": "Mend it."}},
    {"id": 1, "source": "agent", "action": "run", "args": {"command": "ls", "thought": "hm", "blocking": False}},
    {
        "id": 2,
        "source": "agent",
        "observation": "run",
        "cause": 1,
        "content": "a.py",
        "extras": {"metadata": {"exit_code": 0, "suffix": "\n[exit 0]"}},
    },
    {"id": 3, "source": "agent", "action": "finish", "args": {}},
]

OPENHANDS_1: list[dict[str, Any]] = [
    {
        "id": "e0",
        "kind": "MessageEvent",
        "source": "user",
        "llm_message": {"role": "user", "content": [{"type": "text", "text": "Mend it."}]},
    },
    {
        "id": "e1",
        "kind": "ActionEvent",
        "source": "agent",
        "tool_name": "terminal",
        "tool_call_id": "c1",
        "tool_call": {"id": "c1", "name": "terminal", "arguments": '{"command": "ls"}'},
    },
    {
        "id": "e2",
        "kind": "ObservationEvent",
        "source": "environment",
        "tool_name": "terminal",
        "tool_call_id": "c1",
        "observation": {
            "kind": "TerminalObservation",
            "content": [{"type": "text", "text": "a.py"}],
            "is_error": False,
            "exit_code": 0,
        },
    },
]

CHAT: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rom"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "21"},
        {"role": "assistant", "content": "It is 21."},
    ],
    "tools": [
        {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
    ],
}

TAU: dict[str, Any] = {
    "task_id": 0,
    "trial": 1,
    "reward": 0.0,
    "traj": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "A flight, please."},
        {"role": "assistant", "content": "Who are you?"},
        {"role": "user", "content": "Mia."},
        *copy.deepcopy(CHAT["messages"][2:4]),
        *copy.deepcopy(CHAT["messages"][2:4]),
        {"role": "assistant", "content": "Done."},
    ],
}

TAU_2: dict[str, Any] = {
    "simulations": [
        {
            "id": "x",
            "task_id": "7",
            "trial": 0,
            "messages": [
                {"role": "assistant", "content": "Hello."},
                {"role": "user", "content": "My line is dead."},
                {"role": "assistant", "tool_calls": [{"id": "1", "name": "line", "arguments": {"n": 1}}]},
                {"role": "tool", "id": "1", "content": "dead"},
                {"role": "user", "tool_calls": [{"id": "2", "name": "reboot", "arguments": {}, "requestor": "user"}]},
                {"role": "tool", "id": "2", "content": "ok", "requestor": "user"},
                {"role": "assistant", "content": "Try again."},
                {"role": "user", "content": "It works."},
            ],
        }
    ]
}

BFCL: dict[str, Any] = {
    "id": "multi_turn_base_0",
    "result": [[["cd(folder='docs')"]]],
    "latency": [[0.5]],
    "inference_log": [
        [{"role": "state_info", "class_name": "Files", "content": {"root": ["docs"]}}],
        {
            "begin_of_turn_query": [{"role": "user", "content": "Go to docs."}],
            "step_0": [
                {"role": "assistant", "content": "…"},
                {"role": "handler_log", "content": "ok", "model_response_decoded": ["cd(folder='docs')", "ls()"]},
                {"role": "tool", "content": '{"cwd": "docs"}'},
                {"role": "tool", "content": "[]"},
            ],
        },
        [{"role": "state_info", "class_name": "Files", "content": {"root": ["docs"]}}],
    ],
}


def view(number: int, parent: int, **more: Any) -> dict[str, Any]:
    """A view of DroidBot."""
    base = {"temp_id": number, "parent": parent, "class": "android.widget.TextView", "visible": True, "enabled": True}
    return {**base, "bounds": [[0, 100 * number], [200, 100 * number + 100]], **more}


def droidbot_state(name: str, text: str) -> dict[str, Any]:
    """A screen of DroidBot."""
    return {
        "tag": f"t{name}",
        "state_str": name,
        "foreground_activity": "org.app/.Main",
        "width": 1080,
        "height": 2280,
        "views": [
            view(0, -1, **{"class": "android.widget.FrameLayout"}),
            view(1, 0, text=text, clickable=True),
            view(2, 0, text="hidden", visible=False),
        ],
    }


def droidbot_event(tag: str, start: str, stop: str, **event: Any) -> dict[str, Any]:
    """An event of DroidBot."""
    return {"tag": tag, "event": event, "start_state": start, "stop_state": stop, "event_str": "…"}


DROIDBOT: list[dict[str, Any]] = [
    droidbot_event("1", "a", "b", event_type="touch", view={"bounds": [[0, 100], [200, 200]]}),
    droidbot_event("2", "b", "a", event_type="key", name="BACK"),
    droidbot_event("3", "a", "a", event_type="kill_app"),
    droidbot_event("4", "a", "b", event_type="touch", view={"bounds": [[0, 100], [200, 200]]}),
    droidbot_state("a", "Open"),
    droidbot_state("b", "Back < \u201c"),
]

AUTODROID = """\
records:
- Choice: 1
  Input: 'null'
  State: "<p id=0>Notes</p>\\n<button id=1 text='More<br>options'></button>\\n<button id=2>go back</button>"
- Choice: 0
  Input: 'hello'
  State: "<input id=0 >Title</input>\\n<checkbox id=1 checked=True>Pin</checkbox>\\n<button id=2>go back</button>"
- Choice: 2
  Input: 'null'
  State: "<input id=0 >hello</input>\\n<checkbox id=1 checked=True>Pin</checkbox>\\n<button id=2>go back</button>"
- Choice: -1
  Input: 'null'
  State: "<p id=0>Notes</p>\\n<button id=1 text='More<br>options'></button>\\n<button id=2>go back</button>"
task_name: notes
"""


def dom(value: str = "", title: str = "Name") -> dict[str, Any]:
    """A page of MiniWoB."""
    children = [
        {"tag": "t", "left": 0, "top": 0, "width": 50, "height": 10, "ref": -1, "children": [], "text": title},
        {
            "tag": "INPUT_text",
            "left": 0,
            "top": 20,
            "width": 50,
            "height": 10,
            "ref": 3,
            "children": [],
            "value": value,
        },
        {"tag": "BUTTON", "left": 0, "top": 40, "width": 50, "height": 10, "ref": 4, "children": [], "text": "It's OK"},
    ]
    return {"tag": "BODY", "left": 0, "top": 0, "width": 160, "height": 210, "ref": 1, "children": children}


def _key(kind: str, code: int, letter: str = "") -> dict[str, Any]:
    return {"type": kind, "keyCode": code, "charCode": ord(letter) if letter else 0, "timing": 3}


MINIWOB: dict[str, Any] = {
    "taskName": "enter-text",
    "utterance": 'Enter "Ab" and press OK.',
    "states": [
        {"time": 0, "action": None, "dom": dom()},
        *(
            {"time": 10, "action": {"type": kind, "x": 5, "y": 25, "timing": timing}, "dom": dom()}
            for kind in ("mousedown", "mouseup", "click")
            for timing in (1, 3)
        ),
        {"time": 20, "action": _key("keydown", 65), "dom": dom()},
        {"time": 20, "action": _key("keypress", 65, "A"), "dom": dom()},
        {"time": 21, "action": _key("keyup", 65), "dom": dom("A")},
        {"time": 22, "action": _key("keypress", 98, "b"), "dom": dom("A")},
        {"time": 23, "action": _key("keyup", 66), "dom": dom("Ab")},
        {"time": 24, "action": _key("keydown", 9), "dom": dom("Ab")},
        {"time": 24, "action": _key("keyup", 9), "dom": dom("Ab")},
        {"time": 30, "action": {"type": "click", "x": 5, "y": 45, "timing": 3}, "dom": dom("Ab", "Thanks")},
    ],
    "reward": 1.0,
}

JSON_SAMPLES: dict[tuple[str, str], Any] = {
    ("worldlm", "worldlm.trajectory/1"): trajectory().model_dump(mode="json"),
    ("agentworldbench", "1"): AWB,
    ("atif", "ATIF-v1.4"): ATIF,
    ("recordings", "1"): RECORDING,
    ("swe-agent", "0"): SWE,
    ("mini-swe-agent", "mini-swe-agent-1"): MINI_1,
    ("mini-swe-agent", "mini-swe-agent-1.1"): MINI,
    ("openhands", "0"): OPENHANDS,
    ("openhands", "1"): OPENHANDS_1,
    ("tau-bench", "1"): TAU,
    ("tau-bench", "2"): TAU_2,
    ("bfcl", "multi-turn"): BFCL,
    ("droidbot", "1"): DROIDBOT,
    ("miniwob", "1"): MINIWOB,
    ("openai-chat", "chat"): CHAT,
}
"""By format and version; AutoDroid's is YAML."""

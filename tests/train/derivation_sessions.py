"""Small sessions whose derivations are known: what was typed or called, and what came back."""

import json
from collections.abc import Sequence

from worldlm.core.outcomes import EndingKind
from worldlm.core.types import Ending, Observation, Origin, Tool, Trajectory, Turn, World

PROMPT = "ines@box:~$"
NOTES = "one\ntwo\nthree\nfour\n"


def trajectory(world: World, initial: str, turns: Sequence[tuple[str, str]]) -> Trajectory:
    """A real session: actions with their answers."""
    return Trajectory(
        id=f"{world.domain}-session",
        world=world,
        initial=Observation(text=initial),
        turns=tuple(Turn(action=action, observation=Observation(text=text)) for action, text in turns),
        ending=Ending(kind=EndingKind.COMPLETED),
        policy="script",
        origin=Origin(kind="real", source="test", licence="Apache-2.0"),
    )


def keys(*typed: str) -> str:
    return json.dumps([{"keystrokes": text, "duration": 1.0} for text in typed])


def call(tool: str, **arguments: object) -> str:
    return json.dumps({"name": tool, "arguments": arguments})


def shell(lines: Sequence[tuple[str, str]]) -> Trajectory:
    """A terminal session: command lines with what they print (each line ended), all in the home folder."""
    state = {"user": "ines", "host": "box", "files": {"notes.txt": NOTES, "run.sh": "echo hi\n"}}
    world = World(name="box", domain="terminal", initial_state=state)
    turns = [(keys(f"{line}\n"), f"{PROMPT} {line}\n{printed}{PROMPT}") for line, printed in lines]
    return trajectory(world, PROMPT, turns)


TERMINAL: tuple[tuple[str, str, str, str], ...] = (
    ("cat notes.txt", NOTES, "relation", "The 4 lines of notes.txt are printed as they are."),
    ("head -n 2 notes.txt", "one\ntwo\n", "relation", "The first 2 of the 4 lines of notes.txt are printed."),
    ("tail -n 1 notes.txt", "four\n", "relation", "The last 1 of the 4 lines of notes.txt are printed."),
    (
        "tac notes.txt",
        "four\nthree\ntwo\none\n",
        "relation",
        "The 4 lines of notes.txt are printed, the last one first.",
    ),
    ("sort notes.txt", "four\none\nthree\ntwo\n", "relation", "The 4 lines of notes.txt are printed in another order."),
    ("grep t notes.txt", "two\nthree\n", "relation", "Of the 4 lines of notes.txt, number 2, 3 are printed."),
    ("grep -c t notes.txt", "2\n", "relation", "grep counts 2 of the 4 lines of notes.txt."),
    ("wc notes.txt", " 4  4 19 notes.txt\n", "relation", "notes.txt has 4 lines, 4 words and 19 bytes."),
    ("cut -c1 notes.txt", "o\nt\nt\nf\n", "relation", "A part of each of the 4 lines of notes.txt is printed."),
    ("printf 'a\\nb\\n' > new.txt", "", "silent", "The output goes to new.txt, so nothing is printed."),
    ("cat new.txt", "a\nb\n", "relation", "Turn 10 made or changed new.txt."),
    ("ls", "new.txt  notes.txt  run.sh\n", "listing", "new.txt, of turn 10, is among them."),
    ("mkdir box", "", "silent", "mkdir prints nothing when all is well."),
    (
        "cat nowhere.txt",
        "cat: nowhere.txt: No such file or directory\n",
        "failure",
        "nowhere.txt is not there: it fails.",
    ),
    (
        "grpe x notes.txt",
        "bash: grpe: command not found\n",
        "failure",
        "grpe is no command that can be found: it fails.",
    ),
    ("NAME=Ada", "", "silent", "An assignment prints nothing."),
    ('echo "hello $NAME"', "hello Ada\n", "echo", "NAME was set to Ada at turn 16."),
    ("false; echo $?", "1\n", "status", "The status is 1: the command failed."),
    ("pwd", "/home/ines\n", "folder", "~ stands for /home/ines."),
    ("git status -s", " M notes.txt\n", "program", "git status --short prints two letters and a path for each change."),
    ("sleep 9 &", "[1] 412\n", "background", "It runs in the background as job 1."),
)
"""Command line, what it prints, the rule that tells of it, and a sentence of what is told."""


def terminal() -> Trajectory:
    return shell([(line, printed) for line, printed, _, _ in TERMINAL])


SWE_STATE = {
    "user": "ines",
    "cwd": "~/app",
    "files": {"app/a.py": "x = 1\n", "app/b.py": "y = 2\n"},
    "notes": "Files of the repository (lines):\na.py (1)\nb.py (1)",
}


def result(command: str, stdout: str = "(empty)", stderr: str = "(empty)", code: int = 0) -> str:
    return (
        f"Command: {command}\nDirectory: /home/ines/app\nStdout: {stdout}\nStderr: {stderr}\nError: (none)\n"
        f"Exit Code: {code}\nSignal: (none)\nBackground PIDs: (none)"
    )


def run(command: str, **told: object) -> tuple[str, str]:
    return call("run_shell_command", command=command), result(command, **told)  # type: ignore[arg-type]


SWE: tuple[tuple[tuple[str, str], str], ...] = (
    ((call("read_file", file_path="a.py"), "x = 1"), "The whole file is shown: 1 line."),
    (
        (
            call("edit", file_path="a.py", old_string="x = 1", new_string="x = 3"),
            "Edited /home/ines/app/a.py: 1 replacement.",
        ),
        "What is replaced was seen at turn 1.",
    ),
    (
        (call("write_file", file_path="c.py", content="z = 3\nw = 4\n"), "Created /home/ines/app/c.py (2 lines)."),
        "The new text has 2 lines.",
    ),
    (
        (call("read_file", file_path="no.py"), "Error: file not found: /home/ines/app/no.py"),
        "Nothing called no.py was seen before.",
    ),
    (run("python c.py"), "It prints nothing."),
    (run("cat nothing.txt", stderr="cat: nothing.txt: No such file or directory", code=1), "nothing.txt is not there."),
    (run("python -m pytest -q", stdout=".\n1 passed in 0.01s"), "The tests end with 1 passed."),
    (
        (call("list_directory", path="."), "/home/ines/app:\na.py\nb.py\nc.py"),
        "Folders come first, then files: 3 names.",
    ),
    (
        (call("search_file_content", pattern="z"), '1 match for "z" in /home/ines/app:\nc.py:1: z = 3'),
        "Found: 1 line.",
    ),
)


def swe() -> Trajectory:
    world = World(name="app", domain="swe", initial_state=SWE_STATE)
    return trajectory(world, "The repository is in /home/ines/app:\na.py\nb.py", [turn for turn, _ in SWE])


TOOLS = (
    Tool(
        name="get_order",
        parameters={"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
    ),
    Tool(name="list_orders", parameters={"type": "object", "properties": {}}),
)
MCP: tuple[tuple[tuple[str, str], str], ...] = (
    ((call("list_orders"), '["A-100", "A-200"]'), "The answer is a list of 2 items."),
    ((call("get_order", order="A-100"), '{"id": "A-100", "lamps": 3}'), "A-100 was told at turn 1."),
    ((call("get_order", order="A-200"), '{"id": "A-200", "lamps": 1}'), "The answer has the keys of that of turn 2."),
    ((call("get_order", order="B-777"), '{"error": "order not found"}'), "B-777 was never told before."),
    (
        (call("get_order"), "Input validation error: 'order' is a required property"),
        "order is required by get_order and missing.",
    ),
    ((call("drop_order"), "Error: Unknown tool: drop_order"), "There is no tool called drop_order."),
    ((call("list_orders"), '["A-100", "A-200"]'), "The answer is that of turn 1 again."),
)


def mcp() -> Trajectory:
    return trajectory(World(name="orders", domain="mcp", tools=TOOLS), "Connected.", [turn for turn, _ in MCP])


def found(*pages: tuple[str, str]) -> str:
    return "\n\n".join(
        f"[{n}] https://isles.example/{path}\nTitle: {title}\nSnippet: All about the {title}.\nDate: N/A"
        for n, (path, title) in enumerate(pages, 1)
    )


SEARCH: tuple[tuple[tuple[str, str], str], ...] = (
    ((call("web_search", query="petrel"), found(("a", "petrel"), ("b", "grey petrel"))), "Every result holds petrel."),
    (
        (call("web_extractor", url="https://isles.example/a"), "# petrel\n\nA steamer."),
        "The page begins with the title that turn 1 listed.",
    ),
    ((call("web_search", query="grey"), found(("b", "grey petrel"))), "Result 1 was listed at turn 1 too."),
    ((call("web_search", query="zzzz"), "No results found."), "No page has them, so nothing is found."),
    ((call("dict_memory", action="add", key="yard", value="Denholm"), 'Added "yard".'), "yard was not stored before."),
    ((call("dict_memory", action="get", key="yard"), "Denholm"), "Its value of turn 5 comes back."),
    ((call("dict_memory", action="get"), 'Keys: "yard"'), "The memory lists 1 key."),
    (
        (
            call("web_extractor", url="nowhere"),
            "Error: wrong arguments for web_extractor: url: 'nowhere' is not a web address (http://… or https://…)",
        ),
        "The arguments are wrong, so an error says why.",
    ),
)


def search() -> Trajectory:
    world = World(name="isles", domain="search", hidden_state={"pages": []})
    return trajectory(world, "Ready.", [turn for turn, _ in SEARCH])


def page(value: str = "", *, focus: bool = False, header: str = "", url: str = "find") -> str:
    shown = f" value={value!r}" if value else ""
    return (
        f"URL: https://shop.example/{url}\nTabs: *0 'Shop'\n{header}RootWebArea 'Shop'\n"
        f"\t[12] textbox 'Search'{shown}{', focused' if focus else ''}\n\t[18] button 'Find'"
    )


WEB: tuple[tuple[tuple[str, str], str], ...] = (
    (('fill("12", "lamp")', page("lamp", focus=True)), "The value of [12] textbox 'Search' becomes 'lamp'."),
    (("noop()", page("lamp", focus=True)), "Nothing changes."),
    (
        ('click("99")', page("lamp", focus=True, header='Error: ValueError: Could not find element with bid "99"\n')),
        "There is no element [99].",
    ),
    (('click("18")', page(url="found")), "The address becomes https://shop.example/found."),
    (("go_back()", page("lamp", focus=True)), "The screen is that after turn 3."),
)


def web() -> Trajectory:
    return trajectory(World(name="shop", domain="web", initial_observation=page()), page(), [turn for turn, _ in WEB])


def desk(value: str, *, header: str = "", dialog: bool = False) -> str:
    window = "\n\tdialog 'Save' (100,100 300x200), active" if dialog else ""
    return (
        f"Screen: 1280x800\n{header}application 'mousepad'\n\tframe 'Mousepad' (0,0 600x500), active\n"
        f"\t\ttext (0,40 600x400) value={value!r}, editable, focused\n\t\tpush button 'Save' (0,450 60x30){window}"
    )


OS: tuple[tuple[tuple[str, str], str], ...] = (
    (("pyautogui.write('ab')", desk("ab")), "The value of text becomes 'ab'."),
    (("pyautogui.click(10, 460)", desk("ab", dialog=True)), "At (10, 460) is push button 'Save'."),
    (("print(1)", desk("ab", header="Output: '1\\n'\n", dialog=True)), "What the code prints is told."),
    (("pyautogui.click(5, 5", desk("ab")), "A window closes: dialog 'Save'."),
)


def desktop() -> Trajectory:
    return trajectory(World(name="desk", domain="os", initial_observation=desk("")), desk(""), [turn for turn, _ in OS])


SESSIONS = {
    "terminal": terminal,
    "swe": swe,
    "mcp": mcp,
    "search": search,
    "web": web,
    "os": desktop,
}
"""A session of each domain that has derivations."""
SAID = {
    "terminal": [sentence for _, _, _, sentence in TERMINAL],
    "swe": [sentence for _, sentence in SWE],
    "mcp": [sentence for _, sentence in MCP],
    "search": [sentence for _, sentence in SEARCH],
    "web": [sentence for _, sentence in WEB],
    "os": [sentence for _, sentence in OS],
}
"""A sentence of the derivation of each of its turns."""

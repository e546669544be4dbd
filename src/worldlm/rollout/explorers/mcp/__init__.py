"""An explorer for any MCP server: chains of calls whose arguments come from schemas, tables and what was seen before.

A chain is data: calls with templates. `{name}` in a template is drawn once per chain, from the first of: what the
chain drew before, the `VALUES` of that name, what the world's context or an observation told under that key.
`{last_name}` is the newest value that was seen under that key, `{any_name}` some of them. A template that is nothing
but a name keeps the value's type. Parameters that a chain leaves out are drawn from the tool's schema.

`CHAINS` holds goals for servers that are widely used; `chain_of_verbs` makes them for any other server from its tools'
names (list, create, get, update, get again, delete, get in vain).
"""

import ast
import json
import re
import string
from collections.abc import Generator, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from worldlm.core.text import canonical_json
from worldlm.core.types import Observation, Tool, Turn, World
from worldlm.rollout.explorers.explorer import Act, Behaviour
from worldlm.rollout.explorers.mcp.desks import DESKS
from worldlm.rollout.explorers.mcp.tables import ALIASES, CHAINS, SENTENCES, SHAPES, VALUES, Chain

ODD = 0.17
"""How often a call is preceded by a wrong or odd form of it."""
OPTIONAL = 0.35
"""How often a parameter is given that need not be."""
CALLS = (40, 90)
"""Calls of an episode: when as many were made, no further chain begins."""
KEPT = 40
"""Values remembered of each key."""
NESTED = 4

Calls = Generator[Act, Turn, Observation | None]
"""Yields calls, and returns what the last one gave."""


def behave(random: Random, world: World, initial: Observation) -> Behaviour:
    """Chains of calls, some known for the server and some made from its schemas."""
    agent = Agent(random, world)
    if not agent.tools:
        return
    desks = [desk for tool, desk in DESKS.items() if tool in agent.tools]
    known = [chain for chain in CHAINS if all(tool in agent.tools for tool, _ in chain)]
    calls = random.randint(*CALLS)
    while agent.calls < calls:
        made = random.random()
        if desks and made < 0.6:
            yield from random.choice(desks)(agent)
        elif known and made < 0.8:
            yield from agent.chain(random.choice(known))
        elif made < 0.93:
            yield from agent.chain(chain_of_verbs(random, list(agent.tools)))
        else:
            name = random.choice(list(agent.tools))
            yield from agent.call(name, agent.arguments(name, {}))


# What is remembered.


def key_of(name: str) -> str:
    """One spelling for `order_id`, `orderId` and `order-ids`."""
    word = re.sub(r"[^a-z0-9]", "", name.lower())
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


class Seen:
    """Values by the key under which the world's context or an observation told them."""

    def __init__(self, context: str):
        self.values: dict[str, list[Any]] = {}
        for line in re.findall(r"^\s*(\w+): (.+)$", context, re.MULTILINE):
            for value in line[1].split(", "):
                self.add(line[0], value.strip())

    def add(self, name: str, value: Any) -> None:
        """Remember a value as the newest of its key."""
        kept = self.values.setdefault(key_of(name), [])
        if value in kept:
            kept.remove(value)
        kept.append(value)
        del kept[:-KEPT]

    def learn(self, tool: str, observation: Observation) -> None:
        """Remember what an observation tells."""
        told = read(observation.text)
        self._walk("", told if observation.structured is None or not isinstance(told, str) else observation.structured)
        for name, pattern, tools in SHAPES:
            if not tools or tool in tools:
                for value in dict.fromkeys(re.findall(pattern, observation.text)):
                    self.add(name, value)

    def _walk(self, name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                if isinstance(item, dict | list) and name and not isinstance(item, list):
                    self.add(f"{key_of(name)}id", key)
                self._walk(str(key), item)
        elif isinstance(value, list):
            for item in value:
                self._walk(name, item)
        elif name and value not in (None, "") and len(str(value)) < 200:
            self.add(name, value)

    def of(self, name: str) -> list[Any]:
        """What was seen under a key, or under one that is like it; oldest first."""
        key = key_of(name)
        for like in (
            key,
            ALIASES.get(key, key),
            key.removesuffix("id"),
            key.removesuffix("name"),
            key.removesuffix("path"),
        ):
            if like and self.values.get(like):
                return self.values[like]
        longer = [known for known in self.values if known.endswith(key) and len(key) > 3]
        return self.values[longer[-1]] if longer else []


def read(text: str) -> Any:
    """A text as the value that it spells (JSON, or Python as some servers print it), or as it stands."""
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
    return text


# What acts.


class Agent:
    """The explorer's hands and memory in one episode."""

    def __init__(self, random: Random, world: World):
        self.random = random
        self.tools: dict[str, Tool] = {tool.name: tool for tool in world.tools}
        self.seen = Seen(world.context)
        self.calls = 0
        state = world.initial_state
        server = state.get("server", {}) if isinstance(state, dict) else {}
        self.server = str(server.get("package") or world.name.removeprefix("mcp-"))
        for before, after in zip(server.get("args", ()), server.get("args", ())[1:], strict=False):
            if before.startswith("--"):
                self.seen.add(before, after)
        for argument in server.get("args", ()):
            if argument.startswith("/"):
                self.seen.add("root", argument)

    def chain(self, chain: Chain) -> Behaviour:
        """The calls of a chain in order."""
        drawn: dict[str, Any] = {}
        for tool, templates in chain:
            given = {key: self.fill(value, drawn) for key, value in templates.items()}
            given = {key: value for key, value in given.items() if value is not None}
            yield from self.call(tool, self.arguments(tool, given))

    def call(self, name: str, arguments: dict[str, Any]) -> Calls:
        """A call; now and then an odd form of it goes first."""
        if self.random.random() < ODD:
            turn = yield Act(self.odd(name, arguments), f"{self.server}.{name}/odd")
            self.note(name, turn)
        turn = yield Act(canonical_json({"name": name, "arguments": arguments}), f"{self.server}.{name}")
        self.note(name, turn)
        return turn.observation

    def note(self, name: str, turn: Turn) -> None:
        """Remember what came of a call."""
        self.calls += 1
        if turn.observation is not None and not turn.observation.is_error:
            self.seen.learn(name, turn.observation)

    # Templates.

    def fill(self, template: Any, drawn: dict[str, Any]) -> Any:
        """A template with its names drawn. None where nothing is known under a name that must have been seen."""
        if isinstance(template, dict):
            return {key: self.fill(value, drawn) for key, value in template.items()}
        if isinstance(template, list):
            return [value for value in (self.fill(item, drawn) for item in template) if value is not None]
        if not isinstance(template, str):
            return template
        names = [name for _, name, _, _ in string.Formatter().parse(template) if name]
        values = {name: self.named(name, drawn) for name in names}
        if any(value is None for value in values.values()):
            return None
        if names and template == "{" + names[0] + "}":
            return values[names[0]]
        return template.format_map(values)

    def named(self, name: str, drawn: dict[str, Any]) -> Any:
        """The value of a template's name."""
        kind, _, key = name.partition("_")
        if kind in ("last", "any") and key:
            found = self.seen.of(key)
            if not found:
                return None
            return found[-1] if kind == "last" else self.random.choice(found)
        if name not in drawn:
            base = name.rstrip("0123456789")
            found = [*VALUES.get(base, ()), *(self.seen.of(base) if base not in VALUES else ())]
            others = [value for value in found if value not in drawn.values()]
            drawn[name] = self.random.choice(others or found) if found else self.text(base)
        return drawn[name]

    # Arguments from schemas.

    def arguments(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """`given`, and values for what the tool requires besides; sometimes for what it does not."""
        schema = self.tools[name].parameters if name in self.tools else {}
        properties: dict[str, Any] = schema.get("properties") or {}
        required = schema.get("required") or ()
        made = dict(given)
        for key, inner in properties.items():
            if key not in made and (key in required or (not given and self.random.random() < OPTIONAL)):
                if key == "state_key" or not isinstance(inner, dict):
                    continue
                made[key] = self.value(inner, key, schema, 0)
        return made

    def value(self, schema: dict[str, Any], name: str, root: Mapping[str, Any], depth: int) -> Any:
        """A value that keeps a schema; of what was seen, where something of that name was."""
        random = self.random
        if "$ref" in schema:
            found: Any = root
            for part in str(schema["$ref"]).removeprefix("#/").split("/"):
                found = found.get(part, {}) if isinstance(found, dict) else {}
            return self.value(found, name, root, depth + 1) if depth < NESTED else None
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return random.choice(schema["enum"])
        for word in ("anyOf", "oneOf", "allOf"):
            if options := [option for option in schema.get(word, ()) if option.get("type") != "null"]:
                return self.value(random.choice(options), name, root, depth + 1) if depth < NESTED else None
        kind = schema.get("type", "string")
        if isinstance(kind, list):
            kind = next((one for one in kind if one != "null"), "null")
        if kind == "object":
            inner = schema.get("properties") or {}
            required = schema.get("required", list(inner)[:1])
            return {
                key: self.value(part, key, root, depth + 1)
                for key, part in inner.items()
                if key in required or (depth < NESTED and random.random() < OPTIONAL)
            }
        if kind == "array":
            low = schema.get("minItems", 1)
            count = random.randint(low, max(low, min(schema.get("maxItems", low + 2), low + 2)))
            items = schema.get("items") or {}
            return [self.value(items, name, root, depth + 1) for _ in range(count)] if depth < NESTED else []
        if "default" in schema and schema["default"] is not None and random.random() < 0.4:
            return schema["default"]
        return self.scalar(kind, schema, name)

    def scalar(self, kind: str, schema: dict[str, Any], name: str) -> Any:
        """A number, a truth value or a text."""
        random = self.random
        if kind == "boolean":
            return random.random() < 0.5
        if kind == "null":
            return None
        fitting = [value for value in self.seen.of(name) if fits(value, kind)]
        if fitting and random.random() < 0.8:
            return random.choice(fitting)
        key = key_of(name)
        table = [value for value in VALUES.get(ALIASES.get(key, key), ()) if fits(value, kind)]
        if table:
            return random.choice(table)
        if kind in ("integer", "number"):
            low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
            high = schema.get("maximum", low + 20)
            return random.randint(int(low), max(int(low), int(high))) if kind == "integer" else self.number(low, high)
        if options := listed(schema.get("description", "")):
            return random.choice(options)
        return self.text(name, schema.get("format", ""))

    def number(self, low: float, high: float) -> float:
        """A number of at most two decimals; whole half of the time."""
        found = self.random.uniform(low, high)
        return round(found) if self.random.random() < 0.5 else round(found, 2)

    def text(self, name: str, form: str = "") -> str:
        """A text for a parameter of which nothing is known but its name and format."""
        random, key = self.random, key_of(name)
        if form == "date-time":
            return f"2026-{random.randint(1, 12):02}-{random.randint(1, 28):02}T{random.randint(0, 23):02}:30:00Z"
        if form == "date" or "date" in key:
            return f"2026-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
        if form == "email" or "email" in key:
            return f"{random.choice(VALUES['word'])}@example.org"
        if form in ("uri", "url") or key in ("url", "uri"):
            return f"https://example.org/{random.choice(VALUES['word'])}"
        if any(word in key for word in ("message", "content", "description", "text", "summary", "comment", "body")):
            return random.choice(SENTENCES)
        return str(random.choice(VALUES["word"]))

    # Odd calls.

    def odd(self, name: str, arguments: dict[str, Any]) -> str:
        """A wrong or odd form of a call: what hurried or mistaken agents send."""
        random = self.random
        made = dict(arguments)
        texts = [key for key, value in made.items() if isinstance(value, str) and value]
        forms = ["tool", "extra", *(["missing", "type", "null"] if made else ()), *(["unknown"] * 3 if texts else ())]
        form = random.choice(forms)
        if form == "tool":
            wrong = random.choice([name + "s", name.replace("_", "-"), name.split("_")[0], f"get_{name}", name.upper()])
            return canonical_json({"name": wrong if wrong not in self.tools else f"{name}_now", "arguments": made})
        if form == "extra":
            made[random.choice(["verbose", "limit", "dry_run", "format", "timeout"])] = random.choice([True, 10, "all"])
        elif form == "missing":
            del made[random.choice(list(made))]
        elif form == "null":
            made[random.choice(list(made))] = None
        elif form == "type":
            key = random.choice(list(made))
            made[key] = [made[key]] if not isinstance(made[key], list) else {"value": made[key]}
        else:
            key = random.choice(texts)
            made[key] = mangled(random, made[key])
        return canonical_json({"name": name, "arguments": made})


def mangled(random: Random, text: str) -> str:
    """A text that is like another and is not it."""
    place = random.randrange(len(text))
    swapped = text[:place] + random.choice("xq7_") + text[place + 1 :]
    return random.choice([swapped, text + random.choice(["-old", "2", "x"]), text[: max(1, len(text) // 2)], ""])


def fits(value: Any, kind: str) -> bool:
    """Whether a value is of a schema's type."""
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str)


def listed(description: str) -> list[str]:
    """The values that a description names as the possible ones."""
    found = re.search(r"(?:\[Enum\]:|Options are:|[Oo]ne of:?)\s*(.+)", description)
    if found is None:
        return []
    quoted = re.findall(r"[\"'](.+?)[\"']", found[1])
    return quoted or [word.strip(" .[]") for word in found[1].split(",") if 0 < len(word.strip(" .[]")) < 40]


# Chains for servers of which nothing is known.

_VERBS = (
    ("list", "search", "find", "get_all", "query", "view"),
    ("create", "add", "new", "insert", "write", "post", "send", "register", "book", "place", "put", "mkdir"),
    ("get", "read", "show", "describe", "retrieve", "check", "display", "open"),
    ("update", "edit", "modify", "set", "rename", "move", "change", "append"),
    ("get", "list", "read", "show", "search", "view"),
    ("delete", "remove", "cancel", "close", "drop", "rm"),
    ("get", "read", "show", "list", "search", "describe"),
)


def chain_of_verbs(random: Random, tools: Sequence[str]) -> Chain:
    """Look, create, read, change, read, remove, read: with tools about one thing, as far as there are such."""
    nouns = dict.fromkeys(noun for tool in tools for noun in _nouns(tool))
    noun = random.choice(list(nouns)) if nouns else ""
    about = [tool for tool in tools if noun in _nouns(tool)] or list(tools)
    steps = list(_steps(random, about)) or [random.choice(about)]
    return tuple((tool, {}) for tool in steps)


def _steps(random: Random, tools: Sequence[str]) -> Iterator[str]:
    for verbs in _VERBS:
        fitting = [tool for tool in tools if tool.lower().replace("-", "_").startswith(verbs)]
        if fitting:
            yield random.choice(fitting)


def _nouns(tool: str) -> list[str]:
    words = re.sub(r"([a-z])([A-Z])", r"\1_\2", tool).lower().replace("-", "_").split("_")
    return [key_of(word) for word in words[1:] if len(word) > 2 and word not in ("all", "for", "from", "with")]

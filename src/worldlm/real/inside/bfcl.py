"""An MCP server over stdio whose tools are the methods of BFCL's API classes. Runs inside, beside the package.

Standard library alone: it starts in a tenth of a second, and an episode starts it anew. Its options lie beside it in
`options.json`: `classes`, `scenario` (class to initial configuration), `long_context`.
"""

import copy
import importlib
import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
TYPES = {"dict": "object", "float": "number"}  # the documents' own words for JSON Schema's


def main() -> None:
    """Serve until the input ends."""
    options = json.loads(Path(__file__).with_name("options.json").read_text())
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a class prints is no message
    tools, methods = load(options)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request and "method" in request:
            answer = handle(request["method"], request.get("params") or {}, tools, methods)
            out.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}) + "\n")
            out.flush()


def load(options: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The tools as the protocol describes them, and the methods behind them."""
    config = importlib.import_module("bfcl_eval.constants.executable_backend_config")
    package = Path(str(config.__file__)).parent.parent
    tools, methods = [], {}
    for name in options.get("classes") or ():
        if name not in config.CLASS_FILE_PATH_MAPPING:
            sys.exit(f"options.classes: there is no class {name!r}; known: {', '.join(config.CLASS_FILE_PATH_MAPPING)}")
        api = getattr(importlib.import_module(config.CLASS_FILE_PATH_MAPPING[name]), name)()
        if name not in config.STATELESS_CLASSES:
            scenario = copy.deepcopy(options.get("scenario", {}).get(name, {}))
            api._load_scenario(scenario, long_context=bool(options.get("long_context")))
        document = package / "data" / "multi_turn_func_doc" / config.MULTI_TURN_FUNC_DOC_FILE_MAPPING[name]
        documented = [json.loads(line) for line in document.read_text().splitlines() if line.strip()]
        callables = dict(inspect.getmembers(api, predicate=inspect.ismethod))
        for row in documented:
            if row["name"] in callables:
                methods[row["name"]] = callables[row["name"]]
                description = row["description"].partition("Tool description: ")
                tools.append(
                    {
                        "name": row["name"],
                        "description": (description[2] or description[0]).strip(),
                        "inputSchema": schema(row["parameters"]),
                    }
                )
    return tools, methods


def schema(value: Any) -> Any:
    """A schema of the documents as JSON Schema."""
    if isinstance(value, list):
        return [schema(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {key: schema(item) for key, item in value.items()}
    if isinstance(made.get("type"), str):
        made["type"] = TYPES.get(made["type"], made["type"])
    return made


def handle(method: str, params: dict[str, Any], tools: list[dict[str, Any]], methods: dict[str, Any]) -> dict[str, Any]:
    """The result of a request, or its error."""
    if method == "initialize":
        asked = params.get("protocolVersion")
        version = asked if asked in VERSIONS else VERSIONS[0]
        info = {"name": "bfcl", "version": "1"}
        return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
    if method == "ping":
        return {"result": {}}
    if method == "tools/list":
        return {"result": {"tools": tools}}
    if method == "tools/call":
        if params.get("name") not in methods:
            return {"error": {"code": -32602, "message": f"Unknown tool: {params.get('name')}"}}
        return {"result": call(methods[params["name"]], params.get("arguments") or {})}
    return {"error": {"code": -32601, "message": f"Method not found: {method}"}}


def call(method: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """What a method returns, as the benchmark shows it."""
    try:
        value = method(**arguments)
    except Exception as error:
        return {"content": [{"type": "text", "text": f"Error during execution: {error}"}], "isError": True}
    failed = isinstance(value, dict) and "error" in value
    if isinstance(value, str):
        text = value
    else:
        try:
            text = json.dumps(value)
        except (TypeError, ValueError):
            text = str(value)
    return {"content": [{"type": "text", "text": text}], "isError": failed}


if __name__ == "__main__":
    main()

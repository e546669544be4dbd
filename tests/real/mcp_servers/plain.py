"""A server of the standard library alone, whose first argument says in which way it is difficult.

Its tools answer with their number; at 13 it refuses, at 66 it dies, at 99 it hangs.
"""

import json
import os
import sys
import time
from typing import Any

HOW = sys.argv[1] if len(sys.argv) > 1 else ""
COUNT, PAGE = 101, 50


def tool(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    return {"name": name, "description": f"The tool {name}.", "inputSchema": schema}


def tools(cursor: str | None) -> dict[str, Any]:
    if HOW == "pages":
        start = int(cursor or 0)
        page = {"tools": [tool(f"tool_{n}") for n in range(start, min(start + PAGE, COUNT))]}
        return page | ({"nextCursor": str(start + PAGE)} if start + PAGE < COUNT else {})
    return {"tools": [tool("echo"), tool("env")]} | ({"nextCursor": "again"} if HOW == "endless" else {})


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        version = {"old": "2024-11-05", "future": "2099-01-01"}.get(HOW, params["protocolVersion"])
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "plain", "version": "7"},
        }
    if method == "tools/list":
        if HOW == "no-list":
            time.sleep(1000)
        return tools(params.get("cursor"))
    if method == "tools/call":
        number = params["arguments"].get("n")
        if params["name"] == "echo" and number == 13:
            raise ValueError("thirteen is not served")
        if number == 66:
            print("\n".join(f"working hard on line {n}" for n in range(300)) + "\nout of glue", file=sys.stderr)
            sys.exit(3)
        if number == 99:
            time.sleep(1000)
        if params["name"] == "env":
            return {"content": [{"type": "text", "text": os.environ.get("TOKEN", "none")}]}
        if params["name"] not in {one["name"] for one in [*tools("100")["tools"], *tools(None)["tools"]]}:
            raise ValueError(f"Unknown tool: {params['name']}")
        if HOW == "shapeless":
            return {"content": [{"type": "smell", "what": "tar"}]}
        if HOW == "structured-only":
            return {"content": [], "structuredContent": {"n": number}}
        if HOW == "liar":  # not what its output schema promises
            return {"content": [{"type": "text", "text": "x"}], "structuredContent": {"n": "many"}}
        return {"content": [{"type": "text", "text": f"{params['name']} {number}"}]}
    raise LookupError(method)


def main() -> None:
    if HOW == "silent":
        time.sleep(1000)
    if HOW == "dead":
        sys.exit("no licence file")
    if HOW == "noisy":
        print("Welcome to plain!\n\nINFO loading", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            reply["result"] = answer(request["method"], request.get("params") or {})
        except LookupError:
            reply["error"] = {"code": -32601, "message": "Method not found"}
        except ValueError as error:
            reply["error"] = {"code": -32000, "message": str(error)}
        if HOW == "noisy":
            print('DEBUG {"not": "a message"} ', end="")
        print(json.dumps(reply), flush=True)
        if HOW == "noisy":
            print("INFO answered", flush=True)


if __name__ == "__main__":
    main()

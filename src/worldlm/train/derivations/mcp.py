"""What follows for a call of an MCP server's tool."""

from worldlm.train.derivations.calls import CALL_KINDS, CallScene, call, call_scenes, repeated
from worldlm.train.derivations.claims import Book, Rule

BOOK: Book[CallScene] = Book(call_scenes, CALL_KINDS, (Rule("repeated", repeated), Rule("call", call)))
"""What can be said of an MCP server."""

"""Markdown to the words that it shows."""

import re

_BEGINS = frozenset("`~-=^_*#+|:>")
"""What a line begins with that has a mark of its own."""
_RULE = re.compile(r"(?:```|~~~)[\w-]*|([-=~^_*#+:])\1{2,}|\|[-| :]+\|")
_START = re.compile(r"(?:#{1,6}|>|[-*+])[ \t]+")
_TARGET = r"(?:https?:|mailto:|ftp:|#|\.{0,2}/|[\w./-]+\.(?:md|rst|txt|html?)\b)[^()\s]*(?: \"[^\"\n]*\")?"
_LINK = re.compile(rf"!?\[([^\]\[]*)\]\({_TARGET}\)")
_WORD = re.compile(r"\w")
_CELL = re.compile(r"[ \t]*\|[ \t]*")
# A mark with a word on both sides stays, so that no two words become one.
_MARK = re.compile(r"(?<![\w*`])[*`]+|[*`]+(?![\w*`])")


def plain_text(markdown: str) -> str:
    """The text without targets of links, marks of emphasis, headings, lists, tables and code.

    Its words are words of `markdown`, in the same order.
    """
    text = "\n".join(map(_without_mark, markdown.split("\n")))
    if "](" in text:
        text = _LINK.sub(_shown, text)
    if "|" in text:
        text = _CELL.sub(" ", text)
    if "*" in text or "`" in text:
        text = _MARK.sub("", text)
    return text.strip()


def _shown(link: re.Match[str]) -> str:
    """What a link shows, kept apart from a word that it touches."""
    before, after = link.string[link.start() - 1 : link.start()], link.string[link.end() : link.end() + 1]
    return (" " if _WORD.match(before) else "") + link[1] + (" " if _WORD.match(after) else "")


def _without_mark(line: str) -> str:
    bare = line.strip(" \t")
    if not bare or bare[0] not in _BEGINS:
        return line
    return "" if _RULE.fullmatch(bare) else _START.sub("", bare, count=1) if _START.match(bare) else bare


__all__ = ["plain_text"]

"""What follows for a search, a page or a memory: from what was listed, opened and stored before."""

import json
import re
from collections.abc import Iterator

from worldlm.core.types import Turn
from worldlm.domains.search import NOTHING, argument_problem, parse_searches, queries_of
from worldlm.train.derivations.calls import CALL_KINDS, CallScene, call_scenes, repeated
from worldlm.train.derivations.claims import Book, Claim, Kind, Rule, claim, count_of, number, rows

TOOLS = ("web_search", "web_extractor", "dict_memory")
MOST_KNOWN = 2
"""Results of which one derivation tells where they were seen before."""
WORD = re.compile(r"\w{3,}")


def _urls(turn: Turn | None) -> list[str]:
    return re.findall(r"^\[\d+\] (\S+)$", turn.observation.text, re.MULTILINE) if turn and turn.observation else []


def _found(scene: CallScene) -> list[str] | None:
    """The addresses that a search found; None where it is no search, or failed."""
    if scene.call is None or scene.call.name != "web_search" or argument_problem(scene.call):
        return None
    try:
        searches = parse_searches(scene.truth, queries_of(scene.call))
    except ValueError:
        return None
    return [result.url for found in searches for result in found]


def _argument(scene: CallScene, name: str) -> str:
    return str(scene.call.arguments.get(name, "")) if scene.call else ""


def _known_before(scene: CallScene, place: str, turn: str) -> bool:
    urls, at = _found(scene) or [], number(place)
    return 1 <= at <= len(urls) and urls[at - 1] in _urls(scene.turn(turn))


def _listed(scene: CallScene, turn: str, place: str) -> bool:
    urls, at = _urls(scene.turn(turn)), number(place)
    return 1 <= at <= len(urls) and urls[at - 1] == _argument(scene, "url")


def _title_of(scene: CallScene, turn: str) -> str:
    """The title under which a turn listed the address."""
    earlier = scene.turn(turn)
    text = earlier.observation.text if earlier and earlier.observation else ""
    match = re.search(rf"^\[\d+\] {re.escape(_argument(scene, 'url'))}\nTitle: (.+)$", text, re.MULTILINE)
    return match[1] if match else ""


def _begins(scene: CallScene, turn: str) -> bool:
    title = _title_of(scene, turn)
    return title != "" and scene.truth.split("\n", 1)[0] == f"# {title}"


def _opened(scene: CallScene, turn: str) -> bool:
    earlier = scene.turn(turn)
    url = _argument(scene, "url")
    return bool(url) and earlier is not None and "web_extractor" in earlier.action and json.dumps(url) in earlier.action


def _linked(scene: CallScene, turn: str) -> bool:
    earlier = scene.turn(turn)
    url = _argument(scene, "url")
    return bool(url) and earlier is not None and earlier.observation is not None and url in earlier.observation.text


def _nowhere(scene: CallScene) -> bool:
    url = _argument(scene, "url")
    return bool(url) and not any(turn.observation and url in turn.observation.text for turn in scene.turns)


def _all_hold(scene: CallScene, word: str) -> bool:
    blocks = re.split(r"\n\n(?=\[\d+\] )", scene.truth)
    asked = " ".join(queries_of(scene.call)).lower() if _found(scene) and scene.call else ""
    return word in asked and all(word in block.lower() for block in blocks)


def _stored(scene: CallScene, key: str, turn: str) -> bool:
    earlier = scene.turn(turn)
    return (
        _argument(scene, "key") == key
        and earlier is not None
        and earlier.observation is not None
        and earlier.observation.text
        in (f"Added {json.dumps(key, ensure_ascii=False)}.", f"Updated {json.dumps(key, ensure_ascii=False)}.")
    )


def _not_stored(scene: CallScene, key: str) -> bool:
    return _argument(scene, "key") == key and not any(_stored(scene, key, str(at)) for at in scene.numbers)


def _comes_back(scene: CallScene, turn: str) -> bool:
    earlier = scene.turn(turn)
    try:
        value = json.loads(earlier.action)["arguments"]["value"] if earlier else None
    except (ValueError, LookupError, TypeError):
        return False
    return scene.truth == value


def _memory_says(scene: CallScene, word: str) -> bool:
    return scene.call is not None and scene.call.name == "dict_memory" and scene.truth.startswith(f'{word} "')


KINDS: dict[str, Kind[CallScene]] = {
    **CALL_KINDS,
    "queries": Kind("The words are looked up: {words}.", lambda s, words: bool(s.call) and words == words_of(s)),
    "known_result": Kind("Result {place} was listed at turn {turn} too.", _known_before, "answer"),
    "all_hold": Kind("Every result holds {word}.", _all_hold, "answer"),
    "results": Kind(
        "There are {count}.", lambda s, count: len(_found(s) or ()) == count_of(count, "result") > 0, "answer"
    ),
    "one_result": Kind("There is one result.", lambda s: len(_found(s) or ()) == 1, "answer"),
    "no_results": Kind("No page has them, so nothing is found.", lambda s: s.truth == NOTHING, "answer"),
    "listed": Kind("The address was result {place} of turn {turn}.", _listed),
    "linked": Kind("The address stands in the page of turn {turn}.", _linked),
    "nowhere": Kind("The address was not seen before.", _nowhere),
    "opened": Kind("The page was opened at turn {turn}.", _opened),
    "begins": Kind("The page begins with the title that turn {turn} listed.", _begins, "answer"),
    "page": Kind("The page comes, its title first.", lambda s: s.truth.startswith("# "), "answer"),
    "cut": Kind("It is too long, and is cut.", lambda s: "\n[Cut: characters 1–" in s.truth, "answer"),
    "wrong": Kind(
        "The arguments are wrong, so an error says why.",
        lambda s: bool(s.call and s.call.name in TOOLS and argument_problem(s.call)) and s.truth.startswith("Error: "),
        "answer",
    ),
    "not_found": Kind(
        "There is no such page, so an error says so.",
        lambda s: s.truth.startswith("Error: ") and _argument(s, "url") != "",
        "answer",
    ),
    "stored": Kind("{key} was stored at turn {turn}.", _stored),
    "not_stored": Kind("{key} was not stored before.", _not_stored),
    "comes_back": Kind("Its value of turn {turn} comes back.", _comes_back, "answer"),
    "added": Kind("So it is added.", lambda s: _memory_says(s, "Added"), "answer"),
    "updated": Kind("So it is updated.", lambda s: _memory_says(s, "Updated"), "answer"),
    "removed": Kind("So it is removed.", lambda s: _memory_says(s, "Removed"), "answer"),
    "refused": Kind(
        "So the memory refuses.",
        lambda s: s.truth.startswith("Error: ") and bool(s.call and s.call.name == "dict_memory"),
        "answer",
    ),
    "keys": Kind(
        "The memory lists {count}.",
        lambda s, count: (
            s.truth.startswith("Keys: ") and len(re.findall(r'"(?:[^"\\]|\\.)*"', s.truth)) == count_of(count, "key")
        ),
        "answer",
    ),
    "empty": Kind("Nothing was stored, so the memory is empty.", lambda s: s.truth == "The memory is empty.", "answer"),
}
"""All that can be said of a search engine with its reader and its memory."""


def words_of(scene: CallScene) -> str:
    """The words of a search, in their order, none twice."""
    asked = (
        queries_of(scene.call)
        if scene.call and scene.call.name == "web_search" and not argument_problem(scene.call)
        else []
    )
    return ", ".join(dict.fromkeys(WORD.findall(" ".join(asked).lower())))


def wrong(scene: CallScene) -> Iterator[Claim]:
    """Arguments that the tool does not take."""
    if scene.call and scene.call.name in TOOLS and argument_problem(scene.call):
        yield claim("wrong")


def search(scene: CallScene) -> Iterator[Claim]:
    """A search: its words, and which of its results are known."""
    if words := words_of(scene):
        yield claim("queries", words=words)
    found = _found(scene)
    if not found:
        yield claim("no_results")
        return
    told = 0
    for place, url in enumerate(found, 1):
        at = next((at for at, turn in zip(scene.numbers, scene.turns, strict=True) if url in _urls(turn)), None)
        if at is not None and told < MOST_KNOWN:
            told += 1
            yield claim("known_result", place=place, turn=at)
    if word := next((word for word in words.split(", ") if word and _all_hold(scene, word)), None):
        yield claim("all_hold", word=word)
    yield claim("results", count=rows(len(found), "result")) if len(found) > 1 else claim("one_result")


def page(scene: CallScene) -> Iterator[Claim]:
    """A page: where its address comes from, and how it begins."""
    if scene.call is None or scene.call.name != "web_extractor":
        return
    numbers = list(reversed(scene.numbers))
    opened = next((at for at in numbers if _opened(scene, str(at))), None)
    listed = next((at for at in numbers if _argument(scene, "url") in _urls(scene.turn(str(at)))), None)
    if opened is not None:
        yield claim("opened", turn=opened)
    if listed is not None:
        place = _urls(scene.turn(str(listed))).index(_argument(scene, "url")) + 1
        yield claim("listed", place=place, turn=listed)
    elif (linked := next((at for at in numbers if _linked(scene, str(at))), None)) is not None:
        yield claim("linked", turn=linked)
    elif _nowhere(scene):
        yield claim("nowhere")
    if scene.truth.startswith("Error: "):
        yield claim("not_found")
        return
    if opened is not None and CALL_KINDS["same"].holds(scene, turn=str(opened)):
        yield claim("same", turn=opened)
        return
    yield claim("begins", turn=listed) if listed is not None and _begins(scene, str(listed)) else claim("page")
    if "\n[Cut: characters 1–" in scene.truth:
        yield claim("cut")


def memory(scene: CallScene) -> Iterator[Claim]:
    """The memory: what was stored under the key."""
    if scene.call is None or scene.call.name != "dict_memory":
        return
    key = _argument(scene, "key")
    if not key:
        keys = len(re.findall(r'"(?:[^"\\]|\\.)*"', scene.truth))
        yield claim("keys", count=rows(keys, "key")) if scene.truth.startswith("Keys: ") else claim("empty")
        return
    stored = next((at for at in reversed(scene.numbers) if _stored(scene, key, str(at))), None)
    yield claim("not_stored", key=key) if stored is None else claim("stored", key=key, turn=stored)
    for kind, word in (("added", "Added"), ("updated", "Updated"), ("removed", "Removed")):
        if _memory_says(scene, word):
            yield claim(kind)
            return
    if scene.truth.startswith("Error: "):
        yield claim("refused")
    elif stored is not None:
        yield claim("comes_back", turn=stored)


BOOK: Book[CallScene] = Book(
    call_scenes,
    KINDS,
    (
        Rule("wrong", wrong),
        Rule("memory", memory),
        Rule("page", page),
        Rule("repeated", repeated),
        Rule("search", search),
    ),
)
"""What can be said of a search engine."""

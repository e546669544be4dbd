"""Secrets and personal data out, stand-ins of the same form in: one value has one stand-in wherever it occurs.

A stand-in is made from the value by a keyed hash (HMAC-SHA-256): without the key nobody gets back from it, and under
one key it is the same in every file. Stand-ins lie where nothing real is: names at example.com (RFC 2606), addresses
of 198.18.0.0/15 (RFC 2544) and 2001:db8::/32 (RFC 3849), telephone numbers 555-01xx, cards of a number range for
tests, keys that end in EXAMPLE. So they are known for what they are, and scrubbing twice changes nothing more.

What is found is what has a form: the tables below. A name or a secret in plain words is not found.
"""

import hashlib
import hmac
import ipaddress
import re
import string
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from worldlm.core.errors import SetupError
from worldlm.core.text import MAX_DEPTH

# In a JSON text "\nann@…" a letter of an escape stands before the word.
_START = r"(?:(?<![\w\\])|(?<=\\[bfnrt]))"
_END = r"(?![\w])"

TOKENS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("Amazon access key", ("akia", "asia", "abia", "acca"), r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}"),
    ("Anthropic key", ("sk-ant-",), r"sk-ant-[\w-]{24,}"),
    ("Docker token", ("dckr_pat_",), r"dckr_pat_[\w-]{20,}"),
    ("GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_\w{36,}"),
    ("GitHub token", ("github_pat_",), r"github_pat_\w{22,}"),
    ("GitLab token", ("gl",), r"gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas)-[\w-]{20,}"),
    ("Google key", ("aiza",), r"AIza[\w-]{35}"),
    ("Google token", ("ya29.",), r"ya29\.[\w-]{20,}"),
    ("Hugging Face token", ("hf_",), r"hf_[A-Za-z0-9]{30,}"),
    ("JSON web token", ("eyj",), r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),
    ("npm token", ("npm_",), r"npm_[A-Za-z0-9]{36}"),
    ("OpenAI key", ("sk-",), r"sk-(?:proj-|svcacct-)?[\w-]{32,}"),
    ("PyPI token", ("pypi-",), r"pypi-[\w-]{60,}"),
    ("SendGrid key", ("sg.",), r"SG\.[\w-]{16,}\.[\w-]{16,}"),
    ("Slack token", ("xox",), r"xox[abeoprs]-[\w-]{10,}"),
    ("Slack hook", ("hooks.slack.com",), r"hooks\.slack\.com/services/(?P<value>T\w+/B\w+/\w+)"),
    ("Stripe key", ("k_live_", "k_test_"), r"[srp]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("Telegram token", (":aa",), r"\d{8,10}:AA[A-Za-z0-9_-]{33}"),
    ("Twilio key", ("ac", "sk"), r"(?:AC|SK)[0-9a-f]{32}"),
    ("password in a URL", ("://",), r"[a-z][a-z0-9+.-]*://[^\s/:@\"'\\]*:(?P<value>[^\s/@\"'\\]+)(?=@)"),
    (
        "authorization header",
        ("authorization:",),
        r"(?i:authorization: *(?:bearer|basic|token) +)(?P<value>[\w.~+/=-]{8,})",
    ),
)
"""Forms of keys and tokens, by who gives them out, each with what its lower-cased text must hold somewhere.

The group `value`, where there is one, is the secret. (Scanners for repositories name lines, and some of their
expressions match words or a prefix alone; here a value is replaced, so its two ends must be right.)
"""

_ASSIGNED_HINTS = ("pass", "secret", "token", "key")
_ASSIGNED = re.compile(
    rf"{_START}[\w-]{{0,40}}?"
    r"(?P<name>passw(?:or)?d|passphrase|(?<=[_-])pass|secret(?:[_-]?key)?|token|api[_-]?key|access[_-]?key)(?:\\?[\"'])?"
    r"(?P<sign>[ \t]*=>?[ \t]*|: *)"
    r"(?:(?P<quote>\\?[\"'])(?P<quoted>[^\s\"'\\`<>{}]+)(?=(?P=quote))"
    # An address behind @ is something of its own.
    r"|(?P<open>\\?[\"'])?(?P<bare>(?:[\w/+.=!#$%^*?-]|@(?![\w-]+\.\w))+(?<![.?])))",
    re.IGNORECASE,
)
"""What is assigned to a name of a secret, in a configuration, an environment or a program: see `_is_secret`."""
_ENDS_THERE = re.compile(r"[ \t]*(?:\Z|[\r\n#,;\"'\\}])")
_NOT = """
any array base64 basic bcrypt bearer blank bool boolean bytes change_me changeme char correct default disabled dummy
empty enabled example expired false file files float function hidden incorrect input integer invalid lambda masked md5
missing none null object optional plain plaintext placeholder prompt redacted removed required sample scram-sha-256
sha-256 sha1 sha256 sha512 stdin string symbol system true undefined unset utf-8 utf8 value varchar wrong
"""
_NOT_SECRET = frozenset(_NOT.split())
"""Values that say what a secret is to be, or that there is none."""

_GENERIC = """
admin agent app appuser centos circleci coder codespace debian default dev developer docker ec2-user fedora gitpod guest
home jenkins jovyan kali linuxbrew me node nobody opc operator oracle pi postgres public root runner sandbox service
shared student test tester travis ubuntu user username users vagrant vscode work worker workspace you your-name yourname
"""
GENERIC_USERS = frozenset(_GENERIC.split())
"""Names of home folders that name nobody."""
RESOLVERS = frozenset(("1.1.1.1", "1.0.0.1", "8.8.8.8", "8.8.4.4", "9.9.9.9"))
"""Public addresses that everybody knows, and that say nothing of anybody."""

KINDS = ("private key", "token", "e-mail", "address", "card", "telephone", "home name")
"""What is looked for, in the order of precedence."""

ROUNDS = 4

_NAMES = ("passw", "passphrase", "secret", "token", "key", "your")
"""Words of which a value is a name or a placeholder."""
_KEY_BLOCK = re.compile(
    r"-----BEGIN (?P<kind>[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?)-----(?P<value>.*?)(?=-----END (?P=kind)-----|\Z)", re.DOTALL
)
_TOKENS = [(hints, re.compile(f"{_START}{form}")) for _, hints, form in TOKENS]
_EMAIL = re.compile(
    rf"{_START}(?P<value>[A-Za-z0-9][\w.+-]{{0,63}}@[A-Za-z0-9][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{{2,24}}){_END}(?!\.\w)"
)
_RESERVED = re.compile(
    r"@(?:.+\.)?(?:example\.(?:com|org|net|edu)|(?:test|example|invalid|localhost|local|lan|internal))\Z", re.IGNORECASE
)
_URL_BEFORE = re.compile(r"://[^\s/]{0,200}\Z")
_IPV4 = re.compile(r"(?:(?<![\w.=\\-])|(?<=\\[bfnrt]))(?<![^/]/)(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\d)")
_QUAD = re.compile(r"\d\.\d{1,3}\.\d{1,3}\.\d")
_IPV6 = re.compile(r"(?<![\w:.])[23][0-9A-Fa-f]{3}:(?:[0-9A-Fa-f]{0,4}:){1,6}[0-9A-Fa-f]{0,4}(?![\w:.])")
_CARD = re.compile(
    rf"{_START}(?<![.-])"
    r"(?:[3-6]\d{3}([ -])\d{4}\1\d{4}\1\d{4}|3\d{3}([ -])\d{6}\2\d{5}|[3-6]\d{14,15})(?![\w-]|\.\d)"
)
_PHONE_HINT = re.compile(r"\+\d|\(\d{2,4}\)|\d{3}[-. ]\d{3}[-. ]\d{4}")
_HOME = re.compile(r"(?:/home/|/Users/|\\Users\\|\\\\Users\\\\)(?P<value>[A-Za-z][\w.-]{1,31})(?![\w.@-])")
_STAND_IN_USER = re.compile(r"user\d{4}\Z")
_EXAMPLE = "EXAMPLE"


class Hit(NamedTuple):
    """A value that is to go."""

    start: int
    end: int
    kind: str
    stand_in: str


@dataclass
class Scrubber:
    """Replaces what `KINDS` names, but for the kinds in `leave`; `counts` says how often.

    `name` of a home folder is replaced where a user's name is expected: in paths, before `@`, in the listing of a
    folder, alone on a line or in a string. It has to be found first: `learn` does that.
    """

    key: bytes
    leave: frozenset[str] = frozenset()
    counts: dict[str, int] = field(default_factory=dict)

    def __call__(self, text: str, names: frozenset[str] = frozenset()) -> str:
        """`text` without them. `names` are home folders' names that other texts of the same trajectory show."""
        for _ in range(ROUNDS):  # a stand-in may bring to light what its neighbour hid
            before = text
            text = self._replace(text, self._search(text))
            # After the others: what stands behind /home/ may be a key or an address.
            known = names | self.learn(text)
            text = self._replace(text, (Hit(*found[:2], "home name", found[2]) for found in self._names(text, known)))
            if text == before:
                break
        return text

    def _replace(self, text: str, found: Iterable[Hit]) -> str:
        """The stand-ins in; where two hits overlap, the kind that comes first in `KINDS` wins, then the longer one."""
        taken: list[Hit] = []
        for hit in sorted(found, key=lambda hit: (KINDS.index(hit.kind), hit.start, -hit.end)):
            if all(hit.end <= other.start or hit.start >= other.end for other in taken):
                taken.append(hit)
        out, at = [], 0
        for hit in sorted(taken):
            self.counts[hit.kind] = self.counts.get(hit.kind, 0) + 1
            out += [text[at : hit.start], hit.stand_in]
            at = hit.end
        return "".join([*out, text[at:]])

    def learn(self, text: str) -> frozenset[str]:
        """The names of home folders in a text that are somebody's."""
        if "home name" in self.leave or ("/home/" not in text and "Users" not in text):
            return frozenset()
        return frozenset(
            name
            for match in _HOME.finditer(text)
            if (name := match["value"].rstrip(".")).lower() not in GENERIC_USERS and not _STAND_IN_USER.match(name)
        )

    def _search(self, text: str) -> Iterator[Hit]:
        """All that is found, but for names of home folders."""
        finders: dict[str, Callable[[str], Iterator[tuple[int, int, str]]]] = {
            "private key": self._private_keys,
            "token": self._tokens,
            "e-mail": self._emails,
            "address": self._addresses,
            "card": self._cards,
            "telephone": self._telephones,
        }
        for kind, find in finders.items():
            if kind not in self.leave:
                for start, end, stand_in in find(text):
                    yield Hit(start, end, kind, stand_in)

    # What each kind is, and what stands in for it.

    def _private_keys(self, text: str) -> Iterator[tuple[int, int, str]]:
        for match in _KEY_BLOCK.finditer(text) if "PRIVATE KEY" in text else ():
            value = match["value"]
            if _EXAMPLE not in value and re.search(r"[A-Za-z0-9+/]{16}", value):
                stream = self._stream("key", value)
                signs = re.findall(r"\\[nrt]|.", value, re.DOTALL)  # an escape stays one
                body = "".join(sign if len(sign) > 1 else _like(sign, stream) for sign in signs)
                last = list(re.finditer(r"[A-Za-z0-9+/]{16,}", body))[-1]
                body = f"{body[: last.end() - len(_EXAMPLE)]}{_EXAMPLE}{body[last.end() :]}"
                yield match.start("value"), match.end("value"), body

    def _tokens(self, text: str) -> Iterator[tuple[int, int, str]]:
        small = text.lower()
        for hints, pattern in _TOKENS:
            if not any(hint in small for hint in hints):
                continue
            group: int | str = "value" if "value" in pattern.groupindex else 0
            for match in pattern.finditer(text):
                value = match[group]
                if not value.upper().endswith(_EXAMPLE) and value.strip("*x.$<>{}"):
                    yield match.start(group), match.end(group), self._token(value)
        for match in _ASSIGNED.finditer(text) if any(hint in small for hint in _ASSIGNED_HINTS) else ():
            group = "bare" if match["quoted"] is None else "quoted"
            if not match[group].upper().endswith(_EXAMPLE) and _is_secret(match):
                yield match.start(group), match.end(group), self._token(match[group])

    def _token(self, value: str) -> str:
        """Digits, capitals and small letters as they were; the name before the first sign stays, the end is EXAMPLE."""
        prefix = re.match(r"(?:[A-Za-z]{2,8}[-_.])+|eyJ|AKIA|ASIA|AIza|AC|SK", value)
        head = prefix[0] if prefix and len(prefix[0]) * 2 < len(value) else ""
        stream = self._stream("token", value)
        body = "".join(_like(sign, stream) for sign in value[len(head) :])
        mark = (
            _EXAMPLE
            if any(sign.isupper() for sign in value) or not any(sign.islower() for sign in value)
            else "example"
        )
        return head + (body[: -len(mark)] if len(body) >= 3 * len(mark) - 5 else body) + mark

    def _emails(self, text: str) -> Iterator[tuple[int, int, str]]:
        for match in _EMAIL.finditer(text) if "@" in text else ():
            value = match["value"]
            local, _, _ = value.partition("@")
            if _RESERVED.search(value) or local == "git" or _URL_BEFORE.search(text, 0, match.start("value")):
                continue
            stream = self._stream("e-mail", value.lower())
            ending = ("com", "org", "net")[next(stream) % 3]
            yield (
                match.start("value"),
                match.end("value"),
                "".join(_like(c, stream) for c in local) + f"@example.{ending}",
            )

    def _addresses(self, text: str) -> Iterator[tuple[int, int, str]]:
        for match in _IPV4.finditer(text) if _QUAD.search(text) else ():
            parts = match[0].split(".")
            if any(int(part) > 255 or (len(part) > 1 and part[0] == "0") for part in parts) or match[0] in RESOLVERS:
                continue
            if ipaddress.IPv4Address(match[0]).is_global:
                stream = self._stream("address", match[0])
                yield match.start(), match.end(), f"198.{18 + next(stream) % 2}.{next(stream)}.{next(stream)}"
        for match in _IPV6.finditer(text):
            try:
                address = ipaddress.IPv6Address(match[0])
            except ValueError:
                continue
            if address.is_global:
                stream = self._stream("address", address.compressed)
                yield (
                    match.start(),
                    match.end(),
                    f"2001:db8::{next(stream):x}{next(stream):02x}:{next(stream):x}{next(stream):02x}",
                )

    def _cards(self, text: str) -> Iterator[tuple[int, int, str]]:
        for match, digits in _card_numbers(text):
            if digits[1:6] == [0] * 5:
                continue
            stream = self._stream("card", "".join(map(str, digits)))
            fresh = [digits[0], *[0] * 5, *(next(stream) % 10 for _ in digits[7:]), 0]
            fresh[-1] = (10 - luhn(fresh)) % 10
            yield match.start(), match.end(), _refill(match[0], fresh)

    def _telephones(self, text: str) -> Iterator[tuple[int, int, str]]:
        if not _PHONE_HINT.search(text):
            return
        try:
            import phonenumbers
        except ImportError:
            raise SetupError("finding telephone numbers needs phonenumbers; pip install 'worldlm[data]'") from None
        for card, _ in _card_numbers(text):  # else its digits would be taken for more of the number before it
            text = f"{text[: card.start()]}{'|' * len(card[0])}{text[card.end() :]}"
        leniency = phonenumbers.Leniency.STRICT_GROUPING
        for match in phonenumbers.PhoneNumberMatcher(text, "US", leniency=leniency):
            raw = match.raw_string
            if not _PHONE_HINT.search(raw):
                continue  # digits in a row may be anything
            number = match.number
            digits = [int(sign) for sign in raw if sign.isdigit()]
            kept = len(str(number.country_code)) if raw.lstrip("( ").startswith("+") else 0
            after = len(number.extension or "")
            free = len(digits) - kept - 7 - after
            if free < 0 or digits[kept + free :][:5] == [5, 5, 5, 0, 1]:
                continue
            stream = self._stream("telephone", f"+{number.country_code}{number.national_number}")
            fresh = [
                *(2 + next(stream) % 8 for _ in range(free)),
                5,
                5,
                5,
                0,
                1,
                *(next(stream) % 10 for _ in range(2)),
            ]
            tail = [next(stream) % 10 for _ in range(after)]
            yield match.start, match.end, _refill(raw, [*digits[:kept], *fresh, *tail])

    def _names(self, text: str, names: frozenset[str]) -> Iterator[tuple[int, int, str]]:
        for name in sorted(names) if "home name" not in self.leave else ():
            if name not in text:
                continue
            stream = self._stream("home name", name)
            stand_in = f"user{(next(stream) * 256 + next(stream)) % 10_000:04}"
            word = re.escape(name)
            places = re.compile(
                rf"(?:(?<=/home/)|(?<=/Users/)|(?<=\\Users\\)|(?<=\\\\Users\\\\)|(?<=~)){word}(?![\w-])"  # paths
                rf"|{_START}{word}(?=@[\w.-]+)"  # a prompt, an address
                rf"|(?<= ){word}(?= +\S+ +[\d,.]+[KMG]? +\w{{3}} )|(?<= ){word}(?= +[\d,.]+[KMG]? +\w{{3}} )"  # ls -l
                rf"|(?<=\(){word}(?=\))"  # id
                rf"|^{word}$|(?<=\\n){word}(?=\\n)",  # whoami, ls /home, a value by itself
                re.MULTILINE,
            )
            for match in places.finditer(text):
                yield match.start(), match.end(), stand_in

    def _stream(self, kind: str, value: str) -> Iterator[int]:
        """Bytes without end, fixed by the key, the kind and the value."""
        block = 0
        while True:
            yield from hmac.new(self.key, f"{kind}:{block}:{value}".encode("utf-8", "replace"), hashlib.sha256).digest()
            block += 1


def scrub_json(value: Any, scrub: Callable[[str], str], depth: int = MAX_DEPTH) -> Any:
    """A JSON value with each of its texts scrubbed, keys among them unless two would become one."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, list) and depth:
        return [scrub_json(item, scrub, depth - 1) for item in value]
    if isinstance(value, dict) and depth:
        keys = {key: scrub(key) for key in value}
        if len(set(keys.values())) < len(keys):
            keys = {key: key for key in value}
        return {keys[key]: scrub_json(item, scrub, depth - 1) for key, item in value.items()}
    return value


def _is_secret(match: re.Match[str]) -> bool:
    """Whether what is assigned may be a secret, given a match of `_ASSIGNED`.

    What has letters and digits and is long may be one anywhere. Something shorter, or a plain word, is one where it is
    quoted or follows its `=` at once, but for what a program's text would show there: a type, a name, a call.
    """
    name, sign, quoted = match["name"].lower(), match["sign"], match["quoted"] is not None
    value, after = match["quoted"] or match["bare"], match.string[match.end() : match.end() + 1]
    if value[0] in "$%*!#^?=@&|(~[" or value.lower() in _NOT_SECRET or len(set(value)) == 1:
        return False
    if "://" in value or "..." in value or _EMAIL.fullmatch(value) or re.fullmatch(r"\d+(?:\.\d+)+", value):
        return False  # a secret within it, or it itself, is found as what it is
    if not quoted and after and after in "([{<`":
        return False
    has_digit = any(each.isdigit() for each in value)
    if len(value) >= 8 and has_digit and any(each.isalpha() for each in value):
        return True
    if name == "token" or len(value) < 4 or match["open"] or any(word in value.lower() for word in _NAMES):
        return False
    if quoted or sign == "=":
        if has_digit:
            return True
        if value.istitle() or value.isupper() or "/" in value or re.fullmatch(r"[A-Za-z_]+(?:\.[A-Za-z_]+)+", value):
            return False
        return len(value) >= 6 and (quoted or not after or after in " \t\r\n&;\"'\\")
    return has_digit and sign != ":" and _ENDS_THERE.match(match.string, match.end()) is not None


def _card_numbers(text: str) -> Iterator[tuple[re.Match[str], list[int]]]:
    """The numbers in a text that may be a card's, with their digits, stand-ins among them."""
    at = 0
    while match := _CARD.search(text, at):
        digits = [int(sign) for sign in match[0] if sign.isdigit()]
        at = match.start() + 1  # the end of a telephone number may look like the begin of a card's
        if not luhn(digits):
            at = match.end()
            yield match, digits


def luhn(digits: list[int]) -> int:
    """The check sum of a card number: 0 for a right one, modulo 10."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        doubled = digit * 2 if place % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10


def _like(sign: str, stream: Iterator[int]) -> str:
    """Another sign of the same kind."""
    for alphabet in (string.digits, string.ascii_lowercase, string.ascii_uppercase):
        if sign in alphabet:
            return alphabet[next(stream) % len(alphabet)]
    return sign


def _refill(form: str, digits: list[int]) -> str:
    """`form` with its digits replaced in order."""
    left = iter(digits)
    return "".join(str(next(left)) if sign.isdigit() else sign for sign in form)

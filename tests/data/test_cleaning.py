"""Rendering, scrubbing and cutting: what changes, what stays, and the laws of each."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.kit import told
from tests.data.sessions import session, shell, turn, typed
from worldlm.core.errors import SetupError
from worldlm.core.text import estimate_tokens
from worldlm.core.types import Observation, Tool, Trajectory
from worldlm.data.cleaning import (
    KINDS,
    MARKER,
    Cleaning,
    Scrubber,
    clean,
    cut,
    cut_long,
    has_control,
    render,
    render_terminal,
    scrub,
)
from worldlm.data.cleaning.scrub import luhn, scrub_json
from worldlm.data.report import Losses


def observed(trajectory: Trajectory, number: int) -> Observation:
    observation = trajectory.turns[number - 1].observation
    assert observation is not None
    return observation


# A terminal.


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("10%\r20%\r100%\ndone\n", "100%\ndone\n"),
        ("Fetching\r\x1b[2K\rDone\n$", "Done\n$"),
        ("\x1b[2K\x1b[1Gbar 1\x1b[2K\x1b[1Gbar 22\n$", "bar 22\n$"),
        ("\x1b[1;31mred\x1b[0m and plain", "red and plain"),
        ("\x1b]0;ann@box: ~\x07ann@box:~$ ls", "ann@box:~$ ls"),
        ("\x1b]0;title\x1b\\$", "$"),
        ("\x1b]8;;https://a.example\x1b\\link\x1b]8;;\x1b\\ text", "link text"),
        ("wrong\x08\x08\x08\x08\x08right", "right"),
        ("ding\x07", "ding"),
        ("old\nscreen\x1b[2J\x1b[Hnew", "new"),
        ("l1\nl2\n\x1b[A\x1b[Kchanged\n", "l1\nchanged\n"),
        ("\x1b[?2004h$ ls\x1b[?2004l\nf", "$ ls\nf"),
        ("\x1b[38:2::1:2:3mtrue colour\x1b[4:3m curly\x1b[0m", "true colour curly"),
        ("\x1b[>4;1m\x1b[?1l\x1b[=5u\x1b(B$", "$"),
        ("\x1bPq#0;2;0;0;0\x1b\\after", "after"),
        ("漢字\x1b[m wide", "漢字 wide"),
        ("e\u0301\r", "é"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("cut off \x1b[3", "cut off"),
        ("\n\n\x07\n", "\n\n\n"),
        ("\x1b[m", ""),
        ("  kept  \tas it is  \n", "  kept  \tas it is  \n"),
    ],
)
def test_a_terminal_is_shown_as_its_screen(sent: str, shown: str) -> None:
    assert render_terminal(sent) == shown


def test_nothing_wraps_and_nothing_scrolls_off() -> None:
    lines = [f"{n} " + "x" * (n % 300) for n in range(500)]
    assert render_terminal("\x1b[32m\r" + "\n".join(lines)) == "\n".join(line.rstrip() for line in lines)


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.text(st.characters(codec="utf-8"), max_size=12),
            st.sampled_from(
                ["\r", "\n", "\b", "\x1b[", "\x1b[K", "\x1b[3;4H", "\x1b[31m", "\x1b]0;", "\x9b1A", "\x1b[?6n", "\x1b["]
            ),
        ),
        max_size=12,
    )
)
def test_whatever_is_sent_no_control_character_is_left(pieces: list[str]) -> None:
    shown = render_terminal("".join(pieces))
    assert not has_control(shown)
    assert render_terminal(shown) == shown


def test_what_was_sent_is_kept_beside_the_screen() -> None:
    trajectory = session([shell("make", "10%\r100%"), shell("uname", "Linux")])
    losses = Losses()
    done = render(trajectory, losses)
    assert observed(done, 1).text == observed(trajectory, 1).text.replace("10%\r", "")
    assert observed(done, 1).raw == observed(trajectory, 1).text
    assert observed(done, 2) == observed(trajectory, 2)
    assert told(losses) == {
        "terminal output is rendered as a screen shows it (raw is kept)": 1,
        "control characters that were in it": 1,
    }
    assert render(done, Losses()) == done


def test_the_first_raw_text_is_the_one_that_stays() -> None:
    trajectory = session([shell("a")])
    seen = Observation(text="x\x07", raw="what the source wrote")
    trajectory = trajectory.model_copy(update={"initial": seen})
    done = render(trajectory, Losses())
    assert done.initial == Observation(text="x", raw="what the source wrote")


def test_other_domains_are_not_terminals() -> None:
    trajectory = session([turn('{"name":"read","arguments":{}}', "a,b\r\n1,2\r\n")], "mcp", "")
    assert render(trajectory, Losses()) == trajectory


def test_without_pyte_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyte", None)
    assert render_terminal("plain\r\n") == "plain\n"
    with pytest.raises(SetupError, match=r"pip install 'worldlm\[data\]'"):
        render_terminal("a\rb")


# Secrets.

KEY = b"a key"
GITHUB = "ghp_" + "a1B2" * 9


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("mail jane.doe2@corp.co.uk now", r"mail [a-z]{4}\.[a-z]{3}\d@example\.(com|org|net) now"),
        ("from 52.14.3.9 port 22", r"from 198\.1[89]\.\d+\.\d+ port 22"),
        ("http://52.14.3.9:80/x", r"http://198\.1[89]\.\d+\.\d+:80/x"),
        ("[2a00:1450:4001:81b::200e]", r"\[2001:db8::[0-9a-f]{3,4}:[0-9a-f]{3,4}\]"),
        ("pay 4111 1111 1111 1111.", r"pay 4000 00\d\d \d{4} \d{4}\."),
        ("5555555555554444", r"500000\d{10}"),
        ("3782 822463 10005", r"3000 00\d{4} \d{5}"),
        ("call (415) 867-5309", r"call \([2-9]{3}\) 555-01\d\d"),
        ("+44 20 7946 0958", r"\+44 [2-9]{2} [2-9]555 01\d\d"),
        ("AKIAIOSFODNN7ABCDEFG", r"AKIA[A-Z0-9]{9}EXAMPLE"),
        (f"token {GITHUB}", r"token ghp_(?:[a-z]\d[A-Z]\d){7}[a-z]EXAMPLE"),
        ("API_KEY='k9f8d7s6a5h4j3k2'", r"API_KEY='(?:[a-z]\d)\d?[a-z0-9]*example'"),
        ('{"password": "hunter22x"}', r'\{"password": "[a-z]{6}\d\d[a-z]example"\}'),
        ("password=hunter2", r"password=[a-z]{6}\dexample"),
        ("passwd: hunter2", r"passwd: [a-z]{6}\dexample"),
        (
            "- db-password : x\npassword : hunter2\npassword: hunter2 # mine\n",
            r"(?s).*: hunter2\n.*: [a-z]{6}\dexample # mine\n",
        ),
        ('export DB_PASSWORD="swordfish"', r'export DB_PASSWORD="[a-z]{9}example"'),
        ("MYSQL_PASS=p@ssw0rd!", r"MYSQL_PASS=[a-z]@[a-z]{3}\d[a-z]{2}!example"),
        ("password = 'tr0ub4dor&3'", r"password = '[a-z]{2}\d[a-z]{2}\d[a-z]{3}&\dexample'"),
        ("host=a password=swordfish user=b", r"host=a password=[a-z]{9}example user=b"),
        ("?user=a&passwd=hunter2&x=1", r"\?user=a&passwd=[a-z]{6}\dexample&x=1"),
        ("secret=abcdefgh", r"secret=[a-z]{8}example"),
        ("export SECRET_KEY=django-insecure", r"export SECRET_KEY=[a-z]+-[a-z]+example"),
        ('{\\"api_key\\": \\"abc123\\"}', r'\{\\"api_key\\": \\"[a-z]{3}\d{3}example\\"\}'),
        ("client-secret: Zx9qq", r"client-secret: [A-Z][a-z]\d[a-z]{2}EXAMPLE"),
        ("passphrase=>'hunter2'", r"passphrase=>'[a-z]{6}\dexample'"),
        ("postgres://bob:s3cret@db.corp.com/x", r"postgres://bob:[a-z]\d[a-z]{4}example@db\.corp\.com/x"),
        ("Authorization: Bearer abc.DEF-123", r"Authorization: Bearer [a-z]{3}\.[A-Z]{3}-\d{3}EXAMPLE"),
        ("sk-ant-api03-" + "aB3" * 12, r"sk-ant-[\w-]+EXAMPLE"),
        ("hf_" + "aBcDe" * 7, r"hf_[A-Za-z]{28}EXAMPLE"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.abcDEF123", r"eyJ\w+\.\w+\.\w+EXAMPLE"),
        ("/home/alice/x", r"/home/user\d{4}/x"),
        ("C:\\Users\\Alice\\x", r"C:\\Users\\user\d{4}\\x"),
    ],
)
def test_each_kind_has_a_stand_in_of_its_form(text: str, form: str) -> None:
    scrubber = Scrubber(KEY)
    done = scrubber(text)
    assert re.fullmatch(form, done), done
    assert done != text
    assert scrubber(done) == done
    assert Scrubber(KEY)(text) == done
    assert Scrubber(b"another")(text) != done


@pytest.mark.parametrize(
    "text",
    [
        "ann@box:~$ git clone git@github.com:a/b.git",
        "user@host.local, x@example.com, y@sub.example.org, me@localhost",
        "10.0.0.1 127.0.0.1 192.168.1.7 0.0.0.0 8.8.8.8 v1.2.3.4 Chrome/120.0.6099.109 ==1.2.3.4 999.1.1.1",
        "12:30:45 std::vector fe80::1 ::1 out[3::6] de:ad:be:ef:00:01",
        "4111 1111 1111 1112 and 1733136000000 and 6011000990139425000",
        "2024-05-12 10:11:12 1234567890 555-0142 +1 (202) 555-0142 3.1415926535",
        "password: please type one; token=$TOKEN api_key=<key> secret=None",
        "password=\npassword=$PASSWORD\npassword=${DB_PASSWORD}\npassword='' passwd=\"\"\npassword=$(pass show a)",
        "password: str\npassword: 'string'\npassword: Optional[str] = None\npassword: bytes,\npassword: SecretStr\n",
        "password=<password> password=*** PASSWORD=******** api_key=xxxx secret=... api_key='hf_...' passwd=%s",
        "password={password} password=[password] password=YOUR_PASSWORD api_key=your-api-key password='password'",
        "password=self.password, password=args.pw\nsecret = load(x) password=hash2(x) secret=base64.b64decode(x)",
        "login(user, password=phrase)\nlogin(user, password=phrase, x=1)\nif password == 'hunter2': password != 'abc1'",
        "Password: \nPassword: incorrect\n[sudo] password for ann: \npasswd:   files db\npassword: 3 attempts left\n",
        'label.password="Enter your password" "password": "Kennwort" "password": {"type": "string"} -passwd=FILE',
        "password_length=12 max_tokens=100 token=abc123 token: word PWD=/srv/data1 secret=/run/secrets/db secret:1.2.3",
        "password=null secret=true passwd=0 password: sha512 secret: 1.2.3 password=https://a.example/1",
        "AKIAIOSFODNN7EXAMPLE",
        "/home/user/x /home/ubuntu /home/runner/work /Users/Shared",
        "commit eacacd8c9ff2f16e23464204ff0d0739e7689dd9",
        "-----BEGIN PRIVATE KEY----- is how such a file begins",
        "",
    ],
)
def test_what_is_nobodys_stays(text: str) -> None:
    assert Scrubber(KEY)(text) == text


def test_a_private_key_keeps_its_form() -> None:
    body = "MIIEowIBAAKCAQEA0Z3VS5JJcds3xfnabcdefghi\nygWyF8PbnGy0AHB7MAJU2VQ1\nq80f=="
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\n"
    done = Scrubber(KEY)(key)
    assert done.startswith("-----BEGIN RSA PRIVATE KEY-----\n")
    assert [len(line) for line in done.split("\n")] == [len(line) for line in key.split("\n")]
    assert not set(body.split("\n")) & set(done.split("\n"))
    in_json = json.dumps({"key": key})
    again = Scrubber(KEY)(in_json)
    assert [len(line) for line in json.loads(again)["key"].split("\n")] == [len(line) for line in key.split("\n")]
    cut_off = key[:60]
    assert Scrubber(KEY)(cut_off) != cut_off


def test_one_value_has_one_stand_in_wherever_it_occurs() -> None:
    scrubber = Scrubber(KEY)
    bare = scrubber("jane@corp.com")
    action = scrubber('[{"keystrokes":"echo a\\njane@corp.com\\n"}]')
    assert f"\\n{bare}\\n" in action
    assert scrubber(f"token={GITHUB}").removeprefix("token=") == scrubber(GITHUB)
    national, abroad = scrubber("(415) 867-5309"), scrubber("+1 415 867 5309")
    assert re.sub(r"\D", "", abroad) == "1" + re.sub(r"\D", "", national)
    assert scrubber("jane@corp.com") != scrubber("june@corp.com")


@pytest.mark.parametrize("phone", ["+44 20 7946 0958", "+1 415 867 5309", "(415) 867-5309", "415-867-5309"])
@pytest.mark.parametrize(
    "card", ["4111 1111 1111 1111", "5555-5555-5555-4444", "4111111111111111", "3782 822463 10005"]
)
@pytest.mark.parametrize("between", [" ", ", ", " / ", "  ", "; card ", "\t"])
def test_a_telephone_number_and_a_card_on_one_line_both_go(phone: str, card: str, between: str) -> None:
    scrubber = Scrubber(KEY)
    for first, second in ((phone, card), (card, phone)):
        done = scrubber(f"{first}{between}{second}")
        assert done == f"{scrubber(first)}{between}{scrubber(second)}"
        assert scrubber(done) == done
    left = Scrubber(KEY, frozenset({"card"}))(f"{phone}{between}{card}")
    assert left == f"{scrubber(phone)}{between}{card}"


def test_one_password_has_one_stand_in_in_whatever_form_it_is_assigned() -> None:
    scrubber = Scrubber(KEY)
    forms = ["password={}", "passwd: {}", 'PASSWORD="{}"', "secret='{}'", '{{"api_key": "{}"}}', "db-pass = {}"]
    for value in ("hunter2", "Tr0ub4dor-3", "p@ssw0rd!"):
        stand_in = scrubber(f"password={value}").removeprefix("password=")
        assert value not in stand_in
        for form in forms:
            assert scrubber(form.format(value)) == form.format(stand_in)


def test_kinds_can_be_left() -> None:
    text = "jane@corp.com 52.14.3.9 /home/alice/x"
    assert Scrubber(KEY, frozenset(KINDS))(text) == text
    assert Scrubber(KEY, frozenset({"e-mail", "home name"}))(text).startswith("jane@corp.com 198.1")
    assert Scrubber(KEY, frozenset({"e-mail", "home name"}))(text).endswith("/home/alice/x")


VALUES = st.sampled_from(
    [
        "jane.doe@corp.com",
        "52.14.3.9",
        "4111 1111 1111 1111",
        "(415) 867-5309",
        "+44 20 7946 0958",
        GITHUB,
        "AKIAIOSFODNN7ABCDEFG",
        "/home/alice",
        "alice@box:~$",
        "password=hunter22x",
        "passwd: hunter2",
        'secret="p@ss&w0rd"',
        "PASSWORD=swordfish",
        "+1 415 867 5309 4111 1111 1111 1111",
        "https://bob:s3cret9@corp.com/x",
        "2a00:1450:4001:81b::200e",
        "Authorization: Bearer abcdefgh12",
        "-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEA0Z3VS5JJ\n-----END PRIVATE KEY-----",
    ]
)
BETWEEN = st.sampled_from([" ", "\n", ", ", "\\n", '"', "'", "/", ":", "@", "=", "<", "-", ".", "", "x", "7"])


@settings(max_examples=300)
@given(st.lists(st.tuples(VALUES, BETWEEN), max_size=6), st.binary(min_size=1, max_size=4))
def test_scrubbing_twice_changes_nothing_more(pieces: list[tuple[str, str]], key: bytes) -> None:
    text = "".join(value + between for value, between in pieces)
    names = frozenset({"alice"})
    done = Scrubber(key)(text, names)
    assert Scrubber(key)(done, names) == done
    assert Scrubber(key)(text, names) == done


@given(st.lists(st.integers(0, 9), min_size=12, max_size=18))
def test_the_check_sum_of_cards(digits: list[int]) -> None:
    check = (10 - luhn([*digits, 0])) % 10
    assert luhn([*digits, check]) == 0
    assert all(luhn([*digits, other]) for other in range(10) if other != check)


def test_a_trajectory_is_scrubbed_everywhere_alike() -> None:
    losses = Losses()
    trajectory = session(
        [
            turn(
                typed("whoami; ls -l"),
                "alice@box:~$ whoami\nalice\n-rw-r--r-- 1 alice alice 12 Jan  1 a\nsay alice aloud",
            ),
            turn(typed("mail jane@corp.com"), None, thinking="so write to jane@corp.com"),
            turn('{"a":1}', "x").model_copy(
                update={"observation": Observation(text="x", structured={"jane@corp.com": ["jane@corp.com"]})}
            ),
        ],
        initial="alice@box:~$",
        initial_state={"user": "alice", "files": {"/home/alice/a": "jane@corp.com"}},
        tools=(Tool(name="send", description="ask jane@corp.com"),),
    )
    done = scrub(trajectory, Scrubber(KEY), losses)
    text = done.model_dump_json()
    assert "jane@" not in text
    names = set(re.findall(r"user\d{4}", text))
    assert len(names) == 1
    assert isinstance(done.world.initial_state, dict)
    (name,) = names
    assert done.world.initial_state["user"] == name
    assert list(done.world.initial_state["files"]) == [f"/home/{name}/a"]
    assert observed(done, 1).text.split("\n")[1:] == [
        name,
        f"-rw-r--r-- 1 {name} {name} 12 Jan  1 a",
        "say alice aloud",
    ]
    assert done.initial == Observation(text=f"{name}@box:~$")
    mail = re.findall(r"[a-z]{4}@example\.\w{3}", text)
    assert len(mail) == 6
    assert len(set(mail)) == 1
    assert told(losses) == {"e-mail: a stand-in of the same form": 6, "home name: a stand-in of the same form": 7}
    assert scrub(done, Scrubber(KEY), Losses()) == done
    # What identifies the record is left alone.
    assert (done.id, done.origin, done.policy) == (trajectory.id, trajectory.origin, trajectory.policy)


def test_keys_that_would_become_one_stay() -> None:
    assert scrub_json({"a": "x", "b": "y"}, lambda text: "s") == {"a": "s", "b": "s"}
    assert scrub_json({"a": 1}, lambda text: "s") == {"s": 1}


# Long observations.


def test_a_long_text_keeps_head_and_tail_and_says_how_much_is_shown() -> None:
    text = "\n".join(f"line {n}" for n in range(1000))
    short = cut(text, 300, len)
    lines = short.split("\n")
    assert len(short) <= 300
    at = next(n for n, line in enumerate(lines) if MARKER.match(line))
    assert lines[:at] == text.split("\n")[:at]
    assert lines[at + 1 :] == text.split("\n")[-(len(lines) - at - 1) :]
    match = MARKER.search(short)
    assert match is not None
    assert [int(number) for number in match.groups()] == [
        len(lines) - 1,
        1000,
        len(short) - len(lines[at]) - 1,
        len(text),
    ]


def test_a_text_that_fits_is_as_it_was() -> None:
    assert cut("x" * 50, 50, len) == "x" * 50
    assert cut("x" * 50, 3, len) == "x" * 50  # the marker alone would be longer


@given(st.text(max_size=3000), st.integers(90, 800))
def test_what_is_cut_fits_and_is_not_cut_again(text: str, most: int) -> None:
    short = cut(text, most, estimate_tokens)
    assert estimate_tokens(short) <= most
    assert cut(short, most, estimate_tokens) == short
    if short != text:
        (match,) = list(MARKER.finditer(short))[:1]
        assert text.startswith(short[: match.start()].removesuffix("\n"))
        assert text.endswith(short[match.end() :].removeprefix("\n"))
        assert len(short) < len(text) + 80


def test_a_trajectory_says_what_share_was_cut() -> None:
    long = "\n".join(f"line {n}" for n in range(3000))
    trajectory = session([shell("cat a", long), shell("uname", "Linux"), turn(typed("x"), None)])
    losses = Losses()
    done, observations, short = cut_long(trajectory, 200, estimate_tokens, losses)
    assert (observations, short) == (3, 1)
    assert observed(done, 2) == observed(trajectory, 2)
    counts = told(losses)
    assert counts["an observation of more than 200 tokens is cut head and tail"] == 1
    gone = len(observed(trajectory, 1).text) - len(observed(done, 1).text)
    assert counts["characters of long observations"] == gone


def test_structured_content_does_not_hold_what_was_cut() -> None:
    seen = Observation(text="y" * 5000, structured={"all": "y" * 5000}, is_error=True)
    trajectory = session([], "mcp", "").model_copy(update={"initial": seen})
    done, _, _ = cut_long(trajectory, 100, estimate_tokens, Losses())
    assert done.initial is not None
    assert (done.initial.structured, done.initial.is_error) == (None, True)


def test_the_steps_together_are_done_once() -> None:
    trajectory = session([shell("make", "10%\rjane@corp.com\n" + "\n".join(map(str, range(4000))))])
    cleaning = Cleaning(scrubber=Scrubber(KEY), max_tokens=300)
    done = clean(trajectory, cleaning)
    assert cleaning.cut_share == 0.5
    assert "@example." in observed(done, 1).text
    assert observed(done, 1).raw is not None
    assert "jane" not in done.model_dump_json()
    assert clean(done, Cleaning(scrubber=Scrubber(KEY), max_tokens=300)) == done
    nothing = Cleaning(render=False, max_tokens=None)
    assert clean(trajectory, nothing) is trajectory
    assert nothing.cut_share is None

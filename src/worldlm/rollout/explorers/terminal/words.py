"""What an explorer writes about: words, and generators of file contents in the formats that agents meet."""

import json
from collections.abc import Callable
from random import Random


def _split(words: str) -> tuple[str, ...]:
    return tuple(words.split())


NOUNS = _split(
    """
    anchor apple archive arrow badge barrel basket battery beacon bell bench blanket boat bolt bottle bridge
    bucket bundle button cable camera candle canvas carpet cart castle chain chair chart clock cloud coat coin
    column compass copper cork corner cotton crane crate cup curtain cushion desk diary dish door drawer drum
    engine envelope fabric farm feather fence ferry field filter flag flask flour forest fork frame garden gate
    gear glass globe glove grain guitar hammer handle harbor hat helmet hinge honey hook hose island jacket jar
    kettle key kitchen kite ladder lake lamp lantern leaf ledger lemon lens letter lever library lock magnet map
    marble market meadow mill mirror mountain needle net notebook oven paddle paint panel paper parcel pencil
    pepper piano pillow pilot pipe planet plate pocket pump puzzle radio rail ribbon river road rocket roof rope
    ruler sail salt satchel saw scale screw shelf shell ship shovel signal silver socket spoon spring stamp star
    station stone stove table tape tent thread ticket tile timber tool tower tractor trail train tray tunnel
    valley valve vase village violin wagon wall water wheel window wire wood yarn
    """
)
ADJECTIVES = _split(
    """
    amber ancient blue bold brave brief bright broad calm clean clever cold common cool curious daily dark deep
    dry early eastern empty fair fast final fine first flat fresh gentle golden grand gray green heavy hidden
    hollow idle keen large last late light little local long loose lucky mild modern narrow new noisy northern
    odd old open pale plain proud quick quiet rapid rare red round rough rusty safe sharp short silent slow
    small smooth soft southern spare steady steep strong sturdy sunny sweet tall thick thin tidy tiny upper warm
    western white wide wild young
    """
)
VERBS = _split(
    """
    builds carries checks cleans closes counts covers cuts draws drives fills finds fixes follows guards holds
    keeps lifts loads marks measures moves needs opens paints pulls pushes reads repairs replaces ships sorts
    stores tests turns waits watches weighs
    """
)
PEOPLE = _split(
    """
    ada ali amina anders bea bruno carla chen clara dario diego elena emil erik fatima femi gita hana hugo ines
    ivan jana jonas kai karim lara lena leo lina luca maja marco maya mei milo nadia nils nora omar otto paula
    petra priya ravi rosa sami sara sofia sven tara theo tomas uma vera viktor wanda yara yusuf zoe
    """
)
CITIES = _split(
    """
    Accra Athens Bergen Bilbao Bogota Bremen Cairo Cork Dakar Delft Dublin Gdansk Geneva Ghent Graz Hanoi Jena
    Kyoto Lagos Leeds Lima Lisbon Lyon Malmo Milan Nairobi Nantes Odense Oslo Ottawa Porto Quito Riga Sofia
    Tallinn Tampere Turin Utrecht Vienna Vilnius Zagreb
    """
)
SERVICES = _split(
    """
    api auth backup billing cache cart catalog checkout cron database export gateway import indexer invoice
    mailer metrics orders payment proxy queue report router scheduler search session shop storage sync upload
    users web worker
    """
)
EVENTS = (
    "connection refused",
    "connection closed",
    "request done",
    "retry in 5 s",
    "token expired",
    "user logged in",
    "user logged out",
    "disk 91% full",
    "cache miss",
    "cache cleared",
    "file not found",
    "job started",
    "job finished",
    "config reloaded",
    "slow query",
    "queue is empty",
    "timeout after 30 s",
    "health check passed",
    "certificate renewed",
    "rate limit reached",
    "bad request",
    "record locked",
    "checksum differs",
    "service restarted",
    "permission denied for guest",
    "page rendered",
)
PATHS = _split(
    """
    / /about /cart /checkout /help /item/12 /item/311 /items /login /news /search?q=lamp /status
    """
)
LEVELS = ("INFO", "INFO", "INFO", "DEBUG", "WARN", "ERROR")


def noun(r: Random) -> str:
    """A noun: eight letters or fewer, as a rule."""
    return r.choice(NOUNS)


def phrase(r: Random) -> str:
    """Two or three words, for messages and titles."""
    return r.choice(
        (f"{r.choice(ADJECTIVES)} {noun(r)}", f"{noun(r)} and {noun(r)}", f"{r.choice(ADJECTIVES)} {noun(r)} {noun(r)}")
    )


def sentence(r: Random) -> str:
    """A short sentence without quotes."""
    person, city = r.choice(PEOPLE).capitalize(), r.choice(CITIES)
    subject, verb, thing = f"The {r.choice(ADJECTIVES)} {noun(r)}", r.choice(VERBS), noun(r)
    return r.choice(
        (
            f"{subject} {verb} the {thing}.",
            f"{person} {verb} {r.randint(2, 40)} {thing}s in {city}.",
            f"{person} from {city} {verb} a {r.choice(ADJECTIVES)} {thing}.",
            f"TODO: ask {person} about the {thing}",
            f"- {phrase(r)}: {r.randint(1, 900)}",
        )
    )


def day(r: Random) -> str:
    """A date of 2025 or 2026."""
    return f"{r.choice((2025, 2025, 2026))}-{r.randint(1, 12):02}-{r.randint(1, 28):02}"


# Contents of files, each a text that ends in a line feed and holds no tab (a typed tab completes names).


def text(r: Random) -> str:
    """Prose and notes."""
    return "".join(sentence(r) + "\n" for _ in range(r.randint(3, 8)))


def words(r: Random) -> str:
    """A word a line, some of them twice."""
    pool = r.sample(r.choice((NOUNS, PEOPLE, CITIES, ADJECTIVES)), r.randint(4, 8))
    return "".join(r.choice(pool) + "\n" for _ in range(r.randint(6, 12)))


def numbers(r: Random) -> str:
    """A number a line."""
    top = r.choice((20, 100, 5000))
    return "".join(f"{r.randint(1, top)}\n" for _ in range(r.randint(5, 12)))


_SUBJECTS = ("math", "art", "music", "history")
_TABLES: tuple[tuple[str, Callable[[Random], str]], ...] = (
    ("id,name,city,age", lambda r: f"{r.choice(PEOPLE)},{r.choice(CITIES)},{r.randint(18, 80)}"),
    ("id,item,count,price", lambda r: f"{noun(r)},{r.randint(0, 90)},{r.randint(1, 99)}.{r.randint(0, 99):02}"),
    ("id,date,product,amount", lambda r: f"{day(r)},{noun(r)},{r.randint(1, 500)}"),
    (
        "id,host,role,memory",
        lambda r: f"{noun(r)}{r.randint(1, 9)},{r.choice(SERVICES)},{r.randint(1, 128)}",
    ),
    ("id,sensor,place,value", lambda r: f"s{r.randint(1, 40)},{noun(r)},{r.randint(-10, 45)}.{r.randint(0, 9)}"),
    ("id,student,subject,points", lambda r: f"{r.choice(PEOPLE)},{r.choice(_SUBJECTS)},{r.randint(1, 100)}"),
)
"""Headers with what makes the rest of a row. The last column is a number."""


def csv(r: Random) -> str:
    """A header with four columns, the last of them a number, and rows."""
    header, row = r.choice(_TABLES)
    start = r.choice((1, 101, 1001))
    return header + "\n" + "".join(f"{start + i},{row(r)}\n" for i in range(r.randint(4, 8)))


def log(r: Random) -> str:
    """A service's log or a web server's."""
    date, second = day(r), r.randint(0, 70_000)
    services = r.sample(SERVICES, 3)
    web = r.random() < 0.35
    lines = []
    for _ in range(r.randint(6, 12)):
        second += r.randint(1, 900)
        clock = f"{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}"
        if web:
            status = r.choice((200, 200, 200, 302, 404, 500))
            host, size = f"10.0.{r.randint(0, 3)}.{r.randint(2, 9)}", r.randint(80, 9000)
            lines.append(f"{host} {date} {clock} GET {r.choice(PATHS)} {status} {size}")
        else:
            lines.append(f"{date} {clock} {r.choice(LEVELS)} {r.choice(services)}: {r.choice(EVENTS)}")
    return "\n".join(lines) + "\n"


def ini(r: Random) -> str:
    """Settings in sections."""
    sections = []
    for name in r.sample(SERVICES, 2):
        keys = r.sample(("port", "workers", "retries", "timeout", "size", "level"), 3)
        sections.append(f"[{name}]\n" + "".join(f"{key} = {r.choice((1, 2, 4, 8, 30, 8080, 9000))}\n" for key in keys))
    return "\n".join(sections)


def env(r: Random) -> str:
    """KEY=value lines."""
    keys = r.sample(("HOST", "PORT", "MODE", "REGION", "OWNER", "LIMIT", "COLOR", "STAGE"), 4)
    return "".join(f"{key}={r.choice((noun(r), str(r.randint(1, 9999))))}\n" for key in keys)


def json_text(r: Random) -> str:
    """A small object, on one line or indented."""
    value = {
        "name": noun(r),
        "version": f"{r.randint(0, 4)}.{r.randint(0, 20)}.{r.randint(0, 9)}",
        "tags": r.sample(NOUNS, r.randint(1, 3)),
        "owner": {"name": r.choice(PEOPLE), "city": r.choice(CITIES)},
        "count": r.randint(1, 500),
        "active": r.random() < 0.5,
    }
    keys = r.sample(sorted(value), r.randint(3, 6))
    return json.dumps({key: value[key] for key in keys}, indent=r.choice((None, 2))) + "\n"


def markdown(r: Random) -> str:
    """A page with headings and a list."""
    items = "".join(f"- {phrase(r)}\n" for _ in range(r.randint(2, 4)))
    return f"# {phrase(r).title()}\n\n{sentence(r)}\n\n## {noun(r).title()}\n\n{items}"


def html(r: Random) -> str:
    """A web page."""
    items = "".join(f"  <li>{phrase(r)}</li>\n" for _ in range(r.randint(2, 4)))
    title = phrase(r).title()
    return f"<html>\n<head><title>{title}</title></head>\n<body>\n<ul>\n{items}</ul>\n</body>\n</html>\n"


CONTENTS: dict[str, Callable[[Random], str]] = {
    "txt": text,
    "list": words,
    "num": numbers,
    "csv": csv,
    "log": log,
    "ini": ini,
    "env": env,
    "json": json_text,
    "md": markdown,
    "html": html,
}
"""Generators of content by kind of file."""


# Programs. In the templates, THING, OTHER, WHO, MANY and FEW stand for words and numbers.

Program = tuple[str, str | None]
"""The text, and the `sed` expression that repairs its one fault, if it has one."""

_SHELL = """\
name=${1:-THING}
echo "hello $name"
for i in $(seq 1 FEW); do
  echo "$i $name"
done
---
count=0
while [ $count -lt FEW ]; do
  count=$((count + 1))
  echo "THING $count"
done
echo "done: $count"
---
if [ -f "${1:-THING.txt}" ]; then
  wc -l "$1"
else
  echo "no file: ${1:-THING.txt}" >&2
  exit FEW
fi
---
set -e
mkdir -p THING
echo "OTHER MANY" > THING/OTHER.txt
cat THING/OTHER.txt
echo "made $(ls THING | wc -l) file"
---
total=0
for n in "$@"; do
  total=$((total + n))
done
echo "$# numbers, total $total"
---
case "${1:-help}" in
  start) echo "THING started" ;;
  stop) echo "THING stopped" ;;
  *) echo "usage: $0 start|stop" ;;
esac
---
greet() {
  local who=$1
  echo "THING for $who"
}
greet WHO
greet OTHER
---
while read -r line; do
  echo "> $line"
done < "${1:-/etc/hostname}"
echo "OTHER"
---
limit=${LIMIT:-FEW}
for word in THING OTHER WHO; do
  if [ ${#word} -gt $limit ]; then
    echo "$word is long"
  else
    echo "$word is short"
  fi
done
---
sizes=(MANY FEW 7)
sum=0
for s in "${sizes[@]}"; do
  sum=$((sum + s))
done
printf 'THING: %d of %d\n' "$sum" "${#sizes[@]}"
"""
_PYTHON = """\
def area(width, height):
    return width * height

print(area(MANY, FEW))
---
names = ['WHO', 'THING', 'OTHER']
for name in sorted(names):
    print(name.title(), len(name))
---
import sys

args = sys.argv[1:] or ['THING']
print(len(args), args[0].upper())
---
from collections import Counter

words = 'THING OTHER THING'.split()
print(Counter(words).most_common())
---
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

print([fib(i) for i in range(FEW)])
---
class Box:
    def __init__(self, size):
        self.size = size

    def grow(self, by):
        self.size += by
        return self

print('THING', Box(MANY).grow(FEW).size)
---
total = 0
for i in range(1, FEW + 1):
    total += i ** 2
    print(i, total)
print('mean', total / FEW)
---
import json

data = {'THING': MANY, 'sizes': [FEW, MANY]}
print(json.dumps(data, indent=1))
---
def check(count):
    if count > FEW:
        raise ValueError(f'too many: {count}')
    return count

for count in (1, FEW, MANY):
    print('THING', check(count))
---
prices = {'THING': MANY, 'OTHER': FEW}
for key in ('THING', 'WHO'):
    print(key, prices.get(key, 'none'))
print('sum', sum(prices.values()))
"""
_SHELL_FAULTS = (("echo", "ecoh"), ("seq", "sqe"), ("done\n", "doen\n"), ("esac\n", "easc\n"), ("printf", "pritnf"))
_PYTHON_FAULTS = (("print(", "pritn("), (":\n", "\n"), ("import", "improt"), ("range", "rnage"), ("return", "retrun"))


def shell_script(r: Random) -> Program:
    """A small bash script; in a third of the cases with a fault."""
    return _program(r, "#!/bin/bash\n", _SHELL, _SHELL_FAULTS)


def python_script(r: Random) -> Program:
    """A small Python program; in a third of the cases with a fault."""
    return _program(r, "", _PYTHON, _PYTHON_FAULTS)


def _program(r: Random, first: str, templates: str, faults: tuple[tuple[str, str], ...]) -> Program:
    thing, other = r.sample(NOUNS, 2)
    text = first + r.choice(templates.split("---\n"))
    stands_for = {"THING": thing, "OTHER": other, "WHO": r.choice(PEOPLE)}
    stands_for |= {"MANY": str(r.randint(10, 99)), "FEW": str(r.randint(2, 9))}
    for name, word in stands_for.items():
        text = text.replace(name, word)
    possible = [(right, wrong) for right, wrong in faults if right in text]
    if not possible or r.random() > 0.35:
        return text, None
    right, wrong = r.choice(possible)
    place = text.index(right)
    faulty = text[:place] + wrong + text[place + len(right) :]
    if wrong == "\n":  # a colon is missing at the end of a line
        line = text[:place].rpartition("\n")[2].strip()
        return faulty, f"s/{line}$/&:/"
    return faulty, f"s/{wrong.strip()}/{right.strip()}/"

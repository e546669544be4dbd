"""What the explorer of MCP servers knows: values by name, shapes of ids, and chains of calls for known servers."""

from collections.abc import Mapping
from typing import Any

Chain = tuple[tuple[str, Mapping[str, Any]], ...]
"""Calls in order: a tool and templates for its arguments."""

SENTENCES = (
    "The order for the north depot leaves on Thursday.",
    "Two of the three pumps were replaced; the third waits for a seal.",
    "Please call back before noon, the line is busy after that.",
    "Meeting moved to room 4, bring the figures for March.",
    "The new schedule saves about forty minutes a day.",
    "Nobody has tested the export since the last release.",
    "Rain is expected on both days, so the market is cancelled.",
    "The library closes at six; books may be returned at the side door.",
    "Costs rose by 4.5 percent, mostly for packaging.",
    "We agreed on the blue version with the larger handle.",
    "Still waiting for an answer from the supplier in Porto.",
    "First draft is done, the figures on page 3 need a check.",
)
_WORDS = (
    *("harbor", "lantern", "meadow", "copper", "orchid", "falcon", "juniper", "maple", "saffron", "willow"),
    *("quartz", "cedar", "ember", "violet", "amber", "basil", "heron", "thistle", "walnut", "pepper"),
    *("indigo", "marble", "clover", "river", "summit", "anchor", "pebble", "rowan", "velvet", "cobalt"),
)
_PEOPLE = ("Ines", "Tomas", "Priya", "Olu", "Marta", "Kenji", "Lena", "Amir", "Sofie", "Diego", "Nadia", "Piotr")
_CODE = (
    "def total(rows):\n    return sum(row.price * row.count for row in rows)\n",
    "import sys\n\nfor line in sys.stdin:\n    print(line.strip().upper())\n",
    "#!/bin/sh\nset -e\ntar czf backup.tgz notes\n",
    "class Queue:\n    def __init__(self):\n        self.items = []\n",
)

VALUES: dict[str, tuple[Any, ...]] = {
    "word": tuple(_WORDS),
    "person": _PEOPLE,
    "sentence": SENTENCES,
    "file": tuple(
        f"{word}{end}" for word in _WORDS[:14] for end in (".txt", ".md", ".csv", ".json", ".log") if len(word) < 7
    ),
    "folder": ("archive", "drafts", "reports", "inbox", "2026", "shared", "old", "photos", "invoices", "plans"),
    "text": (
        *SENTENCES,
        *("\n".join(SENTENCES[n : n + 3]) + "\n" for n in range(0, 9, 2)),
        *_CODE,
        "name,count,price\nbolt,120,0.15\nnut,340,0.05\nwasher,90,0.02\n",
        '{"name": "depot", "open": true, "lanes": [1, 2, 5]}\n',
        "# Plan\n\n- [ ] call the supplier\n- [x] order paper\n- [ ] check the roof\n",
    ),
    "number": (0, 1, -3, 7, 12.5, 42, 100, 1e6, 0.001, -273.15, 365, 81),
    "count": (1, 2, 3, 5, 8),
    "line": ("tail", "head"),
    # Time.
    "zone": (
        *("UTC", "Europe/Berlin", "Europe/London", "America/New_York", "America/Los_Angeles", "Asia/Tokyo"),
        *("Asia/Kolkata", "Asia/Kathmandu", "Australia/Sydney", "Australia/Lord_Howe", "Africa/Cairo"),
        *("America/Sao_Paulo", "America/St_Johns", "Pacific/Auckland", "Pacific/Kiritimati", "Pacific/Honolulu"),
        *("Asia/Tehran", "Atlantic/Azores", "Asia/Shanghai", "Africa/Johannesburg", "Europe/Istanbul"),
    ),
    "wrongzone": ("Mars/Olympus", "CEST", "GMT+25", "Berlin", "europe/berlin", "Asia/Mumbai", "America/San_Francisco"),
    "clock": ("00:00", "06:15", "09:30", "12:00", "12:30", "17:45", "21:05", "23:59", "03:00", "14:20"),
    "wrongclock": ("24:00", "9.30", "12:60", "noon", "25:10", "7pm", ""),
    # Git.
    "branch": ("feature/export", "fix-typo", "release-1.2", "docs", "wip", "experiment", "hotfix/rounding", "cleanup"),
    "commit": (
        *("Add notes for the next release", "Fix rounding of totals", "Update the guide", "Remove unused file"),
        *("Import sample data", "Rename options", "First draft of the report", "Handle empty input", "wip"),
        *("Correct spelling", "Describe the installation\n\nWith an example for each system.", "Bump version to 1.2.0"),
    ),
    "revision": ("HEAD", "HEAD~1", "main", "HEAD~2", "HEAD^", "v1.0"),
    "context": (0, 1, 3, 5, 10),
    # SQL.
    "sqltable": ("books", "visits", "parcels", "rooms", "plants", "payments", "tools", "trips"),
    "aggregate": ("count(*)", "sum(amount)", "avg(amount)", "max(amount)", "min(amount)", "group_concat(name)"),
    "amount": (12, 40, 75.5, 100, 250, 19.99, 3, 1000, 500, 64.25),
    "order": ("name", "amount DESC", "id DESC", "amount, name", "length(name)"),
    "city": ("Rivermist", "Stonebrook", "Maplecrest", "Silverpine", "London", "Paris", "Tokyo", "Boston", "Chicago"),
    "insight": (
        "Most of the amount comes from two entries.",
        "Entries without a city are older than the others.",
        "The average has doubled since the first row.",
    ),
    # Memory.
    "kind": ("person", "project", "city", "company", "book", "event"),
    "entity": (*_PEOPLE, "Lighthouse", "Northwind", "Porto", "Atlas", "Harvest Fair", "Blue Ledger"),
    "relation": ("works_on", "knows", "lives_in", "manages", "owns", "wrote", "depends_on", "visited"),
    "fact": (
        *("prefers tea", "started in 2019", "speaks Portuguese", "is closed on Mondays", "has 42 members"),
        *("moved from Lyon", "works part time", "was founded by two sisters", "needs a new roof", "plays the cello"),
    ),
    # Shops.
    "expression": ("12.5 * 4", "(100 - 20) / 3", "7 / 0", "2 ** 8", "45.9 + 19.99 - 10", "sqrt(2)", "1000 * 0.07"),
    "reason": ("no longer needed", "ordered by mistake", "too expensive"),
    "task_id": ("0", "7", "12", None),
    "domain": ("retail", "airline"),
    "street": ("12 Harbor Lane", "455 Maple Street", "9 Quarry Road", "1780 Juniper Avenue"),
    "suite": ("", "Suite 12", "Apt 4B"),
    "town": ("Denver", "Austin", "Portland", "Chicago"),
    "state": ("CO", "TX", "OR", "IL"),
    "country": ("USA",),
    "zip": ("80202", "73301", "97201", "60601"),
    "airport": ("JFK", "LAX", "SFO", "ORD", "ATL", "SEA", "DFW", "BOS", "MIA", "DEN", "LAS", "PHX", "CLT", "MCO"),
    "day": tuple(f"2024-05-{day:02}" for day in range(14, 31)),
    "cabin": ("economy", "basic_economy", "business"),
    # API classes.
    "keyword": ("report", "the", "meeting", "market", "draft", "zzz", "schedule"),
    "pattern": ("the", "e", "2026", "order", "pump", "xyz"),
    "user_name": ("Kenji", "Marta", "Lena", "Olu"),
    "symbol": ("AAPL", "GOOG", "TSLA", "MSFT", "NVDA", "ALPH", "OMEG", "QUAS", "NEPT", "SYNX", "ZETA", "ABCD"),
    "company": ("Apple", "Google", "Tesla", "Microsoft", "Nvidia", "Zeta Corp", "Omega Industries", "Nobody Inc"),
    "sector": ("Technology", "Automobile", "Finance", "Healthcare"),
    "side": ("Buy", "Sell"),
    "price": (50.5, 120, 227.16, 310.23, 667.92, 1000, 5),
    "shares": (1, 5, 10, 25, 100),
    "currency": ("USD", "EUR", "JPY", "GBP", "CAD", "AUD", "INR", "RMB", "BRL", "MXN"),
    "travelclass": ("economy", "business", "first"),
    "traveldate": ("2024-11-10", "2024-12-01", "2025-02-14", "2024-10-10"),
    "code": ("RMS", "SBK", "MPC", "SVP", "SHD", "LHR", "CDG", "JFK", "LAX", "SFO", "ORD", "BOS", "PEK", "HND", "ZZZ"),
    "card": ("2345678901234567", "4111222233334444", "5500112233445566"),
    "unit_in": ("km", "m", "cm", "kg", "g"),
    "unit_out": ("m", "cm", "mm", "g", "mg", "lb"),
    "imperial": ("cm_to_in", "km_to_mi", "kg_to_lb"),
    "title": ("Printer on floor 2 is offline", "Password reset", "Invoice 118 is wrong", "VPN drops every hour"),
    "ticketstatus": ("Open", "In Progress", "Resolved", "Closed"),
    "tag": ("#market", "#rain", "#books", "#news"),
    "door": ("driver", "passenger", "rear_left", "rear_right"),
    "part": ("fuel", "battery", "doors", "climate", "headlights", "parkingBrake", "brakePedal", "engine"),
    "place": ("New York", "Chicago", "Los Angeles"),
    "datauri": ("data:text/plain,hello", "data:text/plain;base64,aGVsbG8gd29ybGQ=", "data:text/csv,a%2Cb%0A1%2C2"),
    "seconds": (0.1, 0.3, 0.5),
}
"""What to draw for a name of a template, or for a parameter of that name."""

ALIASES: dict[str, str] = {
    "repopath": "repository",
    "branchname": "branch",
    "basebranch": "branch",
    "target": "revision",
    "message": "sentence",
    "content": "text",
    "commentcontent": "sentence",
    "filename": "file",
    "filename1": "file",
    "filename2": "file",
    "dirname": "folder",
    "folder": "folder",
    "timezone": "zone",
    "sourcetimezone": "zone",
    "targettimezone": "zone",
    "time": "clock",
    "stock": "symbol",
    "ordertype": "side",
    "status": "ticketstatus",
    "travelfrom": "code",
    "travelto": "code",
    "travelclass": "travelclass",
    "traveldate": "traveldate",
    "basecurrency": "currency",
    "targetcurrency": "currency",
    "description": "sentence",
    "resolution": "sentence",
    "summary": "sentence",
    "entitytype": "kind",
    "relationtype": "relation",
    "observation": "fact",
    "origin": "airport",
    "destination": "airport",
    "username": "user_name",
    "location": "city",
    "query": "keyword",
}
"""Names of parameters (in the spelling of `key_of`) that mean what is known under another name."""

SHAPES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("sha", r"\b[0-9a-f]{40}\b", ()),
    ("order_id", r"#W\d{7}\b", ()),
    ("product_id", r"\b\d{10}\b", ("list_all_product_types",)),
    ("path", r"/(?:home|srv|tmp)/[\w./-]*\w", ()),
    ("changed", r"(?:modified|deleted|new file):\s+(\S+)", ()),
    ("changed", r"^\t([\w./-]+)$", ("git_status",)),
)
"""Values that are known by their form: the key, a pattern, and the tools (none: all) in whose results to look."""

_REPO = {"repo_path": "{last_repository}"}
_FILE = "{last_root}/{file}"
_INNER = "{last_root}/{folder}/{file}"

_GIT: tuple[Chain, ...] = (
    (
        ("git_status", _REPO),
        ("git_diff_unstaged", {**_REPO, "context_lines": "{context}"}),
        ("git_add", {**_REPO, "files": ["{any_changed}"]}),
        ("git_diff_staged", _REPO),
        ("git_commit", {**_REPO, "message": "{commit}"}),
        ("git_log", {**_REPO, "max_count": "{count}"}),
        ("git_show", {**_REPO, "revision": "{last_sha}"}),
        ("git_status", _REPO),
    ),
    (
        ("git_branch", {**_REPO, "branch_type": "local"}),
        ("git_create_branch", {**_REPO, "branch_name": "{branch}"}),
        ("git_checkout", {**_REPO, "branch_name": "{branch}"}),
        ("git_status", _REPO),
        ("git_add", {**_REPO, "files": ["{any_changed}"]}),
        ("git_commit", {**_REPO, "message": "{commit}"}),
        ("git_diff", {**_REPO, "target": "main"}),
        ("git_checkout", {**_REPO, "branch_name": "main"}),
        ("git_log", _REPO),
    ),
    (
        ("git_add", {**_REPO, "files": ["."]}),
        ("git_status", _REPO),
        ("git_reset", _REPO),
        ("git_status", _REPO),
        ("git_commit", {**_REPO, "message": "{commit}"}),
    ),
    (
        ("git_create_branch", {**_REPO, "branch_name": "{branch}", "base_branch": "main"}),
        ("git_create_branch", {**_REPO, "branch_name": "{branch}"}),
        ("git_branch", {**_REPO, "branch_type": "all"}),
    ),
    (
        ("git_log", {**_REPO, "max_count": "{count}", "start_timestamp": "2025-06-01"}),
        ("git_show", {**_REPO, "revision": "{any_sha}"}),
        ("git_diff", {**_REPO, "target": "{any_sha}", "context_lines": "{context}"}),
        ("git_branch", {**_REPO, "branch_type": "local", "contains": "{any_sha}"}),
    ),
    (
        ("git_show", {**_REPO, "revision": "{revision}"}),
        ("git_diff", {**_REPO, "target": "{revision}"}),
        ("git_checkout", {**_REPO, "branch_name": "{branch}"}),
    ),
    (
        ("git_add", {**_REPO, "files": ["{file}"]}),
        ("git_branch", {**_REPO, "branch_type": "remote"}),
        ("git_status", {"repo_path": "/home/user/{folder}"}),
    ),
)

_FILESYSTEM: tuple[Chain, ...] = (
    (
        ("list_allowed_directories", {}),
        ("write_file", {"path": _FILE, "content": "{text}"}),
        ("read_text_file", {"path": _FILE}),
        ("edit_file", {"path": _FILE, "edits": [{"oldText": "the", "newText": "{word}"}], "dryRun": True}),
        ("edit_file", {"path": _FILE, "edits": [{"oldText": "the", "newText": "{word}"}]}),
        ("read_text_file", {"path": _FILE}),
        ("get_file_info", {"path": _FILE}),
    ),
    (
        ("create_directory", {"path": "{last_root}/{folder}"}),
        ("write_file", {"path": _INNER, "content": "{text}"}),
        ("write_file", {"path": "{last_root}/{folder}/{file2}", "content": "{text2}"}),
        ("list_directory_with_sizes", {"path": "{last_root}/{folder}", "sortBy": "size"}),
        ("read_multiple_files", {"paths": [_INNER, "{last_root}/{folder}/{file2}", "{last_root}/{folder}/{file3}"]}),
        ("move_file", {"source": _INNER, "destination": "{last_root}/{file}"}),
        ("list_directory", {"path": "{last_root}/{folder}"}),
        ("read_text_file", {"path": _INNER}),
        ("directory_tree", {"path": "{last_root}"}),
    ),
    (
        ("list_directory", {"path": "{last_root}"}),
        ("search_files", {"path": "{last_root}", "pattern": "*.md"}),
        ("read_text_file", {"path": "{any_path}", "head": "{count}"}),
        ("read_text_file", {"path": "{any_path}", "tail": "{count}"}),
        ("search_files", {"path": "{last_root}", "pattern": "**/*", "excludePatterns": ["*.txt"]}),
    ),
    (
        ("read_text_file", {"path": "/etc/hostname"}),
        ("list_allowed_directories", {}),
        ("read_text_file", {"path": "{last_root}/../{file}"}),
        ("move_file", {"source": "{last_root}/{file}", "destination": "/tmp/{file}"}),
    ),
    (
        ("write_file", {"path": _FILE, "content": "{text}"}),
        ("write_file", {"path": "{last_root}/{file2}", "content": "{text2}"}),
        ("move_file", {"source": _FILE, "destination": "{last_root}/{file2}"}),
        ("move_file", {"source": _FILE, "destination": "{last_root}/{folder}/new-{file2}"}),
        ("create_directory", {"path": "{last_root}/{folder}/{word}"}),
        ("move_file", {"source": _FILE, "destination": "{last_root}/{folder}/{word}/{file}"}),
        ("directory_tree", {"path": "{last_root}/{folder}"}),
    ),
    (
        ("edit_file", {"path": "{any_path}", "edits": [{"oldText": "{word}", "newText": "{word2}"}]}),
        ("get_file_info", {"path": "{any_path}"}),
        ("list_directory", {"path": "{any_path}"}),
        ("read_media_file", {"path": "{any_path}"}),
    ),
)

_SQLITE: tuple[Chain, ...] = (
    (
        ("list_tables", {}),
        ("describe_table", {"table_name": "{any_name}"}),
        ("read_query", {"query": "SELECT * FROM {last_name} LIMIT {count}"}),
        ("read_query", {"query": "SELECT count(*) AS n FROM sqlite_master WHERE type = 'table'"}),
    ),
    (
        (
            "create_table",
            {
                "query": "CREATE TABLE {sqltable} (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, "
                "city TEXT, amount REAL DEFAULT 0)"
            },
        ),
        (
            "write_query",
            {
                "query": "INSERT INTO {sqltable} (name, city, amount) VALUES ('{word}', '{city}', {amount}), "
                "('{word2}', '{city2}', {amount2}), ('{word3}', NULL, {amount3})"
            },
        ),
        ("read_query", {"query": "SELECT * FROM {sqltable} ORDER BY {order}"}),
        ("write_query", {"query": "UPDATE {sqltable} SET amount = amount + {amount4} WHERE city = '{city}'"}),
        ("read_query", {"query": "SELECT {aggregate} AS value FROM {sqltable}"}),
        ("write_query", {"query": "INSERT INTO {sqltable} (name) VALUES ('{word}')"}),
        ("write_query", {"query": "DELETE FROM {sqltable} WHERE name = '{word2}'"}),
        ("read_query", {"query": "SELECT name, amount FROM {sqltable} WHERE amount > {amount5}"}),
        ("describe_table", {"table_name": "{sqltable}"}),
        ("append_insight", {"insight": "{insight}"}),
    ),
    (
        ("read_query", {"query": "SELECT city, {aggregate} AS value FROM customers GROUP BY city ORDER BY 2 DESC"}),
        (
            "read_query",
            {
                "query": "SELECT c.name, sum(s.amount) AS total FROM sales s JOIN customers c ON c.id = s.customer_id "
                "GROUP BY c.name HAVING total > {amount} ORDER BY total DESC"
            },
        ),
        ("write_query", {"query": "INSERT INTO customers (name, city, amount) VALUES ('{person}', '{city}', 0)"}),
        ("read_query", {"query": "SELECT * FROM customers WHERE name LIKE '{person}%'"}),
        (
            "write_query",
            {"query": "INSERT INTO sales (customer_id, product, amount) VALUES ({count}, '{word}', {amount})"},
        ),
        ("read_query", {"query": "SELECT * FROM sales ORDER BY id DESC LIMIT {count2}"}),
        ("write_query", {"query": "DELETE FROM customers WHERE id = {count3}"}),
    ),
    (
        ("read_query", {"query": "SELECT colour FROM customers"}),
        ("read_query", {"query": "SELECT * FROM {sqltable}_old"}),
        ("write_query", {"query": "SELECT * FROM customers"}),
        ("read_query", {"query": "DELETE FROM customers"}),
        ("create_table", {"query": "CREATE TABLE customers (id INTEGER)"}),
        ("read_query", {"query": "SELECT * FORM customers"}),
        ("describe_table", {"table_name": "{word}"}),
    ),
    (
        ("write_query", {"query": "ALTER TABLE customers ADD COLUMN {word} TEXT DEFAULT '{city}'"}),
        ("describe_table", {"table_name": "customers"}),
        ("read_query", {"query": "SELECT name, {word} FROM customers LIMIT 2"}),
        ("write_query", {"query": "DROP TABLE IF EXISTS {sqltable}"}),
        ("list_tables", {}),
    ),
    (
        ("read_query", {"query": "SELECT upper(name) AS name, round(amount / 3, 2) AS third FROM customers"}),
        ("read_query", {"query": "WITH t AS (SELECT amount FROM sales) SELECT {aggregate} AS v FROM customers"}),
        ("read_query", {"query": "SELECT product, count(*) AS n FROM sales GROUP BY product ORDER BY n DESC, product"}),
        ("append_insight", {"insight": "{insight}"}),
    ),
)

_ENTITY = {"name": "{entity}", "entityType": "{kind}", "observations": ["{fact}"]}
_MEMORY: tuple[Chain, ...] = (
    (
        (
            "create_entities",
            {
                "entities": [
                    _ENTITY,
                    {"name": "{entity2}", "entityType": "{kind2}", "observations": ["{fact2}", "{fact3}"]},
                ]
            },
        ),
        ("create_relations", {"relations": [{"from": "{entity}", "to": "{entity2}", "relationType": "{relation}"}]}),
        ("add_observations", {"observations": [{"entityName": "{entity}", "contents": ["{fact4}", "{fact}"]}]}),
        ("open_nodes", {"names": ["{entity}", "{entity2}"]}),
        ("search_nodes", {"query": "{kind}"}),
        ("delete_observations", {"deletions": [{"entityName": "{entity}", "observations": ["{fact4}"]}]}),
        ("open_nodes", {"names": ["{entity}"]}),
        ("delete_entities", {"entityNames": ["{entity2}"]}),
        ("read_graph", {}),
    ),
    (
        ("read_graph", {}),
        ("create_entities", {"entities": [_ENTITY]}),
        ("create_entities", {"entities": [_ENTITY]}),
        ("search_nodes", {"query": "{fact}"}),
        ("add_observations", {"observations": [{"entityName": "{word}", "contents": ["{fact}"]}]}),
    ),
    (
        ("search_nodes", {"query": "{word}"}),
        (
            "create_relations",
            {"relations": [{"from": "{any_name}", "to": "{entity}", "relationType": "{relation}"}]},
        ),
        ("open_nodes", {"names": ["{any_name}"]}),
        (
            "delete_relations",
            {"relations": [{"from": "{any_name}", "to": "{entity}", "relationType": "{relation}"}]},
        ),
        ("delete_entities", {"entityNames": ["{word}"]}),
        ("read_graph", {}),
    ),
)

_TIME: tuple[Chain, ...] = (
    (
        ("convert_time", {"source_timezone": "{zone}", "time": "{clock}", "target_timezone": "{zone2}"}),
        ("convert_time", {"source_timezone": "{zone2}", "time": "{clock2}", "target_timezone": "{zone3}"}),
        ("convert_time", {"source_timezone": "{zone3}", "time": "{clock3}", "target_timezone": "{zone}"}),
    ),
    (
        ("get_current_time", {"timezone": "{zone}"}),
        ("convert_time", {"source_timezone": "{zone}", "time": "{clock}", "target_timezone": "{wrongzone}"}),
    ),
    (
        ("get_current_time", {"timezone": "{wrongzone}"}),
        ("convert_time", {"source_timezone": "{zone}", "time": "{wrongclock}", "target_timezone": "{zone2}"}),
        ("convert_time", {"source_timezone": "{zone}", "time": "{clock}", "target_timezone": "{zone2}"}),
    ),
)

_EVERYTHING: tuple[Chain, ...] = (
    (("echo", {"message": "{sentence}"}), ("get-sum", {"a": "{number}", "b": "{number2}"})),
    (("get-structured-content", {"location": "{place}"}), ("get-structured-content", {"location": "{city}"})),
    (("get-annotated-message", {"messageType": "error", "includeImage": False}), ("get-resource-links", {})),
    (
        ("get-resource-reference", {"resourceType": "Text", "resourceId": "{count}"}),
        ("get-resource-reference", {"resourceType": "Blob", "resourceId": 0}),
    ),
    (("trigger-elicitation-request", {}), ("echo", {"message": "{word}"})),
    (("trigger-long-running-operation", {"duration": "{seconds}", "steps": "{count}"}),),
    (("gzip-file-as-resource", {"name": "{file}.gz", "data": "{datauri}", "outputType": "resource"}),),
)

_BFCL: tuple[Chain, ...] = (
    (
        ("pwd", {}),
        ("ls", {"a": True}),
        ("mkdir", {"dir_name": "{folder}"}),
        ("cd", {"folder": "{folder}"}),
        ("touch", {"file_name": "{file}"}),
        ("echo", {"content": "{sentence}", "file_name": "{file}"}),
        ("cat", {"file_name": "{file}"}),
        ("wc", {"file_name": "{file}", "mode": "w"}),
        ("cp", {"source": "{file}", "destination": "{file2}"}),
        ("diff", {"file_name1": "{file}", "file_name2": "{file2}"}),
        ("rm", {"file_name": "{file}"}),
        ("ls", {}),
        ("cd", {"folder": ".."}),
        ("rmdir", {"dir_name": "{folder}"}),
    ),
    (
        ("ls", {}),
        ("cat", {"file_name": "{any_currentdirectorycontent}"}),
        ("grep", {"file_name": "{last_currentdirectorycontent}", "pattern": "{pattern}"}),
        ("tail", {"file_name": "{any_currentdirectorycontent}", "lines": "{count}"}),
        ("sort", {"file_name": "{any_currentdirectorycontent}"}),
        ("mv", {"source": "{any_currentdirectorycontent}", "destination": "{file}"}),
        ("find", {"path": ".", "name": "{word}"}),
        ("du", {"human_readable": True}),
    ),
    (
        ("cd", {"folder": "{any_currentdirectorycontent}"}),
        ("ls", {}),
        ("mkdir", {"dir_name": "{folder}"}),
        ("mkdir", {"dir_name": "{folder}"}),
        ("cd", {"folder": "{word}"}),
        ("cat", {"file_name": "{file}"}),
    ),
    (
        ("mean", {"numbers": ["{number}", "{number2}", "{number3}"]}),
        ("standard_deviation", {"numbers": ["{number}", "{number2}", "{number3}"]}),
        ("sum_values", {"numbers": ["{amount}", "{amount2}", "{amount3}"]}),
        ("divide", {"a": "{amount}", "b": 0}),
        ("divide", {"a": "{amount}", "b": "{count}"}),
        ("logarithm", {"value": "{amount}", "base": 10, "precision": 4}),
        ("square_root", {"number": "{number}", "precision": 3}),
        ("percentage", {"part": "{count}", "whole": "{amount}"}),
        ("power", {"base": "{count}", "exponent": "{count2}"}),
        ("round_number", {"number": "{amount}", "decimal_places": 1}),
    ),
    (
        ("si_unit_conversion", {"value": "{amount}", "unit_in": "{unit_in}", "unit_out": "{unit_out}"}),
        ("imperial_si_conversion", {"value": "{amount}", "unit_in": "cm", "unit_out": "in"}),
        ("max_value", {"numbers": ["{number}", "{number2}"]}),
        ("min_value", {"numbers": []}),
        ("absolute_value", {"number": "{number}"}),
        ("subtract", {"a": "{number}", "b": "{number2}"}),
        ("multiply", {"a": "{number}", "b": "{amount}"}),
        ("add", {"a": "{number}", "b": "{amount}"}),
    ),
    (
        ("message_get_login_status", {}),
        ("list_users", {}),
        ("get_user_id", {"user": "{user_name}"}),
        ("send_message", {"receiver_id": "{last_userid}", "message": "{sentence}"}),
        ("message_login", {"user_id": "{last_userid}"}),
        ("send_message", {"receiver_id": "USR002", "message": "{sentence}"}),
        ("view_messages_sent", {}),
        ("search_messages", {"keyword": "{keyword}"}),
        ("delete_message", {"receiver_id": "USR002"}),
        ("view_messages_sent", {}),
        ("get_message_stats", {}),
        ("add_contact", {"user_name": "{person}"}),
        ("list_users", {}),
    ),
    (
        ("posting_get_login_status", {}),
        ("post_tweet", {"content": "{sentence}"}),
        ("authenticate_twitter", {"username": "{last_username}", "password": "{last_password}"}),
        ("post_tweet", {"content": "{sentence}", "tags": ["{tag}"], "mentions": ["@{word}"]}),
        ("comment", {"tweet_id": "{last_id}", "comment_content": "{sentence2}"}),
        ("get_tweet_comments", {"tweet_id": "{last_id}"}),
        ("retweet", {"tweet_id": "{last_id}"}),
        ("retweet", {"tweet_id": "{last_id}"}),
        ("get_user_tweets", {"username": "{last_username}"}),
        ("search_tweets", {"keyword": "{keyword}"}),
        ("get_tweet", {"tweet_id": 99}),
    ),
    (
        ("list_all_following", {}),
        ("follow_user", {"username_to_follow": "{word}"}),
        ("follow_user", {"username_to_follow": "{word}"}),
        ("get_user_stats", {"username": "{last_username}"}),
        ("unfollow_user", {"username_to_unfollow": "{word}"}),
        ("unfollow_user", {"username_to_unfollow": "{word}"}),
        ("mention", {"tweet_id": 0, "mentioned_usernames": ["{word2}", "{word3}"]}),
    ),
    (
        ("ticket_get_login_status", {}),
        ("create_ticket", {"title": "{title}", "description": "{sentence}", "priority": "{count}"}),
        ("ticket_login", {"username": "{last_username}", "password": "{last_password}"}),
        ("create_ticket", {"title": "{title}", "description": "{sentence}", "priority": "{count}"}),
        ("edit_ticket", {"ticket_id": "{last_id}", "updates": {"priority": 5, "title": "{title2}"}}),
        ("get_ticket", {"ticket_id": "{last_id}"}),
        ("resolve_ticket", {"ticket_id": "{last_id}", "resolution": "{sentence2}"}),
        ("resolve_ticket", {"ticket_id": "{last_id}", "resolution": "{sentence2}"}),
        ("close_ticket", {"ticket_id": "{last_id}"}),
        ("get_user_tickets", {"status": "{ticketstatus}"}),
        ("get_ticket", {"ticket_id": 404}),
    ),
    (
        ("trading_get_login_status", {}),
        ("get_stock_info", {"symbol": "{symbol}"}),
        ("trading_login", {"username": "{last_username}", "password": "{last_password}"}),
        ("get_account_info", {}),
        ("place_order", {"order_type": "{side}", "symbol": "{symbol}", "price": "{price}", "amount": "{shares}"}),
        ("get_order_details", {"order_id": "{last_orderid}"}),
        ("get_order_history", {}),
        ("cancel_order", {"order_id": "{last_orderid}"}),
        ("cancel_order", {"order_id": "{last_orderid}"}),
        ("get_order_details", {"order_id": "{last_orderid}"}),
    ),
    (
        ("get_available_stocks", {"sector": "{sector}"}),
        ("get_symbol_by_name", {"name": "{company}"}),
        ("add_to_watchlist", {"stock": "{symbol}"}),
        ("get_watchlist", {}),
        ("filter_stocks_by_price", {"stocks": ["{symbol}", "{symbol2}"], "min_price": 100, "max_price": 700}),
        ("notify_price_change", {"stocks": ["{symbol}", "{symbol2}"], "threshold": 1}),
        ("remove_stock_from_watchlist", {"symbol": "{symbol}"}),
        ("get_watchlist", {}),
    ),
    (
        ("fund_account", {"amount": "{amount}"}),
        ("get_account_info", {}),
        ("withdraw_funds", {"amount": "{amount2}"}),
        ("withdraw_funds", {"amount": 1e7}),
        ("get_transaction_history", {}),
        ("trading_logout", {}),
        ("fund_account", {"amount": 10}),
    ),
    (
        ("travel_get_login_status", {}),
        (
            "authenticate_travel",
            {
                "client_id": "{word}-id",
                "client_secret": "{word}-secret",
                "refresh_token": "{word2}",
                "grant_type": "read_write",
                "user_first_name": "{person}",
                "user_last_name": "Silva",
            },
        ),
        (
            "register_credit_card",
            {
                "access_token": "{last_accesstoken}",
                "card_number": "{card}",
                "expiration_date": "09/2028",
                "cardholder_name": "{person} Silva",
                "card_verification_number": 321,
            },
        ),
        ("get_all_credit_cards", {}),
        (
            "get_flight_cost",
            {"travel_from": "{code}", "travel_to": "{code2}", "travel_date": "{traveldate}", "travel_class": "economy"},
        ),
        (
            "book_flight",
            {
                "access_token": "{last_accesstoken}",
                "card_id": "{last_cardid}",
                "travel_date": "{traveldate}",
                "travel_from": "{code}",
                "travel_to": "{code2}",
                "travel_class": "{travelclass}",
            },
        ),
        (
            "purchase_insurance",
            {
                "access_token": "{last_accesstoken}",
                "insurance_type": "travel",
                "booking_id": "{last_bookingid}",
                "insurance_cost": "{amount}",
                "card_id": "{last_cardid}",
            },
        ),
        ("retrieve_invoice", {"access_token": "{last_accesstoken}", "booking_id": "{last_bookingid}"}),
        ("contact_customer_support", {"booking_id": "{last_bookingid}", "message": "{sentence}"}),
        ("cancel_booking", {"access_token": "{last_accesstoken}", "booking_id": "{last_bookingid}"}),
        ("get_booking_history", {"access_token": "{last_accesstoken}"}),
    ),
    (
        ("list_all_airports", {}),
        ("get_nearest_airport_by_city", {"location": "{city}"}),
        (
            "compute_exchange_rate",
            {"base_currency": "{currency}", "target_currency": "{currency2}", "value": "{price}"},
        ),
        ("set_budget_limit", {"access_token": "{last_accesstoken}", "budget_limit": "{price}"}),
        ("get_credit_card_balance", {"access_token": "{last_accesstoken}", "card_id": "{last_cardid}"}),
        (
            "verify_traveler_information",
            {
                "first_name": "{person}",
                "last_name": "Silva",
                "date_of_birth": "1990-05-04",
                "passport_number": "543216789",
            },
        ),
    ),
    (
        ("displayCarStatus", {"option": "{part}"}),
        ("startEngine", {"ignitionMode": "START"}),
        ("lockDoors", {"unlock": False, "door": ["driver", "passenger", "rear_left", "rear_right"]}),
        ("pressBrakePedal", {"pedalPosition": 1}),
        ("startEngine", {"ignitionMode": "START"}),
        ("activateParkingBrake", {"mode": "release"}),
        ("releaseBrakePedal", {}),
        ("setCruiseControl", {"speed": 65, "activate": True, "distanceToNextVehicle": 60}),
        ("get_current_speed", {}),
        ("displayCarStatus", {"option": "engine"}),
        ("startEngine", {"ignitionMode": "STOP"}),
    ),
    (
        ("displayCarStatus", {"option": "fuel"}),
        ("fillFuelTank", {"fuelAmount": "{amount}"}),
        ("fillFuelTank", {"fuelAmount": "{count}"}),
        ("get_zipcode_based_on_city", {"city": "{city}"}),
        ("get_zipcode_based_on_city", {"city": "{city2}"}),
        ("estimate_distance", {"cityA": "{any_zipcode}", "cityB": "{last_zipcode}"}),
        ("estimate_drive_feasibility_by_mileage", {"distance": "{last_distance}"}),
        ("set_navigation", {"destination": "{street}, {city}, CA"}),
    ),
    (
        ("check_tire_pressure", {}),
        ("find_nearest_tire_shop", {}),
        ("adjustClimateControl", {"temperature": 21, "unit": "celsius", "fanSpeed": 60, "mode": "cool"}),
        ("displayCarStatus", {"option": "climate"}),
        ("setHeadlights", {"mode": "auto"}),
        ("lockDoors", {"unlock": True, "door": ["{door}"]}),
        ("displayCarStatus", {"option": "doors"}),
        ("liter_to_gallon", {"liter": "{amount}"}),
        ("gallon_to_liter", {"gallon": "{count}"}),
        ("display_log", {"messages": ["{sentence}"]}),
    ),
)

_SHOP: tuple[Chain, ...] = (
    (
        ("list_all_product_types", {}),
        ("get_product_details", {"product_id": "{any_productid}"}),
        ("get_item_details", {"item_id": "{any_itemid}"}),
        ("calculate", {"expression": "{last_price} * {count}"}),
    ),
    (("calculate", {"expression": "{expression}"}), ("get_call_log", {})),
    (("transfer_to_human_agents", {"summary": "{sentence}"}),),
    (
        ("list_all_airports", {}),
        ("search_direct_flight", {"origin": "{airport}", "destination": "{airport2}", "date": "{day}"}),
        ("search_onestop_flight", {"origin": "{airport}", "destination": "{airport2}", "date": "{day}"}),
        ("get_flight_status", {"flight_number": "{any_flightnumber}", "date": "{day}"}),
        ("get_flight_status", {"flight_number": "HAT999", "date": "{day}"}),
    ),
    (
        ("get_user_details", {"user_id": "{any_userid}"}),
        ("send_certificate", {"user_id": "{last_userid}", "amount": "{count}"}),
        ("get_user_details", {"user_id": "{last_userid}"}),
    ),
)

CHAINS: tuple[Chain, ...] = (*_GIT, *_FILESYSTEM, *_SQLITE, *_MEMORY, *_TIME, *_EVERYTHING, *_BFCL, *_SHOP)
"""A chain belongs to every server that has all its tools."""

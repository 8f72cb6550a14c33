"""Every way there is to read a log, each checked for what it promises whatever the log.

A table, or one clear LogError; of a command, status 0 and sound output, or
status 2 and one line.  Nothing a log names reaches a terminal raw.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import sys
from pathlib import Path

import pyio_trace
from pyio_trace.analysis.typed_results import views
from pyio_trace.cli.main import main
from pyio_trace.errors import LogError
from pyio_trace.events import INTERNAL, OPERATIONS, arrow_schema
from pyio_trace.export import formats

EVERY = tuple(column.name for column in OPERATIONS + INTERNAL)
#: What would move a cursor, colour a screen, break a line or turn text round.
RAW = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e01ef]"
)
#: What a CI service that shows the text would take for a command.
CI_COMMAND = re.compile(r"^\s*::[a-z-]+(?: .*)?::|##\w*\[", re.MULTILINE)
#: Errors that reading a log may end in; not among them: that there was no memory.
SLUGS = {
    "no-such-log",
    "not-a-log",
    "log-unreadable",
    "log-truncated",
    "log-version",
    "log-damaged",
    "log-too-large",
    "log-unwritable",
}
COMMANDS: list[list[str]] = [
    ["summary"], ["summary", "--format", "json"], ["summary", "--top", "1000000"],
    ["events"], ["events", "--format", "csv"], ["events", "--format", "json"],
    ["events", "--sort", "duration", "--limit", "3"], ["events", "--sort", "path", "--columns", "path,id", "--reverse"],
    ["events", "--errors", "--layer", "posix"], ["events", "--path", "*x*", "--min-duration", "1us"],
    ["events", "--op", "r*", "--process", "100", "--format", "csv"],
    ["files"], ["files", "--format", "csv"], ["files", "--format", "json", "--imports"], ["files", "--path", "/n/*"],
    ["stacks"], ["stacks", "--format", "folded"], ["stacks", "--format", "folded", "--value", "bytes"],
    ["stacks", "--format", "json", "--imports"],
    ["counters"], ["counters", "--format", "csv"], ["counters", "--format", "json", "--by-process", "--imports"],
    ["counters", "--unrecorded"], ["counters", "--unrecorded", "--format", "json"],
    ["summary", "--process", "*", "--since", "1us"], ["summary", "--line", "*.py", "--path", "**", "--format", "json"],
    ["files", "--until", "1s", "--line", "x.py:1"], ["stacks", "--process", "1", "--path", "/n/*", "--until", "1ms"],
    ["insights"], ["insights", "--format", "json"], ["insights", "--format", "sarif"],
    ["insights", "--format", "github"], ["insights", "--format", "markdown", "--path", "**"],
    ["diff", "--all"], ["diff", "--format", "json", "--fail-if", "counts>+0"],
    ["summary", "--all"], ["summary", "--section", "tasks", "--section", "processes"],
    ["processes"], ["processes", "--format", "csv"], ["processes", "--format", "json"],
    ["insights", "--rule", "read-again", "--fail-on", "info"],
    *(["view", name, *more] for name in views() for more in ([], ["--json"])),
    *(["export", "--to", name] for name in formats()), ["export", "--to", "chrome", "--imports", "--max-size", "20K"],
    ["pack"], ["report", "--force"],
    ["report", "--force", "--max-operations", "3", "--no-source"],
]  # fmt: skip
#: Statuses other than 0 that say something of the log, and no error.
_FAILS = ("--fail-if", "--fail-on")


def read(path: Path, choice: int) -> str:
    """All of the log through the interface, then one command; returns "table" or the slug of the LogError."""
    got = tables(path, choice)
    command(path, COMMANDS[choice % len(COMMANDS)])
    return got


def tables(path: Path, choice: int) -> str:
    """All of the log through the interface; returns "table" or the slug of the LogError."""
    try:
        return _tables(path, choice)
    except LogError as error:
        assert "\n" not in str(error) and not RAW.search(str(error)), ascii(str(error))
        assert error.slug in SLUGS, str(error)
        return error.slug


def _tables(path: Path, choice: int) -> str:
    log = pyio_trace.open(path)
    some = [name for number, name in enumerate(EVERY) if choice >> (number % 24) & 1]
    chosen = log.operations(some[::-1])
    assert chosen.schema.equals(arrow_schema(some[::-1]))
    table = log.operations(EVERY)
    table.validate(full=True)
    assert table.num_rows == log.rows()
    if some:
        assert chosen.num_rows == table.num_rows
    for column in OPERATIONS + INTERNAL:
        assert column.nullable or table[column.name].null_count == 0, column.name
    dictionaries = {c.name: log.dictionary(c.name) for c in OPERATIONS + INTERNAL if c.type == "dictionary"}
    for batch in log.batches(EVERY, choice % 100 + 1):
        assert 0 < batch.num_rows <= choice % 100 + 1
        for name, values in dictionaries.items():
            assert batch.column(name).dictionary.equals(values), name
    for extra in (log.processes(), log.counters(), log.samples()):
        extra.validate(full=True)
    json.dumps([log.losses(), log.info()], ensure_ascii=False).encode()
    return "table"


def command(path: Path, words: list[str]) -> None:
    """One command in this process."""
    out, err = io.BytesIO(), io.StringIO()
    at = 2 if words[0] == "view" else 1
    arguments = [*words[:at], str(path), *words[at:]]
    if words[0] == "pack":
        arguments.append(str(path.with_name("packed.parquet")))
    exported = path.with_name("exported")
    if words[0] == "export":
        arguments += ["-o", str(exported)]
    if words[0] == "diff":
        arguments.insert(1, str(path))  # with itself
    stdout = io.TextIOWrapper(out, "utf-8", newline="\n")
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(err):
        status = main(arguments)
        sys.stdout.flush()
    text, said = out.getvalue().decode(), err.getvalue()
    if status == 2:
        assert said.startswith("pyio-trace: ") and said.count("\n") == 1 and said.endswith("]\n"), ascii(said)
        assert not RAW.search(said.rstrip("\n")), ascii(said)
        assert said.rpartition("[")[2][:-2] in SLUGS | {"bad-value", "bad-size"}, said
        return
    assert said == "" and (status == 0 or (status == 1 and not set(_FAILS).isdisjoint(words))), (status, said)
    if "csv" in words:
        csv.field_size_limit(1 << 30)
        rows = list(csv.reader(io.StringIO(text, newline="")))
        assert len({len(row) for row in rows}) == 1, "rows of different lengths"
    elif not {"json", "--json", "sarif"}.isdisjoint(words):
        json.loads(text)
    else:
        assert not RAW.search(text), ascii(RAW.findall(text)[:5])
        assert "github" in words or not CI_COMMAND.search(text), ascii(CI_COMMAND.findall(text)[:5])
        assert "\nThe rule " not in text, text  # failed
    if words[0] == "export":
        if not {"chrome", "firefox", "speedscope"}.isdisjoint(words):
            json.loads(exported.read_text(), parse_constant=words.index)  # NaN is no JSON
        exported.unlink()
    if words[0] == "pack":
        again = path.with_name("packed.parquet")
        assert pyio_trace.open(again).operations(EVERY).equals(pyio_trace.open(path).operations(EVERY))
        again.unlink()

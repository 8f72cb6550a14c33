"""All pages of the documentation: those of docs/, and those that are written by the code.

    python -m tools.docs_pages FOLDER    all of them, in a folder of their own
    python -m tools.docs_pages           in docs/, those by the code that people read in the repository

The latter are command line, configuration, columns, findings, views and API.
Each is made from the table that the program itself uses, so it cannot drift: the
commands' own parsers, config.OPTIONS, events.OPERATIONS, the rules, the reducers,
and the docstrings.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import griffe

from pyio_trace import enums, events
from pyio_trace.analysis import typed_results
from pyio_trace.cli.help_text import option_rows
from pyio_trace.cli.main import COMMANDS
from pyio_trace.cli.parser import Parser
from pyio_trace.insights import judgement, registry
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.report.schemas import schema_of

ROOT = Path(__file__).resolve().parents[1]
AGENTS = ROOT / "pyio_trace" / "AGENTS.md"
API = ROOT / "docs" / "reference" / "api.md"


def write(folder: Path) -> None:
    """Makes the folder anew from which the site is built (mkdocs.yml)."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("*.py"))
    for path, page in PAGES.items():
        (folder / path).write_text(page(), "utf-8")


# ---- reference/cli.md


def command_line() -> str:
    """Every command with its description, arguments and options."""
    lines = [
        "# Command line",
        "",
        "```text",
        "python -m pyio_trace [options] script.py [args]",
        "python -m pyio_trace [options] -m package.module [args]",
        "python -m pyio_trace [options] -c code [args]",
        "pyio-trace [options] script.py [args]",
        "pyio-trace COMMAND ...",
        "```",
        "",
        "The first four lines trace a program; the options are those of the [configuration](configuration.md). Options",
        "stand before the script; everything after it belongs to the program. The exit status is the program's own.",
        "What pyio_trace itself has to say goes to stderr, and `-q` silences it.",
        "",
        "A command reads a log. `LOG` is a live log (`*.pyio`), a Parquet log, or a folder of logs. The exit status is",
        "0; 2, with one line on stderr that ends in a [slug](messages.md), if an argument is wrong or a log cannot be",
        "read; and 1 only where the command says so.",
        "",
        *_table(("command", "what it does"), [(f"[`{name}`](#{name})", what) for name, what in COMMANDS.items()]),
    ]
    for name, what in COMMANDS.items():
        lines += ["", f"## {name}", ""]
        if name == "run":
            lines += [_sentence(what) + " A script named like a command can be run by this one, or as `./summary`.", ""]
            lines += ["Its options are those of the [configuration](configuration.md)."]
        else:
            lines += _command(name)
    return "\n".join(lines) + "\n"


def _command(name: str) -> Iterator[str]:
    module = import_module(f"pyio_trace.cli.commands.{name}_command")
    parser = Parser(f"pyio-trace {name}", module.__doc__)
    module.arguments(parser)
    usage = parser.format_usage().removeprefix("usage: ")
    yield from ("```text", " ".join(usage.split()), "```", "")
    yield from _prose(module.__doc__ or "")
    actions = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    rows = [(_spelling(action), _choices(action) + _cell(action.help or "")) for action in actions]
    yield from _table(("argument", "meaning"), rows)


def _spelling(action: argparse.Action) -> str:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if not action.option_strings:
        return f"`{metavar}`"
    value = "" if action.nargs == 0 else " " + (metavar if action.choices is None else "NAME")
    return ", ".join(f"`{flag}{value}`" for flag in action.option_strings)


def _choices(action: argparse.Action) -> str:
    return "" if action.choices is None else ", ".join(f"`{choice}`" for choice in action.choices) + "; "


def _prose(text: str) -> Iterator[str]:
    """A docstring as Markdown: indented lines are examples."""
    for paragraph in text.strip("\n").split("\n\n"):
        lines = paragraph.split("\n")
        if all(line.startswith("  ") for line in lines):
            yield from ("```text", *(line.strip() for line in lines), "```", "")
        else:
            yield from (*map(_escaped, lines), "")


# ---- reference/configuration.md


def configuration() -> str:
    """Every option in its four spellings."""
    lines = [
        "# Configuration",
        "",
        "Each option has four spellings: a flag, an environment variable, a key of `[tool.pyio_trace]` in",
        "pyproject.toml, and an argument of `pyio_trace.trace()`. The command line wins over the environment, and the",
        "environment over the nearest pyproject.toml.",
        "",
        "```toml",
        "[tool.pyio_trace]",
        'output = "logs/%s-%p.parquet"',
        "quiet = true",
        "```",
        "",
        "`PYIO_TRACE=1` switches tracing on for every Python program that sees it, and `PYIO_TRACE=0` switches it off.",
        "What a pyproject.toml may say is limited, because it often comes from somebody else:",
        "see [names of logs](log-format.md#names-of-logs). Python's `-E` and `-I` switch off its environment and ours.",
    ]
    for option in option_rows():
        lines += ["", f"## {option['name']}", "", _sentence(_escaped(option["help"])), ""]
        lines += _table(
            ("command line", "environment", "pyproject.toml", "type", "default"),
            [
                (
                    ", ".join(f"`{flag}`" for flag in option["flags"].split(", ")),
                    f"`{option['variable']}`",
                    f"`{option['key']}`",
                    option["type"].replace("|", "\\|"),
                    f"`{option['default']}`" if option["default"] else "none",
                )
            ],
        )
    return "\n".join(lines) + "\n"


# ---- reference/columns.md


def columns() -> str:
    """The columns of the operations table."""
    lines = [
        "# Columns",
        "",
        "The operations table has one row for each operation: `log.operations()`, `pyio-trace events`, and the Parquet",
        "log itself. Times are int64 nanoseconds; sizes and offsets are int64 bytes. A *dictionary* is a string column",
        "stored as indices. [Log format](log-format.md#the-parquet-log) says more about each.",
        "",
        *_table(("column", "type", "null", "meaning"), [_column(column) for column in events.OPERATIONS]),
        "",
        'Further columns are given by name only, as in `log.operations(["op", "imported"])`:',
        "",
        *_table(("column", "type", "null", "meaning"), [_column(column) for column in events.INTERNAL]),
        "",
        "## Values",
        "",
        *_table(
            ("column", "values"),
            [
                ("`layer`", ", ".join(f"`{layer}`" for layer in enums.LAYERS)),
                ("`link`", ", ".join(f"`{link}`" for link in enums.LINKS)),
                ("`op_class`", ", ".join(f"`{each}`" for each in enums.CLASSES if each != "internal")),
            ],
        ),
        "",
        "The operations (`op`) of libc are listed in [libc's surface](surface.md), those of libraries in",
        "[Libraries](instruments.md).",
    ]
    return "\n".join(lines) + "\n"


def _column(column: events.Column) -> tuple[str, str, str, str]:
    return f"`{column.name}`", column.type, "yes" if column.nullable else "", _cell(column.meaning)


# ---- reference/findings.md


def findings() -> str:
    """Every rule with its docstring and thresholds."""
    rules = registry.found(third_party=False).values()
    lines = [
        "# Findings",
        "",
        "What `pyio-trace insights` can find. Each has a slug, by which it can be left out, and thresholds, which",
        "pyproject.toml can change. [Find out what is slow](../how-to/find-what-is-slow.md) shows how to read and use",
        "them; [a schema](findings.schema.json) describes the JSON.",
        "",
        "```toml",
        "[tool.pyio_trace.insights]",
        'ignore = ["stat-storm", "sync-per-write:*/journal/*"]',
        "",
        "[tool.pyio_trace.insights.stat-storm]",
        "calls = 10_000",
        "```",
        "",
        "## Severity",
        "",
        "`critical`, `warning` and `info` follow from the time that a finding may cost, its share of the run, and",
        "the confidence. Only what is done again for certain, or was measured, can be critical: an upper bound alone",
        "never is. `ok` looks bad and costs nothing. What may make results wrong comes first, whatever its time; then",
        "the worst severity, and of one severity the most time: what may lose data in a crash costs none.",
        "With `--verify` a measured gain takes the place of the bound, with high confidence, and a finding whose",
        "remedy gains nothing is `info`. A section that does not mention `--verify` is about a remedy that only the",
        "program could try.",
        "",
        "`[tool.pyio_trace.insights.severity]` has these thresholds:",
        "",
        *_limits(judgement.LIMITS),
    ]
    for group in dict.fromkeys(rule.group for rule in rules):
        lines += ["", f"## {_sentence(group).removesuffix('.')}"]
        for rule in rules:
            if rule.group == group:
                lines += ["", *_rule(rule)]
    return "\n".join(lines) + "\n"


def _rule(rule: Rule) -> Iterator[str]:
    yield from (f"### {rule.slug}", "", rule.doc)
    if rule.limits:
        yield from ("", *_limits(rule.limits))
    if rule.trial is not None:
        yield from ("", "`--verify` [tries the remedy](../how-to/try-the-remedies.md).")
    elif rule.untried != Rule.untried:
        yield from ("", f"`--verify` does not try the remedy: {rule.untried}.")


def _meaning(limit: Limit) -> str:
    few = "" if limit.few is None else f"; {limit.few:,.15g} where that takes `few_share` of the run"
    return limit.meaning + few


def _limits(limits: Mapping[str, Limit]) -> list[str]:
    rows = [(f"`{name}`", f"{limit.default:,.15g}", _cell(_meaning(limit))) for name, limit in limits.items()]
    return _table(("threshold", "default", "meaning"), rows)


# ---- reference/views.md


def views_page() -> str:
    """Every view with the types of its result."""
    found = typed_results.views(third_party=False)
    rows = [
        (f"`{name}`", _cell(typed_results.described(view)), _type_link(typed_results.result_of(view)))
        for name, view in found.items()
    ]
    lines = [
        "# Views",
        "",
        "`pyio-trace view NAME LOG` prints a view of a log as text, or as JSON with `--json`. From Python,",
        "`pyio_trace.analysis.reducer.scan(log, [view, ...])` gives the results of several views from one pass",
        "over the log. `pyio-trace views --json` has the JSON schema of each result.",
        "",
        "Fields that end in `_ns` are nanoseconds, in `_bytes` bytes. [Add a view](../how-to/add-a-view.md) shows",
        "how to write one.",
        "",
        *_table(("view", "shows", "result"), rows),
    ]
    for kind in typed_results.types_of(map(typed_results.result_of, found.values())):
        lines += ["", f"## {kind.__name__}", "", *_prose(inspect.cleandoc(kind.__doc__ or ""))]
        fields = typed_results.fields_of(kind)
        lines += _table(("field", "type"), [(f"`{name}`", _type_text(one)) for name, one in fields.items()])
    return "\n".join(lines) + "\n"


def schema_page(name: str) -> str:
    """What `pyio-trace schema` prints."""
    return json.dumps(schema_of(name), indent=1) + "\n"


def agents() -> str:
    """The page for programs that use pyio_trace without a person, which is in the wheel."""
    return AGENTS.read_text("utf-8")


def _type_link(kind: Any) -> str:
    return f"[{kind.__name__}](#{kind.__name__.lower()})"


def _type_text(kind: Any) -> str:
    text = f"`{typed_results.spelled(kind)}`".replace("|", "\\|")
    inner = next(typed_results.types_of([kind]), None)
    return text if inner is None else f"{text}: {_type_link(inner)}"


# ---- reference/api.md


def api() -> str:
    """docs/reference/api.md, in which `::: NAME` stands for the signature and docstring of a function or class."""
    package = griffe.load("pyio_trace", search_paths=[ROOT], resolve_aliases=True)

    def entry(line: re.Match[str]) -> str:
        named = package[line["name"]]
        return "\n".join(_entry(named.final_target if isinstance(named, griffe.Alias) else named, named.name))

    return re.sub(r"^::: pyio_trace\.(?P<name>\S+)$", entry, API.read_text("utf-8"), flags=re.MULTILINE)


def _entry(found: griffe.Object, name: str) -> Iterator[str]:
    """A public name, and the members of a class that have docstrings."""
    yield from (f"### {name}", "", *_described(found, name))
    for member in found.members.values() if isinstance(found, griffe.Class) else ():
        if not isinstance(member, griffe.Alias) and member.docstring and not member.name.startswith("_"):
            yield from (f"#### {name}.{member.name}", "", *_described(member, member.name))


def _described(found: griffe.Object, name: str) -> Iterator[str]:
    signature = ""  # of a class that nobody else makes
    if isinstance(found, griffe.Attribute):  # or a property
        signature = f"{name}: {found.annotation}"
    elif isinstance(found, griffe.Function) or (isinstance(found, griffe.Class) and "__init__" in found.members):
        signature = found.signature(name=name)
    if signature:
        yield from ("```python", *_wrapped(signature), "```", "")
    if found.docstring:
        yield from (found.docstring.value.strip(), "")


def _wrapped(signature: str) -> list[str]:
    """A signature; each parameter on a line of its own, if it is long."""
    if len(signature) <= 100:
        return [signature]
    begin, end = signature.index("(") + 1, signature.rindex(")")
    parts, depth = [""], 0
    for letter in signature[begin:end]:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [signature[:begin], *(f"    {part.strip()}," for part in parts), signature[end:]]


# ---- Markdown


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    lines = [head, tuple("---" for _ in head), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def _cell(text: str) -> str:
    return _escaped(" ".join(text.split())).replace("|", "\\|")


def _escaped(text: str) -> str:
    """Patterns such as '*.h5' are no emphasis."""
    return re.sub(r"([*_<])", r"\\\1", text)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


#: Path in docs/ -> what makes the page.
PAGES: dict[str, Callable[[], str]] = {
    "reference/cli.md": command_line,
    "reference/configuration.md": configuration,
    "reference/columns.md": columns,
    "reference/findings.md": findings,
    "reference/views.md": views_page,
    "reference/api.md": api,
    "how-to/agents.md": agents,
    "reference/findings.schema.json": partial(schema_page, "insights"),
    "reference/summary.schema.json": partial(schema_page, "summary"),
}

#: Pages that are in the repository, too: links to them have to work there.  A test compares them with the code.
COMMITTED = (
    "cli.md",
    "columns.md",
    "configuration.md",
    "findings.md",
    "findings.schema.json",
    "summary.schema.json",
    "views.md",
)


def commit(folder: Path) -> None:
    """Writes the pages of the repository anew."""
    for page in COMMITTED:
        (folder / "reference" / page).write_text(committed(page), "utf-8")


def committed(page: str) -> str:
    """A page of reference/ as the repository has it."""
    made = PAGES[f"reference/{page}"]()
    return f"<!-- Written by the code: python -m tools.docs_pages -->\n\n{made}" if page.endswith(".md") else made


if __name__ == "__main__":
    write(Path(sys.argv[1])) if sys.argv[1:] else commit(ROOT / "docs")

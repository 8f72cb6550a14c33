"""Writes docs/evidence/fidelity.md: for each program, what strace saw and what our log has."""

from __future__ import annotations

import platform
import re
import subprocess
from collections import Counter

from tests.fidelity.harness import Run
from tests.fidelity.programs import PROGRAMS, ROOT

PATH = ROOT / "docs" / "evidence" / "fidelity.md"

HEAD = """\
# Fidelity: compared with strace

Each program runs under strace and under pyio_trace at the same time. Every system call on files that strace saw, in
every thread of every process, is compared with the rows of the log, in order: call, descriptor, path, bytes
requested and moved, errno, and the offset, which a second program works out from strace's calls. `python -m
tests.fidelity --write` writes this page; the tests run part of it each time.

The stack of each call (`strace -k`) tells whose it is. A call that came through a hook must have its row. A call
that bypassed the hooks must have a reason, given by the libc function and the object that made it. A call without
either is *unexplained*, and so is a row without a call.
"""

COLUMNS = """\
- **strace**: the program's system calls on files; the tracer's own are counted under *ours*.
- **rows**: of the log, layers posix and stdio.
- **one to one**: calls with a row each, equal in every column.
- **beneath**: calls beneath one libc call (`opendir`, `fread`) that has its row.
- **missing**: calls without a row, with a reason; **extra**: rows that are not system calls, with a reason.
"""


def text(runs: dict[str, Run], skipped: dict[str, list[str]]) -> str:
    """The whole page."""
    lines = [HEAD, COLUMNS, f"On {_machine()}.\n", *_table(runs)]
    for name, needed in skipped.items():
        lines.append(f"\n{name} was not run: {', '.join(needed)} is not installed here.")
    return "\n".join([*lines, "", reasons(runs)])


def _machine() -> str:
    version = subprocess.run(["strace", "-V"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    strace = re.sub(r"[^\d.]", "", version)
    libc = " ".join(platform.libc_ver())
    return f"{platform.system()} {platform.machine()}, {libc}, Python {platform.python_version()}, strace {strace}"


def _table(runs: dict[str, Run]) -> list[str]:
    lines = [
        "| program | strace | rows | one to one | beneath | missing | extra | ours | unexplained |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, run in runs.items():
        r = run.result
        numbers = [r.strace, r.found, r.same, sum(r.beneath.values()), sum(r.missing.values()), sum(r.extra.values()),
                   r.own, len(r.unexplained)]  # fmt: skip
        lines.append(f"| {PROGRAMS[name].group}: {name} | " + " | ".join(f"{n:,}" for n in numbers) + " |")
    return lines


def reasons(runs: dict[str, Run]) -> str:
    """The reasons why calls or rows have no counterpart, summed over all programs."""
    missing: Counter[str] = Counter()
    extra: Counter[str] = Counter()
    beneath: Counter[str] = Counter()
    for run in runs.values():
        missing += run.result.missing
        extra += run.result.extra
        beneath += run.result.beneath
    lines = ["## Reasons", ""]
    for title, counted in (("Calls without a row", missing), ("Rows without a call", extra),
                           ("Calls beneath one that has its row", beneath)):  # fmt: skip
        lines += [f"| {title} | |", "| --- | ---: |"]
        lines += [f"| {reason} | {count:,} |" for reason, count in sorted(counted.items(), key=lambda pair: -pair[1])]
        lines.append("")
    return "\n".join(lines)


def unexplained(page: str) -> dict[str, int]:
    """The last column of the page's first table, by program."""
    rows = re.findall(r"^\| [^|]+: ([^|]+) \|(?:[^|]+\|){7} ([\d,]+) \|$", page, re.M)
    return {name: int(count.replace(",", "")) for name, count in rows}

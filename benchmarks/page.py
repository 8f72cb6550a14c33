"""The results as a table of text, and as docs/evidence/benchmarks.md."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.gauge import TOLERANCE
from benchmarks.measure import ENOUGH, PATIENCE, SCALES, Figure, Pair, Results

PAGE = Path(__file__).resolve().parents[1] / "docs" / "evidence" / "benchmarks.md"
PAIR_HEAD = ("work", "log on", "bare", "traced", "added", "middle half", "ratio", "limit", "met", "rounds")
FIGURE_HEAD = ("figure", "measured", "limit", "met", "runs")


def pair_row(pair: Pair) -> tuple[str, ...]:
    """One line of the table of costs, with times in the pair's unit."""

    def text(seconds: float, sign: str = "") -> str:
        value = seconds / SCALES[pair.unit]
        return f"{value:{sign}.{1 if abs(value) < 1000 else 0}f}"

    low, high = pair.quartiles
    limit = "" if pair.added_limit is None else f"{text(pair.added_limit, '+')} {pair.unit}"
    return (
        pair.work,
        pair.where,
        f"{text(statistics.median(pair.bare))} {pair.unit}",
        f"{text(statistics.median(pair.traced))} {pair.unit}",
        f"{text(pair.median_added, '+')} {pair.unit}",
        f"{text(low, '+')} to {text(high, '+')}",
        f"{pair.ratio:.2f}",
        limit,
        yes_no(pair.met),
        counted(pair.bare, pair.rounds.full_speed),
    )


def figure_row(figure: Figure) -> tuple[str, ...]:
    limit = "" if figure.limit is None else f"{figure.limit:g} {figure.unit}"
    value = f"{figure.value:.0f}" if figure.value >= 100 else f"{figure.value:.3g}"
    return figure.work, f"{value} {figure.unit}", limit, yes_no(figure.met), counted(figure.values, figure.full_speed)


def counted(values: list[float], full_speed: bool | None) -> str:
    """How many rounds or runs a row is made of, and whether the machine was slow."""
    return f"{len(values)}, SLOW" if full_speed is False else f"{len(values)}"


def yes_no(met: bool | None) -> str:
    return "" if met is None else "yes" if met else "NO"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Lines of a Markdown table, aligned so that it reads well as text too."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = [head, tuple("-" * width for width in widths), *rows]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    return [f"| {' | '.join(cells)} |" for cells in padded]


def tables(results: Results) -> list[str]:
    lines = []
    if results.pairs:
        lines += [*table(PAIR_HEAD, [pair_row(pair) for pair in results.pairs]), ""]
    if results.figures:
        lines += [*table(FIGURE_HEAD, [figure_row(figure) for figure in results.figures]), ""]
    return lines + [f"Not measured: {problem}" for problem in results.problems]


def machine() -> list[str]:
    """What the figures were measured on."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    models = {line.partition(":")[2].strip() for line in cpuinfo.splitlines() if line.startswith("model name")}
    virtual = ", virtual" if " hypervisor " in cpuinfo else ""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return [
        f"- {', '.join(sorted(models)) or platform.machine()}, {os.cpu_count()} processors{virtual}, {memory:.0f} GiB",
        f"- Linux {platform.release()}, {platform.libc_ver()[0]} {platform.libc_ver()[1]}",
        f"- CPython {platform.python_version()}, pyio_trace {version('pyio_trace')}",
        f"- load of the machine over the last minute, at the start: {os.getloadavg()[0]:.1f}",
    ]


METHOD = """\
`python -m benchmarks` alternates bare and traced rounds: {hot} of each for the cost of an operation, {lives} or
more for the cost of a process. Before and after each round it times a fixed piece of arithmetic
(`benchmarks/gauge.py`). If that takes more than {tolerance:.2f} times its fastest time, the machine is slow, and the
round is repeated on the processor that has been at full speed for longer. A row stops after {patience:.0f} s and uses
the rounds it has. With fewer than {enough} rounds at full speed, it uses the slow ones too and is marked SLOW.

*added* is the median of the rounds' differences, *ratio* the median of their ratios, and *middle half* the
interquartile range of the differences. The time of an operation is wall time less the time its thread waited for a
processor (`/proc/thread-self/schedstat`). Memory is allocated and freed before each round, so that the host of a
virtual machine has already backed the pages that the log will use. All files read are in the page cache, which is
the worst case for a tracer. A round starts and stops tracing in the running process; its records fill eight chunks
(1 MiB each) of a live log on the named file system, and reserving their blocks is included. A stack of N is N Python
frames. Sizes are blocks on disk. Loading runs in a fresh interpreter, imports and printed text included, three times
at full speed. The limits are this project's goals, set on a machine where a bare pread took 385 ns.
"""


#: Reasons, not figures: where the time of an operation goes.
OVER = """\
## Where the time goes

- **The clock.** Every operation has two readings of the time-stamp counter, 15 to 21 ns. In a tight loop of tiny
  calls on a file object one call in 32 that only copies memory is timed. If each were timed, `f.read(16)` and a text
  line would cost 45 and 48 ns more on the same machine.
- **The log's pages.** The kernel finds, zeroes and maps each page of a new log: some 2 us a page, 20 to 30 ns a
  record. On the first touch of a hole the kernel reads ahead, here 8 MiB of zeros, 1 to 2.5 ms each time. Writing
  the pages before they are mapped takes half of that on ext4, but needs one of the program's descriptors for each
  chunk, could end the program by its file-size limit, and makes NFS flush at the close. Huge pages are slower where
  the host of a virtual machine must find one first. Chunks of 64 and 256 KiB make no difference; chunks of 4 MiB are
  slower.
- **open/read/close** makes 11 records: 3 of file objects and 8 of POSIX. Beneath a file object's method the stack is
  its caller's and is not walked again.
- **os.pread from Python**: a stack of 3 takes some 17 ns, one of 12 some 38 ns, including a fingerprint of each code
  object.
- **Loading** 1 M operations: 0.2 s of it starts an interpreter and imports numpy, pyarrow and pyio_trace. Reading
  and summing overlap in two threads. The rest is passes of numpy over columns, 1 to 2 ns a row each.
"""


def write(results: Results, described: list[str], hot: int, lives: int) -> None:
    """Writes docs/evidence/benchmarks.md.  Every figure in it comes from this run."""
    lines = [
        "# Benchmarks",
        "",
        f"Written by `python -m benchmarks --write` on {datetime.now(UTC):%Y-%m-%d}; not to be edited by hand.",
        "",
        *described,
        "",
        METHOD.format(hot=hot, lives=lives, tolerance=TOLERANCE, patience=PATIENCE, enough=ENOUGH),
        *tables(results),
        OVER,
        "Command: `" + " ".join(["python", "-m", "benchmarks", *sys.argv[1:]]) + "`",
        "",
    ]
    PAGE.write_text("\n".join(lines))

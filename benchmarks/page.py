"""The results as a table of text, and as docs/benchmarks.md."""

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

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
PAIR_HEAD = ("work", "log on", "bare", "traced", "added", "middle half", "ratio", "limit", "met", "rounds")
FIGURE_HEAD = ("figure", "measured", "limit", "met", "runs")


def pair_row(pair: Pair) -> tuple[str, ...]:
    """One line of the table of costs; times in the pair's unit."""

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
    """How many rounds or runs a row is made of, and whether they were made on a slow machine."""
    return f"{len(values)}, SLOW" if full_speed is False else f"{len(values)}"


def yes_no(met: bool | None) -> str:
    return "" if met is None else "yes" if met else "NO"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Lines of a Markdown table, aligned for reading as text too."""
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
    """What the figures were taken on."""
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
Bare and traced run in turn in one run of `python -m benchmarks`, {hot} rounds of each for the cost of an operation
and {lives} or more for that of a process. A round before or after which the machine ran slow is left out and made
again: a gauge says so, a fixed piece of arithmetic that knows nothing of the round ([gauge.py](../benchmarks/gauge.py);
slow: over {tolerance:.2f} of its fastest), on the processor that is at full speed for longer. After {patience:.0f} s a
row is made of what there is; where that are fewer than {enough} rounds, of all of them, and it says SLOW.

*added* is the median of the rounds' differences, *ratio* the median of their ratios, and between the two ends of
*middle half* lies the middle half of the differences. Times of operations are wall time less the time the thread stood
ready while other programs had the processor (`/proc/thread-self/schedstat`). Before each round memory is taken and
freed, so that the host of a virtual machine has backed what the log will take. Files read are in the page cache: the
dearest case for a tracer. A round starts and stops tracing in the running process, its records fill eight chunks of a
live log on the named file system (1 MiB each; where the kernel reads ahead, it does so for several at once), and
reserving their blocks is in the figure. A stack of N is N Python frames. Sizes are blocks on the disk. Loading runs in
a fresh interpreter, imports and the printed text included, three times at full speed. Limits are DESIGN's, which were
set where a bare pread took 385 ns; that of a start with tracing switched off is our reading of "nothing measurable".

[Figures of another machine, and an earlier commit against this one, side by side](benchmarks-earlier.md).
"""


#: Reasons, not figures: where rows over their limit spend their time, and what was tried.
OVER = """\
## Rows over their limit: where the time goes, what was tried

- **The clock.** Two readings of the time-stamp counter (their row is above; 15 to 21 ns on the machines that we had)
  are in every operation. In a tight loop of tiny calls on a file object one in 32 of those that only copy memory is
  timed; with each of them timed, `f.read(16)` and a text line cost 45 and 48 ns more on the same machine.
- **The log's pages.** The kernel finds, zeroes and maps each: some 2 us a page where the log is new, 20 to 30 ns a
  record; the row of a record with two times and nothing else is that and the clock. At the touch of a hole the kernel
  reads ahead in the file, here 8 MiB of zeros, 1 to 2.5 ms each time. Tried and not kept: writing the pages before
  they are mapped (half of that on ext4, but each chunk would need a descriptor of the program's for a moment, its
  size limit could kill it, and NFS would flush at the close); huge pages (dearer wherever the host of a virtual
  machine must first find one); chunks of 64 and 256 KiB (no difference that could be measured) and of 4 MiB (dearer).
  /dev/shm zeroes its pages one by one, whatever one does.
- **open/read/close** makes 11 records (3 of file objects, 8 of POSIX), which at the limit of one are 0.5 us already:
  eleven records with their times and nothing else are 0.3 to 0.4 us (above). Done: beneath a file object's method the
  stack is its caller's and is not walked again; the next lines of the log are fetched ahead. Tried and not kept:
  smaller code (-O2, -Os: no faster, slower).
- **os.pread from Python**: a stack of 3 takes some 17 ns, one of 12 some 38 ns, with a fingerprint of each code
  object. Tried and not kept: comparing with the last stack instead of hashing, a shorter hash, keeping the thread's
  state at hand: no difference could be measured.
- **Loading** 1 M operations: 0.2 s of it starts an interpreter and imports numpy, pyarrow and ourselves. Reading and
  summing overlap in two threads. What is left are passes of numpy over columns, at 1 to 2 ns a row each.
"""


def write(results: Results, described: list[str], hot: int, lives: int) -> None:
    """Writes docs/benchmarks.md: every figure in it comes from this run."""
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

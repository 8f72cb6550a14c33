"""At the end of a traced run: packs the log and prints the summary.

The core of the run's first process starts it in a fresh interpreter, after
Python has shut down there (csrc/core/process/end_of_run.c and
capture/runtime/__init__.py); users do not.  An error is one line on stderr, the
live log stays, and the exit status is 0, because the program's own status must
not change.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pyio_trace.cli.command_process import do_without_pandas
from pyio_trace.cli.parser import LONG_WORK, Parser, progress, up_to
from pyio_trace.config import BY_NAME
from pyio_trace.errors import ConfigError, PyioTraceError, printable
from pyio_trace.output import PACKED_SUFFIX
from pyio_trace.values import rank_in

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.analysis.results.figures import Summary
    from pyio_trace.insights.insights import Insights
    from pyio_trace.join.pack.end_of_run import EndedLog, FinalLog
    from pyio_trace.join.pack.one_for_all import Packer
    from pyio_trace.join.sources.facade import Log

#: A run of fewer rows that took less (ns) has nothing to find, and ends in half the time without looking.
_TINY_ROWS, _TINY_TIME = 200, 500_000_000


def arguments(parser: Parser) -> None:
    parser.add_argument("log", metavar="LOG")
    parser.add_argument("--identity", metavar="DEVICE:INODE:RUN", help="of the file that the log must be; default: any")
    parser.add_argument("--final", metavar="FINAL", help="the log to pack it into, if the whole run has ended")
    parser.add_argument("--mode", metavar="MODE", default=BY_NAME["log_mode"].default, help="of FINAL, octal")
    parser.add_argument("--stderr", metavar="FD", type=int, help="becomes stderr before anything is printed")
    parser.add_argument("--quiet", action="store_true", help="print nothing")


def run(arguments: argparse.Namespace) -> int:
    done: list[_Done] = []
    with _reported(arguments):
        _accept_interrupts()
        packer, handed_over = _packer(arguments)
        if handed_over:
            return 0
        do_without_pandas()
        with _reported(arguments):
            done.append(_finish(arguments))
        while packer is not None and (request := packer.next()) is not None:
            other = argparse.Namespace(**{**vars(arguments), **request._asdict()})
            with _reported(other):
                done.append(_finish(other, of_another=True))
        with _reported(arguments):
            _print_summary(arguments, done)
    return 0


@contextlib.contextmanager
def _reported(arguments: argparse.Namespace) -> Iterator[None]:
    """Errors of the work on a log become one line that says where its live log is."""
    stays = f"; the live log stays: {arguments.log}"
    try:
        yield
    except KeyboardInterrupt:
        _print(arguments, f"interrupted{stays}")
    except (PyioTraceError, OSError, MemoryError) as error:
        lost = isinstance(error, PyioTraceError) and error.slug == "log-lost"
        _print(arguments, f"{str(error) or 'there is not enough memory'}{'' if lost else stays}")
    except Exception as error:
        said = " ".join(str(error).split())[:200]  # numpy's messages have several lines
        _print(arguments, f"the summary failed ({type(error).__name__}: {said}){stays}")


def _accept_interrupts() -> None:
    """From now on Ctrl-C ends the packing.  It was blocked until here; one that came meanwhile was for the program.

    SIGTERM ends it in the same way: the stub passes it on (csrc/stub/stub.c).
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    signal.signal(signal.SIGINT, before)
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def _packer(arguments: argparse.Namespace) -> tuple[Packer | None, bool]:
    """(the packer, if this process packs for the ranks of its job; whether another rank packs this log instead)."""
    final = arguments.final
    if final is None or arguments.identity is None or not final.endswith(PACKED_SUFFIX):
        return None, False
    if rank_in(os.environ) is None:
        return None, False
    from pyio_trace.join.pack.one_for_all import Request, job_of, packer_or_hand_over, rank_of

    rank, job = rank_of(), job_of(os.getppid())
    if rank is None or job is None:
        return None, False
    try:
        packer = packer_or_hand_over(job, Request(arguments.log, arguments.identity, final, arguments.mode, rank))
    except OSError:
        return None, False
    return packer, packer is None


class _Done(NamedTuple):
    """What was made of a run's log.  summary, insights: None if not wanted; packed: the Parquet log, None if there is
    none."""

    summary: Summary | None
    insights: Insights | None
    packed: FinalLog | None


def _finish(arguments: argparse.Namespace, of_another: bool = False) -> _Done:
    """Packs or copies the log, and sums it up unless it is that of another run."""
    from pathlib import Path

    from pyio_trace.analysis.summary.kept_summary import attachments_of
    from pyio_trace.insights import run_facts
    from pyio_trace.join.pack.end_of_run import messages_about, why_it_stays
    from pyio_trace.join.sources.facade import Log

    live = _opened(arguments)
    alive = live.wait_for_others([os.getpid(), os.getppid()])  # our parent waits for us, and writes nothing more
    log = Log(Path(live.path), live.source)
    if log.rows() >= LONG_WORK:
        _use_stderr(arguments)
    final = arguments.final
    summary: Summary | None = None
    insights: Insights | None = None

    def sum_up(batches: Iterator[pa.RecordBatch] | None = None) -> dict[str, str]:
        nonlocal summary, insights
        summary, insights = _summary(log, batches)
        if not packs:
            return {}
        return attachments_of(summary) | run_facts.attachments_of(summary, insights, live.source.processes())

    wanted = not arguments.quiet and not of_another
    packs = final is not None and not alive and final.endswith(PACKED_SUFFIX)
    if wanted and not packs:
        sum_up()
    if final is None:
        if not alive:
            live.cut()
        return _Done(summary, insights, None)
    if alive:
        _print(arguments, why_it_stays(live.path, final, alive))
        return _Done(summary, insights, None)
    result = _final_log(live, final, int(arguments.mode, 8), log.rows(), sum_up if packs and wanted else None)
    for line in messages_about(result, final, live.path):
        _print(arguments, line)
    if summary is not None:
        summary = _of_log(summary, result.path, result.size)
    return _Done(summary, insights, result if packs else None)


def _of_log(summary: Summary, path: str, size: int) -> Summary:
    """The summary, with the name and size of the log that is kept."""
    run = summary.run
    each = size / run.records_in_log if run.records_in_log else None
    return replace(summary, run=replace(run, path=path, log_bytes=size, bytes_per_operation=each))


def _print_summary(arguments: argparse.Namespace, done: Sequence[_Done]) -> None:
    """Prints the summary of the run; if the logs of other ranks were packed too, that of all of them."""
    packed = [one.packed for one in done if one.packed is not None]
    summary, insights = (done[0].summary, done[0].insights) if done else (None, None)
    if len(packed) > 1 and not arguments.quiet:
        summary, insights = _of_job(packed)
    if summary is not None:
        from pyio_trace.report.text import print_end

        _use_stderr(arguments)
        print_end(_with_end(summary), sys.stderr, insights, max(len(packed) - 1, 0))


def _of_job(packed: Sequence[FinalLog]) -> tuple[Summary, Insights | None]:
    """The summary and the findings of the logs of several ranks together."""
    from pathlib import Path

    from pyio_trace.join.sources.facade import Log
    from pyio_trace.join.sources.merged_source import MergedSource
    from pyio_trace.join.sources.parquet_source import ParquetSource

    log = Log(Path(packed[0].path), MergedSource([ParquetSource(one.path) for one in packed]))
    summary, insights = _summary(log, None)
    return _of_log(summary, packed[0].path, sum(one.size for one in packed)), insights


def _with_end(summary: Summary) -> Summary:
    """The summary with the time since the end of the program."""
    overview = summary.overview
    if overview is None:
        return summary
    tracing = replace(overview.tracing, end_ns=_lived())
    return replace(summary, overview=replace(overview, tracing=tracing))


def _lived() -> int | None:
    """ns since this process was started, which was at the end of the program; None: not known."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def _opened(arguments: argparse.Namespace) -> EndedLog:
    """The live log, which must still be the file with this identity."""
    from pyio_trace.join.pack.end_of_run import EndedLog, Identity

    words = arguments.identity
    return EndedLog(arguments.log, None if words is None else Identity(*map(int, words.split(":"))))


def _summary(log: Log, batches: Iterator[pa.RecordBatch] | None) -> tuple[Summary, Insights | None]:
    """The summary and the findings; batches: see find(); None: the log is read for them, which shows progress.

    Nobody waits for the findings of a large log: `pyio-trace summary` has them.
    A wrong setting of findings, or a rule that cannot be loaded, is for
    `pyio-trace insights` to report.
    """
    with progress("summary", log.rows() if batches is None else 0) as bar:
        from pyio_trace.report.text import SEARCHED_AT_END

        if log.rows() > SEARCHED_AT_END or _is_tiny(log):
            from pyio_trace.analysis.summary.summarize import summarize

            return summarize(log, progress=bar, batches=batches), None
        from pyio_trace.insights import registry, settings
        from pyio_trace.insights.insights import find

        try:
            rules = registry.found()
            wanted = settings.load(rules)
        except ConfigError:
            rules, wanted = registry.found(third_party=False), settings.Settings()
        return find(log, rules, wanted, bar, batches)


def _is_tiny(log: Log) -> bool:
    """Whether a run did little, and all of its processes ended soon."""
    if log.rows() >= _TINY_ROWS:
        return False
    table = log.processes()
    begins, ends = table["begin"].to_pylist(), table["end"].to_pylist()
    return None not in ends and max(ends, default=0) - min(begins, default=0) < _TINY_TIME


def _final_log(
    live: EndedLog, final: str, mode: int, rows: int, read: Callable[[Iterator[pa.RecordBatch]], dict[str, str]] | None
) -> FinalLog:
    """Packs the log, and removes the live one; read: see finish_log()."""
    from pyio_trace.join.pack.end_of_run import finish_log

    with progress("packing the log", rows) as bar:
        return finish_log(live, final, mode, up_to(bar), read)


def _use_stderr(arguments: argparse.Namespace) -> None:
    """Use the program's stderr from now on.  What libraries print before is dropped (csrc/core/process/finisher.c)."""
    if arguments.stderr is not None:
        with contextlib.suppress(OSError):  # it was closed
            os.dup2(arguments.stderr, 2)


def _print(arguments: argparse.Namespace, text: str) -> None:
    if not arguments.quiet and sys.stderr is not None:
        _use_stderr(arguments)
        sys.stderr.write(f"pyio-trace: {printable(text)}\n")

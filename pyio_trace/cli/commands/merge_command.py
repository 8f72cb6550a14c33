"""Make one log of the logs of a job: those of its ranks, on all its hosts.

LOG is a log, or a folder: then all logs in it and in the folders below it. In
the merged log, a file that several ranks use is one file: on one host by
device and inode, on file systems that hosts share (NFS, Lustre, GPFS, BeeGFS,
...) by its path, which is inferred. Clocks of several hosts are aligned on the
end of MPI_Init, if all logs have one; else they stay as they are, and their
error is not known. Logs that cannot be read are losses of the merged one, and
so are files that have the name of a log and are none.

Logs of several jobs are told apart by the id that a launcher or batch system
gives all ranks (view it with pyio-trace processes). They are merged, too, but
files of runs that did not overlap in time stay apart. --job takes those of one.

One log is open at a time: a packed log takes about 0.2 MB more memory; live
logs need more: pack them first. With --jobs or --dask, others read packed logs,
and this process puts them together: the merged log has the same bytes.

  pyio-trace merge logs/4711 -o job-4711.parquet
  pyio-trace merge logs/4711 -o job-4711.parquet --dask tcp://HOST:8786
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyio_trace.cli.parser import Parser, progress, up_to
from pyio_trace.cli.scan_workers import add_workers, workers
from pyio_trace.cli.standard_output import standard_output
from pyio_trace.errors import ConfigError, printable
from pyio_trace.existing_files import check_output, check_replaceable

if TYPE_CHECKING:
    from pyio_trace.join.sources.merged_source import MergedSource

#: Runs that are named, of several.
_LISTED = 3


def arguments(parser: Parser) -> None:
    parser.add_argument("log", metavar="LOG", nargs="+", help="a log, or a folder of logs and folders")
    parser.add_argument("--job", metavar="ID", help="only the logs of this job, job step or launch")
    parser.add_argument("-o", "--output", metavar="OUTPUT", required=True, help="the merged log, *.parquet")
    add_workers(parser)
    parser.add_argument("--dask", dest="scheduler", metavar="ADDRESS", help="the same as --scheduler")


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.cli.command_process import do_without_pandas
    from pyio_trace.cli.commands.pack_command import attachments
    from pyio_trace.join.pack.packer import pack_source
    from pyio_trace.join.sources.opening import logs_below, open_job
    from pyio_trace.join.sources.spread_source import Spread

    if not arguments.output:
        raise ConfigError("missing-value", "merge: the name of the OUTPUT is empty")
    do_without_pandas()
    check_replaceable(arguments.output)
    for path in arguments.log:
        for log in logs_below(path):
            check_output(str(log), arguments.output)
    with workers(arguments) as others:
        spread = None if others is None else Spread(others.executor, others.count, others.where)
        source = open_job(arguments.log, arguments.job, spread)
        with progress("merge", source.rows()) as bar:
            result = pack_source(source, arguments.output, arguments.output, up_to(bar), attachments)
    with standard_output() as out:
        for line in _told(arguments.output, result, source.info(), source.losses(), source):
            out.write(printable(line) + "\n")
    return 0


def _told(
    output: str, result: dict[str, Any], info: dict[str, Any], losses: dict[str, Any], source: MergedSource
) -> list[str]:
    from pyio_trace.units import counted, seconds, size

    hosts = len({one["host"] for one in info["logs"]})
    logs = f"{counted(len(info['logs']), 'log')} of {counted(hosts, 'host')}"
    lines = [f"{output}: {logs}, {counted(result['rows'], 'operation')}, {size(result['bytes'])}"]
    lines += _runs(source.runs)
    if info.get("files_by_path"):
        lines.append(f"{counted(info['files_by_path'], 'file')} of several logs: the same by path (inferred).")
    if hosts > 1 and info["clock_error"] is None:
        lines.append("Clocks: how far those of the hosts differ is not known: no MPI_Init in all logs of one run.")
    elif hosts > 1:
        lines.append(f"Clocks: aligned on MPI_Init, to within {seconds(info['clock_error'])}.")
    unreadable = losses.get("unreadable_logs", [])
    if unreadable:
        lines.append(f"{counted(len(unreadable), 'log')} could not be read, the first: {unreadable[0]}")
    if left_out := source.left_out:
        lines.append(f"{counted(len(left_out), 'Parquet file')} of other programs left out, the first: {left_out[0]}")
    return lines


def _runs(runs: Sequence[str]) -> Iterator[str]:
    """Which jobs the logs are of, if there are several."""
    from collections import Counter

    from pyio_trace.units import counted

    logs = Counter(filter(None, runs))
    if len(logs) < 2:
        return
    most = [f"{name} ({counted(number, 'log')})" for name, number in logs.most_common(_LISTED)]
    more = f" and {len(logs) - _LISTED:,} more" if len(logs) > _LISTED else ""
    yield f"Logs of {len(logs):,} runs: {', '.join(most)}{more}. --job ID merges one."
    if without := len(runs) - logs.total():
        yield f"{counted(without, 'log')} of no job."

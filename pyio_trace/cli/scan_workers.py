"""The options that let a command sum up a log in several processes, or on a Dask cluster."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyio_trace.cli.parser import Parser
from pyio_trace.errors import ConfigError

if TYPE_CHECKING:
    from pyio_trace.analysis.scan.workers import Workers

#: More processes than any host has cores.
_MOST = 4096


def add_workers(parser: Parser) -> None:
    """--jobs and --scheduler."""
    group = parser.add_argument_group("large logs", "the figures stay the same")
    group.add_argument("--jobs", type=_jobs, metavar="N", help="read the log in N processes of this host")
    group.add_argument(
        "--scheduler", metavar="ADDRESS", help="read it on this Dask cluster, whose workers see the log under its path"
    )


@contextmanager
def workers(arguments: argparse.Namespace) -> Iterator[Workers | None]:
    """What the options say; None: this process reads the log.  Raises ConfigError."""
    if arguments.jobs is not None and arguments.scheduler is not None:
        raise ConfigError("contradictory-options", "--jobs and --scheduler: give one of them")
    if arguments.scheduler is not None:
        from pyio_trace.analysis.scan.workers import dask_cluster

        with dask_cluster(arguments.scheduler) as found:
            yield found
    elif (arguments.jobs or 1) > 1:
        from pyio_trace.analysis.scan.workers import local_processes

        with local_processes(arguments.jobs) as found:
            yield found
    else:
        yield None


def _jobs(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 0 < int(text) <= _MOST):
        raise ConfigError("bad-value", f"--jobs: {text!r} is not a number of processes; write 2, 4 ...")
    return int(text)

"""Where the parts of a scan can be made: in other processes of this host, or on a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from pyio_trace.errors import ConfigError
from pyio_trace.light_dataclass import dataclass

_PATIENCE = "10s"  # to connect


@dataclass(frozen=True)
class Workers:
    """executor: runs tasks; count: how many at once; where: what to call it in an error; send: sends a large argument
    of a task before the task itself, and returns what to submit in its place."""

    executor: Executor
    count: int
    where: str
    send: Callable[[Any], Any] = lambda argument: argument


@contextmanager
def local_processes(jobs: int) -> Iterator[Workers]:
    """Starts `jobs` processes on this host, which end with the context.  Raises ConfigError no-such-folder if the
    current folder, in which they start, is gone or may not be entered."""
    from pyio_trace.analysis.scan import worker_processes

    try:
        os.chdir(os.getcwd())
    except OSError:
        message = "--jobs: the current folder is gone, or you may not enter it; go to another one"
        raise ConfigError("no-such-folder", message) from None
    context = worker_processes.Context()
    with worker_processes.starting():
        executor = worker_processes.Executor(jobs, context)
    try:
        yield Workers(executor, jobs, f"{jobs} processes")
    except BaseException:
        context.kill()  # their tasks may take long
        raise
    finally:
        executor.shutdown(cancel_futures=True)


@contextmanager
def dask_cluster(address: str) -> Iterator[Workers]:
    """The workers of a running Dask cluster; address: of its scheduler, such as tcp://host:8786.

    Raises ConfigError: not-installed, no-scheduler.
    """
    try:
        from distributed import Client
    except ImportError:
        raise ConfigError("not-installed", "--scheduler needs Dask: pip install 'pyio_trace[dask]'") from None
    client = Client.__new__(Client)
    try:
        # An empty address would start a cluster.
        Client.__init__(client, address or ":", timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError, ImportError) as error:  # also what timeouts are
        client.status = "closed"  # else its deletion takes 20 s and prints ten lines
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ConfigError("no-scheduler", f"no Dask scheduler at {address!r}: {reason}") from None
    with client:
        count = sum(client.nthreads().values())
        if not count:
            raise ConfigError("no-scheduler", f"the Dask scheduler {address!r} has no workers; start some")

        def scatter(argument: Any) -> Any:
            """To one worker.  In a graph it would pass through the scheduler, which is not made for large ones."""
            return client.scatter([argument], hash=False)[0]

        yield Workers(client.get_executor(pure=False), count, f"the Dask cluster {address}", scatter)

"""Dask: every worker of a cluster traced, and the logs of all of them in one folder.

    client.register_plugin(PyioTrace("/shared/logs"))
    ...
    PyioTrace.gather(client, "logs")
    pyio_trace.open("logs")

or, before there is a client, `dask worker ... --preload pyio_trace_plugins.dask --pyio-output /shared/logs`.

Each worker process writes a live log of its own.  The log depends on no other
worker or host, and is complete at any moment: a killed worker leaves a record of
what it did.  An instrument (pyio_trace/capture/instruments/distributed.py) tells
every operation its task; it works without this plugin too.  If a worker is
traced already, the plugin does not trace it again.
"""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from distributed.core import Status
from distributed.diagnostics.plugin import WorkerPlugin

import pyio_trace
from pyio_trace.capture.instruments.distributed import name_worker
from pyio_trace.config import FINAL_VARIABLE, load
from pyio_trace.output import LIVE_SUFFIX, PACKED_SUFFIX
from pyio_trace.session import Trace
from pyio_trace_plugins.gather import LogAt, gather, shown
from pyio_trace_plugins.transitions import Transitions

NAME = "pyio_trace"
#: The topic under which workers announce their logs to the scheduler, which remembers them when the workers are gone.
TOPIC = "pyio_trace"
#: Options of `python -m pyio_trace` that `dask worker --preload` takes, besides --pyio-output.
OPTIONS = ("stacks", "follow", "instruments", "max_log_size", "mode", "include", "exclude")

_ENDING = (Status.closing, Status.closing_gracefully, Status.closed)

_trace: Trace | None = None  # of this process, if we started it
_users: set[int] = set()  # plugins in this process: several if workers are threads of one process


class PyioTrace(WorkerPlugin):  # type: ignore[misc,unused-ignore]
    """Traces every worker once it is registered, including workers that start or restart later.

    output_folder: where each worker process creates its log, on its own host;
    created if missing; default: the client's current folder.  transitions: also
    record one span per task, with the time the task spent in each state.
    options: those of pyio_trace.trace().  Raises PyioTraceError for invalid
    options, TypeError for `output`.
    """

    name = NAME
    idempotent = True  # registering it again changes nothing and splits no log

    def __init__(
        self, output_folder: str | os.PathLike[str] | None = None, *, transitions: bool = True, **options: Any
    ) -> None:
        self.output_folder = os.path.abspath(output_folder or os.curdir)
        self.options = {name: value for name, value in options.items() if value is not None}
        self.transitions = transitions
        self._states: Transitions | None = None
        self._announcing: asyncio.Task[None] | None = None
        if "output" in options:
            raise TypeError(
                "there is no option output: output_folder says where logs go, and each has a name of its own"
            )
        pyio_trace.trace(**self.options)  # raises at the client what every worker would raise

    def setup(self, worker: Any) -> None:
        """Called by the worker when it has started.  Traces its process, unless that is traced already."""
        path, final = _start(self, self.output_folder, self.options)
        name_worker(worker)
        run = pyio_trace.current_run()
        # A ring overwrites spans that are open for long.
        if self.transitions and run is not None and run.mode != "ring":
            self._states = Transitions(worker.address)
        log = {"host": os.uname().nodename, "path": path, "pid": os.getpid(), "worker": worker.address, "final": final}
        if not _announce(worker, log):  # preloaded: there is no connection to the scheduler yet
            self._announcing = asyncio.ensure_future(_announce_later(worker, log))

    def teardown(self, worker: Any) -> None:
        """Called by the worker when it closes or the plugin is removed.  Stops what setup() started.

        A process that ends with its worker is traced to its end: tasks may still be running in its threads.
        """
        if self._announcing is not None:
            self._announcing.cancel()
        if self._states is not None:
            self._states.close()
            self._states = None
        if worker.nanny is None or worker.status not in _ENDING:
            _stop(self)

    def transition(self, key: Any, start: str, finish: str, **kwargs: Any) -> None:
        """Called by the worker when one of its tasks changes its state."""
        if self._states is not None:
            self._states.changed(key, start, finish)

    @staticmethod
    def gather(client: Any, folder: str | os.PathLike[str], *, progress: bool | None = None) -> list[Path]:
        """Copies the logs of all workers, past and present, into `folder`; see pyio_trace_plugins.gather.

        Logs that are in the folder already stay.  The log of a live worker is copied as it is now.
        """
        if client.asynchronous:
            raise ValueError("gather() waits for workers: call it with a client that is not asynchronous")
        living: dict[str, str] = client.run(_host, on_error="ignore")
        by_host = {host: address for address, host in living.items() if isinstance(host, str)}
        logs = []
        for _, message in client.get_events(TOPIC):
            try:
                logs.append(_log_at(client, by_host, message))
            except ValueError as problem:
                warnings.warn(str(problem), stacklevel=2)
        return gather(logs, folder, progress=progress)

    def __getstate__(self) -> dict[str, Any]:
        """A worker gets the settings, but none of the running state."""
        return {**self.__dict__, "_states": None, "_announcing": None}


def _host() -> str:
    return os.uname().nodename


def _log_at(client: Any, by_host: dict[str, str], message: Any) -> LogAt:
    """The log that a worker announced.  Anybody in the cluster can announce anything: ValueError if malformed."""
    known = message if isinstance(message, dict) else {}
    host, path, final = known.get("host"), known.get("path"), known.get("final")
    if not (isinstance(host, str) and isinstance(path, str) and isinstance(final, str | None)):
        raise ValueError(f"a log is not gathered: its announcement has an unknown form: {shown(message)}")
    return LogAt(host, path, _caller(client, by_host.get(host)), final)


def _caller(client: Any, address: str | None) -> Callable[..., Any] | None:
    if address is None:
        return None

    def call(function: Callable[..., Any], *arguments: Any) -> Any:
        return client.run(function, *arguments, workers=[address])[address]

    return call


# ---- a process -----------------------------------------------------------------------------


def _start(user: PyioTrace, folder: str, options: dict[str, Any]) -> tuple[str, str | None]:
    """Traces this process, unless it is traced already.  Returns where its log is, and where it may be in the end."""
    global _trace
    final = os.environ.get(FINAL_VARIABLE)
    if pyio_trace.current_run() is None:
        os.makedirs(folder, exist_ok=True)
        final = _free_name(folder)
        _trace = pyio_trace.trace(final, **options).start()
        _users.clear()
    _users.add(id(user))
    run = pyio_trace.current_run()
    assert run is not None and run.path is not None
    path = os.path.abspath(run.path)
    return path, None if final is None or os.path.abspath(final) == path else os.path.abspath(final)


def _stop(user: PyioTrace) -> None:
    """Stops what _start() started, once no plugin uses it."""
    global _trace
    _users.discard(id(user))
    if not _users and _trace is not None:
        _trace.stop()
        _trace = None


def _free_name(folder: str) -> str:
    """A log name that is not in use: a process that stops and starts again gets a second log."""
    from pyio_trace.output import expand_pattern

    name = os.path.join(folder, expand_pattern("pyio-dask-%h-%t-%p", "dask"))
    path, n = f"{name}.pyio", 2
    while os.path.exists(path):
        path, n = f"{name}-{n}.pyio", n + 1
    return path


def _announce(worker: Any, log: dict[str, Any]) -> bool:
    """Announces a log to the scheduler.  False: there is no connection, without which Dask drops messages."""
    stream = worker.batched_stream
    if not stream or not stream.comm or stream.comm.closed():
        return False
    worker.log_event(TOPIC, log)
    return True


async def _announce_later(worker: Any, log: dict[str, Any]) -> None:
    while not _announce(worker, log):
        await asyncio.sleep(0.02)


# ---- dask worker --preload pyio_trace_plugins.dask -----------------------------------------


def _with_options(command: click.Command) -> click.Command:
    for name in OPTIONS:
        flag = f"--pyio-{name.replace('_', '-')}"
        command.params.append(click.Option([flag], default=None, help=f"as --{name.replace('_', '-')} of pyio_trace"))
    return command


def _configured_folder() -> str:
    """The folder of the configured output, which may name a file or a pattern in it; else the current one."""
    output = load().output or os.curdir
    return os.path.dirname(output) or os.curdir if output.endswith((LIVE_SUFFIX, PACKED_SUFFIX)) else output


@_with_options
@click.command()
@click.option("--pyio-output", default=None, help="The folder for the workers' logs; default: the configured one.")
async def dask_setup(worker: Any, pyio_output: str | None, **options: str | None) -> None:
    """Called by `dask worker --preload`, before the worker joins the scheduler."""
    if not hasattr(worker, "plugin_add"):
        return  # a scheduler or a nanny: neither runs tasks
    settings = {name.removeprefix("pyio_"): value for name, value in options.items()}
    folder = pyio_output or _configured_folder()
    plugin = PyioTrace(folder, **settings)  # type: ignore[arg-type]  # OPTIONS has no `transitions`
    await worker.plugin_add(plugin, name=NAME, catch_errors=False)

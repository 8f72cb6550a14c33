"""Dask: every worker of a cluster traced, and the logs of all of them in one folder.

    client.register_plugin(PyioTrace("/shared/logs"))
    ...
    PyioTrace.gather(client, "logs")
    pyio_trace.open("logs")

or, before there is a client, `dask worker ... --preload pyio_trace_plugins.dask --pyio-output /shared/logs`.

Each worker process writes a live log of its own, which needs nothing of other
workers or hosts and is whole at any moment: a worker that is killed leaves
what it did.  That every operation knows its task is the instrument's doing
(pyio_trace/capture/instruments/distributed.py), and holds without this plugin
too, where workers are traced in another way; then the plugin leaves that be.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from distributed.core import Status
from distributed.diagnostics.plugin import WorkerPlugin

import pyio_trace
from pyio_trace.capture.session import Trace
from pyio_trace.config import FINAL_VARIABLE, load
from pyio_trace_plugins.gather import LogAt, gather
from pyio_trace_plugins.transitions import Transitions

NAME = "pyio_trace"
#: Where workers tell the scheduler of their logs: it remembers them when they are gone.
TOPIC = "pyio_trace"
#: What `dask worker --preload` takes, beside --pyio-output: options of `python -m pyio_trace`.
OPTIONS = ("stacks", "follow", "instruments", "max_log_size", "mode", "include", "exclude")

_ENDING = (Status.closing, Status.closing_gracefully, Status.closed)

_trace: Trace | None = None  # of this process, if it is ours
_users: set[int] = set()  # plugins in this process: several, where workers are threads of one process


class PyioTrace(WorkerPlugin):  # type: ignore[misc,unused-ignore]
    """Traces every worker from its registration on, those included that come later or are restarted.

    output_folder: where each worker process makes its log, on its own host;
    made if need be; default: the client's current folder.  transitions: also
    one span a task, with how long it was in which state.  options: those of
    pyio_trace.trace().  Raises PyioTraceError for options that cannot be.
    """

    name = NAME
    idempotent = True  # registered again, it changes nothing and cuts no log in two

    def __init__(
        self, output_folder: str | os.PathLike[str] | None = None, *, transitions: bool = True, **options: Any
    ) -> None:
        self.output_folder = os.path.abspath(output_folder or os.curdir)
        self.options = {name: value for name, value in options.items() if value is not None}
        self.transitions = transitions
        self._states: Transitions | None = None
        self._telling: asyncio.Task[None] | None = None
        if "output" in options:
            raise TypeError("output is not taken here: output_folder says where logs go, each has a name of its own")
        pyio_trace.trace(**self.options)  # raises here, at the client, what would be raised in every worker

    def setup(self, worker: Any) -> None:
        """Called by the worker, once it is there: starts tracing its process, unless that is traced already."""
        path, final = _start(self, self.output_folder, self.options)
        run = pyio_trace.current_run()
        if self.transitions and run is not None and run.mode != "ring":  # which forgets what is open for long
            self._states = Transitions(worker.address)
        said = {"host": os.uname().nodename, "path": path, "pid": os.getpid(), "worker": worker.address, "final": final}
        if not _tell(worker, said):  # preloaded: there is no connection to the scheduler yet
            self._telling = asyncio.ensure_future(_tell_later(worker, said))

    def teardown(self, worker: Any) -> None:
        """Called by the worker when it closes or the plugin is removed: stops what setup() started.

        A process that ends with its worker is traced until then: tasks may still be running in its threads.
        """
        if self._telling is not None:
            self._telling.cancel()
        if self._states is not None:
            self._states.close()
            self._states = None
        if worker.nanny is None or worker.status not in _ENDING:
            _stop(self)

    def transition(self, key: Any, start: str, finish: str, **kwargs: Any) -> None:
        """Called by the worker whenever a task of its changes its state."""
        if self._states is not None:
            self._states.changed(key, start, finish)

    @staticmethod
    def gather(client: Any, folder: str | os.PathLike[str], *, progress: bool | None = None) -> list[Path]:
        """Bring the logs of all workers there have been into `folder`; see pyio_trace_plugins.gather.

        Logs that are there already stay.  Of workers that live, it is what they have done so far.
        """
        if client.asynchronous:
            raise ValueError("gather() waits for workers: call it with a client that is not asynchronous")
        living: dict[str, str] = client.run(_host, on_error="ignore")
        by_host = {host: address for address, host in living.items()}
        said = [message for _, message in client.get_events(TOPIC)]
        logs = [
            LogAt(log["host"], log["path"], _caller(client, by_host.get(log["host"])), log.get("final")) for log in said
        ]
        return gather(logs, folder, progress=progress)

    def __getstate__(self) -> dict[str, Any]:
        """What a worker gets is what was said, nothing of what is going on."""
        return {**self.__dict__, "_states": None, "_telling": None}


def _host() -> str:
    return os.uname().nodename


def _caller(client: Any, address: str | None) -> Callable[..., Any] | None:
    if address is None:
        return None

    def call(function: Callable[..., Any], *arguments: Any) -> Any:
        return client.run(function, *arguments, workers=[address])[address]

    return call


# ---- a process -----------------------------------------------------------------------------


def _start(user: PyioTrace, folder: str, options: dict[str, Any]) -> tuple[str, str | None]:
    """Trace this process, unless it is being traced; returns where its log is, and where it may be in the end."""
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
    """Stop what _start() started, after the last of its users."""
    global _trace
    _users.discard(id(user))
    if not _users and _trace is not None:
        _trace.stop()
        _trace = None


def _free_name(folder: str) -> str:
    """A process that stops and starts again has a second log, and never loses the first."""
    from pyio_trace.output import expand_pattern

    name = os.path.join(folder, expand_pattern("pyio-dask-%h-%t-%p", "dask"))
    path, n = f"{name}.pyio", 2
    while os.path.exists(path):
        path, n = f"{name}-{n}.pyio", n + 1
    return path


def _tell(worker: Any, said: dict[str, Any]) -> bool:
    """Tell the scheduler of a log, if there is a connection: what is sent without one is dropped."""
    stream = worker.batched_stream
    if not stream or not stream.comm or stream.comm.closed():
        return False
    worker.log_event(TOPIC, said)
    return True


async def _tell_later(worker: Any, said: dict[str, Any]) -> None:
    while not _tell(worker, said):
        await asyncio.sleep(0.02)


# ---- dask worker --preload pyio_trace_plugins.dask -----------------------------------------


def _with_options(command: click.Command) -> click.Command:
    for name in OPTIONS:
        flag = f"--pyio-{name.replace('_', '-')}"
        command.params.append(click.Option([flag], default=None, help=f"as --{name.replace('_', '-')} of pyio_trace"))
    return command


@_with_options
@click.command()
@click.option("--pyio-output", default=None, help="The folder for the workers' logs; default: the current folder.")
async def dask_setup(worker: Any, pyio_output: str | None, **options: str | None) -> None:
    """Called by `dask worker --preload`, before the worker joins the scheduler."""
    if not hasattr(worker, "plugin_add"):
        return  # a scheduler or a nanny: neither runs tasks
    said = {name.removeprefix("pyio_"): value for name, value in options.items()}
    folder = pyio_output or load().output or os.curdir
    plugin = PyioTrace(folder, **said)  # type: ignore[arg-type]  # OPTIONS has no `transitions`
    await worker.plugin_add(plugin, name=NAME, catch_errors=False)

"""Tracing a part of a running program: ``with pyio_trace.trace("run.pyio") as run:``."""

from __future__ import annotations

import os

from pyio_trace.capture import online
from pyio_trace.config import Config, load, output_paths
from pyio_trace.values import in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Self


class Run:
    """The run that this process is part of: to pause, to switch, to dump.  path: where its log is."""

    path: str | None = None

    @property
    def mode(self) -> str:
        """ "trace", "profile" or "ring"; setting it switches this process, and what it forks from then on, at once."""
        return online.mode()

    @mode.setter
    def mode(self, mode: str) -> None:
        online.switch(mode)

    @property
    def paused(self) -> bool:
        """Whether nothing is being recorded: after pause()."""
        return online.paused()

    def pause(self) -> None:
        """Record nothing of this process until resume(); what passes by is counted."""
        online.pause(True)

    def resume(self) -> None:
        """Record again after pause()."""
        online.pause(False)

    def dump(self, path: str | os.PathLike[str] | None = None) -> str:
        """Write a copy of the log as it is now, and return its path.

        path: a name that is not taken; default: the live log's with -dump-N.  Raises CaptureError.
        """
        return online.dump(None if path is None else os.fspath(path))


class Trace(Run):
    """One traced stretch.  path: where its log is (the live log until stop(), then the final one)."""

    def __init__(self, config: Config, script: str = "trace") -> None:
        self._config = config
        self._script = script
        self._live: str | None = None
        self._final: str | None = None
        self._owner = os.getpid()

    def start(self) -> Self:
        """Begin.  Raises ConfigError or CaptureError; then nothing has changed."""
        live, final = output_paths(self._config, self._script)
        begun = online.start(self._config, live, final, create=True)
        self._live, self._final, self.path = begun.live, begun.final, begun.live
        self._owner = os.getpid()  # a forked child leaves the end to its parent
        return self

    def stop(self) -> None:
        """End, and pack the log if its name is *.parquet.  A second call does nothing.  Raises LogError: log-unwritable
        (the live log stays)."""
        if self._live is None:
            return
        live, self._live = self._live, None
        online.stop()
        if self._final is not None and self._owner == os.getpid():  # a forked child leaves the log to its parent
            from pyio_trace.join.pack import settle

            settle(live, self._final)
            self.path = self._final

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def trace(
    output: str | os.PathLike[str] | None = None,
    *,
    stacks: str | None = None,
    follow: str | None = None,
    instruments: str | Iterable[str] | None = None,
    max_log_size: int | str | None = None,
    mode: str | None = None,
    include: str | Iterable[str | os.PathLike[str]] | None = None,
    exclude: str | Iterable[str | os.PathLike[str]] | None = None,
    min_duration: int | str | None = None,
    min_size: int | str | None = None,
    ring_size: int | str | None = None,
    dump_signal: str | None = None,
) -> Trace:
    """A context manager that traces what happens inside it, in all threads and children.

    output: the log's name or pattern (``*.pyio`` stays a live log, ``*.parquet``
    is packed at the end; default: see docs/log-format.md); the other options are
    those of the command line (rules and names also as lists) and, where None,
    come from the environment and pyproject.toml.  Raises PyioTraceError if
    tracing cannot start.
    """
    said = {
        "output": output,
        "stacks": stacks,
        "follow": follow,
        "instruments": instruments,
        "max_log_size": max_log_size,
        "mode": mode,
        "include": include,
        "exclude": exclude,
        "min_duration": min_duration,
        "min_size": min_size,
        "ring_size": ring_size,
        "dump_signal": dump_signal,
    }
    return Trace(load({name: in_words(value, name) for name, value in said.items() if value is not None}, typed=False))


def current_run() -> Run | None:
    """The run that traces this process, or None: to switch it at run time, as in ``run.pause()``."""
    if not online.active():
        return None
    run = Run()
    run.path = online.live_path()
    return run

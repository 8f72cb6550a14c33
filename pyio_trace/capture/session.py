"""Tracing a part of a running program: ``with pyio_trace.trace("run.pyio") as run:``."""

from __future__ import annotations

import os

from pyio_trace.capture import online
from pyio_trace.config import Config, load, output_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class Trace:
    """One traced stretch.  path: where its log is (the live log until stop(), then the final one)."""

    def __init__(self, config: Config, script: str = "trace") -> None:
        self._config = config
        self._script = script
        self._live: str | None = None
        self._final: str | None = None
        self._owner = os.getpid()
        self.path: str | None = None

    def start(self) -> Self:
        """Begin.  Raises ConfigError or CaptureError; then nothing has changed."""
        live, final = output_paths(self._config, self._script)
        online.start(self._config, live, create=True)
        self._live, self._final, self.path = live, final, live
        self._owner = os.getpid()  # a forked child leaves the end to its parent
        return self

    def stop(self) -> None:
        """End, and pack the log if its name is *.parquet.  A second call does nothing."""
        if self._live is None:
            return
        live, self._live = self._live, None
        online.stop()
        if self._final is not None and self._owner == os.getpid():  # a forked child leaves the log to its parent
            from pyio_trace.join.pack import pack

            pack(live, self._final)
            os.unlink(live)
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
    max_log_size: int | str | None = None,
) -> Trace:
    """A context manager that traces what happens inside it, in all threads and children.

    output: the log's name or pattern (``*.pyio`` stays a live log, ``*.parquet``
    is packed at the end; default: see docs/log-format.md); the other options are
    those of the command line and, where None, come from the environment and
    pyproject.toml.  Raises PyioTraceError if tracing cannot start.
    """
    said = {
        "output": None if output is None else os.fspath(output),
        "stacks": stacks,
        "follow": follow,
        "max_log_size": max_log_size,
    }
    return Trace(load({name: str(value) for name, value in said.items() if value is not None}))

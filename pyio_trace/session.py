"""Tracing a part of a running program: ``with pyio_trace.trace("run.pyio") as run:``."""

from __future__ import annotations

import os

from pyio_trace import native
from pyio_trace.capture.runtime import found_processes, tracer
from pyio_trace.capture.runtime.user_spans import span
from pyio_trace.capture.startup.site_packages._pyio_trace_start import is_privileged
from pyio_trace.config import (
    BY_NAME,
    DURATION,
    LIST,
    PATH,
    PERMISSIONS,
    RATE,
    SIZE,
    SWITCH,
    Config,
    Option,
    isolated,
    load,
)
from pyio_trace.errors import CaptureError, ConfigError, PyioTraceError
from pyio_trace.output import log_paths
from pyio_trace.values import MODES, did_you_mean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType, TracebackType
    from typing import Self

_ALSO_GIVEN_AS = {
    PATH: " or a path", SIZE: " or a number", DURATION: " or a number", RATE: " or a number",
    LIST: " or a list of strings",
}  # fmt: skip


def _core() -> ModuleType:
    """The core, while it traces this process.  Raises CaptureError."""
    if native.core is None or not native.core.state()["active"]:
        raise CaptureError("not-tracing", "this process is not being traced; start with pyio_trace.trace()")
    return native.core


class Run:
    """The run that this process belongs to: pause it, switch its mode, dump its log.  path: where its log is."""

    path: str | None = None

    @property
    def mode(self) -> str:
        """ "trace", "profile" or "ring"; setting it switches this process at once, and what it forks later."""
        return MODES[int(_core().state()["mode"])]

    @mode.setter
    def mode(self, mode: str) -> None:
        if mode not in MODES:
            near = did_you_mean(str(mode), MODES)
            raise ConfigError("bad-value", f"mode: {mode!r} is not one of {', '.join(MODES)}{near}")
        _core().set_mode(MODES.index(mode))

    @property
    def paused(self) -> bool:
        """Whether recording is paused."""
        return bool(_core().state()["paused"])

    def pause(self) -> None:
        """Record nothing of this process until resume(); operations are only counted."""
        _core().pause(True)

    def resume(self) -> None:
        """Record again after pause()."""
        _core().pause(False)

    def dump(self, path: str | os.PathLike[str] | None = None) -> str:
        """Write a copy of the log as it is now, and return its path.

        path: a name that no file has; default: the live log's name with -dump-N.  Raises CaptureError.
        """
        core = _core()
        live = str(core.state()["path"]).removesuffix(".pyio")
        names = [os.fspath(path)] if path is not None else [f"{live}-dump-{n}.pyio" for n in range(1, 10_000)]
        for name in names:
            try:
                core.dump(os.fsencode(name))
            except FileExistsError:
                continue
            except OSError as problem:
                reason = f"the dump {name!r} cannot be written: {problem.strerror}"
                raise CaptureError("unwritable-log", reason) from None
            return name
        raise CaptureError("unwritable-log", f"the dump {names[-1]!r} cannot be written: the name is taken")


class Trace(Run):
    """A part of a program that is traced.  path: where its log is: the live log until stop(), then the final one."""

    def __init__(self, config: Config, script: str = "trace") -> None:
        self._config = config
        self._script = script
        self._live: str | None = None
        self._final: str | None = None
        #: Taken when tracing starts: at its end the program may be unable to import anything.
        self._finish_part: Callable[[str, tuple[int, int, int], str, int], tuple[str, list[str]]] | None = None
        self._came_from_outside: Callable[[BaseException], bool] | None = None
        self._span: span | None = None
        self._found: found_processes.Found = {}
        self._identity = (0, 0, 0)
        self._owner = os.getpid()

    def start(self) -> Self:
        """Start tracing.  If it raises ConfigError or CaptureError, nothing has changed."""
        state = native.core.state() if native.core is not None else {}
        if state.get("active") and not state["owner"]:  # a child of a traced program: it is in that log already
            self._span = span("trace", output=self._config.output).__enter__()
            self.path = str(state["path"])
            return self
        live, final = log_paths(self._config.output, self._script, check_live=False)
        self._take_what_the_end_needs(final)
        started = tracer.start(self._config, live, final, create=True, late=True)
        self._live, self._final, self.path = started.live, started.final, started.live
        if native.core is not None:
            self._identity = native.core.identity()
        self._owner = os.getpid()  # a forked child does not pack: its parent does
        self._found = self._enter_found()
        return self

    def stop(self) -> None:
        """Stop tracing, and pack the log if its name is *.parquet.  A second call does nothing.

        The live log stays if a process of the part still runs, which may write to it.
        path becomes the name of the log that there is; it differs from the intended
        name if another file has that.  Raises LogError: log-unwritable (the live log
        stays), log-lost.
        """
        if self._span is not None:
            self._span.__exit__(None, None, None)
            self._span = None
        if self._live is None:
            return
        live, self._live = self._live, None
        packs = self._final is not None and self._owner == os.getpid()
        try:
            if self._owner == os.getpid():
                self._enter_found(self._found)
        finally:
            tracer.stop(packs)  # before all else that may fail: the program is as it was
        if self._final is None or not packs:
            return
        if self._finish_part is None:
            from pyio_trace.join.pack.end_of_run import finish_part  # raises the reason again

            self._finish_part = finish_part
        self.path, lines = self._finish_part(live, self._identity, self._final, int(self._config.log_mode, 8))
        if self.path == live:
            tracer.left_live.add(live)
        for line in lines:
            self._say(line)

    def _enter_found(self, before: found_processes.Found | None = None) -> found_processes.Found:
        try:
            return found_processes.enter(before)
        except Exception as problem:  # without them
            if self._is_the_programs(problem):
                raise
            return {}

    def _take_what_the_end_needs(self, final: str | None) -> None:
        from pyio_trace.capture.instrumentation.exception_origin import came_from_outside

        self._came_from_outside = came_from_outside
        if final is not None:
            try:
                import pyarrow._parquet  # noqa: F401

                from pyio_trace.join.pack.end_of_run import finish_part

                self._finish_part = finish_part
            except Exception as problem:  # the end says so
                if self._is_the_programs(problem):
                    raise

    def _say(self, line: str) -> None:
        if not self._config.quiet:
            native.say(line)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop tracing.  Never raises: if the log cannot be packed, one line says so, and the live log stays."""
        live = self._live
        try:
            self.stop()
        except Exception as problem:
            if self._is_the_programs(problem):
                raise
            try:
                said = str(problem) if isinstance(problem, PyioTraceError) else f"{type(problem).__name__}: {problem}"
                lost = isinstance(problem, PyioTraceError) and problem.slug == "log-lost"
                self._say(said if lost else f"{said}; the live log stays: {live}")
            except Exception:  # the program has left nothing with which it could be said
                pass

    def _is_the_programs(self, problem: Exception) -> bool:
        """Whether a signal handler of the program has raised it."""
        try:
            return self._came_from_outside is not None and self._came_from_outside(problem)
        except Exception:
            return False


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
    log_mode: int | str | None = None,
    redact: str | Iterable[str] | None = None,
    max_memory: int | str | None = None,
    sample: int | str | None = None,
    system: int | str | None = None,
) -> Trace:
    """A context manager that traces what happens inside it, in all threads and child processes.

    output: the log's name or pattern; ``*.pyio`` stays a live log, ``*.parquet``
    is packed at the end.  The other options are those of the command line; rules
    and names may also be lists.  An option that is None comes from the
    environment or pyproject.toml; in an isolated (-E, -I) or privileged
    (set-user-ID) process it has its default.  `sample` is the exception: it is
    off unless told, so that no process is started beside a program that already
    runs.  Raises PyioTraceError if tracing
    cannot start.
    """
    given = dict(locals())
    texts = {name: text_of(BY_NAME[name], value) for name, value in given.items() if value is not None}
    alone = isolated() or is_privileged()
    return Trace(load(texts, typed=False, alone=alone, otherwise={"sample": "off"}))


def text_of(option: Option, value: object) -> str:
    """A value given from Python as the text that a user would write.  Raises ConfigError.

    Every option takes a string; the log also a path, a list also several
    strings or paths, a size or duration also a number.
    """
    if option.type == LIST and isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(text_of(option, one) for one in value)
    if option.type == SWITCH and isinstance(value, bool):
        return "1" if value else "0"
    if option.type == PERMISSIONS and isinstance(value, int):  # 0o640
        return f"{value:o}"
    try:
        if option.type in (SIZE, DURATION, RATE) and (isinstance(value, float) or hasattr(value, "__index__")):
            return str(value)  # ValueError: too many digits
        if isinstance(value, str) or option.type == PATH or (option.type == LIST and hasattr(value, "__fspath__")):
            return os.fsdecode(value)  # type: ignore[arg-type]  # TypeError: not a path
    except (TypeError, ValueError):
        pass
    expected = f"a string{_ALSO_GIVEN_AS.get(option.type, '')}"
    raise ConfigError("bad-value", f"{option.name}: it cannot be of type {type(value).__name__}; give {expected}")


def current_run() -> Run | None:
    """The run that traces this process, or None; with it one can call, for example, ``run.pause()``."""
    state = native.core.state() if native.core is not None else {}
    if not state.get("active"):
        return None
    run = Run()
    run.path = str(state["path"])
    return run

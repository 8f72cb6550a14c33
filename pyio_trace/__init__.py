"""pyio_trace: every byte a Python program moves, from its line to the system call.

    python -m pyio_trace script.py

or, around a part of a running program::

    with pyio_trace.trace("run.pyio"):
        ...
    pyio_trace.open("run.pyio").operations()

Names are looked up on first use: importing the package costs a traced program
nothing, and the capture half pulls in none of the reading half.

PYTEST_DONT_REWRITE: a traced pytest has imported the package before it loads
plugins, and would warn that it cannot rewrite its assertions.
"""

TYPE_CHECKING = False  # typing itself would cost every traced process milliseconds
if TYPE_CHECKING:
    from pyio_trace.capture.runtime.user_spans import span, suppress
    from pyio_trace.errors import PyioTraceError
    from pyio_trace.notebook.magic import load_ipython_extension
    from pyio_trace.notebook.opened import open_log as open
    from pyio_trace.session import Run, Trace, current_run, trace

__all__ = [
    "PyioTraceError",
    "Run",
    "Trace",
    "current_run",
    "load_ipython_extension",
    "open",
    "span",
    "suppress",
    "trace",
]

_HOMES = {
    "PyioTraceError": ("pyio_trace.errors", "PyioTraceError"),
    "Run": ("pyio_trace.session", "Run"),
    "Trace": ("pyio_trace.session", "Trace"),
    "current_run": ("pyio_trace.session", "current_run"),
    "load_ipython_extension": ("pyio_trace.notebook.magic", "load_ipython_extension"),
    "open": ("pyio_trace.notebook.opened", "open_log"),
    "span": ("pyio_trace.capture.runtime.user_spans", "span"),
    "suppress": ("pyio_trace.capture.runtime.user_spans", "suppress"),
    "trace": ("pyio_trace.session", "trace"),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _HOMES[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> "list[str]":
    return sorted({*globals(), *__all__})

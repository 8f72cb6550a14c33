"""What a task of a pool is called: its function, as far as no code of the program is needed to say so."""

from __future__ import annotations

from pyio_trace import native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_WITH_TASKS = ("dask", "distributed", "ray")
_OF_CYTHON = "__Pyx_CFunc_"  # a C function that a compiled library (Ray's) gives to a pool


def described(function: Any, args: Any) -> dict[str, object] | None:
    """The details of a task; None: its library makes a row of its own for it.  Calls no code of the program."""
    details: dict[str, object] = {}
    while type(function).__name__ == "partial" and type(function).__module__ == "functools":
        inner = function.func
        name = getattr(inner, "__name__", "") if type(inner).__module__ == "builtins" else ""
        if name == "_process_chunk" and args and type(args[0]) is tuple:  # map(..., chunksize=)
            details["items"] = len(args[0])
            inner = function.args[0]
        elif name == "run" and function.args and type(inner).__name__ == "builtin_function_or_method":
            inner = function.args[0]  # asyncio.to_thread: Context.run(function, ...)
        function, args = inner, ()
    is_method = type(function).__name__ == "method" and type(function).__module__ == "builtins"
    owner = function.__func__ if is_method else function
    if not _is_function(owner):
        details["prefix"] = type(owner).__name__
        return details
    module = getattr(owner, "__module__", None)
    name = getattr(owner, "__qualname__", type(owner).__name__)
    if name.startswith(_OF_CYTHON) or (type(module) is str and module.partition(".")[0] in _WITH_TASKS):
        return None
    details["prefix"] = name
    return details


def _is_function(function: Any) -> bool:
    """Whether it is a function of Python, C or Cython, or a class without a metaclass: attributes run no code."""
    return type(function).__module__ == "builtins" or type(function).__name__ == "cython_function_or_method"


def members(details: dict[str, object]) -> str:
    """The members of a JSON object."""
    return "" if native.core is None else (native.core.details_members(details) or b"").decode()

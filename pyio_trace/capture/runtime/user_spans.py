"""pyio_trace.span() and pyio_trace.suppress()."""

from __future__ import annotations

from contextlib import ContextDecorator

from pyio_trace import native
from pyio_trace.enums import Layer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class span(ContextDecorator):  # lower case because it reads as a verb: with pyio_trace.span("epoch"):
    """A named part of the program: ``with span("epoch", number=3):`` or ``@span("load")``.

    It is the parent of this thread's operations between begin and end, and of
    those of functions that the thread submits to a pool meanwhile.  Details are
    written as JSON; a value that JSON does not have, as its repr.  In a program
    that is not traced, a span does nothing.
    """

    def __init__(self, name: str, /, **details: object) -> None:
        self._name = name
        self._details = details
        self._open: list[native.core.Span] = []

    def _recreate_cm(self) -> span:
        return span(self._name, **self._details)

    def __enter__(self) -> Self:
        if native.core is not None:
            opened = native.core.Span()
            if opened.begin(self._name, Layer.USER, None, self._detail()):
                self._open.append(opened)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open:
            self._open.pop().end()

    def _detail(self) -> str | None:
        if not self._details or native.core is None or not native.core.state()["active"]:
            return None
        from json import dumps

        try:
            return dumps(self._details, default=repr, allow_nan=False)
        except Exception as problem:
            if _came_from_outside(problem):
                raise
        return "{" + ", ".join(f"{dumps(name)}: {_as_json(value)}" for name, value in self._details.items()) + "}"


def _as_json(value: object) -> str:
    """The JSON of a value; of one that JSON does not have, its repr; of one whose repr fails, the name of its type."""
    from json import dumps

    try:
        return dumps(value, default=repr, allow_nan=False)
    except Exception as problem:  # NaN, a key that is no text, a cycle; or repr() has failed
        if _came_from_outside(problem):
            raise
    try:
        return dumps(repr(value))
    except Exception as problem:
        if _came_from_outside(problem):
            raise
    return dumps(type(value).__name__)


def _came_from_outside(problem: Exception) -> bool:
    from pyio_trace.capture.instrumentation.exception_origin import came_from_outside  # rarely needed

    return came_from_outside(problem)


class suppress(ContextDecorator):  # lower case because it reads as a verb: with pyio_trace.suppress():
    """Records no operations of this thread: ``with suppress():`` or ``@suppress()``."""

    def __enter__(self) -> Self:
        if native.core is not None:
            native.core.suppress(True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if native.core is not None:
            native.core.suppress(False)

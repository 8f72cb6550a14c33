"""Spans the user names, and stretches that are not recorded."""

from __future__ import annotations

from contextlib import ContextDecorator

from pyio_trace import native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from pyio_trace.native._capture import Span

_USER_LAYER = 1  # enum pt_layer


class span(ContextDecorator):  # lower case: used as a verb, with pyio_trace.span("epoch"):
    """A named stretch of the program: ``with span("epoch", number=3):`` or ``@span("load")``.

    Operations of this thread between begin and end have it as their parent, and
    so have those of functions it submits to a thread pool.  Details must be
    JSON-able; others are written by their repr.  Outside a traced program it
    does nothing.
    """

    def __init__(self, name: str, /, **details: object) -> None:
        self._name = name
        self._details = details
        self._open: list[Span] = []

    def _recreate_cm(self) -> span:
        return span(self._name, **self._details)

    def __enter__(self) -> Self:
        if native.core is not None:
            opened = native.core.Span()
            if opened.begin(self._name, _USER_LAYER, None, self._detail()):
                self._open.append(opened)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open:
            self._open.pop().end()

    def _detail(self) -> str | None:
        if not self._details:
            return None
        import json

        return json.dumps(self._details, default=repr)


class suppress(ContextDecorator):  # lower case: used as a verb, with pyio_trace.suppress():
    """A stretch in which nothing of this thread is recorded: ``with suppress():`` or ``@suppress()``."""

    def __enter__(self) -> Self:
        if native.core is not None:
            native.core.suppress(True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if native.core is not None:
            native.core.suppress(False)

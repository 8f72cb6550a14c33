"""Context goes with the work: a function submitted to a ThreadPoolExecutor runs
under the span that submitted it (asyncio.to_thread and run_in_executor go
through the same door).

The executor's module is watched for, not imported: a program without it pays
nothing.
"""

from __future__ import annotations

from pyio_trace import native
from pyio_trace.capture import imports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_undo: list[tuple[type, str, object, object]] = []  # owner, name, original, ours


def install() -> None:
    """Wrap ThreadPoolExecutor.submit, now or when it is imported."""
    imports.watch("concurrent.futures.thread", _wrap)


def uninstall() -> None:
    """Put back what install() replaced."""
    while _undo:
        owner, name, original, ours = _undo.pop()
        if owner.__dict__.get(name) is ours:  # else somebody has wrapped it since: theirs stays, ours passes through
            setattr(owner, name, original)


def _wrap(module: ModuleType) -> None:
    owner = module.ThreadPoolExecutor
    original = owner.__dict__["submit"]
    replacement = _carrying(original)
    owner.submit = replacement
    _undo.append((owner, "submit", original, replacement))


def _carrying(original: Callable[..., Any]) -> Callable[..., Any]:
    def submit(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        core = native.core
        return original(self, core.carry(fn) if core is not None else fn, *args, **kwargs)

    from functools import WRAPPER_ASSIGNMENTS  # the executor's module has imported it already

    for name in WRAPPER_ASSIGNMENTS:
        if hasattr(original, name):
            setattr(submit, name, getattr(original, name))
    submit.__wrapped__ = original  # type: ignore[attr-defined]
    return submit

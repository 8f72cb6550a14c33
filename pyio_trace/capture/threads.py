"""Context goes with the work: what is submitted to a ThreadPoolExecutor runs
under the span that submitted it (asyncio.to_thread and run_in_executor go
through the same door).

The public classes are left alone. An executor makes one private object for
each piece of work, where it is submitted, and runs that in a thread of its
own: its two methods are exchanged for ones that note the span and take it up
(csrc/ext/unseen.c). The executor's module is watched for, not imported: a
program without it pays nothing.
"""

from __future__ import annotations

from pyio_trace import native
from pyio_trace.capture import imports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

_undo: list[tuple[type, str, object, object]] = []  # owner, name, original, ours


def install() -> None:
    """Instrument the executor's pieces of work, now or when its module is imported."""
    imports.watch("concurrent.futures.thread", _instrument)


def installed() -> bool:
    """Whether the executor is instrumented."""
    return bool(_undo)


def uninstall() -> None:
    """Put back what install() replaced."""
    while _undo:
        owner, name, original, ours = _undo.pop()
        if owner.__dict__.get(name) is ours:  # else somebody has wrapped it since: theirs stays, ours passes through
            setattr(owner, name, original)


def _instrument(module: ModuleType) -> None:
    if native.core is None:
        return
    owner = module._WorkItem
    for name, wrap in (("__init__", native.core.handing_over), ("run", native.core.taking_over)):
        original = owner.__dict__[name]
        ours = wrap(original)
        setattr(owner, name, ours)
        _undo.append((owner, name, original, ours))

"""Context goes with the work: what is given to another thread runs under the
span in which it was given away.

The public classes are left alone.  An executor makes one private object for
each piece of work, where it is submitted, and runs that in a thread of its
own: its two methods are exchanged for ones that note the span and take it up
(csrc/ext/unseen.c; asyncio.to_thread and run_in_executor go through the same
door).  A thread is started by one function of C, and a task of asyncio's takes
its steps in one method of Python's: these are watched in place
(csrc/ext/watched.c, context.c); under uvloop, between two calls of its C code
(uvloop.c).  The modules are watched for, not imported: a program without them
pays nothing.
"""

from __future__ import annotations

from pyio_trace import native
from pyio_trace.capture import imports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

#: By module: what carries context there, in words.
CARRIED = {
    "concurrent.futures.thread": "ThreadPoolExecutor", "threading": "threads", "asyncio.events": "asyncio tasks",
    "uvloop.loop": "uvloop tasks",
}  # fmt: skip

_STARTS, _STEPS = 1, 2  # enum pt_hand_over in csrc/ext/context.h

_undo: list[tuple[type, str, object, object]] = []  # owner, name, original, ours
_done: set[str] = set()


def install() -> None:
    """Instrument what hands work over, now or when its module is imported."""
    imports.watch("concurrent.futures.thread", _executor)
    imports.watch("threading", _threads)
    imports.watch("asyncio.events", _tasks)
    imports.watch("uvloop.loop", _uvloop)


def installed(module: str) -> bool:
    """Whether that module hands context over."""
    return module in _done


def uninstall() -> None:
    """Put back what install() replaced; what is watched in place is the engine's to put back."""
    while _undo:
        owner, name, original, ours = _undo.pop()
        if owner.__dict__.get(name) is ours:  # else somebody has wrapped it since: theirs stays, ours passes through
            setattr(owner, name, original)
    _done.clear()


def _executor(module: ModuleType) -> None:
    if native.core is None:
        return
    owner = module._WorkItem
    for name, wrap in (("__init__", native.core.handing_over), ("run", native.core.taking_over)):
        original = owner.__dict__[name]
        ours = wrap(original)
        setattr(owner, name, ours)
        _undo.append((owner, name, original, ours))
    _done.add(module.__name__)


def _threads(module: ModuleType) -> None:
    # 3.13 has the first, which is what threading uses there; the second is for those who go below it
    for name in ("_start_joinable_thread", "_start_new_thread"):
        _hands_over(module, getattr(module, name, None), _STARTS)


def _tasks(module: ModuleType) -> None:
    _hands_over(module, module.Handle.__dict__["_run"], _STEPS)


def _uvloop(module: ModuleType) -> None:
    if native.core is not None and native.core.enters_contexts(module):
        _done.add(module.__name__)


def _hands_over(module: ModuleType, function: object, how: int) -> None:
    if function is None or native.core is None:
        return
    if native.core.watch(function, "", hands_over=how) is None:
        _done.add(module.__name__)

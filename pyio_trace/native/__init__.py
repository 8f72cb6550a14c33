"""The compiled core, or the reason why there is none.

Only this module imports it, so reading logs works where the core does not
(another platform, a source tree).
"""

import os

from pyio_trace import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from pyio_trace.native import _capture as core

    reason: str | None = None
else:
    core: "ModuleType | None"
    reason: str | None = None
    try:
        from pyio_trace.native import _capture as core
    except ImportError as problem:
        core = None
        reason = f"the compiled core cannot be loaded ({problem})"


def package_folder() -> str:
    """The folder of the package pyio_trace."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def say(text: str) -> None:
    """Write a line to the traced program's stderr, bypassing its buffers.

    If descriptor 2 is another file than it was at the start, the text goes into
    the process table instead: that file may hold the program's data.
    """
    if core is not None:
        core.say(errors.printable(text))
    else:
        errors.say(text)


def available() -> bool:
    """Whether tracing can start in this interpreter; if not, `reason` says why."""
    return reason is None

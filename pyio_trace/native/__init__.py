"""The compiled core, or the reason why there is none.

The one place that imports it: everything else asks here, so that the offline
half works where the core does not (another platform, a source tree).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from pyio_trace.native import _capture as core

    reason: str | None = None
else:
    core: ModuleType | None
    reason: str | None = None
    try:
        from pyio_trace.native import _capture as core
    except ImportError as problem:
        core = None
        reason = f"the compiled core cannot be loaded ({problem})"


def available() -> bool:
    """Whether tracing can start in this interpreter; `reason` says why not."""
    return reason is None

"""Whether an exception that came out of code of ours is the program's own.

What an instrument asks for is Python code that runs in the middle of the
program's, so a signal's handler may run in it: Ctrl-C, an alarm that ends what
takes too long.  What the handler raises is the program's, and must reach it.
Called by csrc/ext/asking.c, and only when something has been raised.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


def is_the_programs(kind: type[BaseException], trace: TracebackType | None) -> bool:
    """Whether a signal's handler has raised it.  trace: as it came out of our code."""
    if not issubclass(kind, Exception):
        return True  # KeyboardInterrupt, SystemExit, a framework's own way to stop: never a mistake of ours
    module = sys.modules.get("signal")
    if module is None:
        return False
    handlers = {getattr(module.getsignal(number), "__code__", None) for number in range(1, module.NSIG)}
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False

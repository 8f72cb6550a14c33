"""Wall time by line of the program as data: the result of the view by_line_time, and LINES of the first screen.

Times are int ns.
"""

from __future__ import annotations

from typing import ClassVar

from pyio_trace.light_dataclass import dataclass

#: What stands for a line where a stack has none of the program: before the first line of a process, and after its
#: last one, while Python and libraries shut down; in a thread, or a worker, that waits; otherwise.
BEFORE, AFTER = "(before the program's first line)", "(after the program's last line)"
IDLE = "(idle threads of libraries)"
#: Work of a pool's threads around the tasks that they are given: taking them, giving results back.
POOLS = "(pools between their tasks)"
NOWHERE = "(at no line of the program)"


@dataclass(frozen=True)
class CalledTime:
    """A library function that a line called: the outermost one beneath it ("import NAME" of an import).  time_ns: how
    long it ran, calls on files excluded; cpu_ns: the part of that on a processor; calls: those it made on files."""

    SHOWN: ClassVar[tuple[str, ...]] = ("time_ns", "cpu_ns")

    function: str
    time_ns: int
    cpu_ns: int
    calls: int = 0


@dataclass(frozen=True)
class OtherLine:
    """A line at which other threads and processes worked while a line waited.  time_ns: with a processor, or ready for
    one, or in calls on files; added up.  waited_ns: that workers slept or waited there, if none worked for most of the
    time."""

    SHOWN: ClassVar[tuple[str, ...]] = ("time_ns",)

    line: str
    time_ns: int
    waited_ns: int


@dataclass(frozen=True)
class LineTime:
    """One line of the program.  Times of several threads add up.

    time_ns: while it was on the stack of its thread, the sum of all that follows up to unseen_ns. here_ns: of that,
    while no other line of the program was beneath it. aside_ns: of here_ns, while a thread other than the main one
    slept or waited, or while several threads worked for an event loop at once that waited for them: here_ns without it
    is how long the line held something up. longest_ns: of here_ns, in the thread that spent most of it there. io_ns,
    sync_ns: calls on files, and syncs and locks of files: exact. cpu_ns: with a processor; delay_ns: ready, and waiting
    for one. gil_ns, lock_ns, sleep_ns, poll_ns (select, epoll), wait_ns (for a child process), system_call_ns (another
    one, such as reading a socket), fault_ns (a page that was not in memory, or stopped): blocked in that. unseen_ns:
    blocked, too briefly to be found so. own_ns: in the program's own code, and in functions written in C that it
    called. called: the library functions that it called, longest first. meanwhile: of the lines that waited longest for
    others, what these did then. calls: on files; samples: how often it was found there.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("here_ns", "time_ns", "io_ns", "cpu_ns", "gil_ns", "lock_ns", "sleep_ns")

    line: str
    time_ns: int
    here_ns: int
    aside_ns: int
    io_ns: int
    sync_ns: int
    cpu_ns: int
    delay_ns: int
    gil_ns: int
    lock_ns: int
    sleep_ns: int
    poll_ns: int
    wait_ns: int
    system_call_ns: int
    fault_ns: int
    unseen_ns: int
    own_ns: int
    calls: int
    samples: int
    called: list[CalledTime]
    meanwhile: list[OtherLine]
    longest_ns: int = 0


@dataclass(frozen=True)
class MainThread:
    """What the main thread of a process did from the program's first line on, outside of imports and calls on files.

    process: its index.  computing_ns: with a processor, or ready for one; gil_ns, asleep_ns: waiting for the
    interpreter's lock, asleep; blocked_ns: blocked otherwise.
    """

    process: int
    computing_ns: int
    gil_ns: int
    asleep_ns: int
    blocked_ns: int


@dataclass(frozen=True)
class LineTimes:
    """sampled: whether there was a sampler; without one, only calls on files are known.  thread_ns: time that threads
    were watched for, sampled or in calls on files.  residual_ns: of that, at no line of the program while it ran, which
    a row names; waits of further threads are not in it.  rows: most time on the innermost line first.  main: by
    process.  more: further rows; dropped: sums that did not fit into memory (0: all figures are exact)."""

    sampled: bool
    thread_ns: int
    residual_ns: int
    rows: list[LineTime]
    main: list[MainThread]
    more: int
    dropped: int

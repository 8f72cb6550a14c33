"""Waiting for something to happen, in a test and in the programs it runs (Runner.write_waiting)."""

from __future__ import annotations

import time
from collections.abc import Callable

#: A busy machine may take long; a condition that never comes true still fails within pytest's limit.
PATIENCE = 240.0


def wait_until(condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Polls until the condition is true; fails the test, naming what it waited for, when that takes too long."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"waited {patience:.0f} s for {what}"
        time.sleep(0.01)


def wait_for_reader(task: int) -> None:
    """Returns once that process or thread sleeps in a read of an empty pipe or FIFO.

    The kernel names the function that a sleeping task waits in, and "0" for one that runs.
    """

    def reads() -> bool:
        with open(f"/proc/{task}/wchan") as name:
            return "pipe" in name.read()

    wait_until(reads, "a reader of a pipe")


def gone(pid: int) -> bool:
    """Whether that process has ended, waited for or not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"  # an orphan that nobody has waited for yet
    except (FileNotFoundError, ProcessLookupError):
        return True

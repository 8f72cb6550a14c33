"""Reads mutated logs in a separate process with bounded memory and time: python -m tests.fuzz.worker.

The log of the example at hand lies in FOLDER/log, so that it is there after a
crash.  Prints how often each outcome occurred, as JSON; fails as hypothesis does.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import re
import resource
import signal
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Protocol

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from pyio_trace.join.pack.packer import pack
from tests.fuzz import library_logs, live_mutations, parquet_mutations, readings, seeds

#: For one log of at most a few MiB: bytes beyond what the imports take, seconds of processor time, and of waiting for
#: something that never comes.
MEMORY, SECONDS, WAITING = 1 << 30, 60, 280
_NUMBER = st.integers(0, (1 << 32) - 1)
MUTATIONS = st.lists(st.tuples(_NUMBER, _NUMBER, _NUMBER, _NUMBER), min_size=1, max_size=6)


def bound_memory() -> None:
    """Whatever is asked for beyond the bound fails."""
    found = re.search(r"VmSize:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found
    limit = int(found[1]) * 1024 + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


class Mutator(Protocol):
    """Makes a log from mutations; from none of them, a sound one."""

    def apply(self, mutations: list[tuple[int, int, int, int]]) -> bytes: ...


def mutators(kind: str, folder: Path) -> list[Mutator]:
    """Of two sound logs: one made by hand, one of a real run; for "libraries", of live and of packed logs."""
    logs = [seeds.rich(), seeds.captured(folder)]
    if kind == "libraries":
        return [library_logs.Mutator(), library_logs.Mutator(packed=folder)]
    if kind == "live":
        return [live_mutations.Mutator(data) for data in logs]
    packed = []
    for data in logs:
        (folder / "seed").write_bytes(data)
        pack(folder / "seed", folder / "packed")
        packed.append((folder / "packed").read_bytes())
    return [parquet_mutations.Mutator(data) for data in packed]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("live", "parquet", "libraries"))
    parser.add_argument("examples", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    path: Path = options.folder / "log"
    sound = mutators(options.kind, options.folder)
    for number in range(len(readings.COMMANDS)):  # all is imported, and started, before memory is bounded
        path.write_bytes(sound[number % 2].apply([]))
        assert readings.read(path, number) == "table"
    outcomes: Counter[str] = Counter()
    warnings.simplefilter("error")

    @seed(options.seed)
    @settings(max_examples=options.examples, deadline=None, database=None, print_blob=False,
              suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink])  # fmt: skip
    @given(st.integers(0, 1), MUTATIONS, _NUMBER)
    def fuzz(which: int, mutations: list[tuple[int, int, int, int]], choice: int) -> None:
        path.write_bytes(sound[which].apply(mutations))
        faulthandler.dump_traceback_later(WAITING, exit=True)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            outcomes[readings.read(path, choice)] += 1
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            faulthandler.cancel_dump_traceback_later()

    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)  # says where, then ends the process
    bound_memory()
    fuzz()
    json.dump(outcomes, sys.stdout)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

"""The size of a log, and the time and memory it takes to load and summarise one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyio_trace
from benchmarks.measure import Figure, repeat

REPEAT = 3
#: What a fresh interpreter does to summarise a log, imports included.
SUMMARISE = """
import io, json, re, sys, time
begin = time.perf_counter()
import pyio_trace
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.report.text import print_summary
log = pyio_trace.open(sys.argv[1])
text = io.StringIO()
print_summary(summarize(log), text)
seconds = time.perf_counter() - begin
assert len(text.getvalue()) > 500
# Not ru_maxrss: exec passes the parent's on.
peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
json.dump({"seconds": seconds, "peak": peak, "rows": log.rows()}, sys.stdout)
"""
MILLION = 1_000_000


def size(folder: Path) -> list[Figure]:
    """Bytes per operation of a million reads from one source line, live and packed."""
    data, live, packed = folder / "read.bin", folder / "size.pyio", folder / "size.parquet"
    data.write_bytes(bytes(1 << 20))
    fd = os.open(data, os.O_RDONLY)
    try:
        with pyio_trace.trace(live):
            for number in range(MILLION):
                os.pread(fd, 4096, (number & 255) << 12)
    finally:
        os.close(fd)
    # Count blocks on the disk: the live log is sparse beyond what is used.
    os.sync()
    live_bytes = live.stat().st_blocks * 512 / MILLION
    from pyio_trace.join.pack.packer import pack

    pack(live, packed)
    return [
        Figure("log, bytes an operation, live (1 M os.pread)", "B", [live_bytes], 64),
        Figure("log, bytes an operation, packed (1 M os.pread)", "B", [packed.stat().st_size / MILLION], 5),
    ]


def load(folder: Path) -> list[Figure]:
    """Loading and summarising generated logs, live and packed, each in a fresh process."""
    found = []
    for operations, limit, peak_limit in ((MILLION, 0.5, None), (10 * MILLION, 3.0, 1024.0)):
        live, packed, kept = (folder / f"load-{operations}{end}" for end in (".pyio", ".parquet", "-kept.parquet"))
        generator = str(Path(__file__).with_name("generate_log.py"))
        generate = [sys.executable, generator, str(live), "--operations", str(operations)]
        subprocess.run(generate, check=True, capture_output=True)
        from pyio_trace.join.pack.packer import pack

        pack(live, packed)
        command = [sys.executable, "-m", "pyio_trace", "pack", str(live), str(kept)]
        subprocess.run(command, check=True, capture_output=True, cwd="/")
        limits = {"live": limit, "packed": limit, "packed, with its summary": min(limit, 1.0)}
        for kind, log in (("live", live), ("packed", packed), ("packed, with its summary", kept)):
            work = f"load + summarise {operations // MILLION} M operations, {kind}"
            runs, full_speed = repeat(lambda: _summarise(log, operations), REPEAT)  # noqa: B023
            found += [
                Figure(f"{work}: time", "s", [run["seconds"] for run in runs], limits[kind], full_speed),
                Figure(f"{work}: peak memory", "MiB", [run["peak"] for run in runs], peak_limit),
            ]
        for log in (live, packed, kept):
            log.unlink()
    return found


def _summarise(log: Path, operations: int) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", SUMMARISE, log], check=True, capture_output=True, text=True, cwd="/")
    result: dict[str, float] = json.loads(done.stdout)
    if result["rows"] != operations:
        raise RuntimeError(f"{log} has {result['rows']} operations, not {operations}")
    return result

"""Examines this installation: versions, clock, where logs go; and traces a small program."""

from __future__ import annotations

import os
import platform
import site
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from pyio_trace import native
from pyio_trace.cli.doctor.diagnosis import Instrument, Report
from pyio_trace.cli.doctor.sampling import HZ, PAUSES, UNKNOWN, sampling
from pyio_trace.cli.help_text import version
from pyio_trace.cli.parser import open_log
from pyio_trace.config import PREFIX, load
from pyio_trace.errors import PyioTraceError
from pyio_trace.log import layout
from pyio_trace.output import log_paths
from pyio_trace.units import size

_TRIAL = "import sys, time; f = open(sys.argv[1], 'rb'); f.read(10); f.close(); time.sleep(float(sys.argv[2]))"
_CLOCK = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")


def examine(trial: bool) -> Report:
    """What is installed, and whether tracing works.  trial: trace a small program to find out."""
    report = Report(works=native.reason is None)
    report.facts = [*_versions(), ("core", native.reason or f"loaded, writes logs of version {layout.VERSION}")]
    report.facts += [*_logs(), *_surroundings()]
    report.instruments = _instruments()
    if report.works and trial:
        for pause in PAUSES:
            report.works, seen = _trial(pause)
            if not any(fact.startswith(UNKNOWN) for _, fact in seen):
                break
        report.facts += seen
    return report


def _instruments() -> list[Instrument]:
    """What a traced program would have; doctor_wait.py reports those of a program that is traced."""
    if native.core is None:
        return []
    why_not = native.core.state()["no_file_objects"]
    ready = ("off", why_not) if why_not else ("ready", "")
    return [
        Instrument("file objects", *ready),
        Instrument("mmap objects", *(ready if why_not else ("ready", "when mmap is imported"))),
        Instrument("ThreadPoolExecutor", "ready", "when concurrent.futures.thread is imported"),
    ]


def _versions() -> Iterator[tuple[str, str]]:
    build = f"{platform.python_implementation()} {platform.python_version()}"
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    yield "pyio_trace", version()
    yield "python", f"{build}{'' if gil else ', free-threaded'}, {sys.executable}"
    libc = " ".join(platform.libc_ver()).strip() or "libc not known"
    yield "system", f"{platform.system()} {platform.release()} {platform.machine()}, {libc}"
    yield "reads logs with", ", ".join(f"{name} {_installed(name)}" for name in ("pyarrow", "numpy", "rich"))


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing"


def _logs() -> Iterator[tuple[str, str]]:
    try:
        config = load()
        live, final = log_paths(config.output, "SCRIPT", make_folder=False)
    except PyioTraceError as error:
        yield "logs go to", f"nowhere: {error}"
        return
    folder = os.path.dirname(live)
    while not os.path.isdir(folder):  # it will be made
        folder = os.path.dirname(folder)
    free = os.statvfs(folder)
    yield "logs go to", f"{final or live} ({size(free.f_bavail * free.f_frsize)} free)"
    yield "log budget", size(config.max_log_size)


def _surroundings() -> Iterator[tuple[str, str]]:
    try:
        clock = _CLOCK.read_text().strip()
    except OSError:
        clock = "not known"
    ours = "so does pyio_trace" if clock == "tsc" else "pyio_trace uses CLOCK_MONOTONIC"
    yield "clock", f"the kernel uses {clock}; {ours}"
    folders = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    found = next((folder for folder in folders if os.path.exists(os.path.join(folder, "pyio_trace.pth"))), None)
    missing = "does not work: there is no pyio_trace.pth in site-packages"
    yield "PYIO_TRACE=1 alone", f"works: {found}/pyio_trace.pth" if found else missing
    said = sorted(name for name in os.environ if name.startswith(PREFIX.rstrip("_")))
    if said:
        yield "environment", ", ".join(f"{name}={os.environ[name]}" for name in said)


def _trial(pause: float) -> tuple[bool, list[tuple[str, str]]]:
    """Trace a small program, which waits for so many seconds to be sampled: whether its operations were seen, and what
    the log says about the process."""
    with tempfile.TemporaryDirectory(prefix="pyio-doctor-") as folder:
        data, log_path = os.path.join(folder, "data"), os.path.join(folder, "trial.pyio")
        Path(data).write_bytes(bytes(10))
        options = ["-q", "--sample", str(HZ), "-o", log_path]
        words = [sys.executable, "-m", "pyio_trace", *options, "-c", _TRIAL, data, str(pause)]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX.rstrip("_"))}
        done = subprocess.run(words, env=clean, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return False, [("trial", f"failed with status {done.returncode}: {done.stderr.strip()[-500:]}")]
        try:
            log = open_log(log_path)
        except PyioTraceError as error:
            return False, [("trial", f"left no log: {error}; {done.stderr.strip()[-500:]}")]
        table = log.operations(["path", "layer", "op", "call_stack"]).to_pylist()
        process = log.processes().to_pylist()[-1]
        stacks = log.samples()["stack"]
        sampler = sampling(log.info(), len(stacks), len(stacks) - stacks.null_count)
    seen = [row for row in table if row["path"] == data]
    layers = {row["layer"] for row in seen}
    lines = [
        ("trial", f"{len(seen)} operations on its file, at {' and '.join(sorted(layers)) or 'no layer'}"),
        ("stacks", "yes" if any(row["call_stack"] for row in seen) else f"no ({process['stack_state']})"),
        ("file objects", "yes" if "app" in layers else "no: POSIX operations only"),
        ("sampler", sampler),
    ]
    if process["note"]:
        lines.append(("note", process["note"]))
    return "posix" in layers, lines

"""The description of a run: Log.info()."""

from __future__ import annotations

from typing import Any

from pyio_trace import log_constants
from pyio_trace.join.processes.mounts import mounts_of, options_of
from pyio_trace.join.processes.process_table import Process
from pyio_trace.log.live import LiveLog
from pyio_trace.values import MODES


def read_info(log: LiveLog, processes: list[Process], rows: int) -> dict[str, Any]:
    """The run: run (id), host, boot, owner_pid, start, end (ns since the epoch; end null while some process
    runs), mode, format, version, cores (that the first process could run on; null: unknown), records, bytes (of the
    log), bytes_per_operation, file_systems (mount point -> type; null: unknown), lock_options (mount point -> options,
    see options_of) and ring_since (ns since the epoch: a ring has overwritten operations that began up to then, and
    has all later ones; null: it has all).  Where there was a sampler, also sampling_hz (looks a second that were asked
    for), sampler_refused (errno of the first process that it was not allowed to read, or 0) and sampler_cpu (ns that it
    has used itself)."""
    header = log.header
    mode = int(header["mode"])
    used = min(int(header["next"]), log.file.whole)
    ends = [process.end for process in processes if process.end is not None]
    running = any(process.ended == log_constants.RUNNING for process in processes)
    host, boot = (bytes(header[name]).decode("utf-8", "backslashreplace") for name in ("host", "boot_id"))
    sampling = (
        {name: min(int(header[name]), (1 << 63) - 1) for name in ("sampling_hz", "sampler_refused", "sampler_cpu")}
        if header["sampling_hz"] else {}
    )  # fmt: skip
    return sampling | {
        "run": f"{int(header['run_id']):016x}",
        "host": host,
        "boot": boot,
        "owner_pid": int(header["owner_pid"]),
        "start": int(header["first"]["real"]),
        "end": max(ends) if ends and not running else None,
        "mode": MODES[mode] if mode < len(MODES) else "unknown",
        "format": "live",
        "version": int(header["version"]),
        "cores": int(header["cores"]) or None,
        "records": rows,
        "bytes": used,
        "bytes_per_operation": used / rows if rows else None,
        "file_systems": mounts_of(host, boot),
        "lock_options": options_of(host, boot),
        "ring_since": log.clock.epoch_of(int(header["ring_lost"])) if header["ring_lost"] else None,
    }

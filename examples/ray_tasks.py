"""Traces a local Ray job: four tasks write, an actor reads what they wrote, and the worker of one task is killed.

    pip install 'pyio_trace[ray]'
    python examples/ray_tasks.py [LOGS]

Each worker writes its own log into the folder LOGS (default: ray-logs).  The
logs are read as one, and the bytes of each task and method are printed.
"""

import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import ray

import pyio_trace
import pyio_trace_plugins.ray

SIZE = 1 << 20


@ray.remote
def write_part(folder: str, n: int) -> int:
    """A task that writes one part of the data, in blocks of 64 KiB."""
    with open(f"{folder}/part-{n}.bin", "wb") as file:
        for _ in range(SIZE >> 16):
            file.write(bytes([n]) * (1 << 16))
    return n


@ray.remote(max_retries=0)
def write_and_die(folder: str) -> None:
    """A task that is killed in the middle, as the kernel does when memory runs out."""
    with open(f"{folder}/torn.bin", "wb", buffering=0) as file:
        file.write(bytes(SIZE // 2))
        os.kill(os.getpid(), signal.SIGKILL)


@ray.remote(max_restarts=1, max_task_retries=0)
class Reader:
    """An actor.  When its worker has died, Ray restarts it in a new one."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def total(self, parts: int) -> int:
        return sum(len(Path(f"{self.folder}/part-{n}.bin").read_bytes()) for n in range(parts))

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def job(folder: str) -> None:
    """The work that is traced."""
    ray.get([write_part.remote(folder, n) for n in range(4)])
    reader = Reader.remote(folder)
    assert ray.get(reader.total.remote(4)) == 4 * SIZE
    for dying in (write_and_die.remote(folder), reader.die.remote()):
        try:
            ray.get(dying)
        except (ray.exceptions.WorkerCrashedError, ray.exceptions.RayActorError):
            pass
    while True:  # until the actor is back
        try:
            assert ray.get(reader.total.remote(4)) == 4 * SIZE
            break
        except ray.exceptions.RayActorError:
            pass


def show(logs: str, folder: str) -> None:
    """Prints the bytes that each task and method moved, from the logs."""
    rows = pyio_trace.open(logs).operations().to_pylist()
    by_id = {row["id"]: row for row in rows}
    moved: dict[tuple[str, str, str], int] = {}
    for row in rows:
        if row["layer"] != "posix" or row["op"] not in ("read", "write") or not (row["path"] or "").startswith(folder):
            continue
        span = row
        while span is not None and not span["op"].startswith("ray."):
            span = by_id.get(span["parent"])
        known = json.loads(span["detail"]) if span else {"name": "(no task)", "task": ""}
        key = known["name"], known["task"], row["op"]
        moved[key] = moved.get(key, 0) + (row["bytes_moved"] or 0)
    for (name, task, op), size in sorted(moved.items()):
        print(f"{name:16} {task[:16]:16} {op:5} {size:9,d} bytes")


def main() -> None:
    logs = sys.argv[1] if len(sys.argv) > 1 else "ray-logs"
    traced = pyio_trace_plugins.ray.runtime_env(output=logs)
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, runtime_env=traced)
    with tempfile.TemporaryDirectory() as folder:
        job(folder)
        pyio_trace_plugins.ray.gather(logs)
        show(logs, folder)
    ray.shutdown()


if __name__ == "__main__":
    main()

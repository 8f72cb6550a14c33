"""A local Ray for tests, in a folder with a short path (socket names are limited), removed at the end."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from .programs import Outcome, Row

#: At the top of a program: two CPUs, no dashboard, a small object store.
START = """
    import os, signal, sys, time
    import ray
    from pathlib import Path

    def start(**options):
        ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=False, **options)
"""


@contextmanager
def surroundings() -> Iterator[dict[str, str | None]]:
    """The environment of a test's Ray; its folder is removed."""
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    try:
        yield {
            "RAY_TMPDIR": folder,
            "RAY_AUTH_MODE": "disabled",  # else a token is put into the home folder
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_local_fs_capacity_threshold": "1",  # Ray's default is to refuse work on a disk that is 95 % full
            "RAY_ADDRESS": None,
            "RAY_RUNTIME_ENV_HOOK": None,
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def task_of(outcome: Outcome, row: Row) -> Row | None:
    """The details of the task or method in which an operation happened."""
    spans = [span for span in outcome.parents(row) if span["op"] in ("ray.task", "ray.actor_task")]
    assert len(spans) <= 1
    return json.loads(spans[0]["detail"]) | {"op": spans[0]["op"]} if spans else None

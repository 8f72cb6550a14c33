"""`dask worker --preload pyio_trace_plugins.dask` without a cluster: where the logs go."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed")

pytestmark = pytest.mark.once


class Worker:
    """What the preload needs of Dask's worker."""

    def __init__(self) -> None:
        self.plugin: Any = None

    async def plugin_add(self, plugin: Any, **options: object) -> None:
        self.plugin = plugin


@pytest.mark.parametrize(
    ("configured", "given", "folder"),
    [
        ("logs", None, "logs"), ("logs/%s-%t-%p.parquet", None, "logs"), ("run.pyio", None, "."), ("", None, "."),
        ("run.pyio", "own", "own"),
    ],
)  # fmt: skip
def test_the_folder_of_logs(
    configured: str, given: str | None, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyio_trace_plugins.dask import dask_setup

    # GIVEN an output that is a folder, a file or a pattern of names WHEN a worker is preloaded
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYIO_TRACE_OUTPUT", configured)
    worker = Worker()
    asyncio.run(dask_setup.callback(worker, given))
    # THEN its logs go to that folder, and no folder gets the name of a log
    assert worker.plugin.output_folder == str((tmp_path / folder).resolve())

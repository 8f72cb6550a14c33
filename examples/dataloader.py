"""Where the time of an epoch goes: the wait and compute of each batch, and the fetch in a worker that it waited for.

    python -m pyio_trace -o epoch.pyio examples/dataloader.py       # trains with two workers, on temporary files
    python examples/dataloader.py epoch.pyio                        # prints what the log says

The trainer waits and the workers fetch.  Both kinds of rows have loader, epoch and batch, so a join pairs them.  From
the end of its fetch to the end of its wait a batch is in the queue.  The trainer computes between two waits: waits and
compute add up to the epoch.
"""

import json
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

FILES, SIZE, BATCH = 32, 1_000_000, 4


class Files:
    """A dataset: the n-th file as a tensor."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> object:
        import torch

        return torch.frombuffer(bytearray(self.paths[number].read_bytes()), dtype=torch.uint8)


def train() -> None:
    """One epoch over files that the workers read."""
    from torch.utils.data import DataLoader

    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{number}.bin") for number in range(FILES)]
        for path in paths:
            path.write_bytes(bytes(SIZE))
        data: Any = Files(paths)
        total = 0.0
        for batch in DataLoader(data, batch_size=BATCH, num_workers=2):
            total += float(batch.float().mean())
    print(f"trained on {FILES} files: {total}")


def report(log: str) -> None:
    """Prints a line per batch: milliseconds of its wait, fetch and queue, and of the compute that follows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    import pyio_trace

    table = pyio_trace.open(log).operations()
    ops = pa.array(["DataLoader.__next__", "DataLoader.fetch"])
    rows = table.filter(pc.is_in(table["op"].cast("string"), ops)).to_pylist()
    for row in rows:
        row["detail"] = json.loads(row["detail"])
        row["end"] = row["time"] + row["duration"]
    waits = [row for row in rows if row["op"] == "DataLoader.__next__"]
    fetches = {_key(row): row for row in rows if row["op"] == "DataLoader.fetch"}
    print("epoch  batch  worker     wait    fetch    queue  compute   [ms]")
    for wait, following in pairwise(waits):
        fetch = fetches.get(_key(wait))
        if fetch is not None:
            spans = wait["duration"], fetch["duration"], wait["end"] - fetch["end"], following["time"] - wait["end"]
            _, epoch, batch = _key(wait)
            worker = fetch["detail"].get("worker", "-")
            print(f"{epoch:5}  {batch:5}  {worker!s:>6}", *(f"{span / 1e6:8.2f}" for span in spans))
    epoch = waits[-1]["end"] - waits[0]["time"]
    waited = sum(row["duration"] for row in waits)
    print(f"waits {waited / 1e6:.1f} ms + compute {(epoch - waited) / 1e6:.1f} ms = epoch {epoch / 1e6:.1f} ms")


def _key(row: dict[str, Any]) -> tuple[str, int, int]:
    detail = row["detail"]
    return detail.get("loader"), detail.get("epoch"), detail.get("batch")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        report(sys.argv[1])
    else:
        train()

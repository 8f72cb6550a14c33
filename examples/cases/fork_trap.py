"""Case 9, fork trap: a dataset that opens its file before the workers of the DataLoader fork.

The trainer, which looks at a sample of each batch, and all workers then have one
open file with one position, and each reads where another has moved it.  `wrong` counts the items that came out wrong.
With --fixed each process opens the file when it needs it first.
"""

import os
import time
from pathlib import Path
from typing import Any

import case
import torch
from torch.utils.data import DataLoader

ITEMS, SIZE, BATCH, EPOCHS, WORKERS = 800, 32768, 8, 2, 2
COMPUTE = 0.003  # s of a batch, for which an accelerator computes and the processor waits


def make(folder: Path) -> None:
    with open(folder / "items.bin", "wb") as file:
        for number in range(ITEMS):
            file.write(number.to_bytes(4, "little") * (SIZE // 4))


class Items:
    """Opens the file when it is made, in the trainer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: Any = path.open("rb", buffering=0)

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, number: int) -> Any:
        self.file.seek(number * SIZE)
        return torch.frombuffer(bytearray(self.file.read(SIZE)), dtype=torch.int32)


class OwnFile(Items):
    """Opens the file in each process by itself."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = None
        self.pid = 0

    def __getitem__(self, number: int) -> Any:
        if self.pid != os.getpid():
            self.file, self.pid = self.path.open("rb", buffering=0), os.getpid()
        return super().__getitem__(number)


def train(data: Any) -> case.Did:
    read = wrong = 0
    loader = DataLoader(data, batch_size=BATCH, num_workers=WORKERS, persistent_workers=True)
    for _ in range(EPOCHS):
        for number, batch in enumerate(loader):
            first = number * BATCH
            wanted = torch.arange(first, first + len(batch), dtype=torch.int32)
            wrong += int((batch != wanted[:, None]).any(dim=1).sum())
            read += len(batch)
            wrong += int((data[number] != number).any())  # a sample, for the trainer's own record
            read += 1
            time.sleep(COMPUTE)
    return {"items": read, "wrong": wrong}


if __name__ == "__main__":
    case.run(
        "fork_trap",
        lambda folder: train(Items(folder / "items.bin")),
        lambda folder: train(OwnFile(folder / "items.bin")),
        make,
    )

"""Case 8, starved trainer: a DataLoader whose dataset opens an HDF5 file for every item.

The file is opened with the driver "core", which reads all of it into memory: good
for a file that stays open, and the opposite here.  The trainer waits for its
worker.  With --fixed the worker opens the file at its first item, and keeps it
open.
"""

import time
from pathlib import Path
from typing import Any

import case
import h5py
import numpy as np
import torch
from torch.utils.data import DataLoader

STORED, ITEMS, SIDE, BATCH, EPOCHS, WORKERS = 2048, 320, 96, 8, 2, 1
COMPUTE = 0.01  # s of a batch, for which an accelerator computes and the processor waits


def make(folder: Path) -> None:
    images = np.random.default_rng(1).integers(0, 255, (STORED, SIDE, SIDE)).astype("u1")
    with h5py.File(folder / "images.h5", "w") as file:
        for number, image in enumerate(images):
            file.create_dataset(f"set{number // 32:02}/image{number:04}", data=image, chunks=(SIDE, SIDE))
        file["labels"] = np.arange(STORED)


class Images:
    """Opens the file for every item."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, number: int) -> Any:
        with h5py.File(self.path, driver="core") as file:
            return self.item(file, number)

    def item(self, file: Any, number: int) -> Any:
        number = number * 7 % STORED
        image = torch.from_numpy(file[f"set{number // 32:02}/image{number:04}"][:])
        return image, int(file["labels"][number])


class OpenImages(Images):
    """Opens the file once in each worker."""

    file: Any = None

    def __getitem__(self, number: int) -> Any:
        if self.file is None:
            self.file = h5py.File(self.path, driver="core")
        return self.item(self.file, number)


def train(data: Any) -> case.Did:
    torch.set_num_threads(1)
    waited = total = 0.0
    batches = 0
    loader = DataLoader(data, batch_size=BATCH, num_workers=WORKERS, persistent_workers=True)
    began = time.perf_counter()
    for _ in range(EPOCHS):
        asked = time.perf_counter()
        for images, _ in loader:
            waited += time.perf_counter() - asked
            total += float(images.float().mean())
            time.sleep(COMPUTE)
            batches += 1
            asked = time.perf_counter()
    seconds = time.perf_counter() - began
    return {"batches": batches, "items": EPOCHS * ITEMS, "total": round(total, 3), "waited": round(waited, 3),
            "seconds": round(seconds, 3)}  # fmt: skip


if __name__ == "__main__":
    case.run(
        "starved_trainer",
        lambda folder: train(Images(folder / "images.h5")),
        lambda folder: train(OpenImages(folder / "images.h5")),
        make,
    )

"""Case 10, checkpoint stall: tensor by tensor, each saved to a file of its own and made durable, while training waits.

With --fixed all tensors are in one file, which a thread writes while training
goes on with the next step.
"""

import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import case
import torch

TENSORS, SIZE, STEPS, EVERY = 60, 4096, 120, 10
COMPUTE = 0.004  # s of a step


def step(state: dict[str, Any]) -> None:
    """Stands for a step on an accelerator, for which the processor waits."""
    for tensor in state.values():
        tensor += 1
    time.sleep(COMPUTE)


def checkpoint(state: dict[str, Any], folder: Path) -> None:
    for name, tensor in state.items():
        with open(folder / f"{name}.pt", "wb") as file:
            torch.save(tensor, file)
            file.flush()
            os.fsync(file.fileno())


def checkpoint_in_one(state: dict[str, Any], folder: Path) -> None:
    with open(folder / "state.pt", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())


def state_made() -> dict[str, Any]:
    return {f"layer{number:03}": torch.zeros(SIZE) for number in range(TENSORS)}


def did(saves: int, began: float) -> case.Did:
    seconds = round(time.perf_counter() - began, 3)
    return {"checkpoints": STEPS // EVERY, "saves": saves, "fsyncs": saves, "seconds": seconds}


def bad(folder: Path) -> case.Did:
    state, saves = state_made(), 0
    began = time.perf_counter()
    for number in range(STEPS):
        step(state)
        if number % EVERY == EVERY - 1:
            checkpoint(state, folder)
            saves += TENSORS
    return did(saves, began)


def fixed(folder: Path) -> case.Did:
    state, saves = state_made(), 0
    began = time.perf_counter()
    with ThreadPoolExecutor(1) as writer:
        last: Future[None] | None = None
        for number in range(STEPS):
            step(state)
            if number % EVERY == EVERY - 1:
                if last is not None:
                    last.result()
                last = writer.submit(checkpoint_in_one, {name: one.clone() for name, one in state.items()}, folder)
                saves += 1
    return did(saves, began)


if __name__ == "__main__":
    case.run("checkpoint_stall", bad, fixed)

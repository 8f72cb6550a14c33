"""A training loop: two epochs over 1,000 images, each a file of its own, read by two workers."""

import os
import sys

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

COUNT = 1000


class Images(Dataset):
    def __len__(self):
        return COUNT

    def __getitem__(self, number):
        return torch.from_numpy(np.load(f"train/img{number:04}.npy"))


def make():
    os.makedirs("train", exist_ok=True)
    for number in range(COUNT):
        np.save(f"train/img{number:04}.npy", np.full((3, 64, 64), number, np.float32))


def main():
    model = torch.nn.Conv2d(3, 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.001)
    for _ in range(2):
        for batch in DataLoader(Images(), batch_size=32, num_workers=2):
            optimizer.zero_grad()
            (model(batch / COUNT) ** 2).mean().backward()
            optimizer.step()


if __name__ == "__main__":
    make() if "make" in sys.argv else main()

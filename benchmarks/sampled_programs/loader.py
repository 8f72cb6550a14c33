"""A DataLoader with two workers that decode images; the workers' time adds up."""

import glob
from time import perf_counter

import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self) -> None:
        self.paths = sorted(glob.glob("jpg/*.jpg"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, n: int) -> tuple[torch.Tensor, float]:
        image = Image.open(self.paths[n])
        began = perf_counter()
        image = image.convert("RGB")  # the main line
        spent = perf_counter() - began
        image = image.resize((224, 224), Image.Resampling.BILINEAR)
        return torch.from_numpy(numpy.array(image)), spent


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(sum(float(spent.sum()) for _, spent in DataLoader(Images(), batch_size=20, num_workers=2)))

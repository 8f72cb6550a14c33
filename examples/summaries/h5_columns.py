"""Columns of a dataset that is stored in compressed chunks of rows."""

import sys

import h5py
import numpy as np


def make():
    data = np.random.default_rng(1).integers(0, 1000, (8192, 512)).astype(np.float32)
    with h5py.File("climate.h5", "w") as file:
        file.create_dataset("temperature", data=data, chunks=(256, 512), compression="gzip")


def main():
    with h5py.File("climate.h5") as file:
        temperature = file["temperature"]
        print(sum(float(temperature[:, column].mean()) for column in range(20)))


if __name__ == "__main__":
    make() if "make" in sys.argv else main()

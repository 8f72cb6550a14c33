"""A table of 300,000 rows, parsed from CSV."""

import sys

import numpy as np
import pandas as pd


def make():
    values = np.random.default_rng(1).random((300_000, 5))
    pd.DataFrame(values, columns=list("abcde")).to_csv("table.csv")


def main():
    print(pd.read_csv("table.csv").mean())


if __name__ == "__main__":
    make() if "make" in sys.argv else main()

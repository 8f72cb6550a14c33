"""A Dask job: Parquet files filtered and written as CSV by two worker processes."""

import os
import sys

import numpy as np
import pandas as pd


def make():
    os.makedirs("parts", exist_ok=True)
    for number in range(6):
        values = np.random.default_rng(number).random((100_000, 4))
        pd.DataFrame(values, columns=list("abcd")).to_parquet(f"parts/part.{number}.parquet")


def main():
    import dask.dataframe as dd
    from dask.distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        frame = dd.read_parquet("parts")
        frame[frame.a > 0.5].to_csv("csv/x-*.csv", index=False)


if __name__ == "__main__":
    make() if "make" in sys.argv else main()

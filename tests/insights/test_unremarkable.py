"""Programs as people write them, with nothing wrong: the rules have nothing against them, however slow the machine is.

Only a way to store data is said to take its time, which is a warning where that is much of a run, and never critical.
"""

from __future__ import annotations

import importlib.util
import textwrap

import pytest

from tests.support.findings import worst_of
from tests.support.programs import Runner

pytestmark = pytest.mark.once

#: Name -> (the libraries that it needs, the program).
PROGRAMS: dict[str, tuple[tuple[str, ...], str]] = {
    "count the words of a text": (
        (),
        """
        from collections import Counter
        with open("book.txt", "w") as f: f.writelines(f"line {n}, {n % 97} words\\n" for n in range(50_000))
        with open("book.txt") as f: counts = Counter(word for line in f for word in line.split())
        with open("counts.txt", "w") as f: f.writelines(f"{word} {n}\\n" for word, n in counts.most_common(100))
        """,
    ),
    "copy a tree": (
        (),
        """
        import os, shutil
        for n in range(60):
            os.makedirs(f"tree/{n % 6}", exist_ok=True)
            with open(f"tree/{n % 6}/{n}.bin", "wb") as f: f.write(os.urandom(20_000))
        shutil.copytree("tree", "copy")
        print(sum(os.path.getsize(os.path.join(d, name)) for d, _, names in os.walk("copy") for name in names))
        """,
    ),
    "rows into SQLite": (
        (),
        """
        import sqlite3
        db = sqlite3.connect("t.db")
        with db:
            db.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, x REAL)")
            db.executemany("INSERT INTO t VALUES (?, ?)", ((n, n / 7) for n in range(20_000)))
        print(db.execute("SELECT sum(x) FROM t WHERE n % 3 = 0").fetchone())
        db.close()
        """,
    ),
    "a compressed archive": (
        (),
        """
        import io, tarfile
        with tarfile.open("a.tar.gz", "w:gz") as archive:
            for n in range(50):
                member = tarfile.TarInfo(f"{n}.txt"); member.size = 20_000
                archive.addfile(member, io.BytesIO(bytes(member.size)))
        with tarfile.open("a.tar.gz") as archive:
            print(sum(len(archive.extractfile(member).read()) for member in archive))
        """,
    ),
    "JSON records": (
        (),
        """
        import json
        with open("r.json", "w") as f: json.dump([{"id": n, "name": f"name {n}"} for n in range(10_000)], f)
        with open("r.json") as f: records = json.load(f)
        print(len({one["name"] for one in records}))
        """,
    ),
    "logging": (
        (),
        """
        import logging
        logging.basicConfig(filename="run.log", level=logging.INFO, format="%(asctime)s %(message)s")
        total = 0
        for n in range(300):
            total += sum(range(5_000))
            logging.info("step %d: %d", n, total)
        """,
    ),
    "hashes in threads": (
        (),
        """
        import hashlib, os
        from concurrent.futures import ThreadPoolExecutor
        for n in range(12):
            with open(f"{n}.bin", "wb") as f: f.write(os.urandom(1 << 20))
        def digest(n):
            with open(f"{n}.bin", "rb") as f: return hashlib.file_digest(f, "sha256").hexdigest()
        with ThreadPoolExecutor(4) as pool: print(len(set(pool.map(digest, range(12)))))
        """,
    ),
    "an event loop with threads": (
        (),
        """
        import asyncio
        for n in range(12):
            with open(f"{n}.txt", "w") as f: f.writelines(f"line {n}, {n % 97} words\\n" for n in range(5_000))
        def words(n):
            with open(f"{n}.txt") as f: return len(f.read().split())
        async def main():
            with open("0.txt") as f: first = f.readline()
            print(first, sum(await asyncio.gather(*(asyncio.to_thread(words, n) for n in range(12)))))
        asyncio.run(main())
        """,
    ),
    "a pool of processes": (
        (),
        """
        import multiprocessing
        def work(n):
            with open(f"part{n}.txt", "w") as f: f.write(str(sum(range(n * 20_000))) * 1000)
            return n
        if __name__ == "__main__":
            with multiprocessing.Pool(3) as pool: print(sum(pool.map(work, range(24))))
        """,
    ),
    "arrays": (
        ("numpy",),
        """
        import numpy
        numpy.save("x.npy", numpy.arange(2_000_000.0).reshape(1000, 2000))
        x = numpy.load("x.npy", mmap_mode="r")
        numpy.save("mean.npy", numpy.array([x[n : n + 100].mean() for n in range(0, 1000, 100)]))
        """,
    ),
    "a table": (
        ("pandas", "pyarrow"),
        """
        import pandas
        frame = pandas.DataFrame({"key": [n % 50 for n in range(100_000)], "x": [n / 3 for n in range(100_000)]})
        frame.to_parquet("t.parquet")
        means = pandas.read_parquet("t.parquet", columns=["key", "x"]).groupby("key").mean()
        means.to_csv("means.csv")
        """,
    ),
    "chunks of HDF5": (
        ("h5py", "numpy"),
        """
        import h5py, numpy
        with h5py.File("d.h5", "w") as f:
            d = f.create_dataset("x", (400, 1000), "f8", chunks=(50, 1000))
            for row in range(0, 400, 50): d[row : row + 50] = numpy.random.random((50, 1000))
        with h5py.File("d.h5") as f:
            print(sum(f["x"][row : row + 50].sum() for row in range(0, 400, 50)))
        """,
    ),
    "a Dask graph": (
        ("dask.dataframe", "pandas", "pyarrow"),
        """
        import dask.dataframe, os, pandas
        os.mkdir("parts")
        for n in range(4): pandas.DataFrame({"k": [n] * 50_000, "x": range(50_000)}).to_parquet(f"parts/{n}.parquet")
        print(dask.dataframe.read_parquet("parts").groupby("k").x.sum().compute(scheduler="threads"))
        """,
    ),
}

#: What is said of a program, if any time is long enough.
SAID = {
    "JSON records": {"format-bound": "warning", "parse-bound": "warning", "tiny-calls": "warning"},
    "a table": {"format-bound": "warning"},
}


def test_nothing_is_critical(program: Runner) -> None:
    # GIVEN thirteen programs WHEN each is traced and its findings are made, with thresholds of time that all is above
    ran = 0
    for number, (name, (needs, text)) in enumerate(PROGRAMS.items()):
        if not all(importlib.util.find_spec(one.partition(".")[0]) for one in needs):
            continue
        (program.folder / str(number)).mkdir()
        outcome = Runner(program.folder / str(number)).traced(textwrap.dedent(text))
        ran += 1
        # THEN there are no others than those of two programs, which cannot be critical
        assert worst_of(outcome).items() <= SAID.get(name, {}).items(), name
    assert ran >= 8

"""Programs of libraries that no rule names: the cause, at its line, with words that fit; and clean ones."""

from __future__ import annotations

import importlib.util
import re
import textwrap
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.findings import findings_of, none, without_times, worst_of
from tests.support.programs import Runner, succeeded

pytestmark = pytest.mark.once

#: Little is read again, and threads wait for a lock for as long as the disk takes.
ANY = {"read-again": {"bytes": 65536}, "lock-over-io": {"share": 0.01}, "small-files": {"files": 200}}
#: Samples decide, not how much of the run they are.
SAMPLED = {"costly-function": {"share": 0.01}}


@dataclass(frozen=True)
class Ill:
    """slug: what is found at the line that ends with "# here"; library: of the remedy; words: a pattern that its text
    or its code matches; needs: modules that the program imports."""

    slug: str
    library: str
    words: str
    program: str
    needs: tuple[str, ...] = ()


ILLS = {
    "a document parsed again": Ill("read-again", "xml", r"data = ElementTree\.parse\(path\)    # once", """
        import xml.etree.ElementTree as ET
        with open("doc.xml", "w") as f:
            f.write("<r>" + "".join(f"<i id='{n}'>{n}</i>" for n in range(20_000)) + "</r>")
        for key in range(5):
            tree = ET.parse("doc.xml")  # here
            sum(int(one.text) for one in tree.iter("i") if one.get("id").endswith(str(key)))
        """),
    "arrays whose sums are checked each time": Ill("whole-file-again", "numpy", "once", """
        import hashlib, numpy
        def load(path):
            with open(path, "rb") as f:
                hashlib.sha256(f.read()).digest()  # here
            return numpy.load(path)
        for n in range(3): numpy.save(f"x{n}.npy", numpy.full(200_000, n))
        for epoch in range(4):
            for n in range(3): load(f"x{n}.npy").sum()
        """, ("numpy",)),
    "a table in tiny blocks, of which only samples know who waits": Ill("small-partitions", "dask", "blocksize", """
        import dask.dataframe
        with open("t.csv", "w") as f:
            f.write("a,b\\n")
            f.writelines(f"{n},{n % 7}\\n" for n in range(60_000))
        frame = dask.dataframe.read_csv("t.csv", blocksize=4000)
        frame.a.mean().compute(scheduler="threads")  # here
        """, ("dask", "pandas", "pyarrow")),
    "a text that is read, and then parsed, again": Ill("read-again", "python", r"json\.load\(f\)", """
        import json
        from pathlib import Path
        Path("x.json").write_text(json.dumps([{"name": str(n), "v": n / 7} for n in range(20_000)]))
        for n in range(12):
            len(json.loads(Path("x.json").read_text()))  # here
        """),
    "a configuration in YAML": Ill("costly-function", "yaml", "CSafeLoader", """
        import yaml
        with open("c.yaml", "w") as f: f.write("".join(f"key{n}: [1, 2, {n}]\\n" for n in range(2000)))
        with open("c.yaml") as f:
            config = yaml.safe_load(f)  # here
        """, ("yaml",)),
    "a table without an index": Ill("database-scan", "sqlite3", "CREATE INDEX", """
        import sqlite3
        db = sqlite3.connect("q.db")
        db.execute("CREATE TABLE t (id INTEGER, name TEXT, v REAL)")
        with db: db.executemany("INSERT INTO t VALUES (?, ?, ?)", ((n, f"name {n}", n / 7) for n in range(150_000)))
        for n in range(15):
            db.execute("SELECT v FROM t WHERE name = ?", (f"name {n * 9000}",)).fetchone()  # here
        """),
    "rows as dicts": Ill("costly-function", "csv", r"csv\.reader|read_csv", """
        import csv
        with open("t.csv", "w") as f:
            f.write("a,b,c\\n")
            f.writelines(f"{n},{n % 7},x{n}\\n" for n in range(300_000))
        total = 0
        with open("t.csv", newline="") as f:
            for row in csv.DictReader(f):  # here
                total += int(row["b"])
        """),
    "rows as dicts, again": Ill("read-again", "csv", r"rows = list\(csv\.DictReader\(f\)\)    # once", """
        import csv
        with open("t.csv", "w") as f:
            f.write("a,b,c\\n")
            f.writelines(f"{n},{n % 7},x{n}\\n" for n in range(10_000))
        for n in range(12):
            with open("t.csv", newline="") as f:
                rows = [row for row in csv.DictReader(f) if row["b"] == str(n)]  # here
        """),
    "a log of many records": Ill("flush-per-record", "logging", r"class Buffered\(logging\.FileHandler\)", """
        import logging
        logging.basicConfig(filename="run.log", level=logging.DEBUG)
        for n in range(3000):
            logging.debug("value %d of the step", n)  # here
        """),
    "an array that grows": Ill("written-again", "numpy", "at the end, or for every hundredth", """
        import numpy
        rows = numpy.zeros((0, 500))
        for n in range(100):
            rows = numpy.vstack([rows, numpy.full((1, 500), n)])
            numpy.save("rows.npy", rows)  # here
        """, ("numpy",)),
    "waiting for a file": Ill("polling", "python", r"process\.wait|queue\.get", """
        import os, subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1.5); open('done', 'w').close()"])
        while not os.path.exists("done"):  # here
            time.sleep(0.02)
        child.wait()
        """),
    "a process for each item, at a pipe": Ill("process-per-item", "python", "one process", """
        import subprocess
        for n in range(40):
            subprocess.run(["wc", "-c"], input=b"x" * n, stdout=subprocess.PIPE, check=True)  # here
        """),
    "a stream unpacked for each key": Ill("read-again", "python", r"bz2\.open\(path, 'rt'\).*unpacked once", """
        import bz2, random
        with bz2.open("x.bz2", "wt") as f: f.writelines(f"{n} {random.random()}\\n" for n in range(20_000))
        for key in ("1", "22", "333", "4444"):
            with bz2.open("x.bz2", "rt") as f:
                found = [line for line in f if line.startswith(key)]  # here
        """),
    "JSON lines": Ill("costly-function", "json", "orjson", """
        import json
        with open("x.jsonl", "w") as f:
            f.writelines('{"id": %d, "values": [1, 2, 3, 4, 5, 6, 7, 8]}\\n' % n for n in range(60_000))
        with open("x.jsonl") as f:
            rows = [json.loads(line) for line in f]  # here
        """),
    "rows of a dataset that grows": Ill("hdf5-item-per-call", "h5py", r"len\(dataset\) \+ len\(block\)", """
        import h5py, numpy
        with h5py.File("r.h5", "w") as f:
            d = f.create_dataset("x", (0, 20), maxshape=(None, 20), chunks=(100, 20), dtype="f8")
            for n in range(1200):
                d.resize(n + 1, axis=0)
                d[n] = numpy.full(20, n)  # here
        """, ("h5py", "numpy")),
    "an archive opened for each member": Ill("read-again", "python", "Open the archive once", """
        import zipfile
        with zipfile.ZipFile("a.zip", "w") as z:
            for n in range(400): z.writestr(f"m{n}.txt", "text " * 40)
        for n in range(200):
            with zipfile.ZipFile("a.zip") as z:  # here
                z.read(f"m{n}.txt")
        """),
    "paths asked in every step": Ill("stat-storm", "python", "Ask once", """
        from pathlib import Path
        for n in range(50): Path(f"f{n}.txt").write_text("x" * n)
        for step in range(40):
            for path in sorted(Path(".").glob("f*.txt")):
                if path.exists() and path.is_file():  # here
                    path.stat().st_size
        """),
    "a file for a moment": Ill("create-and-delete", "python", r"io\.BytesIO", """
        import os, tempfile
        for n in range(200):
            with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as f:
                f.write(str(n))
            with open(f.name) as g: g.read()
            os.unlink(f.name)  # here
        """),
    "a map that is flushed": Ill("sync-per-write", "python", "every hundredth", """
        import mmap
        with open("m.bin", "wb") as f: f.write(bytes(1 << 20))
        with open("m.bin", "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
            for n in range(60):
                m[n * 4096] = 1
                m.flush()  # here
        """),
    "a stream that is packed": Ill("costly-function", "gzip", "compresslevel=1", """
        import gzip, random
        data = random.Random(1).randbytes(1 << 20)
        with gzip.open("x.gz", "wb") as f:
            for n in range(12):
                f.write(data)  # here
        """),
    "a log that is read from its start to see what is new": Ill("read-again", "python", r"f\.seek\(place\)", """
        with open("app.log", "w") as f: f.write("something happened\\n" * 20_000)
        seen = 0
        for tick in range(6):
            with open("app.log", "a") as f: f.write("something new\\n")
            with open("app.log") as f:
                lines = f.readlines()  # here
            new, seen = lines[seen:], len(lines)
        """),
    "files that are searched by a pattern again": Ill("list-again", "python", r"paths\.setdefault", """
        import glob, os
        for n in range(30):
            os.makedirs(f"data/{n}")
            for k in range(20): open(f"data/{n}/{k}.txt", "w").close()
        for n in range(120):
            glob.glob(f"data/**/{n % 20}.txt", recursive=True)  # here
        """),
    "places that a program reads by os": Ill("read-again", "python", r"mmap\.mmap", """
        import os
        with open("x.bin", "wb") as f: f.write(bytes(1 << 20))
        fd = os.open("x.bin", os.O_RDONLY)
        for n in range(20_000):
            os.pread(fd, 512, (n % 1000) * 1000)  # here
        """),
    "a folder that is watched": Ill("list-again", "python", r"watchfiles\.watch", """
        import os, time
        for n in range(300): open(f"{n}.txt", "w").close()
        def newest():
            for _ in range(120):
                max(os.listdir("."), key=os.path.getmtime)  # here
                time.sleep(0.005)
        newest()
        """),
    "names that are asked for between pauses": Ill("list-again", "python", "List once, .*; or, if the program", """
        import os, time
        for n in range(300): open(f"{n}.txt", "w").close()
        def look():
            for n in range(120):
                f"{n}.txt" in os.listdir(".")  # here
                time.sleep(0.005)
        look()
        """),
    "noise that is packed": Ill("costly-function", "numpy", r"np\.savez\(", """
        import numpy
        x = numpy.random.default_rng(1).random(400_000)
        for n in range(2):
            numpy.savez_compressed("x.npz", x=x)  # here
        """, ("numpy",)),
    "pictures that are no JPEG": Ill("costly-function", "PIL", "Keep smaller copies", """
        from PIL import Image
        for n in range(4): Image.effect_noise((1500, 1500), 60).convert("RGB").save(f"{n}.png", compress_level=1)
        for n in range(4):
            Image.open(f"{n}.png").convert("L").resize((20, 20))  # here
        """, ("PIL",)),
    "results of a table that are computed one by one": Ill("read-again", "dask", r"dask\.compute", """
        import dask.dataframe as dd
        for n in range(3):
            with open(f"t{n}.csv", "w") as f: f.write("a,b\\n" + "".join(f"{n},{n * 2}\\n" for n in range(20_000)))
        frame = dd.read_csv("t*.csv")
        for name in "ab":
            frame[name].mean().compute(scheduler="threads")  # here
        """, ("dask.dataframe",)),
    "a frame for each row": Ill("format-bound", "pandas", r"pd\.DataFrame\(rows\)", """
        import pandas as pd
        for n in range(60):
            pd.DataFrame({"a": [n]}).to_csv("o.csv", mode="a", header=False)  # here
        """, ("pandas",)),
    "row groups of a few rows": Ill("parquet-small-groups", "pyarrow", "row_group_size", """
        import pyarrow as pa, pyarrow.parquet as pq
        with pq.ParquetWriter("o.parquet", pa.schema([("x", pa.int64())])) as writer:
            for n in range(80):
                writer.write_table(pa.table({"x": list(range(n, n + 5))}))  # here
        """),
    "files that are synced one by one": Ill("sync-per-write", "python", r"os\.sync\(\)", """
        import os
        for n in range(30):
            with open(f"{n}.new", "w") as f:
                f.write("data"); f.flush()
                os.fsync(f.fileno())  # here
            os.replace(f"{n}.new", f"{n}.json")
        """),
    "columns of an array in chunks of a row": Ill("read-again", "zarr", r"data = array\[:\]", """
        import numpy, zarr
        z = zarr.create_array("z", shape=(60, 300), chunks=(1, 300), dtype="f8")
        z[:] = numpy.random.default_rng(1).random((60, 300))
        for n in range(4):
            z[:, n].sum()  # here
        """, ("zarr",)),
    "text that numpy parses again": Ill("read-again", "numpy", r"numpy\.genfromtxt\(", """
        import numpy
        numpy.savetxt("a.txt", numpy.ones((2000, 8)))
        for n in range(3):
            numpy.genfromtxt("a.txt")[n]  # here
        """, ("numpy",)),
    "arrays that go through a pool's pipes": Ill("data-through-pipes", "python", "initializer=begin", """
        import multiprocessing
        def work(data): return len(data)
        if __name__ == "__main__":
            parts = [bytes(1 << 23) for _ in range(12)]
            with multiprocessing.get_context("fork").Pool(2) as pool:
                pool.map(work, parts, chunksize=1)  # here
        """),
    "results that come back through pipes": Ill("data-through-pipes", "python", "load_sum", """
        import concurrent.futures, multiprocessing
        def load(n): return bytes(1 << 23)
        if __name__ == "__main__":
            with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
                sum(map(len, pool.map(load, range(12))))  # here
        """),
    "results that workers store and send back": Ill("data-through-pipes", "python", "load_sum", """
        import multiprocessing
        def load(n):
            data = bytes(1 << 23)
            with open(f"{n}.bin", "wb") as f: f.write(data)
            return data
        if __name__ == "__main__":
            with multiprocessing.get_context("fork").Pool(2) as pool:
                sum(map(len, pool.map(load, range(12), chunksize=1)))  # here
        """),
    "a table that is flushed for each row": Ill("hdf5-flush-per-item", "tables", r"if n % 1000 == 999", """
        import tables
        with tables.open_file("t.h5", "w") as f:
            table = f.create_table("/", "t", {"n": tables.Int64Col()})
            for n in range(60):
                row = table.row
                row["n"] = n
                row.append()
                table.flush()  # here
        """, ("tables",)),
    "a dataset that is synced in every step": Ill("hdf5-flush-per-item", "netCDF4", r"file\.sync\(\)", """
        import netCDF4, numpy
        with netCDF4.Dataset("o.nc", "w") as nc:
            nc.createDimension("time", None); nc.createDimension("x", 20)
            v = nc.createVariable("u", "f8", ("time", "x"), chunksizes=(64, 20))
            for n in range(60):
                v[n] = numpy.full(20, n)
                nc.sync()  # here
        """, ("netCDF4", "numpy")),
    "a second of a sound": Ill("whole-file-again", "scipy", r"wavfile\.read\(path, mmap=True\)", """
        import numpy
        from scipy.io import wavfile
        wavfile.write("x.wav", 44100, numpy.zeros(1_000_000, "i2"))
        for n in range(8):
            rate, data = wavfile.read("x.wav")  # here
            data[n * rate : (n + 1) * rate].max()
        """, ("scipy", "numpy")),
    "a matrix that is written as text": Ill("costly-function", "scipy", r"save_npz\(path, matrix", """
        import numpy, scipy.io, scipy.sparse
        m = scipy.sparse.csr_array(numpy.random.default_rng(1).random((700, 700)))
        scipy.io.mmwrite("m.mtx", m)  # here
        """, ("scipy", "numpy")),
    "noise that joblib packs": Ill("costly-function", "joblib", "compress=0", """
        import joblib, numpy
        joblib.dump({"w": numpy.random.default_rng(1).random(500_000)}, "m.joblib", compress=9)  # here
        """, ("joblib", "numpy")),
    "a cache that hashes large data": Ill("costly-function", "joblib", r"def f\(path, n\)", """
        import joblib, numpy
        @joblib.Memory("cache", verbose=0).cache
        def first(data, n): return float(data[n])
        data = numpy.zeros(4_000_000)
        for n in range(6):
            first(data, n)  # here
        """, ("joblib", "numpy")),
    "an image that is packed": Ill("costly-function", "nibabel", r"nibabel\.save\(image, 'x\.nii'\)", """
        import nibabel, numpy
        image = nibabel.Nifti1Image(numpy.random.default_rng(1).random((90, 90, 60)), numpy.eye(4))
        nibabel.save(image, "x.nii.gz")  # here
        """, ("nibabel", "numpy")),
    "items of a compressed array": Ill("read-again", "blosc2", r"blosc2\.open\(path, mode='r'\)\[:\]", """
        import blosc2, numpy
        x = numpy.random.default_rng(1).random((400, 100))
        blosc2.asarray(x, chunks=(40, 100), blocks=(10, 100), urlpath="x.b2nd")
        for n in range(100):
            blosc2.open("x.b2nd", mode="r")[n]  # here
        """, ("blosc2", "numpy")),
    "a frame that is added to a store": Ill("reopen-per-item", "pandas", r"store\.append\(", """
        import pandas as pd
        for n in range(110):
            pd.DataFrame({"a": [n]}).to_hdf("o.h5", key="x", append=True)  # here
        """, ("pandas", "tables")),
    "a dataset that HDF5 packs": Ill("decompression-bound", "h5py", r"compression='lzf'", """
        import h5py, numpy
        x = numpy.random.default_rng(1).random(500_000)
        with h5py.File("o.h5", "w") as f:
            f.create_dataset("x", data=x, compression="gzip")  # here
        """, ("h5py", "numpy")),
    "a dataset that grows in memory": Ill("written-again", "xarray", r"open_mfdataset", """
        import numpy, xarray
        data = None
        for n in range(12):
            part = xarray.Dataset({"t": (("time", "x"), numpy.full((1, 20_000), n))}, {"time": [n]})
            data = part if data is None else xarray.concat([data, part], dim="time")
            data.to_netcdf("o.nc")  # here
        """, ("xarray", "netCDF4")),
    "messages for their subjects": Ill("costly-function", "email", "headersonly=True", """
        import email
        for n in range(8):
            with open(f"{n}.eml", "w") as f: f.write("Subject: x\\n\\n" + "a line of the body\\n" * 40_000)
        for n in range(8):
            with open(f"{n}.eml") as f:
                email.message_from_file(f)["Subject"]  # here
        """),
    "rows of a table in HDF5": Ill("costly-function", "pandas", r"store\.append\('t', pd\.DataFrame\(rows\)\)", """
        import pandas as pd
        with pd.HDFStore("s.h5", "w") as store:
            for n in range(40):
                store.append("t", pd.DataFrame({"a": [n]}))  # here
        """, ("pandas", "tables")),
    "a separator that the parser in C does not have": Ill("parse-bound", "pandas", r"sep=r'\\s\+'", """
        import pandas as pd
        with open("t.txt", "w") as f: f.writelines(f"{n}::{n * 2}::x\\n" for n in range(60_000))
        pd.read_csv("t.txt", sep="::", header=None)  # here
        """, ("pandas",)),
    "chunks of a few rows": Ill("parse-bound", "pandas", "chunksize=100_000", """
        import pandas as pd
        with open("t.csv", "w") as f: f.write("a,b\\n" + "".join(f"{n},{n * 2}\\n" for n in range(20_000)))
        reader = pd.read_csv("t.csv", chunksize=100)
        for n in range(200):
            reader.get_chunk().b.sum()  # here
        """, ("pandas",)),
    "pages that leave out what was read": Ill("database-scan", "sqlite3", "WHERE id > ", """
        import sqlite3
        db = sqlite3.connect("q.db")
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
        with db: db.executemany("INSERT INTO t VALUES (?, ?)", ((n, f"name {n}" * 9) for n in range(120_000)))
        for n in range(40):
            db.execute("SELECT name FROM t ORDER BY id LIMIT 10 OFFSET ?", (n * 3000,)).fetchall()  # here
        """),
    "transactions of one row, in DuckDB": Ill("sync-per-write", "duckdb", r"db\.execute\('COMMIT'\)", """
        import duckdb
        db = duckdb.connect("a.duckdb")
        db.execute("CREATE TABLE t (n INTEGER)")
        for n in range(60):
            db.execute("INSERT INTO t VALUES (?)", [n])  # here
        """, ("duckdb",)),
    "a mailbox that is flushed for each message": Ill("written-again", "mailbox", r"remove\(key\)\nbox\.flush", """
        import mailbox
        with open("in.mbox", "w") as f:
            for n in range(300): f.write(f"From a@b\\nSubject: {n}\\n\\n" + "a line of the body\\n" * 40 + "\\n")
        box = mailbox.mbox("in.mbox")
        for key in list(box.keys())[:12]:
            box.remove(key)
            box.flush()  # here
        """),
    "a table that is changed as a whole": Ill("written-again", "pandas", r"\ntable\.to_parquet\(path\)", """
        import pandas as pd
        pd.DataFrame({"id": range(30_000), "v": [n / 7 for n in range(30_000)]}).to_parquet("t.parquet")
        def change(new):
            old = pd.read_parquet("t.parquet")
            pd.concat([old[~old.id.isin(new.id)], new]).to_parquet("t.parquet")  # here
        for n in range(8): change(pd.DataFrame({"id": [n], "v": [0.0]}))
        """, ("pandas",)),
    "a handler for each record": Ill("reopen-per-item", "logging", "# once\nfor item", """
        import logging
        def log():
            found = logging.getLogger("x")
            found.addHandler(logging.FileHandler("a.log"))  # here
            return found
        for n in range(150): log().error("record %d", n)
        """),
    "a file that locks": Ill("polling", "python", r"fcntl\.flock\(f, fcntl\.LOCK_EX\)", """
        import os, threading, time
        open("lock", "w").close()
        threading.Timer(1, os.unlink, ["lock"]).start()
        def take():
            while True:
                try: return os.close(os.open("lock", os.O_CREAT | os.O_EXCL))  # here
                except FileExistsError: time.sleep(0.01)
        take()
        """),
    "record batches of a row": Ill("small-accesses", "pyarrow", "record batch", """
        import pyarrow as pa
        schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
        with pa.OSFile("x.arrow", "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for n in range(300):
                writer.write_batch(pa.record_batch([[n], [n]], schema=schema))  # here
        """),
    "a history that is written in each step": Ill("written-again", "json", r"json\.dumps\(item\)", """
        import json
        history = []
        for step in range(400):
            history.append({"step": step, "loss": step / 7, "values": list(range(40))})
            with open("state.json", "w") as f:
                f.write(json.dumps({"log": history}, indent=1))  # here
        """),
    "a connection for each item": Ill("database-scan", "sqlite3", r"connect\(path\)    # once", """
        import sqlite3
        db = sqlite3.connect("m.db")
        db.execute("CREATE TABLE m (i INTEGER PRIMARY KEY, v BLOB)")
        with db: db.executemany("INSERT INTO m VALUES (?, ?)", ((n, bytes(2000)) for n in range(400)))
        db.close()
        for n in range(400):
            db = sqlite3.connect("m.db")  # here
            db.execute("SELECT v FROM m WHERE i = ?", (n,)).fetchone()
            db.close()
        """),
    "records that are parsed again for each key": Ill("read-again", "python", r"json\.loads\(one\) for one in f", """
        import json
        with open("a.jsonl", "w") as f: f.writelines(json.dumps({"id": n, "v": [n] * 8}) + "\\n" for n in range(9000))
        def find(key):
            with open("a.jsonl") as f:
                for line in f:
                    if (record := json.loads(line))["id"] == key:  # here
                        return record
        for key in range(8000, 9000, 100): find(key)
        """),
    "lines that are counted before they are used": Ill("read-again", "python", r"functools\.cache", """
        with open("a.txt", "w") as f: f.writelines(f"{n} words and more of them\\n" for n in range(60_000))
        def count():
            with open("a.txt") as f:
                return sum(1 for line in f)
        total, done = count(), 0
        with open("a.txt") as f:
            for line in f:  # here
                done += len(line)
        """),
    "a table for each day": Ill("small-files", "pandas", r"read_parquet\('all", """
        import pandas
        for n in range(300): pandas.DataFrame({"a": range(20), "b": n}).to_parquet(f"{n}.parquet")
        pandas.concat([pandas.read_parquet(f"{n}.parquet") for n in range(300)])  # here
        """, ("pandas", "pyarrow")),
    "records that are flushed": Ill("flush-per-record", "python", r"\Afor record in records:|once for many", """
        with open("events.bin", "wb") as f:
            for n in range(20_000):
                f.write(n.to_bytes(8, "little"))
                f.flush()  # here
        """),
    "a frame that is pickled as it grows": Ill("written-again", "pandas", r"pandas\.concat\(parts\)\.to_pickle", """
        import numpy, pandas
        frame = pandas.DataFrame()
        for n in range(20):
            frame = pandas.concat([frame, pandas.DataFrame(numpy.random.default_rng(n).random((2000, 6)))])
            frame.to_pickle("all.pkl")  # here
        """, ("numpy", "pandas")),
    "rows that are appended to chunks of a row": Ill("zarr-small-chunks", "zarr", "Make chunks of 1 MiB", """
        import numpy, zarr
        array = zarr.create_array("a.zarr", shape=(0, 50), chunks=(1, 50), dtype="f8")
        for n in range(300):
            array.append(numpy.full((1, 50), n))  # here
        """, ("numpy", "zarr")),
    "a statement for each item": Ill("statement-per-item", "sqlite3", r"WHERE id IN|JOIN", """
        import sqlite3
        db = sqlite3.connect("m.db")
        db.execute("CREATE TABLE m (i INTEGER PRIMARY KEY, v INT)")
        with db: db.executemany("INSERT INTO m VALUES (?, ?)", ((n, n * 7) for n in range(20_000)))
        cursor = db.cursor()
        for n in range(20_000):
            cursor.execute("SELECT v FROM m WHERE i = ?", (n,))  # here
            cursor.fetchone()
        """),
    "a pool for each batch": Ill("workers-restart", "python", r"Pool\(\) as pool:    # once", """
        import concurrent.futures, multiprocessing
        def work(n): return n * n
        if __name__ == "__main__":
            for batch in range(20):
                with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
                    sum(pool.map(work, range(4)))  # here
        """),
    "workers that end after a task": Ill("workers-restart", "python", r"more tasks", """
        import multiprocessing
        table = None
        def begin():
            global table
            table = {str(n): n for n in range(50_000)}
        def work(n): return table[str(n)]
        if __name__ == "__main__":
            context = multiprocessing.get_context("fork")
            with context.Pool(2, initializer=begin, maxtasksperchild=1) as pool:
                pool.map(work, range(14), chunksize=1)  # here
        """),
    "a process for each item": Ill("workers-restart", "python", "Give the items to a pool", """
        import multiprocessing
        def work(n): return n * n
        if __name__ == "__main__":
            for n in range(40):
                worker = multiprocessing.get_context("fork").Process(target=work, args=(n,))
                worker.start()  # here
                worker.join()
        """),
    "an array of an archive, in each item": Ill("read-again", "numpy", r"archive\['x'\]    # once", """
        import numpy
        from torch.utils.data import DataLoader, Dataset
        numpy.savez_compressed("x.npz", x=numpy.random.default_rng(1).random((500, 200)))
        class Items(Dataset):
            def __init__(self): self.data = numpy.load("x.npz")
            def __len__(self): return 40
            def __getitem__(self, n): return self.data["x"][n]  # here
        for batch in DataLoader(Items(), batch_size=10): batch.sum()
        """, ("numpy", "torch")),
    "a stream that no worker takes a part of": Ill("loader-in-trainer", "torch", r"if n % step == first", """
        import time
        from torch.utils.data import DataLoader, IterableDataset
        with open("x.txt", "w") as f: f.writelines(f"{n} words\\n" for n in range(400))
        class Lines(IterableDataset):
            def __iter__(self):
                with open("x.txt") as f:
                    for line in f:
                        time.sleep(0.002)
                        yield len(line)
        for batch in DataLoader(Lines(), batch_size=10):  # here
            time.sleep(0.001)
        """, ("torch",)),
    "what each worker loads": Ill("read-again", "torch", r"self\.data = load\(path\)    # once", """
        import pickle
        from torch.utils.data import DataLoader, Dataset
        with open("x.pkl", "wb") as f: pickle.dump([list(range(50))] * 3000 + [bytes(2_000_000)], f)
        class Items(Dataset):
            data = None
            def __len__(self): return 40
            def __getitem__(self, n):
                if self.data is None:
                    with open("x.pkl", "rb") as f:
                        self.data = pickle.load(f)  # here
                return self.data[n][0]
        for epoch in range(3):
            for batch in DataLoader(Items(), batch_size=5, num_workers=2): batch.sum()
        """, ("torch",)),
    "a lock that is held over a sync": Ill("lock-over-io", "python", r"data = pickle\.dumps\(state\)\nwith open", """
        import os, threading, time
        class Index:
            def __init__(self): self.guard, self.hits, self.stop = threading.RLock(), 0, False
            def hit(self):
                with self.guard: self.hits += 1
            def compact(self):
                with self.guard:
                    self.rewrite()  # here
            def rewrite(self):
                with open("index.bin", "wb") as f:
                    f.write(bytes(1 << 25)); f.flush(); os.fsync(f.fileno())
        index = Index()
        def compact():
            while not index.stop: index.compact(); time.sleep(0.001)
        def serve():
            for n in range(40): index.hit(); time.sleep(0.001)
        threads = [threading.Thread(target=serve) for _ in range(3)]
        compacting = threading.Thread(target=compact)
        for one in (compacting, *threads): one.start()
        for one in threads: one.join()
        index.stop = True; compacting.join()
        """),
    "a lock that is held over a read": Ill("lock-over-io", "python", r"with own:    # of this key", """
        import threading
        lock, cache = threading.Lock(), {}
        with open("x.bin", "wb") as f: f.write(bytes(1 << 26))
        def get(n):
            with lock:
                if n not in cache:
                    with open("x.bin", "rb") as f:
                        cache[n] = len(f.read())  # here
                return cache[n]
        def work():
            for n in range(12): get(n)
        threads = [threading.Thread(target=work) for _ in range(3)]
        for one in threads: one.start()
        for one in threads: one.join()
        """),
    "arrays that go through a queue": Ill("data-through-pipes", "python", r"q\.put\(path\)", """
        import multiprocessing
        def produce(q):
            for n in range(12): q.put(bytes(1 << 23))
            q.put(None)
        if __name__ == "__main__":
            context = multiprocessing.get_context("fork")
            q = context.Queue(2)
            p = context.Process(target=produce, args=(q,)); p.start()
            while (data := q.get()) is not None: len(data)  # here
            p.join()
        """),
    "a configuration for each value": Ill("read-again", "configparser", r"config\.read\(path\)    # once", """
        import configparser
        with open("app.ini", "w") as f: f.writelines(f"[s{n}]\\na = 1\\nb = 2\\n" for n in range(200))
        for n in range(60):
            config = configparser.ConfigParser()
            config.read("app.ini")  # here
            config.getint(f"s{n}", "a")
        """),
    "rows by SQL of which few are used": Ill("costly-function", "pandas", "WHERE shop = ", """
        import sqlite3, pandas as pd
        db = sqlite3.connect("s.db")
        with db:
            db.execute("CREATE TABLE sales (shop INTEGER, amount REAL, note TEXT)")
            db.executemany("INSERT INTO sales VALUES (?, ?, ?)", ((n % 50, n / 3, f"{n}") for n in range(60_000)))
        for shop in range(4):
            sales = pd.read_sql("SELECT * FROM sales", db)  # here
            sales[sales.shop == shop].amount.sum()
        """, ("pandas",)),
    "a dataset that is read whole for each day": Ill("read-again", "pyarrow", r"to_table\(columns=.*# once", """
        import pyarrow as pa, pyarrow.dataset as ds, pyarrow.parquet as pq
        for k in range(3):
            pq.write_table(pa.table({"day": list(range(9)) * 9000, "x": list(range(81_000))}), f"p{k}.parquet")
        data = ds.dataset([f"p{k}.parquet" for k in range(3)])
        for day in range(4):
            data.to_table().filter(ds.field("day") == day)  # here
        """),
    "files that are hashed to see whether they changed": Ill("read-again", "python", r"now\.st_mtime_ns", """
        import hashlib
        for n in range(4):
            with open(f"{n}.bin", "wb") as f: f.write(bytes([n]) * 1_000_000)
        def changed(known):
            for n in range(4):
                with open(f"{n}.bin", "rb") as f:
                    digest = hashlib.md5(f.read()).hexdigest()  # here
                if known.get(n) != digest: known[n] = digest
        known = {}
        for tick in range(8): changed(known)
        """),
    "blocks that are hashed again": Ill("read-again", "python", "Keep the digest of each file", """
        import zlib
        with open("x.bin", "wb") as f: f.write(bytes(3_000_000))
        def check():
            value = 0
            with open("x.bin", "rb") as f:
                while block := f.read(1 << 18):  # here
                    value = zlib.crc32(block, value)
            return value
        for n in range(8): check()
        """),
    "a state that is loaded in each tick": Ill("read-again", "python", r"os\.stat\(path\)\.st_mtime_ns", """
        import json, time
        with open("r.json", "w") as f: json.dump({f"/{n}": {"to": f"host{n}"} for n in range(6000)}, f)
        def serve():
            for tick in range(40):
                with open("r.json") as f: routes = json.load(f)  # here
                time.sleep(0.03)
        serve()
        """),
    "attributes set one by one": Ill("written-again", "zarr", r"update_attributes\(", """
        import zarr
        array = zarr.open(store="a.zarr", mode="w", shape=(40, 40), chunks=(40, 40), dtype="f4")
        for n in range(60):
            array.attrs[f"key {n}"] = n  # here
        """, ("zarr",)),
    "a file copied for each run": Ill("read-again", "python", r"os\.link\(", """
        import shutil
        with open("base.bin", "wb") as f: f.write(bytes(2_000_000))
        for n in range(12):
            shutil.copyfile("base.bin", f"run{n}.bin")  # here
        """),
    "a file that the kernel copies, by descriptors": Ill("read-again", "python", r"os\.link\(", """
        import os
        with open("base.bin", "wb") as f: f.write(bytes(2_000_000))
        def copied(name):
            with open("base.bin", "rb") as old, open(name, "wb") as new:
                while os.sendfile(new.fileno(), old.fileno(), None, 1 << 20): pass  # here
        for n in range(12): copied(f"run{n}.bin")
        """),
    "a group that is opened for each array": Ill("read-again", "zarr", r"group = zarr\.open_group\(.*# once", """
        import zarr
        group = zarr.open_group("g.zarr", mode="w")
        for n in range(40): group.create_array(f"v{n}", shape=(4,), chunks=(4,), dtype="f8")
        for n in range(12):
            found = zarr.open_group("g.zarr", mode="r")
            [array.shape for name, array in found.arrays()]  # here
        """, ("zarr",)),
    "a document that is made of objects": Ill("costly-function", "xml", r"ElementTree\.parse\(path\)\.iter", """
        import xml.dom.minidom
        with open("o.xml", "w") as f: f.write("<o>" + "".join(f"<q id='{n}'>{n}</q>" for n in range(15_000)) + "</o>")
        document = xml.dom.minidom.parse("o.xml")  # here
        """),
    "a folder that is packed in each step": Ill("read-again", "python", "Pack only what has changed", """
        import os, shutil
        os.mkdir("run")
        for n in range(10):
            with open(f"run/{n}.bin", "wb") as f: f.write(bytes(200_000))
        for step in range(6):
            shutil.make_archive("snapshot", "tar", "run")  # here
        """),
}  # fmt: skip

CLEAN = {
    "one transaction, one scan": (
        "",
        """
        import sqlite3
        db = sqlite3.connect("q.db")
        with db:
            db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v REAL)")
            db.executemany("INSERT INTO t VALUES (?, ?)", ((n, n / 7) for n in range(20_000)))
        print(sum(v for v, in db.execute("SELECT v FROM t")))
        """,
    ),
    "a result that is renamed": (
        "",
        """
        import os, tempfile
        with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as f:
            f.writelines(f"{n}\\n" for n in range(50_000)); f.flush(); os.fsync(f.fileno())
        os.replace(f.name, "result.txt")
        """,
    ),
    "an archive in its order": (
        "",
        """
        import zipfile, hashlib
        with zipfile.ZipFile("a.zip", "w") as z:
            for n in range(50): z.writestr(f"m{n}.bin", bytes([n]) * 50_000)
        with zipfile.ZipFile("a.zip") as z:
            for name in z.namelist(): hashlib.sha256(z.read(name) * 20).hexdigest()
        """,
    ),
    "blocks of a dataset": (
        "h5py",
        """
        import h5py, numpy
        with h5py.File("r.h5", "w") as f:
            d = f.create_dataset("x", (0, 20), maxshape=(None, 20), chunks=(2000, 20), dtype="f8")
            for n in range(10):
                d.resize((n + 1) * 2000, axis=0)
                d[-2000:] = numpy.full((2000, 20), n)
        with h5py.File("r.h5") as f: print(f["x"][:].mean())
        """,
    ),
}


#: What would be said of it does not help: slug, modules it needs, program.
SILENT = {
    "a state that another process writes each time it is read": ("read-again", (), """
        import multiprocessing
        def write(n):
            with open("state.json", "w") as f: f.write(str(n) * 20_000)
        if __name__ == "__main__":
            for n in range(8):
                p = multiprocessing.get_context("fork").Process(target=write, args=(n,))
                p.start(); p.join()
                with open("state.json") as f: f.read()
        """),
    "locks of a database that nobody else has": ("lock-waits", (), """
        import sqlite3
        db = sqlite3.connect("m.db")
        db.execute("CREATE TABLE m (i INTEGER PRIMARY KEY, v INT)")
        with db: db.executemany("INSERT INTO m VALUES (?, ?)", ((n, n * 7) for n in range(30_000)))
        for n in range(30_000): db.execute("SELECT v FROM m WHERE i = ?", (n,)).fetchone()
        """),
    "a database that is no small file": ("metadata-share", (), """
        import sqlite3
        db = sqlite3.connect("m.db")
        db.execute("CREATE TABLE m (i INTEGER PRIMARY KEY, v INT)")
        with db: db.executemany("INSERT INTO m VALUES (?, ?)", ((n, n * 7) for n in range(5_000)))
        for n in range(5_000): db.execute("SELECT v FROM m WHERE i = ?", (n,)).fetchone()
        """),
    "workers that do long work, one after another": ("workers-restart", (), """
        import multiprocessing, time
        def work(n):
            end = time.monotonic() + 0.3
            while time.monotonic() < end: sum(range(1000))
        if __name__ == "__main__":
            for n in range(4):
                worker = multiprocessing.get_context("fork").Process(target=work, args=(n,))
                worker.start(); worker.join()
        """),
    "tables that are asked for before they are made": ("missing-paths", ("pandas", "pyarrow"), """
        import pandas
        for n in range(200): pandas.DataFrame({"a": range(20), "b": n}).to_parquet(f"{n}.parquet")
        """),
    "folders that are removed": ("small-files", (), """
        import os, shutil
        for n in range(400):
            os.makedirs(f"d/{n}")
        shutil.rmtree("d")
        """),
    "parts of a text, one for each task": ("read-again", ("dask.dataframe", "pandas"), """
        import dask.dataframe as dd
        with open("t.csv", "w") as f: f.write("a,b\\n" + "".join(f"{n},{n * 2}\\n" for n in range(60_000)))
        dd.read_csv("t.csv", blocksize=8_000).a.sum().compute(scheduler="threads")
        """),
    "opened once for each part": ("reopen-per-item", ("dask.dataframe", "pandas"), """
        import dask.dataframe as dd
        with open("t.csv", "w") as f: f.write("a,b\\n" + "".join(f"{n},{n * 2}\\n" for n in range(60_000)))
        dd.read_csv("t.csv", blocksize=4_000).a.sum().compute(scheduler="threads")
        """),
    "one value of each file": ("hdf5-item-per-call", ("h5py",), """
        import h5py
        for n in range(120):
            with h5py.File(f"{n}.h5", "w") as f: f["x"] = list(range(10))
        for n in range(120):
            with h5py.File(f"{n}.h5") as f: f["x"][3]
        """),
    "names that a rotation asks for": ("stat-storm", (), """
        import logging.handlers
        log = logging.Logger("x")
        log.addHandler(logging.handlers.RotatingFileHandler("a.log", maxBytes=300, backupCount=8))
        for n in range(2000): log.error("record %d", n)
        """),
    "a file that the kernel sends": ("read-again", (), """
        import socket, threading
        with open("page.bin", "wb") as f: f.write(bytes(1_000_000))
        server = socket.create_server(("127.0.0.1", 0))
        def serve():
            for n in range(20):
                client, _ = server.accept()
                with client, open("page.bin", "rb") as f: client.sendfile(f)
        thread = threading.Thread(target=serve); thread.start()
        for n in range(20):
            with socket.create_connection(server.getsockname()) as client:
                while client.recv(1 << 20): pass
        thread.join()
        """),
    "folders that a store lists": ("list-again", ("zarr",), """
        import zarr
        group = zarr.open_group("g.zarr", mode="w")
        for n in range(10): group.create_array(f"v{n}", shape=(4,), chunks=(4,), dtype="f8")
        for n in range(12): [array.shape for name, array in zarr.open_group("g.zarr", mode="r").arrays()]
        """),
    "a state that is copied with the lock, and saved without": ("lock-over-io", (), """
        import os, threading, time
        lock, state, done = threading.Lock(), {n: "x" for n in range(1000)}, []
        def save():
            while not done:
                with lock: copy = dict(state)
                with open("s.bin", "wb") as f: f.write(bytes(1 << 24)); f.flush(); os.fsync(f.fileno())
        def work():
            for n in range(60):
                with lock: state[n] = "y"
                time.sleep(0.001)
        saving, threads = threading.Thread(target=save), [threading.Thread(target=work) for _ in range(3)]
        for one in (saving, *threads): one.start()
        for one in threads: one.join()
        done.append(1); saving.join()
        """),
    "two locks of the same name": ("lock-over-io", (), """
        import os, threading, time
        class Log:
            def __init__(self): self.lock = threading.Lock()
            def save(self):
                with self.lock:
                    with open("s.bin", "wb") as f: f.write(bytes(1 << 24)); f.flush(); os.fsync(f.fileno())
        class Work:
            def __init__(self): self.lock = threading.Lock()
            def do(self):
                with self.lock: time.sleep(0.004)
        work, log = Work(), Log()
        threads = [threading.Thread(target=lambda: [work.do() for n in range(60)]) for _ in range(3)]
        for one in threads: one.start()
        while any(one.is_alive() for one in threads): log.save()
        """),
    "a file that is waited for": ("missing-paths", (), """
        import os, threading, time
        threading.Timer(0.8, lambda: open("done", "w").close()).start()
        while not os.path.exists("done"): time.sleep(0.002)
        """),
    "parts of an array that is mapped": ("read-again", ("numpy",), """
        import numpy
        def part(n): return float(numpy.sort(numpy.load("x.npy", mmap_mode="r")[n : n + 200_000])[7])
        numpy.save("x.npy", numpy.random.default_rng(1).random(1_600_000))
        for n in range(0, 1_600_000, 200_000): part(n)
        """),
    "blocks of a file": ("whole-file-again", ("numpy",), """
        import numpy
        numpy.zeros(1_000_000).tofile("x.bin")
        with open("x.bin", "rb") as f:
            while len(block := numpy.fromfile(f, "f8", 100_000)): block.sum()
        """),
    "a restart that is renamed": ("sync-again", ("numpy",), """
        import numpy, os
        for n in range(4):
            with open("restart.tmp", "wb") as f:
                numpy.save(f, numpy.full(50_000, n)); f.flush(); os.fsync(f.fileno())
            os.replace("restart.tmp", "restart.npy")
        """),
    "files whose end is in no block": ("unaligned-accesses", (), """
        import shutil
        for n in range(60):
            with open(f"{n}.bin", "wb") as f: f.write(bytes(300_001))
        for n in range(60): shutil.copyfile(f"{n}.bin", f"{n}.copy")
        """),
    "files that are made where they are missing": ("polling", (), """
        import os, time
        for n in range(80):
            try: os.close(os.open("made", os.O_CREAT | os.O_EXCL))
            except FileExistsError: pass
            time.sleep(0.01)
        """),
    "small things that a pool is given": ("data-through-pipes", (), """
        import multiprocessing, time
        def work(n): time.sleep(0.02)
        if __name__ == "__main__":
            with multiprocessing.get_context("fork").Pool(2) as pool: pool.map(work, range(20))
        """),
    "a state that is copied": ("written-again", (), """
        import shutil
        def save(n):
            with open("last.bin", "wb") as f: f.write(bytes([n]) * 3_000_000)
            shutil.copyfile("last.bin", "best.bin")
        for n in range(12): save(n)
        """),
    "a state that is checked": ("written-again", (), """
        import hashlib
        for n in range(12):
            with open("last.bin", "wb") as f: f.write(bytes([n]) * 3_000_000)
            with open("last.bin", "rb") as f: hashlib.sha256(f.read()).hexdigest()
        """),
    "a state that is read after it was written": ("read-again", (), """
        import pickle
        for n in range(12):
            with open("best.bin", "wb") as f: pickle.dump(bytes([n]) * 3_000_000, f)
            with open("best.bin", "rb") as f: assert pickle.load(f)[0] == n
        """),
    "an array that is loaded after it was saved": ("whole-file-again", ("numpy",), """
        import numpy
        for n in range(6):
            numpy.save("x.npy", numpy.full((1000, 400), n))
            assert numpy.load("x.npy")[3, 4] == n
        """),
    "a state that is opened to be checked": ("reopen-per-item", (), """
        def save(n):
            with open("last.txt", "w") as f: f.write(f"{n}\\n")
            with open("last.txt") as f: assert f.read() == f"{n}\\n"
        for n in range(300): save(n)
        """),
}  # fmt: skip


@pytest.mark.parametrize("name", SILENT)
def test_what_would_not_help_is_not_said(program: Runner, name: str) -> None:
    # GIVEN a program that looks like one with an ill WHEN findings are made THEN that one is not among them
    slug, needs, text = SILENT[name]
    for module in needs:
        pytest.importorskip(module)
    outcome = succeeded(program.traced(textwrap.dedent(text), env={"PYIO_TRACE_SAMPLE": "400"}))
    assert none(findings_of(outcome, without_times(ANY)), slug)


def _marked(name: str, needs: tuple[str, ...]) -> Any:
    """torch is only where tox -e frameworks runs."""
    return pytest.param(name, marks=[pytest.mark.frameworks("torch")] if "torch" in needs else [])


@pytest.mark.parametrize("name", [_marked(name, ill.needs) for name, ill in ILLS.items()])
def test_cause_line_and_remedy(program: Runner, name: str) -> None:
    # GIVEN a program with one ill WHEN findings are made
    ill = ILLS[name]
    if missing := [one for one in ill.needs if importlib.util.find_spec(one) is None]:
        pytest.skip(f"without {', '.join(missing)}")
    text = textwrap.dedent(ill.program)
    line = next(number for number, one in enumerate(text.split("\n"), 1) if one.endswith("# here"))
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_SAMPLE": "400"}))
    found = findings_of(outcome, without_times(SAMPLED if ill.slug == "costly-function" else ANY))
    there = [one for one in found if one.slug == ill.slug and line in [site.line for site in one.sites]]
    # THEN its cause is found at its line, and the remedy is in the words of its library
    assert len(there) == 1, [(one.slug, one.sites) for one in found]
    remedy = there[0].remedy
    assert remedy is not None and remedy.library == ill.library
    assert re.search(ill.words, f"{remedy.text}\n{remedy.after}", re.DOTALL), remedy


@pytest.mark.parametrize("name", CLEAN)
def test_clean_programs(program: Runner, name: str) -> None:
    # GIVEN a program with nothing wrong THEN no finding is a warning, however long its calls take
    needed, text = CLEAN[name]
    if needed:
        pytest.importorskip(needed)
    worst = worst_of(succeeded(program.traced(text)))
    assert not {slug: severity for slug, severity in worst.items() if severity in ("warning", "critical")}

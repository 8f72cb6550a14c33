"""What a finding advises, followed by hand: the next run has nothing against it, and advises nothing contrary."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from dataclasses import dataclass

import pytest

from tests.support.findings import BY_TIMES, findings_of, without_times
from tests.support.programs import Runner

pytestmark = pytest.mark.once


@dataclass(frozen=True)
class Case:
    """slug: what is found; make: before both; ill, cured: the program, and as its remedy advises; needs: libraries."""

    slug: str
    make: str
    ill: str
    cured: str
    needs: tuple[str, ...] = ()


ROWS = "rows = [(n, n / 7) for n in range(200)]\n"
LINES = "from pathlib import Path\nlines = [f'{n}, a line of a text\\n' for n in range(3000)]\n"
TEXT = LINES + "Path('x.txt').write_text(''.join(lines))\nPath('x.bin').write_bytes(bytes(range(250)) * 8000)\n"
MANY = "import json\nfrom pathlib import Path\npaths = [f'{n}.json' for n in range(1200)]\n"
DATABASE = "import sqlite3\ndb = sqlite3.connect('t.db')\ndb.execute('CREATE TABLE t (n INTEGER, x REAL)')\n" + ROWS
SYNCS = "import os\nrecords = [b'a record'] * 60\n"
H5 = "import h5py, numpy\nx = numpy.random.default_rng(1).random((2000, 100))\n"
TAR = """
import io, random, tarfile
with tarfile.open('x.tar.gz', 'w:gz') as archive:
    for n in range(60):
        member = tarfile.TarInfo(f'{n}.bin'); member.size = 20_000
        archive.addfile(member, io.BytesIO(random.Random(n).randbytes(20_000)))
names = random.Random(3).sample([f'{n}.bin' for n in range(60)], 20)
"""
PAGES = "import random\nfrom pathlib import Path\nPath('x.bin').write_bytes(bytes(8 << 20))\n"

CASES = {
    "commits": Case("commit-per-row", DATABASE, """
        for row in rows:
            db.execute('INSERT INTO t VALUES (?, ?)', row)
            db.commit()
        """, """
        with db:
            db.executemany('INSERT INTO t VALUES (?, ?)', rows)
        """),
    "transactions of one statement": Case("commit-per-row", DATABASE + "db.commit(); db.isolation_level = None", """
        for row in rows:
            db.execute('INSERT INTO t VALUES (?, ?)', row)
        """, """
        db.execute('BEGIN')
        db.executemany('INSERT INTO t VALUES (?, ?)', rows)
        db.execute('COMMIT')
        """),
    "flushes": Case("flush-per-record", LINES, """
        with open('out.txt', 'w') as f:
            for line in lines: print(line, file=f, flush=True)
        """, """
        with open('out.txt', 'w') as f:
            for line in lines: print(line, file=f)
        """),
    "syncs": Case("sync-per-write", SYNCS, """
        with open('out.bin', 'wb') as f:
            for record in records:
                f.write(record)
                f.flush(); os.fsync(f.fileno())
        """, """
        with open('out.bin', 'wb') as f:
            for record in records:
                f.write(record)
            f.flush(); os.fsync(f.fileno())
        """),
    "syncs of a map": Case("sync-per-write", "import mmap\nopen('m', 'wb').write(bytes(9999))", """
        with open('m', 'r+b') as f, mmap.mmap(f.fileno(), 0) as mapped:
            for n in range(40):
                mapped[n] = 1
                mapped.flush()
        """, """
        with open('m', 'r+b') as f, mmap.mmap(f.fileno(), 0) as mapped:
            for n in range(40):
                mapped[n] = 1
            mapped.flush()
        """),
    "writes that sync": Case("synchronous-writes", SYNCS, """
        descriptor = os.open('out.bin', os.O_WRONLY | os.O_CREAT | os.O_SYNC)
        for record in records: os.write(descriptor, record)
        """, """
        with open('out.bin', 'wb') as f:
            for record in records: f.write(record)
            f.flush(); os.fsync(f.fileno())
        """),
    "opened to add": Case("reopen-per-item", LINES, """
        for line in lines[:300]:
            with open('out.txt', 'a') as f:
                f.write(line)
        """, """
        with open('out.txt', 'a') as f:
            for line in lines[:300]:
                f.write(line)
        """),
    "opened to read": Case("reopen-per-item", TEXT, """
        for n in range(300):
            with open('x.bin', 'rb') as f:
                f.seek(n * 4000); f.read(100)
        """, """
        with open('x.bin', 'rb') as f:
            for n in range(300):
                f.seek(n * 4000); f.read(100)
        """),
    "read in a loop": Case("read-again", TEXT, """
        for n in range(20):
            with open('x.bin', 'rb') as f: f.read()
        """, """
        with open('x.bin', 'rb') as f: data = f.read()
        for n in range(20): data.count(n)
        """),
    "JSON in a loop": Case("read-again", TEXT + "import json\nPath('x.json').write_text(json.dumps(lines))", """
        for n in range(20):
            with open('x.json') as f: json.load(f)
        """, """
        import functools
        @functools.cache
        def read(path):
            with open(path) as f: return json.load(f)
        for n in range(20): read('x.json')
        """),
    "a stream unpacked in a loop": Case("read-again", LINES + """
import gzip, random
data = random.Random(1).randbytes(300_000)
with gzip.open('x.gz', 'wb') as f: f.write(data)
""", """
        for n in range(20):
            with gzip.open('x.gz') as f: f.read()
        """, """
        with gzip.open('x.gz') as f: data = f.read()
        for n in range(20): data.count(n)
        """),
    "members in another order": Case("read-again", TAR, """
        with tarfile.open('x.tar.gz') as archive:
            for name in names: archive.extractfile(name).read()
        """, """
        wanted = set(names)
        with tarfile.open('x.tar.gz') as archive:
            for member in archive:
                if member.name in wanted: archive.extractfile(member).read()
        """),
    "an array in a loop": Case("whole-file-again", "import numpy\nnumpy.save('x.npy', numpy.zeros((500, 500)))", """
        for n in range(50): numpy.load('x.npy')[n].sum()
        """, """
        x = numpy.load('x.npy', mmap_mode='r')
        for n in range(50): x[n].sum()
        """, ("numpy",)),
    "all files for one": Case("written-again", LINES + "done = []", """
        for line in lines[:300]:
            done.append(line)
            Path('out.txt').write_text(''.join(done))
        """, """
        with open('out.txt', 'a') as f:
            for line in lines[:300]:
                print(line, file=f, flush=True)
        """),
    "a state for each change": Case("written-again", MANY + "Path('s.json').write_text('{}')", """
        for n in range(200):
            state = json.loads(Path('s.json').read_text())
            state[f'key {n}'] = n
            Path('s.json').write_text(json.dumps(state))
        """, """
        state = json.loads(Path('s.json').read_text())
        for n in range(200):
            state[f'key {n}'] = n
        Path('s.json').write_text(json.dumps(state))
        """),
    "small writes": Case("small-accesses", LINES, """
        with open('out.bin', 'wb', buffering=0) as f:
            for line in lines: f.write(line.encode())
        """, """
        with open('out.bin', 'wb', buffering=1 << 20) as f:
            for line in lines: f.write(line.encode())
        """),
    "small reads": Case("small-accesses", TEXT, """
        with open('x.bin', 'rb', buffering=0) as f:
            while data := f.read(512): pass
        """, """
        with open('x.bin', 'rb', buffering=1 << 20) as f:
            while data := f.read(512): pass
        """),
    "a letter at a time": Case("tiny-calls", TEXT, """
        with open('x.bin', 'rb') as f:
            for n in range(120_000): f.read(8)
        """, """
        import struct
        with open('x.bin', 'rb') as f:
            for values in struct.iter_unpack('d', f.read()): pass
        """),
    "here and there": Case("random-reads", PAGES, """
        with open('x.bin', 'rb') as f:
            for n in random.Random(1).sample(range(2000), 1500): f.seek(n * 4096); f.read(4096)
        """, """
        with open('x.bin', 'rb') as f:
            for n in sorted(random.Random(1).sample(range(2000), 1500)): f.seek(n * 4096); f.read(4096)
        """),
    "backward": Case("backward-reads", PAGES, """
        with open('x.bin', 'rb') as f:
            for n in reversed(range(500)): f.seek(n * 4096); f.read(4096)
        """, """
        with open('x.bin', 'rb') as f:
            items = [f.read(4096) for n in range(500)][::-1]
        """),
    "a column": Case("strided-reads", PAGES, """
        with open('x.bin', 'rb', buffering=0) as f:
            for row in range(1000): f.seek(row * 8192); f.read(8)
        """, """
        import numpy
        with open('x.bin', 'rb') as f:
            column = numpy.fromfile(f, 'f8').reshape(1024, -1)[:, 0]
        """, ("numpy",)),
    "changed in place": Case("read-modify-write", PAGES, """
        with open('x.bin', 'r+b', buffering=0) as f:
            for n in range(0, 3000, 3):
                f.seek(n * 8); x = f.read(8)
                f.seek(n * 8); f.write(x[::-1])
        """, """
        import mmap
        with open('x.bin', 'r+b') as f, mmap.mmap(f.fileno(), 0) as data:
            for n in range(0, 3000, 3):
                data[n * 8 : n * 8 + 8] = data[n * 8 : n * 8 + 8][::-1]
        """),
    "asked again": Case("stat-storm", TEXT + "import os", """
        for n in range(600):
            if os.path.exists('x.txt') and os.path.isfile('x.txt'): size = os.path.getsize('x.txt')
        """, """
        size = os.stat('x.txt').st_size
        for n in range(600): size += 1
        """),
    "asked before it is opened": Case("ask-before-open", MANY + """
import os
for path in paths[:600]: Path(path).write_text('[1]')
""", """
        for path in paths[:600]:
            if os.path.exists(path):
                with open(path) as f: f.read()
        """, """
        for path in paths[:600]:
            try:
                with open(path) as f: f.read()
            except FileNotFoundError: pass
        """),
    "names that are not there": Case("missing-paths", MANY + """
import os
folders = ['one', 'two', 'three']
for folder in folders: Path(folder).mkdir()
for path in paths[:400]: Path('three', path).touch()
""", """
        for name in paths[:400]:
            for folder in folders:
                if os.path.exists(f'{folder}/{name}'): break
        """, """
        there = filter(os.path.isdir, reversed(folders))
        where = {name: folder for folder in there
                 for name in os.listdir(folder)}
        for name in paths[:400]: where[name]
        """),
    "listed again": Case("list-again", MANY + "import os\nfor n in range(50): os.makedirs(f'd/{n}')", """
        for n in range(200): str(n) in os.listdir('d')
        """, """
        names = set(os.listdir('d'))
        for n in range(200): str(n) in names
        """),
    "made for a moment": Case("create-and-delete", MANY + "import io, os", """
        for n in range(200):
            with open('part.tmp', 'wb') as f: f.write(b'x' * n)
            with open('part.tmp', 'rb') as f: f.read()
            os.remove('part.tmp')
        """, """
        for n in range(200):
            io.BytesIO(b'x' * n).read()
        """),
    "a file for each item": Case("small-files", MANY, """
        for n, path in enumerate(paths):
            with open(path, 'w') as f: json.dump(n, f)
        """, """
        with open('items.jsonl', 'w') as f:
            for n, path in enumerate(paths): f.write(json.dumps([path, n]) + '\\n')
        """),
    "a process for each item": Case("process-per-item", MANY + """
import subprocess
for path in paths[:30]: Path(path).write_text('[1]')
""", """
        for path in paths[:30]: subprocess.run(['gzip', path], check=True)
        """, """
        subprocess.run(['gzip', *paths[:30]], check=True)
        """),
    "an item of HDF5": Case("hdf5-item-per-call", H5 + "with h5py.File('x.h5', 'w') as f: f['x'] = x", """
        with h5py.File('x.h5') as f:
            for n in range(2000): f['x'][n]
        """, """
        with h5py.File('x.h5') as f:
            for start in range(0, 2000, 1000):
                for item in f['x'][start : start + 1000]: pass
        """, ("h5py", "numpy")),
    "HDF5 opened for an item": Case("hdf5-reopen-per-item", H5 + "with h5py.File('x.h5', 'w') as f: f['x'] = x", """
        for n in range(60):
            with h5py.File('x.h5') as f: f['x'][n]
        """, """
        data = h5py.File('x.h5')['x']
        for n in range(60): data[n]
        """, ("h5py", "numpy")),
    "HDF5 in tiny chunks": Case("hdf5-tiny-chunks", H5, """
        with h5py.File('x.h5', 'w') as f: f.create_dataset('x', data=x, chunks=(1, 100))
        with h5py.File('x.h5') as f: f['x'][:]
        """, """
        with h5py.File('x.h5', 'w') as f: f.create_dataset('x', data=x, chunks=(2000, 100))
        with h5py.File('x.h5') as f: f['x'][:]
        """, ("h5py", "numpy")),
    "chunks unpacked again": Case("hdf5-chunks-again", H5 + """
with h5py.File('x.h5', 'w') as f:
    f.create_dataset('x', data=numpy.tile(x, (4, 8)), chunks=(8000, 100), compression='gzip')
""", """
        with h5py.File('x.h5') as f:
            for n in range(20): f['x'][n * 100]
        """, """
        with h5py.File('x.h5') as f:
            x = f['x'][:2000]
            for n in range(20): x[n * 100]
        """, ("h5py", "numpy")),
    "small row groups": Case("parquet-small-groups", "import pyarrow as pa, pyarrow.parquet as pq\n"
                             "parts = [pa.table({'n': list(range(100))}) for _ in range(100)]\n", """
        with pq.ParquetWriter('t.parquet', parts[0].schema) as writer:
            for part in parts: writer.write_table(part)
        pq.ParquetFile('t.parquet').read()
        """, """
        pq.write_table(pa.concat_tables(parts), 't.parquet', row_group_size=1 << 20)
        pq.ParquetFile('t.parquet').read()
        """, ("pyarrow",)),
}  # fmt: skip


#: Which share of a call's time is parsing, or unpacking, is no question of counts; nor is which share of all calls'
#: time metadata are, which sums up what other rules name.
NEVER = {slug: {"share": 2.0} for slug in ("decompression-bound", "format-bound", "parse-bound", "metadata-share")}


@pytest.mark.parametrize("name", CASES)
def test_the_next_run_has_nothing_against_it(program: Runner, name: str) -> None:
    case = CASES[name]
    if missing := [one for one in case.needs if importlib.util.find_spec(one) is None]:
        pytest.skip(f"without {', '.join(missing)}")
    make = textwrap.dedent(case.make).strip() + "\n"
    first = 1 + make.count("\n")
    # GIVEN a program with an ill WHEN findings are made THEN the ill is found at one of its lines
    found = findings_of(program.traced(make + textwrap.dedent(case.ill).strip()), without_times(NEVER))
    (finding, *_) = [one for one in found if one.slug == case.slug]
    assert finding.remedy is not None and any(site.line >= first for site in finding.sites), finding
    # AND where the advice has been followed, it is not found again, and nothing is that was not found before
    (program.folder / "cured").mkdir()
    path = program.write(make + textwrap.dedent(case.cured).strip(), "cured/program.py")
    command = [sys.executable, "-P", "-m", "pyio_trace", "-q", "-o", program.folder / "cured.pyio", path.name]
    outcome = program.command(command, log="cured.pyio", cwd=path.parent)
    left = [one for one in findings_of(outcome, without_times(NEVER)) if one.slug not in BY_TIMES]
    assert not [one for one in left if one.slug == case.slug]
    known = {one.slug for one in found}
    assert not [one for one in left if one.slug not in known and any(site.line >= first for site in one.sites)]

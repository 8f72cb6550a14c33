"""Small data for the code of each remedy with code: what is made before it runs, and what is looked at afterwards."""

from __future__ import annotations

from dataclasses import dataclass

from pyio_trace.insights.words import mechanisms as m


@dataclass(frozen=True)
class Setup:
    """make: run before, in the same names; act: run after it, as a part of it; result: what it has made, by use().

    less: what the remedy makes less: "read" (bytes), "reads", "writes", "opens" (system calls), "calls" (of the layers
    app and hdf5), "back" (reads that begin before the one before); "": as LESS has it; why: nothing is counted, since.
    """

    make: str
    act: str = ""
    result: str = ""
    less: str = ""
    why: str = ""


#: What each mechanism's remedies make less, where a setup does not say otherwise.
LESS = {
    m.READ_AGAIN: "read", m.STEPPED_BACK: "read", m.READ_BY_EACH: "read", m.OPENED_TO_READ: "opens",
    m.OPENED_TO_ADD: "opens", m.FILES_READ: "opens", m.FILES_WRITTEN: "opens", m.SMALL_READS: "reads",
    m.SMALL_WRITES: "writes", m.SMALL_PIECES: "writes", m.TINY_READS: "calls", m.TINY_WRITES: "calls",
    m.GROWN: "read", m.CHANGED_IN_PLACE: "reads", m.SHARED: "writes", m.RANDOM_READS: "back",
    m.DESCRIBED_AGAIN: "read",
}  # fmt: skip

LINES = "path = 'x.txt'\nwith open(path, 'w') as f: f.writelines(f'line {n}\\n' for n in range(5000))\n"
ITEMS = "import json, pickle, zipfile\nfrom pathlib import Path\n"
PATHS = ITEMS + "paths = [f'{n}.bin' for n in range(30)]\n"
FUNCTION = "for _ in range(4): use(read(path))"
OS = (
    "import functools, mmap, os\npath = 'x'\nopen(path, 'wb').write(bytes(range(250)) * 40)\n"
    "fd = os.open(path, os.O_RDWR)\n"
)
GROWING = "for n in range(5):\n    with open(path, '{}') as f: f.write({})\n    use(new_lines())"
KEYS = "keys = ['1', '22', '333']\n"
PLACES = "path = 'x'\nopen(path, 'wb').write(bytes(range(250)) * 2000)\n"
_ITEM = "import collections\nItem = collections.namedtuple('Item', 'at size')\n"
_WRITTEN = "use(open(path, 'rb').read())"


def plain() -> dict[tuple[str, str], Setup]:
    """File objects, json, pickle."""
    found = {
        (m.READ_AGAIN, "json"): Setup("import functools, json\npath = 'x'\nopen(path, 'w').write('[1, 2]')", FUNCTION),
        (m.READ_AGAIN, "json/lines"): Setup(
            "import functools, json\npath = 'x'\nopen(path, 'w').write('[1]\\n[2]\\n')", FUNCTION
        ),
        (m.READ_AGAIN, "pickle"): Setup(
            "import functools, pickle\npath = 'x'\nopen(path, 'wb').write(pickle.dumps([1]))", FUNCTION
        ),
        (m.STEPPED_BACK, "os"): Setup(OS + "places = [0, 64, 128, 64] * 5"),
        (m.READ_AGAIN, "os"): Setup(OS, FUNCTION),
        (m.SMALL_READS, "os"): Setup(OS),
        (m.SMALL_WRITES, "os"): Setup(OS + "items = [b'ab'] * 40", result=_WRITTEN),
        (m.OPENED_TO_READ, "os"): Setup(OS + "places = [0, 64, 128, 64] * 5"),
        (m.OPENED_TO_ADD, "os"): Setup(OS + "items = [b'ab'] * 40", result=_WRITTEN),
        (m.STEPPED_BACK, "text"): Setup(LINES + KEYS),
        (m.GROWN, "text"): Setup(LINES + "seen = place = 0", GROWING.format("a", "'x\\n'")),
        (m.GROWN, "buffered"): Setup(LINES + "seen = place = 0", GROWING.format("ab", "b'x\\n'")),
        (m.FETCHED_MORE, "buffered"): Setup(PLACES + "places = [400_000, 5, 300_000, 900]", less="read"),
        (m.STEPPED_BACK, "buffered"): Setup(LINES + "keys = [b'1', b'22']"),
        (m.OPENED_TO_READ, "text"): Setup(LINES + "numbers = range(20)"),
        (m.OPENED_TO_ADD, "logging"): Setup(
            "import logging.handlers\npath = 'x'",
            "log = logging.Logger('x'); log.addHandler(handler)\nfor n in range(400): log.error('record %d', n)",
            "use(open(path).read()[-20:])",
        ),
        (m.OPENED_TO_ADD, "logging/handlers"): Setup(
            "import logging\npath, items = 'x', range(20)", result="use(open(path).read()[-3:])"
        ),
        (m.OPENED_TO_ADD, "text"): Setup("path = 'x'\nitems = ['a', 'b'] * 10", result=_WRITTEN),
        (m.FILES_READ, "json"): Setup(
            PATHS + "for n, path in enumerate(paths): Path(path).write_text(json.dumps([n, 2]))\n"
            "Path('items.jsonl').write_text(''.join(f'[{n}, 2]\\n' for n in range(30)))"
        ),
        (m.FILES_READ, "pickle"): Setup(
            PATHS + "for n, path in enumerate(paths): Path(path).write_bytes(pickle.dumps(n))\n"
            "Path('items.pickle').write_bytes(pickle.dumps(list(range(30))))"
        ),
        (m.FILES_WRITTEN, "json"): Setup(ITEMS + "items = [(f'{n}.json', n) for n in range(30)]"),
        (m.FILES_WRITTEN, "pickle"): Setup(ITEMS + "items = [(f'{n}.pickle', n) for n in range(30)]"),
        (m.LONG_CLOSE, "buffered"): Setup(
            "from concurrent.futures import ThreadPoolExecutor\nfrom pathlib import Path\n"
            "executor, path, data = ThreadPoolExecutor(1), 'x', b'x'",
            result=_WRITTEN,
            why="the same, meanwhile",
        ),
        (m.SMALL_WRITES, "text"): Setup("path = 'x'\nitems = ['item\\n'] * 20000", result=_WRITTEN),
        (m.SMALL_READS, "text"): Setup("path = 'x'\nopen(path, 'w').writelines(f'{n}\\n' for n in range(50000))"),
        (m.TINY_READS, "text"): Setup(LINES + "f = open(path)"),
        (m.TINY_WRITES, "text"): Setup(
            "path = 'x'\nf = open(path, 'w')\nparts = ['a', 'b'] * 3000", result="f.close(); " + _WRITTEN
        ),
    }
    for mode in ("text", "buffered", "raw"):
        found[m.READ_AGAIN, mode] = Setup("import functools\n" + LINES, FUNCTION)
        found[m.FILES_READ, mode] = Setup(
            PATHS + "archive = zipfile.ZipFile('items.zip', 'w')\nfor n, path in enumerate(paths):\n"
            "    Path(path).write_bytes(bytes([n])); archive.write(path)\narchive.close()"
        )
        found[m.FILES_WRITTEN, mode] = Setup(ITEMS + "items = [(f'{n}.bin', bytes([n])) for n in range(30)]")
    for mode in ("buffered", "raw"):
        found[m.OPENED_TO_READ, mode] = Setup(PLACES + _ITEM + "items = [Item(n * 1000, 9) for n in range(30)]")
        found[m.OPENED_TO_ADD, mode] = Setup("path = 'x'\nitems = [b'a', b'b'] * 10", result=_WRITTEN)
        found[m.SMALL_READS, mode] = Setup(PLACES)
        found[m.SMALL_WRITES, mode] = Setup("path = 'x'\nitems = [b'item'] * 20000", result=_WRITTEN)
        found[m.RANDOM_READS, mode] = Setup(
            f"import random\nrandom.seed(1)\n{PLACES}f, size, count = open(path, 'rb'), 100, 5000"
        )
        found[m.CHANGED_IN_PLACE, mode] = Setup(
            f"import mmap\n{PLACES}f, changed = open(path, 'r+b'), range(0, 3000, 3)", result="f.close(); " + _WRITTEN
        )
        found[m.SHARED, mode] = Setup(
            "open('out', 'wb').close()\nrecords, rank, ranks = [b'x' * 100] * 30, 0, 1",
            result="import glob; use(b''.join(open(one, 'rb').read() for one in glob.glob('out*')))",
        )
        found[m.TINY_READS, mode] = Setup(
            f"import struct\n{PLACES}f = open(path, 'rb'{', buffering=0' * (mode == 'raw')})"
        )
        found[m.TINY_WRITES, mode] = Setup(
            f"path = 'x'\nf = open(path, 'wb'{', buffering=0' * (mode == 'raw')})\nparts = [b'a', b'b'] * 3000",
            result="f.close(); " + _WRITTEN,
        )
    return found


def archives() -> dict[tuple[str, str], Setup]:
    """Compressed streams and archives."""
    members = "import random\nnames = random.Random(3).sample([f'{n}.bin' for n in range(60)], 20)\n"
    tar = (
        "import io, random, tarfile\nwith tarfile.open('x.tar.gz', 'w:gz') as archive:\n    for n in range(60):\n"
        "        info = tarfile.TarInfo(f'{n}.bin'); info.size = 20000\n"
        "        archive.addfile(info, io.BytesIO(random.Random(n).randbytes(20000)))\npath = 'x.tar.gz'\n" + members
    )
    pack = (
        "import zipfile\npath = 'x.zip'\nwith zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as archive:\n"
        "    for n in range(60): archive.writestr(f'{n}.bin', bytes([n]) * 2000)\n"
    )
    add = "items = [(f'{n}.bin', bytes([n])) for n in range(30)]\n"
    npz = "import numpy\npath = 'x.npz'\nrows = range(9)\n"
    npz += "numpy.savez_compressed(path, x=numpy.arange(40000).reshape(100, 400))\n"
    found = {
        (m.READ_AGAIN, "tarfile"): Setup(tar),
        (m.STEPPED_BACK, "tarfile"): Setup(tar),
        (m.READ_AGAIN, "zipfile"): Setup(pack + members),
        (m.STEPPED_BACK, "zipfile"): Setup(
            "import random, zipfile\nwith zipfile.ZipFile('x.zip', 'w', 8) as one:\n"
            "    one.writestr('a', random.Random(1).randbytes(100000))\n"
            "archive, name, places = zipfile.ZipFile('x.zip'), 'a', [90000, 5, 80000, 7, 70000]"
        ),
        (m.OPENED_TO_ADD, "zipfile"): Setup(
            "import zipfile\npath = 'x.zip'\n" + add, result="use(sorted(zipfile.ZipFile(path).namelist()))"
        ),
        (m.OPENED_TO_ADD, "tarfile"): Setup(
            "import tarfile\npath = 'x.tar'\n" + add + "for name, data in items: open(name, 'wb').write(data)",
            result="use(sorted(tarfile.open(path).getnames()))",
        ),
        (m.READ_AGAIN, "npz"): Setup(npz),
        (m.STEPPED_BACK, "npz"): Setup(npz),
        (m.UNPACKING, "npz"): Setup(
            "import numpy as np\npath, x = 'x.npz', np.zeros(100000)",
            result="use(np.load(path)['x'])",
            why="time, not I/O: what is unpacked",
        ),
        (m.PACKING, "gzip"): Setup(
            "import gzip\npath = 'x.gz'", "f.write('line\\n' * 100); f.close()",
            "use(gzip.open(path, 'rt').read())", why="time, not I/O: what is packed",
        ),
    }  # fmt: skip
    for name in ("gzip", "bz2", "lzma"):
        text = f"import {name}, random\npath = 'x'\nwith {name}.open(path, 'wb') as f:\n"
        text += "    f.write(random.Random(1).randbytes(400000))\n"
        lines = f"import {name}\npath = 'x'\nwith {name}.open(path, 'wt') as f:\n"
        lines += "    f.writelines(f'{n}\\n' for n in range(4000))\n"
        found[m.READ_AGAIN, name] = Setup(lines + KEYS)
        found[m.STEPPED_BACK, name] = Setup(text + "places = [390000, 7, 300000, 5, 200000]")
        found[m.OPENED_TO_ADD, name] = Setup(
            f"import {name}\npath, items = 'x', ['a', 'b'] * 10", result=f"use({name}.open(path).read())"
        )
    return found


def arrays() -> dict[tuple[str, str], Setup]:
    """numpy, HDF5, xarray, zarr."""
    data = "import numpy\ndata = numpy.arange(160000.0).reshape(2000, 80)\ncount = 20\n"
    h5 = (
        data + "import h5py\npath = 'x.h5'\n"
        "with h5py.File(path, 'w') as f: f.create_dataset('x', data=data, chunks=(500, 8))\n"
    )
    nc = data + (
        "import netCDF4\npath = 'x.nc'\nwith netCDF4.Dataset(path, 'w') as f:\n"
        "    f.createDimension('n', 2000); f.createDimension('m', 80)\n"
        "    f.createVariable('x', 'f8', ('n', 'm'))[:] = data\n"
    )
    xr = data + "import xarray\npath = 'x.nc'\nxarray.Dataset({'x': (('n', 'm'), data)}).to_netcdf(path)\n"
    zr = "import numpy, zarr\ndata, rows = numpy.arange(4800.0).reshape(60, 80), 60\n"
    zr += "array = zarr.create_array('a.zarr', shape=(60, 80), chunks=(20, 80), dtype='f8')\n"
    group = "import zarr\npath, names = 'g.zarr', 'abc'\ngroup = zarr.open_group(path, mode='w')\n"
    group += "for name in names: group.create_array(name, shape=(4,), chunks=(4,), dtype='f8')[:] = 1"
    rows = "rows = range(5)\npath = 'x.npy'\nnumpy.save(path, data)\n"
    items = "items = [numpy.full(8, n, 'f8') for n in range(1200)]\npath = 'w.h5'\n"
    empty = "items = [numpy.full(8, n, 'f8') for n in range(30)]\n"
    stepped = (
        "import netCDF4\nfile = netCDF4.Dataset('w.nc', 'w')\n"
        "file.createDimension('n', None)\nfile.createDimension('m', 80)\n"
        "variable, steps = file.createVariable('x', 'f8', ('n', 'm'), chunksizes=(50, 80)), list(data[:200])\n"
    )
    pieces = data + "data = data[:40, 0].copy()\n"
    return {
        (m.READ_AGAIN, "numpy"): Setup(
            data + "path = 'x.npy'\nnumpy.save(path, data)", "for n in range(4): use(item(n))"
        ),
        (m.READ_BY_EACH, "numpy"): Setup(
            data + rows + "rank, ranks = 1, 4", "use(data)"
        ),
        (m.OPENED_TO_READ, "numpy"): Setup(data + rows),
        (m.FILES_READ, "numpy"): Setup(
            data + "for n in range(count): numpy.save(f'item{n}.npy', data[n])\nnumpy.save('items.npy', data[:count])"
        ),
        (m.FILES_WRITTEN, "numpy"): Setup(data + empty),
        (m.READ_AGAIN, "h5py"): Setup(h5 + "f, count = h5py.File(path, rdcc_nbytes=0), 80", less="reads"),
        (m.READ_AGAIN, "netCDF4"): Setup(nc + "dataset = netCDF4.Dataset(path)"),
        (m.READ_AGAIN, "tables"): Setup(
            data + "import tables\nwith tables.open_file('x.h5', 'w') as file: file.create_array('/', 'x', data)\n"
            "file, count = tables.open_file('x.h5'), 40", "file.close()"
        ),
        (m.OPENED_TO_READ, "h5py"): Setup(h5),
        (m.OPENED_TO_READ, "netCDF4"): Setup(nc),
        (m.OPENED_TO_ADD, "h5py"): Setup(h5 + "rows = data[:9] + 1", result="use(h5py.File(path)['x'][:9])"),
        (m.FILES_READ, "h5py"): Setup(
            data + "import h5py\nfor n in range(count):\n"
            "    with h5py.File(f'item{n}.h5', 'w') as f: f['x'] = data[n]\n"
            "with h5py.File('items.h5', 'w') as f: f['x'] = data[:count]"
        ),
        (m.FILES_WRITTEN, "h5py"): Setup(data + "import h5py\n" + empty),
        (m.SMALL_READS, "h5py"): Setup(
            data + "import h5py\nwith h5py.File('x.h5', 'w') as f: f['x'] = data\n"
            "dataset, count = h5py.File('x.h5')['x'], 2000"
        ),
        (m.SMALL_READS, "netCDF4"): Setup(nc + "variable = netCDF4.Dataset(path)['x']\ncount = 2000"),
        (m.SMALL_WRITES, "h5py"): Setup(
            data + "import h5py\n" + items, "f.close()", "use(h5py.File(path)['x'][:])"
        ),
        (m.SMALL_WRITES, "netCDF4"): Setup(
            data + stepped, "file.close()", "use(netCDF4.Dataset('w.nc')['x'][:].data)", less="calls"
        ),
        (m.CHANGED_IN_PLACE, "numpy"): Setup(
            data + "path = 'x'\ndata.tofile(path)\nf, changed = open(path, 'r+b'), list(range(0, 900, 3))",
            result="f.close(); use(numpy.fromfile(path))",
        ),
        (m.RANDOM_READS, "h5py"): Setup(
            data + "import h5py\nf, names = h5py.File('w.h5', 'w'), ['a', 'c', 'b']\n"
            "for n, name in enumerate(names): f[f'{name}/x'] = data[n]\nf['x'] = data[:3]\nf.close()\n"
            "f = h5py.File('w.h5')", less="calls",
        ),
        (m.RANDOM_READS, "netCDF4"): Setup(
            nc + "import random\nrandom.seed(1)\nvariable = netCDF4.Dataset(path)['x']\ncount = 2000"
        ),
        (m.CHANGED_IN_PLACE, "h5py"): Setup(
            h5.replace("(500, 8)", "(100, 80), compression='gzip'")
            + "rows = data[:200] + 1\nf = h5py.File(path, 'r+', rdcc_nbytes=0)\ndataset = f['x']", "f.close()",
            "use(h5py.File(path)['x'][:])",
        ),
        (m.CHANGED_IN_PLACE, "netCDF4"): Setup(
            data + stepped + "rows = data", "file.close()", "use(netCDF4.Dataset('w.nc')['x'][:].data)", less="calls"
        ),
        (m.FLUSHED, "h5py"): Setup(
            data + "import h5py\npath, items = 'w.h5', list(data[:300])\ndef write(f, item): f[str(len(f))] = item",
            "f.close()", "use(len(h5py.File(path)))", less="writes",
        ),
        (m.FLUSHED, "netCDF4"): Setup(
            data + stepped, "file.close()", "use(netCDF4.Dataset('w.nc')['x'][:].data)", less="writes"
        ),
        (m.FLUSHED, "tables"): Setup(
            "import tables\nfile, count = tables.open_file('w.h5', 'w'), 3000\n"
            "table = file.create_table('/', 'x', {'n': tables.Int64Col()})",
            "file.close()", "with tables.open_file('w.h5') as file: use(file.root.x[:]['n'])", less="writes",
        ),
        (m.OPENED_TO_ADD, "pandas/h5py"): Setup(
            "import pandas, tables\npath, frames = 'w.h5', [pandas.DataFrame({'a': [n]}) for n in range(8)]",
            result="use(pandas.read_hdf(path, 'x').a.values)",
        ),
        (m.LOADED_WHOLE, "scipy"): Setup(
            "import numpy\nfrom scipy.io import wavfile\npath, rows = 'x.wav', range(5)\n"
            "wavfile.write(path, 8000, numpy.arange(20000, dtype='i2'))", less="read",
        ),
        (m.READ_AGAIN, "blosc2"): Setup(
            "import blosc2, numpy\npath, rows = 'x.b2nd', range(9)\n"
            "blosc2.asarray(numpy.arange(8000.0).reshape(100, 80), urlpath=path)"
        ),
        (m.PACKING, "h5py"): Setup(
            data + "import h5py\nf, name, x = h5py.File('w.h5', 'w'), 'x', data", "f.close()",
            "use(h5py.File('w.h5')['x'][:])", why="time, not I/O: what is packed",
        ),
        (m.UNALIGNED, "h5py"): Setup(
            data + "import h5py\npath = 'w.h5'",
            "x = f.create_dataset('x', data=data); at = x.id.get_offset(); f.close()",
            "use(h5py.File(path)['x'][:])", why="where in the file the data begin, which is no sum",
        ),
        (m.UNALIGNED, "netCDF4"): Setup(
            data + "import netCDF4\npath = 'w.nc'", "f.createDimension('n', 9); f.close()",
            "use(list(netCDF4.Dataset(path).dimensions))", why="where in the file the data begin, which is no sum",
        ),
        (m.LONG_CLOSE, "h5py"): Setup(
            data + "import h5py\nfrom concurrent.futures import ThreadPoolExecutor\n"
            "executor, path = ThreadPoolExecutor(1), 'w.h5'", result="use(h5py.File(path)['x'][:])",
            why="the same, meanwhile",
        ),
        (m.SMALL_PIECES, "h5py"): Setup(
            pieces + "import h5py\nf = h5py.File('w.h5', 'w')\ndata = numpy.arange(20000.0)",
            "f.close()", "use(h5py.File('w.h5')['x'][:])",
        ),
        (m.SMALL_PIECES, "netCDF4"): Setup(
            pieces + "import netCDF4\nfile = netCDF4.Dataset('w.nc', 'w')\nfile.createDimension('time', None)",
            "file.close()", "use(netCDF4.Dataset('w.nc')['x'][:].data)",
        ),
        (m.UNPACKING, "h5py"): Setup(
            data + "import h5py\nf, name, x = h5py.File('w.h5', 'w'), 'x', data", "f.close()",
            "use(h5py.File('w.h5')['x'][:])", why="time, not I/O: what is unpacked",
        ),
        (m.READ_AGAIN, "xarray"): Setup(xr),
        (m.OPENED_TO_READ, "xarray"): Setup(xr),
        (m.SMALL_READS, "xarray"): Setup(xr + "data = xarray.open_dataset(path)\ncount = 2000"),
        (m.SMALL_PIECES, "xarray"): Setup(
            "import numpy, xarray\npath = 'w.nc'\ndata = xarray.Dataset({'x': ('time', numpy.arange(20000.0))})",
            result="use(xarray.open_dataset(path).x.values)",
        ),
        (m.DESCRIBED_AGAIN, "zarr"): Setup(group),
        (m.DESCRIBED_AGAIN, "xarray"): Setup(
            "import xarray\npath, names = 'x.zarr', 'abc'\n"
            "xarray.Dataset({name: ('x', [1.0, 2.0]) for name in names}).to_zarr(path, consolidated=False)"
        ),
        (m.READ_AGAIN, "zarr"): Setup(zr + "array[:] = data\ncount = 80"),
        (m.OPENED_TO_READ, "zarr"): Setup(zr + "array[:] = data"),
        (m.OPENED_TO_ADD, "zarr"): Setup(zr + "rows = data", result="use(array[:])"),
        (m.FILES_WRITTEN, "zarr"): Setup(zr + "rows = data", result="use(array[:])"),
        (m.FILES_READ, "zarr"): Setup(
            data + "import zarr\nrows, data = 100, data[:100, :8]", result="use(array[:])"
        ),
    }  # fmt: skip


def tables() -> dict[tuple[str, str], Setup]:
    """pandas, pyarrow, polars, DuckDB, Dask."""
    frame = (
        "import numpy as np, pandas as pd\nframe = pd.DataFrame({'day': np.arange(9000) % 3, 'x': np.arange(9000.0)})\n"
        "days = range(3)\n"
    )
    parquet = frame + "path = 'x.parquet'\nframe.to_parquet(path)\n"
    csv = frame + "path = 'x.csv'\nframe.to_csv(path, index=False)\n"
    arrow = parquet + "import pyarrow as pa, pyarrow.compute as pc, pyarrow.parquet as pq\n"
    parts = "parts = [frame[n : n + 10] for n in range(0, 300, 10)]\n"
    arrow_parts = arrow + "parts = [pq.read_table(path).slice(n, 10) for n in range(0, 300, 10)]\n"
    return {
        (m.READ_AGAIN, "pandas/parquet"): Setup(parquet),
        (m.READ_AGAIN, "pandas/csv"): Setup(csv),
        (m.READ_AGAIN, "pyarrow"): Setup(arrow),
        (m.READ_AGAIN, "pyarrow/dataset"): Setup(arrow + "import pyarrow.dataset as ds"),
        (m.READ_AGAIN, "polars"): Setup(csv + "import polars as pl", less="opens"),
        (m.READ_AGAIN, "duckdb"): Setup(parquet + "import duckdb\ndb = duckdb.connect()"),
        (m.READ_AGAIN, "dask"): Setup(
            csv + "import dask, dask.dataframe\ndask.config.set(scheduler='sync')\n"
            "frame = dask.dataframe.read_csv(path)", "use([float(mean), float(most)])",
        ),
        (m.READ_BY_EACH, "pandas/csv"): Setup(csv + "from multiprocessing.dummy import Pool"),
        (m.OPENED_TO_ADD, "pandas/csv"): Setup(frame + parts + "path = 'w.csv'", result=_WRITTEN),
        (m.FILES_WRITTEN, "pandas/parquet"): Setup(frame + parts),
        (m.FILES_WRITTEN, "pyarrow"): Setup(arrow_parts),
        (m.FILES_WRITTEN, "dask/parquet"): Setup(
            frame + "import dask.dataframe\ndask.config.set(scheduler='sync')\n"
            "frame = dask.dataframe.from_pandas(frame, npartitions=30)"
        ),
        (m.FILES_READ, "pandas/parquet"): Setup(
            frame + "count = 9\nframe['part'] = np.arange(9000) // 1000\nframe.to_parquet('all.parquet')\n"
            "for n, part in frame.groupby('part'): part.to_parquet(f'{n}.parquet')"
        ),
        (m.SMALL_READS, "pyarrow"): Setup(
            arrow + "table = pa.table({'x': range(50000)})", "use(pq.read_table(path, pre_buffer=False))"
        ),
        (m.SMALL_WRITES, "pyarrow"): Setup(
            arrow_parts + "writer = pq.ParquetWriter('w.parquet', parts[0].schema)", "writer.close()",
            "use(pq.read_table('w.parquet'))",
        ),
    }  # fmt: skip


def formats() -> dict[tuple[str, str], Setup]:
    """What each library loads as a whole."""
    data = "import numpy\ndata = numpy.arange(60000, dtype='f4').reshape(100, 600)\npath, rows = 'x.EXT', range(4)\n"
    score = "import functools, joblib\ndef score(n): return n * n % 97\nnumbers = range(12)\n"
    one_each = "import torch\ncount = 20\nitems = [torch.full((9,), n) for n in range(count)]\n"
    return {
        (m.READ_AGAIN, "astropy"): Setup(
            data.replace("EXT", "fits") + "from astropy.io import fits\nfits.writeto(path, data)"
        ),
        (m.READ_AGAIN, "nibabel"): Setup(
            data.replace("EXT", "nii.gz")
            + "import nibabel\nnibabel.save(nibabel.Nifti1Image(data, numpy.eye(4)), path)"
        ),
        (m.READ_AGAIN, "tifffile"): Setup(data.replace("EXT", "tif") + "import tifffile\ntifffile.imwrite(path, data)"),
        (m.READ_AGAIN, "pydicom"): Setup(
            data.replace("EXT", "dcm") + "import pydicom\nfrom pydicom.dataset import FileMetaDataset\n"
            "one = pydicom.Dataset()\none.file_meta = FileMetaDataset()\n"
            "one.SOPClassUID, one.SOPInstanceUID = '1.2.840.10008.5.1.4.1.1.7', '1.2.3'\n"
            "one.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian\n"
            "one.Rows, one.Columns, one.BitsAllocated, one.BitsStored, one.HighBit = 100, 600, 16, 16, 15\n"
            "one.SamplesPerPixel, one.PixelRepresentation = 1, 0\none.PhotometricInterpretation = 'MONOCHROME2'\n"
            "one.PixelData = data.astype('u2').tobytes()\none.save_as(path, enforce_file_format=True)"
        ),
        (m.READ_AGAIN, "joblib"): Setup(data.replace("EXT", "joblib") + "import joblib\njoblib.dump(data, path)"),
        (m.READ_AGAIN, "torch"): Setup(
            data.replace("EXT", "pt") + "import torch\ntorch.save(torch.from_numpy(data), path)"
        ),
        (m.READ_AGAIN, "PIL"): Setup(
            "from PIL import Image\npath, boxes = 'x.png', [(0, 0, n, n) for n in (9, 8, 7)]\n"
            "import random\nImage.frombytes('L', (300, 300), random.Random(1).randbytes(90000)).save(path)"
        ),
        (m.READ_AGAIN, "anndata"): Setup(
            data.replace("EXT", "h5ad") + "import anndata\nanndata.AnnData(data).write_h5ad(path)", less="calls"
        ),
        (m.FILES_READ, "torch"): Setup(
            one_each + "for n in range(count): torch.save(items[n], f'item{n}.pt')\n"
            "torch.save(torch.stack(items), 'items.pt')"
        ),
        (m.FILES_WRITTEN, "torch"): Setup(one_each),
        (m.READ_AGAIN, "rasterio"): Setup(
            data.replace("EXT", "tif") + "import rasterio\nwith rasterio.open(path, 'w', driver='GTiff', width=600, "
            "height=100, count=1, dtype='float32', compress='deflate') as d: d.write(data, 1)"
        ),
        (m.READ_AGAIN, "lmdb"): Setup(
            "import lmdb\npath, keys = 'db', [b'%d' % n for n in range(9)]\nwith lmdb.open(path) as env:\n"
            "    with env.begin(write=True) as txn:\n        for key in keys: txn.put(key, key)"
        ),
        (m.READ_AGAIN, "uproot"): Setup(
            data.replace("EXT", "root") + "import uproot\nwith uproot.recreate(path) as f: f['t'] = {'x': data[0]}"
        ),
        (m.FILES_READ, "joblib"): Setup(score),
        (m.FILES_WRITTEN, "joblib"): Setup(score + "memory = joblib.Memory('cache', verbose=0)"),
    }


def texts() -> dict[tuple[str, str], Setup]:
    """Texts that modules of Python take apart."""
    keys = "keys = ['a', 'b'] * 4\npath = 'x'\n"
    return {
        (m.READ_AGAIN, "xml"): Setup(
            keys + "from xml.etree import ElementTree\nopen(path, 'w').write('<r><a>1</a><b>2</b></r>')"
        ),
        (m.READ_AGAIN, "yaml"): Setup(keys + "import yaml\nopen(path, 'w').write('a: 1\\nb: 2\\n')"),
        (m.READ_AGAIN, "tomllib"): Setup(keys + "import tomllib\nopen(path, 'w').write('a = 1\\nb = 2\\n')"),
        (m.READ_AGAIN, "configparser"): Setup(
            keys + "import configparser\nopen(path, 'w').write('[a]\\na = 1\\nb = 2\\n')"
        ),
        (m.READ_AGAIN, "openpyxl"): Setup(
            keys.replace("'x'", "'x.xlsx'") + "import openpyxl\nbook = openpyxl.Workbook()\n"
            "for n, key in enumerate('ab'): book.create_sheet(key)['A1'] = n\nbook.save(path)"
        ),
        (m.READ_AGAIN, "csv"): Setup(keys + "import csv\nopen(path, 'w').write('k,x\\na,1\\nb,2\\n')"),
    }


SETUPS = {**texts(), **plain(), **archives(), **arrays(), **tables(), **formats()}

"""Arrays: numpy, HDF5 (h5py, netCDF4, PyTables), xarray, zarr; parallel jobs by MPI."""

from __future__ import annotations

from pyio_trace.insights.finding import Remedy
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.insights.words.mechanisms import Words

_KEEP = "Read it once, and keep it."
_WHOLE = "Write whole chunks in one call: for a part of a chunk, the rest is read, and all of it packed again."
_ROWS = "for n, row in enumerate(rows):\n    array[n] = row"
_BY_CHUNKS = "step = array.chunks[0]\nfor n in range(0, len(rows), step):\n    array[n : n + step] = rows[n : n + step]"
_ZARR_WRITE = Remedy(_WHOLE, _ROWS, _BY_CHUNKS, "zarr")

_HDF5: Words = {
    (m.READ_AGAIN, "h5py"): Remedy(
        _KEEP,
        "for n in range(count):\n    use(f['x'][:, n])",
        "data = f['x'][:]\nfor n in range(count):\n    use(data[:, n])",
        "h5py",
    ),
    (m.READ_AGAIN, "netCDF4"): Remedy(
        _KEEP,
        "for n in range(count):\n    use(dataset['x'][:, n])",
        "data = dataset['x'][:]\nfor n in range(count):\n    use(data[:, n])",
        "netCDF4",
    ),
    (m.READ_AGAIN, "tables"): Remedy(
        _KEEP,
        "for n in range(count):\n    use(file.root.x[:, n])",
        "data = file.root.x[:]\nfor n in range(count):\n    use(data[:, n])",
        "tables",
    ),
    (m.OPENED_TO_READ, "h5py"): Remedy(
        "Open the file once, and keep it open.",
        "for n in range(count):\n    with h5py.File(path) as f:\n        use(f['x'][n])",
        "with h5py.File(path) as f:\n    for n in range(count):\n        use(f['x'][n])",
        "h5py",
    ),
    (m.OPENED_TO_READ, "netCDF4"): Remedy(
        "Open the file once, and keep it open.",
        "for n in range(count):\n    with netCDF4.Dataset(path) as f:\n        use(f['x'][n])",
        "with netCDF4.Dataset(path) as f:\n    for n in range(count):\n        use(f['x'][n])",
        "netCDF4",
    ),
    (m.OPENED_TO_ADD, "h5py"): Remedy(
        "Open the file once, and keep it open; flush() makes what is written visible.",
        "for n, row in enumerate(rows):\n    with h5py.File(path, 'a') as f:\n        f['x'][n] = row",
        "with h5py.File(path, 'a') as f:\n    for n, row in enumerate(rows):\n        f['x'][n] = row",
        "h5py",
    ),
    (m.FILES_READ, "h5py"): Remedy(
        "Keep many items in one file, as one dataset.",
        "for n in range(count):\n    with h5py.File(f'item{n}.h5') as f: use(f['x'][:])",
        "with h5py.File('items.h5') as f:    # made once\n    for x in f['x'][:]: use(x)",
        "h5py",
    ),
    (m.FILES_WRITTEN, "h5py"): Remedy(
        "Keep many items in one file, as one dataset.",
        "for n, x in enumerate(items):\n    with h5py.File(f'item{n}.h5', 'w') as f: f['x'] = x",
        "with h5py.File('items.h5', 'w') as f:\n    f['x'] = numpy.stack(items)",
        "h5py",
    ),
    (m.SMALL_READS, "h5py"): Remedy(
        "Read a block of many items in one call, and take the items from it.",
        "for n in range(count):\n    use(dataset[n])",
        "for start in range(0, count, 1000):\n    for item in dataset[start : start + 1000]:\n        use(item)",
        "h5py",
    ),
    (m.SMALL_READS, "netCDF4"): Remedy(
        "Read a block of many items in one call, and take the items from it.",
        "for n in range(count):\n    use(variable[n])",
        "for item in variable[:]:\n    use(item)",
        "netCDF4",
    ),
    (m.SMALL_WRITES, "h5py"): Remedy(
        "Write a block of many items in one call. HDF5 gathers its metadata if the file has blocks for it.",
        "f = h5py.File(path, 'w')\nx = f.create_dataset('x', (len(items), 8), chunks=(16, 8))\n"
        "for n, item in enumerate(items):\n    x[n] = item",
        "f = h5py.File(path, 'w', libver='latest', meta_block_size=1 << 20)\n"
        "x = f.create_dataset('x', (len(items), 8), chunks=(1000, 8))\nx[:] = numpy.stack(items)",
        "h5py",
    ),
    (m.SMALL_WRITES, "netCDF4"): Remedy(
        "Write many steps in one call, in chunks of many.",
        "for n, step in enumerate(steps):\n    variable[n] = step",
        "variable[: len(steps)] = numpy.stack(steps)",
        "netCDF4",
    ),
    (m.RANDOM_READS, "h5py"): Remedy(
        "HDF5 jumps to find each object. Keep many items in one dataset, and read them in its order.",
        "for name in names:\n    use(f[name]['x'][:])",
        "for item in f['x'][:]:    # all items in one dataset\n    use(item)",
        "h5py",
    ),
    (m.RANDOM_READS, "netCDF4"): Remedy(
        "Read in the order of the dimensions, a block at a time.",
        "for n in random.sample(range(count), 20):\n    use(variable[n])",
        "for n in sorted(random.sample(range(count), 20)):\n    use(variable[n])",
        "netCDF4",
    ),
    (m.CHANGED_IN_PLACE, "h5py"): Remedy(
        "Write whole chunks: HDF5 then need not read what it changes.",
        "for n, row in enumerate(rows):\n    dataset[n] = row",
        _BY_CHUNKS.replace("array", "dataset"),
        "h5py",
    ),
    (m.CHANGED_IN_PLACE, "netCDF4"): Remedy(
        "Write whole chunks: HDF5 then need not read what it changes.",
        "for n, row in enumerate(rows):\n    variable[n] = row",
        _BY_CHUNKS.replace("array.chunks[0]", "variable.chunking()[0]").replace("array", "variable"),
        "netCDF4",
    ),
    (m.FLUSHED, "h5py"): Remedy(
        "Flush once in many items, or leave it to close(). Metadata in blocks of its own, and aligned data, keep what "
        "must be written small.",
        "f = h5py.File(path, 'w')\nfor item in items:\n    write(f, item)\n    f.flush()",
        "f = h5py.File(path, 'w', libver='latest', meta_block_size=1 << 20,\n"
        "              alignment_threshold=4096, alignment_interval=4096)\n"
        "for number, item in enumerate(items):\n    write(f, item)\n    if number % 100 == 99:\n        f.flush()",
        "h5py",
    ),
    (m.FLUSHED, "netCDF4"): Remedy(
        "Sync once in many items, or leave it to close().",
        "for n, step in enumerate(steps):\n    variable[n] = step\n    file.sync()",
        "for n, step in enumerate(steps):\n    variable[n] = step\n    if n % 100 == 99:\n        file.sync()",
        "netCDF4",
    ),
    (m.FLUSHED, "tables"): Remedy(
        "Flush once in many rows, or leave it to close(): a table gathers rows in a buffer, which each flush writes.",
        "row = table.row\nfor n in range(count):\n    row['n'] = n\n    row.append()\n    table.flush()",
        "row = table.row\nfor n in range(count):\n    row['n'] = n\n    row.append()\n    if n % 1000 == 999:\n"
        "        table.flush()",
        "tables",
    ),
    (m.OPENED_TO_ADD, "pandas/h5py"): Remedy(
        "Open the store once; or add many rows in one call: each looks up the table, and writes its index.",
        "for frame in frames:\n    frame.to_hdf(path, key='x', append=True)",
        "with pandas.HDFStore(path) as store:    # once\n    for frame in frames:\n        store.append('x', frame)",
        "pandas",
    ),
    (m.LOADED_WHOLE, "scipy"): Remedy(
        "Load it once and keep it, or map it, so that only what is used is read.",
        "for n in rows:\n    rate, data = wavfile.read(path)\n    use(data[n])",
        "rate, data = wavfile.read(path, mmap=True)    # once\nfor n in rows:\n    use(data[n])",
        "scipy",
    ),
    (m.READ_AGAIN, "blosc2"): Remedy(
        "Open it once. Each access unpacks the chunks that it touches: read many items in one call, or all of it.",
        "for n in rows:\n    use(blosc2.open(path, mode='r')[n])",
        "data = blosc2.open(path, mode='r')[:]    # once\nfor n in rows:\n    use(data[n])",
        "blosc2",
    ),
    (m.UNALIGNED, "h5py"): Remedy(
        "Let HDF5 begin large datasets and chunks at a multiple of the block.",
        "f = h5py.File(path, 'w')",
        "f = h5py.File(path, 'w', alignment_threshold=65536,\n              alignment_interval=4096)",
        "h5py",
    ),
    (m.UNALIGNED, "netCDF4"): Remedy(
        "Let HDF5 begin large variables and chunks at a multiple of the block.",
        "f = netCDF4.Dataset(path, 'w')",
        "netCDF4.set_alignment(65536, 4096)    # before files are created\nf = netCDF4.Dataset(path, 'w')",
        "netCDF4",
    ),
    (m.LONG_CLOSE, "h5py"): Remedy(
        "HDF5 writes at the close what its caches hold. Let a thread write and close, while the program goes on.",
        "with h5py.File(path, 'w') as f:\n    f['x'] = data",
        "def save(path, data):\n    with h5py.File(path, 'w') as f:\n        f['x'] = data\n"
        "pending = executor.submit(save, path, data)\n...\npending.result()    # before the file is needed",
        "h5py",
    ),
    (m.SMALL_PIECES, "h5py"): Remedy(
        "The dataset is stored in small chunks: make larger chunks, of 100 KiB and more (h5repack -l changes a file).",
        "f.create_dataset('x', data=data, chunks=(1,))",
        "f.create_dataset('x', data=data, chunks=(16384,))",
        "h5py",
    ),
    (m.SMALL_PIECES, "netCDF4"): Remedy(
        "The variable is stored in small chunks (an unlimited dimension gets chunks of 1): make larger chunks with "
        "chunksizes; nccopy -c time/16384 changes a file.",
        "x = file.createVariable('x', 'f8', ('time',), chunksizes=(1,))\nx[:] = data",
        "x = file.createVariable('x', 'f8', ('time',), chunksizes=(16384,))\nx[:] = data",
        "netCDF4",
    ),
}
_XARRAY: Words = {
    (m.READ_AGAIN, "xarray"): Remedy(
        "Load what is used again into memory, once.",
        "with xarray.open_dataset(path) as data:\n    for n in range(count):\n        use(data.x[:, n].values)",
        "with xarray.open_dataset(path) as data:\n    x = data.x.load()    # once\n"
        "    for n in range(count):\n        use(x[:, n].values)",
        "xarray",
    ),
    (m.OPENED_TO_READ, "xarray"): Remedy(
        "Open the file once, and keep it open.",
        "for n in range(count):\n    with xarray.open_dataset(path) as data:\n        use(data.x[n].values)",
        "with xarray.open_dataset(path) as data:\n    for n in range(count):\n        use(data.x[n].values)",
        "xarray",
    ),
    (m.SMALL_READS, "xarray"): Remedy(
        "Load what is used into memory at once, and take the items from it.",
        "for n in range(count):\n    use(data.x[n].values)",
        "x = data.x.load()\nfor n in range(count):\n    use(x[n].values)",
        "xarray",
    ),
    (m.SMALL_PIECES, "xarray"): Remedy(
        "A variable is stored in small chunks (an unlimited dimension gets chunks of 1): store it in larger chunks "
        "with chunksizes; nccopy -c time/16384 changes a file.",
        "data.to_netcdf(path, encoding={'x': {'chunksizes': (1,)}})",
        "data.to_netcdf(path, encoding={'x': {'chunksizes': (16384,)}})",
        "xarray",
    ),
}
_ZARR: Words = {
    (m.DESCRIBED_AGAIN, "zarr"): Remedy(
        "Open the group once, and keep it: each opening reads what describes its arrays.",
        "for name in names:\n    use(zarr.open_group(path, mode='r')[name][0])",
        "group = zarr.open_group(path, mode='r')    # once\nfor name in names:\n    use(group[name][0])",
        "zarr",
    ),
    (m.DESCRIBED_AGAIN, "xarray"): Remedy(
        "Open the dataset once, and keep it: each opening reads what describes all of its variables.",
        "for name in names:\n    use(float(xarray.open_zarr(path)[name][0]))",
        "data = xarray.open_zarr(path)    # once\nfor name in names:\n    use(float(data[name][0]))",
        "xarray",
    ),
    (m.READ_AGAIN, "zarr"): Remedy(
        "Each call reads and unpacks all of the chunks that it touches: read the array once, if it fits into memory; "
        "or take as much as a chunk has in each call.",
        "for n in range(count):\n    use(array[:, n])",
        "data = array[:]    # once\nfor n in range(count):\n    use(data[:, n])",
        "zarr",
    ),
    (m.OPENED_TO_READ, "zarr"): Remedy(
        "Read whole chunks in one call: each call reads and unpacks all of the chunks that it touches.",
        "for row in range(rows):\n    use(array[row])",
        "for start in range(0, rows, array.chunks[0]):\n    for row in array[start : start + array.chunks[0]]:\n"
        "        use(row)",
        "zarr",
    ),
    (m.OPENED_TO_ADD, "zarr"): _ZARR_WRITE,
    (m.FILES_WRITTEN, "zarr"): _ZARR_WRITE,
    (m.FILES_READ, "zarr"): Remedy(
        "Each chunk is a file: make larger chunks.",
        "array = zarr.create_array('x.zarr', data=data, chunks=(1, 8))",
        "array = zarr.create_array('x.zarr', data=data, chunks=(1000, 8))",
        "zarr",
    ),
}
_NUMPY: Words = {
    (m.READ_AGAIN, "numpy"): Remedy(
        _KEEP,
        "def item(n):\n    return numpy.load(path)[n]",
        "data = numpy.load(path)\n\ndef item(n):\n    return data[n]",
        "numpy",
    ),
    (m.READ_BY_EACH, "numpy"): Remedy(
        "Give each process its part, or let them share the pages of one mapping.",
        "data = numpy.load(path)[rank::ranks]    # in each process",
        "data = numpy.load(path, mmap_mode='r')[rank::ranks]",
        "numpy",
    ),
    (m.OPENED_TO_READ, "numpy"): Remedy(
        "Open the file once: keep the array, mapped if it is large.",
        "for n in rows:\n    use(numpy.load(path, mmap_mode='r')[n])",
        "array = numpy.load(path, mmap_mode='r')\nfor n in rows:\n    use(array[n])",
        "numpy",
    ),
    (m.FILES_READ, "numpy"): Remedy(
        "Keep many items in one file.",
        "for n in range(count):\n    use(numpy.load(f'item{n}.npy'))",
        "items = numpy.load('items.npy', mmap_mode='r')    # made once\nfor n in range(count):\n    use(items[n])",
        "numpy",
    ),
    (m.FILES_WRITTEN, "numpy"): Remedy(
        "Keep many items in one file.",
        "for n, item in enumerate(items):\n    numpy.save(f'item{n}.npy', item)",
        "numpy.save('items.npy', numpy.stack(items))",
        "numpy",
    ),
    (m.CHANGED_IN_PLACE, "numpy"): Remedy(
        "Change the records in memory.",
        "for n in changed:\n    f.seek(n * 8); x = numpy.fromfile(f, 'f8', 1)\n    f.seek(n * 8); (x + 1).tofile(f)",
        "data = numpy.memmap(path, 'f8', 'r+')\ndata[changed] += 1",
        "numpy",
    ),
    (m.PACKING, "h5py"): Remedy(
        "Use a faster filter: lzf, or one of hdf5plugin (blosc, zstd, lz4); or none for noise, which gets no smaller.",
        "f.create_dataset(name, data=x, chunks=True, compression='gzip')",
        "f.create_dataset(name, data=x, chunks=True,\n                 compression='lzf', shuffle=True)",
        "h5py",
    ),
    (m.UNPACKING, "h5py"): Remedy(
        "Use a faster filter: lzf, or one of hdf5plugin (blosc, zstd, lz4).",
        "f.create_dataset(name, data=x, chunks=True, compression='gzip')",
        "f.create_dataset(name, data=x, chunks=True,\n                 compression='lzf', shuffle=True)",
        "h5py",
    ),
}
_MPI: Words = {
    (m.UNALIGNED, "MPI"): Remedy(
        "Let each rank begin at a multiple of the stripe.",
        "f.Write_at(len(header) + rank * data.nbytes, data)",
        "each = -(-data.nbytes // (1 << 20)) << 20\nf.Write_at((1 << 20) + rank * each, data)",
        "mpi4py",
    ),
    (m.SHARED, "MPI"): Remedy(
        "Let each rank write one large block, all in one collective call: MPI-IO then makes large writes of it.",
        "for n, item in enumerate(items):\n    f.Write_at((n * size + rank) * item.nbytes, item)",
        "f.Write_at_all(rank * items.nbytes, items)",
        "mpi4py",
    ),
    (m.SMALL_READS, "MPI"): Remedy(
        "Read many items in one call, of all processes together.",
        "for n in range(count):\n    f.Read_at((n * size + rank) * item.nbytes, item)",
        "f.Read_at_all(rank * count * item.nbytes, items)",
        "mpi4py",
    ),
    (m.SMALL_WRITES, "MPI"): Remedy(
        "Write many items in one call, of all processes together.",
        "for n, item in enumerate(items):\n    f.Write_at((n * size + rank) * item.nbytes, item)",
        "# each rank has a part of the file\nf.Write_at_all(rank * items.nbytes, items)",
        "mpi4py",
    ),
}
WORDS: Words = {**_NUMPY, **_HDF5, **_XARRAY, **_ZARR, **_MPI}

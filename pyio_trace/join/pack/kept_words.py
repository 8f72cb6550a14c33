"""Words that stay where names are replaced (replaced_names.py), because they say nothing of a program or its data.

A word that is missing here is replaced, so what is lost is only legibility.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Parts of paths that say nothing of whose they are.
PARTS = _words("""
    . .. __init__.py __main__.py __pycache__ bin dask-scratch-space dev dist-packages etc fd full home lib lib64
    local media mnt null opt proc random root run sbin self shm site-packages srv sys tmp tty urandom usr var zero
""") | {""}
#: Endings of files of known formats.
ENDINGS = _words("""
    7z adios arrow avif avro bam bin bmp bp bz2 c cc cfg cif conf cpp cram csv cu dat data db dcm dill dta ecsv
    f90 fa fasta fastq feather fits flac fna fq gguf gif gml gpkg gz h h5 h5ad hdf hdf5 hpp html ico idx index
    info ini ipc ipynb jp2 jpeg jpg js json jsonl las lmdb lock log loom lz4 lzma m4a md mdb mkv mmap mov mp3 mp4
    mseed nc nc4 ndjson netcdf nii npy npz ods ogg onnx orc out p parquet pb pbf pcd pdb pdf pickle pkl ply png
    pptx pq prof proto pt pth py pyc pyi pyio pyx qcow2 r rds root rs safetensors sam sas7bdat segy sf2 sh shp
    shx so sqlite sqlite3 svg swp tar tbi tbz2 tfrecord tgz tif tiff tmp toml tsv ttf txt txz vcf vtk vtu wal wav
    webm webp xls xlsx xml xz yaml yml zarr zattrs zgroup zip zmetadata zst zstd
""")
#: Schemes of URLs.
SCHEMES = _words("""
    abfs abfss adl az file ftp gcs gs hdfs http https memory oci s3 s3a sftp ssh webhdfs zip
""")
#: Keys of details: those of the tracer and its instruments.
KEYS = _words("""
    advised after array arrays asked attribute axis batch batch_size bytes cache calls candidate_parents child
    chunk chunks class columns common_sizes compression consecutive cpu_ns cut dataset datasets details driver
    dtype elements epoch failed file fileobj files filtered filters format function given groups highest in
    in_flight index items key kind layout level loader longest_ns max_shape member members method mmap mode moved
    name names num_workers object objects offset ordinal out output partitions pass passes path paths pattern
    placed prefetch_factor prefix process queue raised record row_groups rows samples script selection sequential
    shape sheets sink size sizes source span_ns statement steps storages stored subtree tables target task tensors
    text threads to type unaligned unnamed worker workers
""")
#: Values of details that are words of formats and libraries.
VALUES = _words("""
    a ab advise append auto b batch binary blosc bool bytes bz2 bzip2 c chunked cold compact complex128 complex64
    contiguous core csv date32 datetime64 deflate direct family feather fletcher32 float float16 float32 float64
    fork forkserver gzip h5py int int16 int32 int64 int8 ipc iterable json list log lz4 lzf lzma map_style mpio
    none object orc parquet pickle r r+ ra rb rb+ read rt scaleoffset sec2 shuffle snappy spawn split stdio str
    stream string szip text time timestamp tuple uint16 uint32 uint64 uint8 uncompressed unlimited virtual w w+ w-
    wb wb+ write x xb xz zarr zlib zstd
""")
#: Kinds of processes.
KINDS = frozenset((
    "Dask nanny", "Dask scheduler", "Dask worker", "DataLoader worker", "Ray actor", "Ray worker",
    "forked process", "gunicorn worker", "multiprocessing fork server", "multiprocessing process",
    "multiprocessing resource tracker", "multiprocessing spawn", "pool worker", "process", "program", "python",
    "python -c", "rank", "script"
))  # fmt: skip

"""Library functions that take long to compute on what a program reads or writes, and what costs less.

Each entry matches the dotted names of functions that a program's lines call, as samples have them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from pyio_trace.insights.finding import Remedy

#: A share of a line's time in calls on files, below which its functions hardly make any.
_HARDLY = 0.05


class Costly(NamedTuple):
    """names: a pattern for the functions' dotted names; does: what takes the time, to begin a title with; remedy: what
    costs less; given: what a program's source has that does so already; then: what else costs less; only: what names
    of files it helps with, where others need what `then` says; computed: what costs less where the functions hardly
    call on files."""

    names: re.Pattern[str]
    does: str
    remedy: Remedy
    given: re.Pattern[bytes] | None = None
    then: str = ""
    only: re.Pattern[str] | None = None
    computed: Remedy | None = None

    def remedy_for(self, source: bytes, paths: Collection[str], io_share: float = 1.0) -> Remedy:
        """What costs less, and is not done yet.  source: of the file with the line; paths: that the line reads or
        writes; io_share: of the line's time, in calls on files."""
        if self.computed is not None and io_share < _HARDLY:
            return self.computed
        given = self.given is not None and self.given.search(source) is not None
        if given or (self.only is not None and paths and not any(map(self.only.search, paths))):
            return Remedy(self.then, library=self.remedy.library)
        return self.remedy


_LEVEL = "Use a lower level, unless it is low already: by default it is the slowest; or zstd, or another thread."
_FASTER = "The level is low already: use a codec that is made for speed (zstd, lz4), or pack in another thread."
#: A low level of compression, by name or by its place among the arguments.
_LOW = r"compresslevel\s*=\s*[0-3]\b"
_SECOND = r"\([^()\n]*,[^()\n,]*,\s*[0-3]\s*[,)]"
_ONCE = "Unpack it once and keep what is read; or store it with a faster codec (zstd, lz4), or uncompressed."

COSTLY = (
    Costly(
        re.compile(r"gzip\.(GzipFile\.(write|flush|close|__exit__)|compress|_GzipWriter)"),
        "Compressing (gzip)",
        Remedy(
            _LEVEL, "f = gzip.open(path, 'wt')", "f = gzip.open(path, 'wt', compresslevel=1)", "gzip"
        ),
        re.compile(rf"{_LOW}|gzip\.(open|GzipFile){_SECOND}".encode()),
        _FASTER,
    ),
    Costly(
        re.compile(r"bz2\.BZ2File\.(write|close|__exit__)|bz2\.compress"),
        "Compressing (bz2)",
        Remedy(
            "Use a codec that is made for speed: gzip at level 1, zstd. Lower levels of bz2 take as long.",
            "f = bz2.open(path, 'wt')",
            "f = gzip.open(path, 'wt', compresslevel=1)",
            "bz2",
        ),
    ),
    Costly(
        re.compile(r"lzma\.LZMAFile\.(write|close|__exit__)|lzma\.compress"),
        "Compressing (lzma)",
        Remedy(
            "Use a lower level (preset), or a codec that is made for speed: gzip at level 1, zstd.",
            "f = lzma.open(path, 'wb')",
            "f = lzma.open(path, 'wb', preset=0)",
            "lzma",
        ),
        re.compile(rb"preset\s*=\s*[0-3]\b"),
        _FASTER,
    ),
    Costly(
        re.compile(r"zipfile\..*(write|writestr|_ZipWriteFile.*)"),
        "Compressing (zip)",
        Remedy(
            "Use a lower level, or store what is compressed already (JPEG, PNG, gzip).",
            "zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED)",
            "zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED,\n                compresslevel=1)",
            "zipfile",
        ),
        re.compile(_LOW.encode()),
        "The level is low already: store what is compressed already (ZIP_STORED), or pack in another thread.",
    ),
    Costly(
        re.compile(r"numpy\..*savez_compressed"),
        "Compressing (npz)",
        Remedy(
            "Leave out the compression where it saves little, as with noise and most measured data; or pack in another "
            "thread.",
            "np.savez_compressed(path, x=x)",
            "np.savez(path, x=x)",
            "numpy",
        ),
    ),
    Costly(
        re.compile(r"xarray\.backends\.api\.open_mfdataset"),
        "Opening many files (xarray)",
        Remedy(
            "Say how the files fit together, so that their coordinates are not compared; or join them once.",
            "xr.open_mfdataset(paths)",
            "xr.open_mfdataset(paths, combine='nested', concat_dim='time',\n                  data_vars='minimal', "
            "coords='minimal',\n                  compat='override')",
            "xarray",
        ),
        re.compile(rb"compat\s*=\s*['\"]override"),
        "Join the files once, into one or a few: each costs its opening, and its coordinates are not compared already.",
    ),
    Costly(
        re.compile(r"(gzip|bz2|lzma|_compression|compression\..*)\..*(read|readinto|decompress|__next__|seek)\w*"),
        "Unpacking",
        Remedy(_ONCE),
    ),
    Costly(
        re.compile(r"(zipfile\..*ZipExtFile|zipfile\.ZipFile\.(read|extract|extractall))\b.*"), "Unpacking (zip)",
        Remedy(_ONCE),
    ),
    Costly(
        re.compile(r"tarfile\.(_FileInFile|ExFileObject|_Stream|_LowLevelFile)\b.*|tarfile\.TarFile\.extract\w*"),
        "Unpacking (tar)",
        Remedy(
            "Read the members in the order in which they are stored, in one pass; or unpack the archive once.",
            "for name in names:\n    use(archive.extractfile(name).read())",
            "for member in archive:\n    if member.name in names:\n        use(archive.extractfile(member).read())",
            "tarfile",
        ),
    ),
    Costly(
        re.compile(r"PIL\.Image\.Image\.(convert|load|getdata|tobytes|resize|thumbnail|crop|__array\w*)|"
                   r"PIL\.ImageFile\.\w+\.load|PIL\.ImageOps\.\w+"),
        "Decoding images",
        Remedy(
            "Decode at the size that is needed: draft() lets JPEG skip most of the work; or keep smaller copies.",
            "image = Image.open(path).convert('RGB')\nsmall = image.resize((256, 256))",
            "image = Image.open(path)\nimage.draft('RGB', (512, 512))    # at least the size needed\n"
            "small = image.convert('RGB').resize((256, 256))",
            "PIL",
        ),
        re.compile(rb"\.draft\s*\("),
        "Keep smaller copies, decoded once, or decode in several processes; draft() helps with JPEG alone, and once.",
        re.compile(r"\.jpe?g$", re.IGNORECASE),
    ),
    Costly(
        re.compile(r"json\.(loads|load|decoder\..*)"),
        "Parsing JSON",
        Remedy(
            "Parse with orjson or msgspec, which take a fraction of the time; or keep the data in a binary format.",
            "rows = [json.loads(line) for line in f]",
            "rows = [orjson.loads(line) for line in f]",
            "json",
        ),
    ),
    Costly(
        re.compile(r"json\.(dumps|encoder\..*)"),
        "Formatting JSON",
        Remedy(
            "Format with orjson or msgspec, which take a fraction of the time; or write a binary format.",
            "f.write(json.dumps(row) + '\\n')",
            "f.write(orjson.dumps(row) + b'\\n')",
            "json",
        ),
    ),
    Costly(
        re.compile(r"csv\.Dict(Reader|Writer)\..*"),
        "Taking CSV apart row by row",
        Remedy(
            "Read whole columns with pandas, polars or pyarrow.csv; or use csv.reader: it makes no dict of each row.",
            "for row in csv.DictReader(f):\n    total += float(row['x'])",
            "total = pandas.read_csv(f, usecols=['x'])['x'].sum()",
            "csv",
        ),
    ),
    Costly(
        re.compile(r"xml\.dom\..*"),
        "Parsing XML (xml.dom)",
        Remedy(
            "Use ElementTree, or lxml: these are written in C, and make no object for each text.",
            "for one in minidom.parse(path).getElementsByTagName('q'):\n    use(one.firstChild.data)",
            "for one in ElementTree.parse(path).iter('q'):\n    use(one.text)", "xml",
        ),
    ),
    Costly(
        re.compile(r"xml\.(etree|sax)\..*"),
        "Parsing XML",
        Remedy(
            "Use iterparse() and clear what is done, or lxml; convert it once if it is read often.",
            "tree = ElementTree.parse(path)",
            "for _, element in ElementTree.iterparse(path):\n    ...\n    element.clear()",
            "xml",
        ),
        re.compile(rb"\biterparse\s*\("),
        "Use lxml, which is faster; convert it once if it is read often.",
    ),
    Costly(
        re.compile(r"yaml\..*"),
        "Parsing YAML",
        Remedy(
            "Use the loader written in C.",
            "yaml.safe_load(f)",
            "yaml.load(f, Loader=yaml.CSafeLoader)",
            "yaml",
        ),
        re.compile(rb"\bC(Safe|Base|Full|Unsafe)?(Loader|Dumper)\b"),
        "Keep the data in a format that is faster to parse (JSON, or a binary one): the loader in C is used already.",
    ),
    Costly(
        re.compile(r"email\.(message_from_\w+|parser\..*|feedparser\..*)"),
        "Parsing mail",
        Remedy(
            "Where only headers are used, leave the bodies alone: what follows the headers is not taken apart.",
            "message = email.message_from_binary_file(f)\nuse(message['Subject'])",
            "message = email.parser.BytesParser().parse(f, headersonly=True)\nuse(message['Subject'])",
            "email",
        ),
        re.compile(rb"headersonly\s*=\s*True|HeaderParser\b"),
        "Keep the headers of all messages in one table, or parse in several processes: the bodies are left alone "
        "already.",
    ),
    Costly(
        re.compile(r"pandas\.io\.pytables\.HDFStore\.(append|append_to_multiple|put|__setitem__)"),
        "Writing tables (HDFStore)",
        Remedy(
            "Write many rows in one call: each looks up the table and compares its columns, whatever their number.",
            "for row in rows:\n    store.append('t', pd.DataFrame([row]))",
            "store.append('t', pd.DataFrame(rows))",
            "pandas",
        ),
    ),
    Costly(
        re.compile(r"pandas\.io\.sql\.read_sql\w*"),
        "Reading rows by SQL (pandas)",
        Remedy(
            "Let the statement choose the rows and the columns that are used: each value becomes an object of Python.",
            "table = pd.read_sql('SELECT * FROM t', db)\nuse(table[table.shop == 7].amount)",
            "use(pd.read_sql('SELECT amount FROM t WHERE shop = ?', db,\n    params=(7,)).amount)", "pandas",
        ),
        re.compile(rb"\bWHERE\b|\bGROUP\s+BY\b", re.IGNORECASE),
        "Keep the result as Parquet, or read it with ADBC or connectorx: these make no object of each value.",
    ),
    Costly(
        re.compile(r"multiprocessing\.managers\.(BaseProxy\._callmethod|\w*Proxy\.\w+)"),
        "Asking a manager's process",
        Remedy(
            "Each call is a message and its answer: gather what there is, and pass it in one call; or return it from "
            "the worker's function.",
            "for row in rows:\n    shared.append(row)    # of a Manager().list()",
            "found = list(rows)\nshared.extend(found)    # once",
            "multiprocessing",
        ),
    ),
    Costly(
        re.compile(r"tomllib\..*"),
        "Parsing TOML",
        Remedy("Keep much of it in JSON, or in a binary format: tomllib is written in Python.", library="tomllib"),
    ),
    Costly(
        re.compile(r"openpyxl\..*"),
        "Reading a workbook",
        Remedy(
            "Open it read-only, or convert it once to Parquet.",
            "openpyxl.load_workbook(path)",
            "openpyxl.load_workbook(path, read_only=True)",
            "openpyxl",
        ),
        re.compile(rb"read_only\s*=\s*True"),
        "Convert it once to Parquet: it is opened read-only already.",
    ),
    Costly(
        re.compile(r"pydicom\..*(dcmread|read_file|filereader.*)"),
        "Reading DICOM",
        Remedy(
            "Read only what is used: without the pixels, or with the tags that are needed.",
            "pydicom.dcmread(path).PatientName",
            "pydicom.dcmread(path, stop_before_pixels=True).PatientName",
            "pydicom",
        ),
        re.compile(rb"stop_before_pixels\s*=\s*True|specific_tags\s*="),
        "Keep the tags of all files in one table: only what is used is read already.",
    ),
    Costly(
        re.compile(r"nibabel\..*(save|to_filename|to_file_map|to_stream|to_bytes)"),
        "Packing NIfTI",
        Remedy(
            "Save what is read again soon uncompressed: noise and measured data get little smaller.",
            "nibabel.save(image, 'x.nii.gz')",
            "nibabel.save(image, 'x.nii')",
            "nibabel",
        ),
        only=re.compile(r"\.(gz|mgz|bz2|zst)$", re.IGNORECASE),
        then="Save fewer images, or in another thread: they are not compressed.",
    ),
    Costly(
        re.compile(r"nibabel\..*"),
        "Unpacking NIfTI",
        Remedy(
            "Read the part that is used from dataobj, of an uncompressed .nii: a .nii.gz is unpacked from its start.",
            "image.get_fdata()[..., n]",
            "numpy.asarray(image.dataobj[..., n])    # of a .nii",
            "nibabel",
        ),
        re.compile(rb"\.dataobj\b"),
        "Store it uncompressed (.nii): a .nii.gz is unpacked from its start for each part that is read.",
    ),
    Costly(
        re.compile(r"joblib\.numpy_pickle\.dump"),
        "Writing an object (joblib)",
        Remedy(
            "Use lz4 (a package of this name), which is made for speed; or do not compress: noise, and most trained "
            "weights, get little smaller.",
            "joblib.dump(model, path, compress=9)",
            "joblib.dump(model, path, compress=('lz4', 3))    # or compress=0",
            "joblib",
        ),
        re.compile(rb"['\"](lz4|zstd)['\"]|\A(?![\s\S]*\bcompress)"),
        "Dump it less often, or in another thread; large arrays are written fastest by themselves, with numpy.save.",
    ),
    Costly(
        re.compile(r"scipy\.io\.(_fast_matrix_market|_mmio|mmio)\b.*(mmwrite|MMFile\.write)"),
        "Formatting numbers as text (Matrix Market)",
        Remedy(
            "Write a binary format; keep the text for what others have to read.",
            "scipy.io.mmwrite(path, matrix)",
            "scipy.sparse.save_npz(path, matrix, compressed=False)",
            "scipy",
        ),
    ),
    Costly(
        re.compile(r"scipy\.io\.(_fast_matrix_market|_mmio|mmio)\b.*(mmread|MMFile\.read)"),
        "Parsing numbers (Matrix Market)",
        Remedy(
            "Convert it once to a binary format, which is loaded in a fraction of the time.",
            "matrix = scipy.io.mmread(path)",
            "# once: scipy.sparse.save_npz(binary, scipy.io.mmread(path),\n"
            "#                              compressed=False)\nmatrix = scipy.sparse.load_npz(binary)",
            "scipy",
        ),
    ),
    Costly(
        re.compile(r"scipy\.io\.matlab\b.*loadmat"),
        "Reading MATLAB files",
        Remedy(
            "Name the variables that are used: the others are passed over. If all are, save it once without "
            "compression, or as .npy.",
            "scipy.io.loadmat(path)['fs']",
            "scipy.io.loadmat(path, variable_names=['fs'])['fs']",
            "scipy",
        ),
        re.compile(rb"variable_names\s*="),
        "Save it once without compression (do_compression=False), or as .npy: only what is used is read already.",
    ),
    Costly(
        re.compile(r"joblib\.memory\..*"),
        "A cache on disk (joblib.Memory)",
        Remedy(
            "Keep results of cheap functions in memory (functools.cache), or cache one call for many values: a folder "
            "and two files for each result cost more than they save.",
            "@memory.cache\ndef f(x): ...",
            "@functools.cache\ndef f(x): ...",
            "joblib",
        ),
        computed=Remedy(
            "Each call hashes its arguments, byte by byte: give it the name of large data instead of the data, which "
            "it loads if its result is not there yet.",
            "@memory.cache\ndef f(data, n): ...",
            "@memory.cache\ndef f(path, n):\n    data = numpy.load(path, mmap_mode='r')\n    ...",
            "joblib",
        ),
    ),
)  # fmt: skip


#: How entries begin that are about what is read, and about what is written.
_READING = ("Decoding", "Parsing", "Reading", "Taking", "Unpacking")
_WRITING = ("Compressing", "Formatting")


def takes_apart(function: str) -> bool:
    """Whether a function, by its dotted name, is known to take apart what a program has read."""
    found = costly(function)
    return found is not None and found.does.startswith(_READING)


def puts_together(function: str) -> bool:
    """Whether a function, by its dotted name, is known to make what a program writes."""
    found = costly(function)
    return found is not None and found.does.startswith(_WRITING)


def costly(function: str) -> Costly | None:
    """The entry for a function, by its dotted name."""
    return next((one for one in COSTLY if one.names.fullmatch(function)), None)

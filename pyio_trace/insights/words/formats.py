"""Images, scientific formats, and what frameworks save: one entry for each library that a program names."""

from __future__ import annotations

from pyio_trace.insights.finding import Remedy
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.insights.words.mechanisms import Words


def _keep(load: str, library: str, text: str = "Load it once, and keep it.") -> Remedy:
    """For a function that gives all of a file."""
    return Remedy(
        text,
        f"for n in rows:\n    use({load}[n])",
        f"data = {load}    # once\nfor n in rows:\n    use(data[n])",
        library,
    )


_TORCH_ITEMS = Remedy(
    "Keep many items in one file.",
    "for n in range(count):\n    use(torch.load(f'item{n}.pt'))",
    "items = torch.load('items.pt', mmap=True)    # one tensor, made once\nfor n in range(count):\n    use(items[n])",
    "torch",
)
_WINDOWS = Remedy(
    "Open the dataset once, and read the windows in the order of its blocks: each opening begins with none in memory.",
    "for n in rows:\n    with rasterio.open(path) as d:\n        use(d.read(1, window=((n, n + 1), (0, d.width))))",
    "with rasterio.open(path) as d:    # once\n    for n in sorted(rows):\n"
    "        use(d.read(1, window=((n, n + 1), (0, d.width))))",
    "rasterio",
)
_ENVIRONMENT = Remedy(
    "Open the environment once in each process, and keep it.",
    "for key in keys:\n    with lmdb.open(path, readonly=True, lock=False) as env:\n"
    "        with env.begin() as txn: use(txn.get(key))",
    "with lmdb.open(path, readonly=True, lock=False) as env:    # once\n    with env.begin() as txn:\n"
    "        for key in keys: use(txn.get(key))",
    "lmdb",
)
_TREE = Remedy(
    "Open the file once, and keep the arrays that are used.",
    "for n in rows:\n    with uproot.open(path) as f:\n        use(f['t/x'].array(library='np')[n])",
    "with uproot.open(path) as f:    # once\n    x = f['t/x'].array(library='np')\nfor n in rows:\n    use(x[n])",
    "uproot",
)
WORDS: Words = {
    (m.READ_AGAIN, "rasterio"): _WINDOWS,
    (m.READ_AGAIN, "lmdb"): _ENVIRONMENT,
    (m.READ_AGAIN, "uproot"): _TREE,
    (m.READ_AGAIN, "astropy"): _keep("fits.getdata(path)", "astropy"),
    (m.READ_AGAIN, "nibabel"): _keep("nibabel.load(path).get_fdata()", "nibabel"),
    (m.READ_AGAIN, "tifffile"): _keep("tifffile.imread(path)", "tifffile"),
    (m.READ_AGAIN, "pydicom"): _keep("pydicom.dcmread(path).pixel_array", "pydicom"),
    (m.READ_AGAIN, "joblib"): _keep("joblib.load(path)", "joblib"),
    (m.READ_AGAIN, "torch"): _keep(
        "torch.load(path)", "torch", "Load it once, and keep it; with mmap=True, only what is used is read."
    ),
    (m.READ_AGAIN, "PIL"): Remedy(
        "Unpack the image once, and keep it.",
        "for box in boxes:\n    use(Image.open(path).crop(box))",
        "image = Image.open(path)    # once\nimage.load()\nfor box in boxes:\n    use(image.crop(box))",
        "PIL",
    ),
    (m.READ_AGAIN, "anndata"): Remedy(
        "Read it once, and keep it in memory.",
        "data = anndata.read_h5ad(path, backed='r')\nfor n in rows:\n    use(data[n].X)",
        "data = anndata.read_h5ad(path)    # once\nfor n in rows:\n    use(data[n].X)",
        "anndata",
    ),
    (m.FILES_READ, "torch"): _TORCH_ITEMS,
    (m.FILES_WRITTEN, "torch"): Remedy(
        "Keep many items in one file.",
        "for n, item in enumerate(items):\n    torch.save(item, f'item{n}.pt')",
        "torch.save(torch.stack(items), 'items.pt')",
        "torch",
    ),
    (m.FILES_READ, "joblib"): Remedy(
        "Each kept result is a folder with files of its own: cache larger steps, many results of one call; or keep "
        "small results in memory, without the files.",
        "f = joblib.Memory('cache', verbose=0).cache(score)\nfor n in numbers:\n    use(f(n))",
        "f = functools.cache(score)    # in memory\nfor n in numbers:\n    use(f(n))",
        "joblib",
    ),
    (m.FILES_WRITTEN, "joblib"): Remedy(
        "Each kept result is a folder with files of its own: cache larger steps, many results of one call.",
        "f = memory.cache(score)\nfor n in numbers:\n    use(f(n))",
        "f = memory.cache(lambda numbers: [score(n) for n in numbers])\nfor result in f(numbers):\n    use(result)",
        "joblib",
    ),
}

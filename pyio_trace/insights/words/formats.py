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
WORDS: Words = {
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

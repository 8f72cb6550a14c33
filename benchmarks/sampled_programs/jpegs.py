"""JPEG images, decoded and made smaller."""

import glob
from time import perf_counter

from PIL import Image

spent = 0.0
for path in sorted(glob.glob("jpg/*.jpg")):
    image = Image.open(path)
    began = perf_counter()
    image = image.convert("L")  # the main line
    spent += perf_counter() - began
    image.resize((150, 100), Image.Resampling.BILINEAR)
print(spent)

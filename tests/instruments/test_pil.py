"""Pillow: images that are opened, and decoded once, however often their pixels are needed."""

from __future__ import annotations

import json

import pytest

from tests.support.programs import Runner, alike, succeeded


def test_images_opened_and_decoded(program: Runner) -> None:
    # GIVEN images that are opened, looked at, and used again and again, one in a forked worker, one of them cut off
    pytest.importorskip("PIL")
    text = """
    import io, os, pickle, weakref
    from PIL import Image
    Image.effect_noise((64, 48), 50).save("grey.png")
    Image.new("RGB", (200, 100), "red").save("red.jpg")
    with Image.open("red.jpg") as image:
        print(image.size, image.format)
    image = Image.open("red.jpg")
    assert weakref.ref(image)() is image
    for n in range(1000):
        image.getpixel((n % 200, 5))
    print(image.convert("L").size, image.resize((4, 4)).size)
    with open("grey.png", "rb") as file:
        grey = Image.open(file)
        grey.load()
    print(pickle.loads(pickle.dumps(grey)).size, grey.load() is not None)
    memory = Image.open(io.BytesIO(open("red.jpg", "rb").read()))
    memory.load()
    with open("cut.jpg", "wb") as file:
        file.write(open("red.jpg", "rb").read()[:700])
    try:
        Image.open("cut.jpg").load()
    except OSError as problem:
        print(problem)
    worker = Image.open("red.jpg")
    pid = os.fork()
    if not pid:
        worker.load()
        os._exit(0)
    print(os.waitpid(pid, 0)[1])
    """
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    red, grey = program.folder / "red.jpg", program.folder / "grey.png"
    # THEN each opening says what was found
    opened = outcome.select(op="Image.open", path=red)
    assert [json.loads(row["detail"]) for row in opened] == [{"format": "JPEG", "size": [200, 100], "mode": "RGB"}] * 3
    # AND each image that was used is decoded once: its pixels' bytes
    loads = outcome.select(op="ImageFile.load_prepare", path=red)
    assert [row["bytes_moved"] for row in loads] == [80_000] * 2
    assert len({row["pid"] for row in loads}) == 2
    (load,) = outcome.select(op="ImageFile.load_prepare", path=grey)
    assert (load["bytes_moved"], json.loads(load["detail"])) == (3072, {"size": [64, 48], "mode": "L"})
    (memory,) = outcome.select(op="ImageFile.load_prepare", path=None)
    assert memory["bytes_moved"] == 80_000
    assert len(outcome.select(op="ImageFile.load_prepare", path=program.folder / "cut.jpg")) == 1

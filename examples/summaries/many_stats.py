"""20,000 stats: asks four things of each of 5,000 files, of which every other one is missing."""

import os
import sys


def make():
    os.makedirs("items", exist_ok=True)
    for number in range(0, 5000, 2):
        open(f"items/{number}.json", "w").close()


def main():
    found = 0
    for number in range(5000):
        path = f"items/{number}.json"
        if os.path.exists(path) and os.path.isfile(path) and not os.path.islink(path):
            found += os.path.getsize(path) == 0
        else:
            found += os.path.exists(path) + os.path.isdir(path) + os.path.isfile(path)
    print(found)


if __name__ == "__main__":
    make() if "make" in sys.argv else main()

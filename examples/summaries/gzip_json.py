"""Readings from a compressed JSON file."""

import gzip
import json
import sys


def make():
    readings = [{"station": number % 97, "minute": number, "value": number * 0.37 % 40} for number in range(100_000)]
    with gzip.open("readings.json.gz", "wt") as file:
        json.dump(readings, file)


def main():
    with gzip.open("readings.json.gz", "rt") as file:
        readings = json.load(file)
    print(sum(reading["value"] for reading in readings))


if __name__ == "__main__":
    make() if "make" in sys.argv else main()

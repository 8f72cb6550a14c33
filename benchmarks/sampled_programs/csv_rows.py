"""Rows of a CSV file, parsed by a function of the program."""

import csv
import datetime
from time import perf_counter


def parse(row: list[str]) -> tuple[datetime.date, str, float]:
    day = datetime.date(2020, 1, 1) + datetime.timedelta(days=int(row[0]) % 365)
    return day, row[1].upper(), float(row[2])


spent = 0.0
kept: dict[str, float] = {}
for _ in range(20):
    with open("words.csv", newline="") as file:
        for row in csv.reader(file):
            began = perf_counter()
            day, word, x = parse(row)  # the main line
            ended = perf_counter()
            again = perf_counter()
            spent += 2 * ended - began - again
            kept[word] = kept.get(word, 0) + x
print(spent)

"""The position of each line of a text file."""

from time import perf_counter

spent = 0.0
index = []
with open("corpus.txt", encoding="utf8") as file:
    while len(index) < 80_000:
        began = perf_counter()
        at = file.tell()  # the main line
        ended = perf_counter()
        again = perf_counter()
        spent += 2 * ended - began - again
        file.readline()
        index.append(at)
print(spent)

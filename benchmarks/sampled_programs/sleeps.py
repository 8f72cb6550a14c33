"""A program that sleeps, writes a little and computes a little."""

import time
from time import perf_counter

spent = 0.0
with open("status", "w", buffering=1) as file:
    for n in range(60):
        file.write(f"{n}\n")
        began = perf_counter()
        time.sleep(0.03)  # the main line
        spent += perf_counter() - began
        sum(i * i for i in range(40_000))
print(spent)

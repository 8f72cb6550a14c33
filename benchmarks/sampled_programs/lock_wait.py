"""The main thread waits for a lock that another one holds while it writes."""

import hashlib
import threading
import time
from time import perf_counter

lock = threading.Lock()


def write() -> None:
    with open("big", "wb") as file:
        for _ in range(40):
            with lock:
                file.write(b"x" * 400_000)
                hashlib.sha256(b"y" * 400_000).digest()
                time.sleep(0.03)
            time.sleep(0.01)


spent = 0.0
thread = threading.Thread(target=write)
thread.start()
while thread.is_alive():
    began = perf_counter()
    lock.acquire()  # the main line
    spent += perf_counter() - began
    lock.release()
    time.sleep(0.005)
thread.join()
print(spent)

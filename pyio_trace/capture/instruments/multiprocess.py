"""multiprocess, a copy of multiprocessing that pickles by dill: what each process is called.

HuggingFace's datasets and pathos start their processes by it.
"""

from pyio_trace.capture.instruments.multiprocessing import instrument_of

instrument = instrument_of("multiprocess")

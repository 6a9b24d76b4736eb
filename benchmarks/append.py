"""What the disk can do at most: small durable appends, one after another. Prints how many a second."""

import os
import sys
import time
from pathlib import Path

SIZE_BYTES = 512


def append(path: Path, most_seconds: float) -> float:
    """Write and flush until the time is over; returns appends a second."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    data = bytes(SIZE_BYTES)
    count = 0
    start = time.perf_counter()
    while (seconds := time.perf_counter() - start) < most_seconds:
        os.write(descriptor, data)
        os.fdatasync(descriptor)
        count += 1
    if os.fstat(descriptor).st_size != count * SIZE_BYTES:
        raise AssertionError("the file does not hold what was written")
    os.close(descriptor)
    return count / seconds


if __name__ == "__main__":
    sys.stdout.write(f"{append(Path(sys.argv[1]), float(sys.argv[2]))}\n")

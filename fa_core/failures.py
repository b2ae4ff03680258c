"""What an exception says about the device it came from."""

from __future__ import annotations


def is_device_lost(error: BaseException | None) -> bool:
    """Whether a CUDA error caused this: every later call of this process would fail with it too.

    >>> is_device_lost(RuntimeError("CUDA error: device-side assert triggered")), is_device_lost(ValueError("no"))
    (True, False)
    """
    while error is not None:
        if "CUDA error" in str(error) and "ALLOC_FAILED" not in str(error):
            return True
        error = error.__cause__
    return False

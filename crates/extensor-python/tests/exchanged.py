"""What the tests of exchanged memory share: where memory lies, whose end can be seen, and objects that
hand memory out."""

import os

import numpy as np

DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64"
).split()


def address(x):
    """Where the first element of an array or a tensor lies."""
    return x.__array_interface__["data"][0]


def resident():
    """Bytes of the process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Watched(np.ndarray):
    """An array whose end can be seen."""


def watched(n=64):
    return np.arange(float(n)).view(Watched)


class Interface:
    """An object with an array interface of these entries."""

    def __init__(self, **entries):
        self.__array_interface__ = entries


class Capsule:
    """An object that hands out one capsule, whatever it is asked for."""

    def __init__(self, capsule, device=(1, 0)):
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return self.device

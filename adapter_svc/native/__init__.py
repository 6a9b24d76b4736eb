"""Judging the native event streams of agent programs (design/native-harness.md)."""

from adapter_svc.native.protocols import PROTOCOLS, REFUSED
from adapter_svc.native.reader import NativeReader
from adapter_svc.native.verdict import (
    Code,
    Completion,
    Facts,
    Failure,
    Harness,
    NativeEvent,
    Observation,
    Opening,
    OutputContract,
    ProcessEnd,
    Usage,
)

__all__ = [
    "PROTOCOLS",
    "REFUSED",
    "Code",
    "Completion",
    "Facts",
    "Failure",
    "Harness",
    "NativeEvent",
    "NativeReader",
    "Observation",
    "Opening",
    "OutputContract",
    "ProcessEnd",
    "Usage",
]

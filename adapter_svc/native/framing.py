"""Bytes into records: strict, incremental, bounded (design/native-harness.md, section 5, first paragraph).

At most one unfinished record is kept. A record is what stands before a line feed, less one carriage return.
"""

from collections.abc import Iterator
from typing import Final

from adapter_svc.admission.limits import Limits
from adapter_svc.admission.strict_json import JsonValue, read_strict
from adapter_svc.admission.verdict import Inadmissible
from adapter_svc.native.verdict import Malformed, Truncated

MAX_RECORD_BYTES: Final = 1024 * 1024
MAX_STREAM_BYTES: Final = 64 * 1024 * 1024
_LIMITS = Limits(body_bytes=MAX_RECORD_BYTES)

Record = dict[str, JsonValue]


class Framer:
    """Splits a stream into its records.

    `records` counts them; where one is refused, and where one is left unfinished at the end, it is that one's number.
    """

    def __init__(self) -> None:
        self._unfinished = bytearray()
        self._bytes = 0
        self.records = 0

    @property
    def pending_bytes(self) -> int:
        """How many bytes of an unfinished record are kept."""
        return len(self._unfinished)

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes, Record]]:
        """The records that `data` ends, each with its number from 1 and its bytes; read one before asking for the next.

        Raises Malformed at the first that is none; nothing may be fed afterwards.
        """
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            line = self._line(data, start, end)
            self._count(end + 1 - start)
            self.records += 1
            yield self.records, line, _read(line)
            start = end + 1
        self._keep(data, start)

    def finish(self) -> None:
        """Raises Truncated where bytes are left over, even where they would parse."""
        if self._unfinished:
            self.records += 1
            raise Truncated("the output ends without a line feed")

    def _line(self, data: bytes, start: int, end: int) -> bytes:
        if len(self._unfinished) + end - start > MAX_RECORD_BYTES + 1:
            self.records += 1
            raise Malformed("a record is over 1 MiB")
        line = bytes(self._unfinished) + data[start:end]
        self._unfinished.clear()
        return line.removesuffix(b"\r")

    def _keep(self, data: bytes, start: int) -> None:
        rest = len(data) - start
        if len(self._unfinished) + rest > MAX_RECORD_BYTES + 1:
            self.records += 1
            raise Malformed("a record is over 1 MiB")
        self._count(rest)
        self._unfinished += data[start:]

    def _count(self, added: int) -> None:
        self._bytes += added
        if self._bytes > MAX_STREAM_BYTES:
            self.records += 1
            raise Malformed("the output is over 64 MiB")


def _read(line: bytes) -> Record:
    if len(line) > MAX_RECORD_BYTES:
        raise Malformed("a record is over 1 MiB")
    if not line:
        raise Malformed("a blank line")
    if line.endswith(b"\r"):
        raise Malformed("more than one carriage return before a line feed")
    try:
        value = read_strict(line, _LIMITS)
    except Inadmissible as error:
        raise Malformed(f"not strict JSON: {error.reason.value}") from None
    if not isinstance(value, dict):
        raise Malformed("not a JSON object")
    return value

"""One native stream from its opening to its verdict (design/native-harness.md, section 5): pure, incremental, bounded.

Kept are one unfinished record, the assistant's texts, and of everything else ids and fingerprints.
"""

import hashlib

from adapter_svc.native.envelope import Envelope, TerminalContract
from adapter_svc.native.framing import Framer
from adapter_svc.native.notes import Notes
from adapter_svc.native.protocol import StreamProtocol
from adapter_svc.native.protocols import protocol_of
from adapter_svc.native.verdict import (
    NOT_APPLICABLE,
    CleanupFailed,
    Code,
    Completion,
    Facts,
    Failure,
    HarnessFailed,
    ImageInvalid,
    ImageOverLimit,
    NativeEvent,
    Observation,
    Opening,
    OutputContract,
    ProcessEnd,
    Rejected,
    Truncated,
)
from countersign.kit.image import ImageBundle, ImageError, ImageTooLarge, load_bundle


class NativeReader:
    """Reads one stream: `feed` as often as bytes come, then `finish` once.

    `rejected` is the code and the record as soon as no completion is possible any more, else None; what is fed after
    that is only counted and digested.
    """

    def __init__(self, opening: Opening) -> None:
        self._notes = Notes()
        self._notes.version = opening.harness_version
        self._framer = Framer()
        self._digest = hashlib.sha256()
        self._bytes = 0
        self._protocol: StreamProtocol | None = None
        self._image: ImageBundle | None = None
        self._terminal: TerminalContract | None = None
        self._rejection: tuple[Rejected, int] | None = None
        try:
            self._image = _image_of(opening)
            if self._image is not None and opening.contract is OutputContract.IMAGE_ENVELOPE:
                self._terminal = TerminalContract(self._image, opening.argv)
            self._protocol = protocol_of(opening, self._notes)
        except Rejected as error:
            self._rejection = (error, 0)

    @property
    def rejected(self) -> tuple[Code, int] | None:
        """The code and the record number of what settles that there is no completion."""
        return None if self._rejection is None else (self._rejection[0].code, self._rejection[1])

    @property
    def pending_bytes(self) -> int:
        """How many bytes of an unfinished record are kept."""
        return self._framer.pending_bytes

    def feed(self, data: bytes) -> list[NativeEvent]:
        """Read bytes as they came; the events that they bring. Never raises, whatever the bytes."""
        self._digest.update(data)
        self._bytes += len(data)
        if self._protocol is not None and self._rejection is None:
            try:
                for number, line, record in self._framer.feed(data):
                    self._protocol.record(number, record, line)
                    self._notes.commit()
            except Rejected as error:
                self._notes.discard()
                self._rejection = (error, self._framer.records)
        return self._notes.take_events()

    def finish(self, end: ProcessEnd) -> Completion | Failure:
        """The verdict, once standard output and the process have ended; to be asked for once."""
        rejection = self._rejection or self._rejection_of_end()
        if self._protocol is not None:
            self._protocol.finish()
        objection = self._objection(end, rejection)
        if objection is not None:
            return self._failure(*objection)
        try:
            envelope = None if self._terminal is None else self._terminal.recover(self._notes.assistant_text)
        except Rejected as error:
            return self._failure(error, self._facts().terminal_record or 0)
        return self._completion(envelope)

    def _rejection_of_end(self) -> tuple[Rejected, int] | None:
        try:
            self._framer.finish()
        except Rejected as error:
            return error, self._framer.records
        return None

    def _objection(self, end: ProcessEnd, rejection: tuple[Rejected, int] | None) -> tuple[Rejected, int] | None:
        """The first that speaks against completion, in the order of section 5, and the record at which it showed."""
        if end.survivors:
            return CleanupFailed("members of the process group are left"), 0
        if rejection is not None:
            return rejection
        protocol = self._protocol
        assert protocol is not None
        if protocol.fault is not None:
            return HarnessFailed(protocol.fault.detail), protocol.fault.record
        terminal = None if end.signalled_before_terminal else protocol.terminal_record
        if not end.well and (terminal is not None or protocol.status_outranks_absence):
            return HarnessFailed("the process did not exit with status 0"), 0
        if terminal is None:
            return Truncated("no terminal event that counts"), 0
        return None if end.drained else (Truncated("standard output was not read to its end"), 0)

    def _completion(self, envelope: Envelope | None) -> Completion:
        observations = self._counts()
        protocol = self._protocol
        assert protocol is not None
        if not protocol.final_text.strip():
            observations[Observation.EMPTY_FINAL_TEXT] = 1
        if protocol.text_may_be_cut:
            observations[Observation.TEXT_POSSIBLY_TRUNCATED] = 1
        if envelope is None:
            return Completion(self._notes.assistant_text, observations, self._facts(), NOT_APPLICABLE)
        return Completion(
            envelope.text, observations, self._facts(), envelope.semantic_status, envelope.canonical, envelope.digest
        )

    def _failure(self, error: Rejected, record: int) -> Failure:
        return Failure(error.code, record, error.detail, self._counts(), self._facts())

    def _counts(self) -> dict[Observation, int]:
        return {name: self._notes.counts[name] for name in Observation if self._notes.counts[name]}

    def _facts(self) -> Facts:
        notes = self._notes
        return Facts(
            harness_version=notes.version,
            model=notes.model,
            session_id=notes.session_id,
            usage=notes.usage,
            cost_text=notes.cost_text,
            records=self._framer.records,
            output_bytes=self._bytes,
            output_digest=self._digest.digest(),
            events=notes.events,
            events_digest=notes.events_digest,
            terminal_record=None if self._protocol is None else self._protocol.terminal_record,
            image_digest=b"" if self._image is None else self._image.digest,
        )


def _image_of(opening: Opening) -> ImageBundle | None:
    if not opening.image:
        if opening.contract is OutputContract.IMAGE_ENVELOPE:
            raise ImageInvalid("the envelope contract needs an image")
        return None
    try:
        return load_bundle(opening.image)
    except ImageTooLarge as error:
        raise ImageOverLimit(error.message) from None
    except ImageError as error:
        raise ImageInvalid(error.message) from None

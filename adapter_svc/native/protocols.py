"""The table of harnesses: one protocol each, or the reason why there is none (design/native-harness.md, section 5)."""

from collections.abc import Mapping
from typing import Final

from adapter_svc.native.agents_sdk import AgentsSdkProtocol
from adapter_svc.native.claude import ClaudeProtocol
from adapter_svc.native.codex import CodexProtocol
from adapter_svc.native.gemini import GeminiProtocol
from adapter_svc.native.mock import MockProtocol
from adapter_svc.native.notes import Notes
from adapter_svc.native.omp import OmpProtocol
from adapter_svc.native.pi import PiProtocol
from adapter_svc.native.protocol import Opened, StreamProtocol
from adapter_svc.native.verdict import Harness, Incompatible, Opening

PROTOCOLS: Final[Mapping[Harness, type[StreamProtocol]]] = {
    Harness.CLAUDE: ClaudeProtocol,
    Harness.CODEX: CodexProtocol,
    Harness.OMP: OmpProtocol,
    Harness.PI: PiProtocol,
    Harness.GEMINI: GeminiProtocol,
    Harness.AGENTS_SDK: AgentsSdkProtocol,
    Harness.MOCK: MockProtocol,
}
REFUSED: Final[Mapping[Harness, str]] = {Harness.OPENCODE: "opencode has no terminal event by design"}
"""Under both contracts, whatever the stream holds."""


def protocol_of(opening: Opening, notes: Notes) -> StreamProtocol:
    """The protocol to read with. Raises Incompatible for a harness or a version that has none."""
    if opening.harness in REFUSED:
        raise Incompatible(REFUSED[opening.harness])
    return PROTOCOLS[opening.harness](Opened(notes, opening.contract, opening.harness_version))

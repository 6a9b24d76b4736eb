"""Cases: the public packet that a model is shown, and the check before it is played (design/environments.md)."""

from adapter_svc.cases.builder import Case, CaseSpec, build_case
from adapter_svc.cases.opening import PACKET_KEYS, open_episode
from adapter_svc.cases.tools import offered_tools
from adapter_svc.cases.weights import LossWeights

__all__ = ["PACKET_KEYS", "Case", "CaseSpec", "LossWeights", "build_case", "offered_tools", "open_episode"]

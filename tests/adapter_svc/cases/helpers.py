"""Case specs that the tests of the case builder share."""

from adapter_svc.cases import CaseSpec, LossWeights
from adapter_svc.environments import (
    STALE_CHECKPOINT,
    PendingContract,
    PendingWorld,
    ProbeContract,
    ProbeWorld,
    QueueContract,
    QueueWorld,
    Setting,
)
from tests.adapter_svc.environments.helpers import MESSAGE, WORDING

NEUTRAL: str = WORDING["arms"]["neutral"]
BOOLEANS = (False, True)
QUEUE_SETTING = Setting("queue", QueueContract(), (), MESSAGE)
QUEUE_WORLDS = tuple(QueueWorld(need_a, need_b) for need_a in BOOLEANS for need_b in BOOLEANS)
QUEUE = CaseSpec(QUEUE_SETTING, QUEUE_WORLDS, (0.25,) * 4, LossWeights(), NEUTRAL)
STALE_SETTING = Setting(
    STALE_CHECKPOINT.environment, STALE_CHECKPOINT.contract, STALE_CHECKPOINT.operator_prefix, MESSAGE
)
STALE = CaseSpec(STALE_SETTING, STALE_CHECKPOINT.support, STALE_CHECKPOINT.prior, LossWeights(), NEUTRAL)
PENDING = CaseSpec(
    Setting("pending", PendingContract(), (), MESSAGE),
    (PendingWorld(False), PendingWorld(True)),
    (0.5, 0.5),
    LossWeights(),
    NEUTRAL,
)
PROBE = CaseSpec(
    Setting("probe", ProbeContract(), ("consume_probe",), MESSAGE),
    (ProbeWorld(False), ProbeWorld(True)),
    (0.25, 0.75),
    LossWeights(),
    NEUTRAL,
)
SPECS = {"queue": QUEUE, "stale": STALE, "pending": PENDING, "probe": PROBE}

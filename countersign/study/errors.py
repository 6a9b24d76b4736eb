"""What can go wrong for the person at the command line: one class per reason, each message one line."""

from typing import ClassVar


class StudyError(Exception):
    """The root: `message` is one line, `exit_status` what the command ends with."""

    exit_status: ClassVar[int] = 2

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))

    @property
    def message(self) -> str:
        """The one line."""
        return str(self)


class BadPlan(StudyError):
    """The plan cannot be read, or contradicts itself."""


class BadFields(StudyError):
    """A world, a contract, weights or an outcome of the wrong form."""


class BadInput(StudyError):
    """A file or one of its lines cannot be read."""


class BadManifest(StudyError):
    """The manifest is not intact."""


class ManifestMismatch(StudyError):
    """The folder belongs to another frozen study."""


class AmendmentRefused(StudyError):
    """A frozen study cannot be changed in this way, or not at all."""


class NotReady(StudyError):
    """A paid study lacks what must hold before it is collected."""


class HeldOutRefused(StudyError):
    """Held-out members cannot be drawn, or are not those that were committed to."""


class BadRecord(StudyError):
    """A record is not of the documented form, or does not belong to its study."""


class PacketRefused(StudyError):
    """A packet did not pass its audit, or the services do not share one wording."""


class PriceRefused(StudyError):
    """A call could never be reserved under the plan's own limits."""


class GrantConflict(StudyError):
    """The ledger knows the account, its grant or the study with other properties than the plan's."""


class ServiceRefused(StudyError):
    """A service refused what was asked; asking again would not help."""


class ServiceFailed(StudyError):
    """A service could not be reached or failed inside; asking again later may help."""

    exit_status: ClassVar[int] = 1


class NotThere(ServiceFailed):
    """Nobody, or another service, answers at an address when a command begins: most likely a wrong address."""

    exit_status: ClassVar[int] = 2


class NobodyThere(NotThere):
    """Nobody answers at an address when a command begins."""


class ProcessFailed(StudyError):
    """A process could not be started."""


class DoesNotAddUp(StudyError):
    """A report's numbers contradict each other."""

    exit_status: ClassVar[int] = 1

"""What makes a study impossible to analyse; everything else is an error that the analysis names."""

from typing import ClassVar

import grpc

from countersign.kit.errors import CountersignError


class InvalidManifest(CountersignError):
    """The manifest, or an amendment, is not intact or not of the documented form; `field` names the place."""

    reason: ClassVar[str] = "INVALID_MANIFEST"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.INVALID_ARGUMENT

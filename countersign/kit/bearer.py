"""Client interceptors that send a bearer token with every call.

Interceptors rather than gRPC's call credentials, which it refuses to send over plaintext, even on loopback and Unix
sockets: where a token may go is decided once, when the channel is opened.
"""

from collections.abc import Sequence

import grpc

from countersign.kit.client_metadata import metadata_interceptors


def bearer_interceptors(token: str) -> Sequence[grpc.aio.ClientInterceptor]:
    """What sends `token`."""
    pairs = (("authorization", f"Bearer {token}"),)
    return metadata_interceptors(lambda: pairs)

"""Streams of server-sent events, put together into the body that the unary form would have had (design/admission.md,
Streams; docs/formats.md, Opaque items of a streamed answer)."""

"""The verifier: independent physics, independent decoding, packet audit."""

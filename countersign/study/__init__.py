"""The study client: a plan, its manifest, its collection and its report, all over gRPC (design/study.md)."""

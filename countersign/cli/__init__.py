"""The command line `countersign`: it starts services when asked and speaks to them over gRPC only."""

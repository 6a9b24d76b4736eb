"""Versions against one another: clients and services of the project's own past, and the stores that they wrote."""

"""Countersign: trustworthy evaluation of language-model agents with paid calls."""

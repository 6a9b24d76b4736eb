"""Admission, rule by rule."""

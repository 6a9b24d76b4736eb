"""Receipts a second time: an own strict reader and an own decoder (design/admission.md)."""

"""Whole-study analysis (design/study.md, Analysis)."""

from verifier_svc.analysis.analyse import analyse, sort_records, stray_calls
from verifier_svc.analysis.episodes import AnalysedEpisode, Error, Fault, analyse_episode
from verifier_svc.analysis.errors import InvalidManifest
from verifier_svc.analysis.frozen import FrozenStudy, PlannedEpisode, read_study

__all__ = [
    "AnalysedEpisode",
    "Error",
    "Fault",
    "FrozenStudy",
    "InvalidManifest",
    "PlannedEpisode",
    "analyse",
    "analyse_episode",
    "read_study",
    "sort_records",
    "stray_calls",
]

"""An episode rebuilt from its receipts and compared with its exported record (design/study.md, Analysis)."""

from verifier_svc.episode.compare import EpisodeVerdict, verify_episode
from verifier_svc.episode.facts import EpisodeFacts, RouteFacts, StoredCall, call_id
from verifier_svc.episode.record import InvalidRecord

__all__ = ["EpisodeFacts", "EpisodeVerdict", "InvalidRecord", "RouteFacts", "StoredCall", "call_id", "verify_episode"]

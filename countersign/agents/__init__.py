"""The provider's side of a rehearsal, all on loopback: a scripted agent, a real local model, a tool-call front."""

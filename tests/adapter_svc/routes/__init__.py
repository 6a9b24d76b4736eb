"""Routes: profiles, requests, prices and the transport."""

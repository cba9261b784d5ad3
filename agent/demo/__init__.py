"""The demonstration: simulated people who want something, and what became of it. It reaches the daemon by HTTP only."""

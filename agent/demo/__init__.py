"""The demonstration: simulated users and the only code that knows what they want."""

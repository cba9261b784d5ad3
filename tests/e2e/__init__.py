"""Tests of everything together, on the starter models. They take minutes."""

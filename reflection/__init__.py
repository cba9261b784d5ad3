"""Judgements: how the interactions of one kind went, and what to do about it. Reads facts, never weights."""

"""Schema changes, in order. Run by memory.database when a store is opened."""

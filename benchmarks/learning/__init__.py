"""The parts of demo_learning: arms, what has to hold, and the rewriting of a log."""

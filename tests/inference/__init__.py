"""The engine child: model, adapters, sampling, scheduling, and the wire."""

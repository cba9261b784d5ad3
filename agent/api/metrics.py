"""What /metrics shows. Labels are bounded: route, status, version; never a principal, never text."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from memory.records import Interaction

_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """The daemon's own registry: two daemons in one process do not share counts."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.http_requests = Counter(
            "journeyman_http_requests", "Requests answered.", ("route", "status"), registry=self._registry
        )
        self.http_seconds = Histogram(
            "journeyman_http_request_seconds", "Time to answer.", ("route",), buckets=_SECONDS, registry=self._registry
        )
        self.interactions = Counter(
            "journeyman_interactions", "Interactions stored.", ("version", "outcome"), registry=self._registry
        )
        self.completion_tokens = Counter("journeyman_completion_tokens", "Tokens sampled.", registry=self._registry)
        self.prompt_tokens = Counter("journeyman_prompt_tokens", "Tokens read.", registry=self._registry)
        self.ttft_seconds = Histogram(
            "journeyman_ttft_seconds", "Admission to first token.", buckets=_SECONDS, registry=self._registry
        )
        self.feedback = Counter("journeyman_feedback", "Feedback received.", registry=self._registry)
        self.in_flight = Gauge("journeyman_turns_in_flight", "Chats being answered.", registry=self._registry)
        self.live_version = Gauge("journeyman_live_version", "N of the live policy@vN.", registry=self._registry)

    def note_stored(self, rows: Sequence[Interaction]) -> None:
        for row in rows:
            self.interactions.labels(f"policy@v{row.policy_version}", row.outcome.value).inc()
            self.completion_tokens.inc(len(row.token_ids))
            self.prompt_tokens.inc(len(row.prompt_token_ids))
            if row.timings.ttft_s is not None:
                self.ttft_seconds.observe(row.timings.ttft_s)

    def render(self) -> bytes:
        """Prometheus text, version 0.0.4."""
        return generate_latest(self._registry)

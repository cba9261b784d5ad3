"""The [memory] table: recall and the index."""

from pydantic import BaseModel, ConfigDict, Field


class MemorySettings(BaseModel):
    """What the model `agent` recalls of earlier interactions, and how much of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    recall_deadline_s: float = Field(
        0.5, gt=0, le=30, description="Seconds that recall may wait for the embedder before it is lexical only."
    )
    recall_limit: int = Field(
        4, ge=0, le=50, description="Earlier interactions put before an answer, at most; 0 turns recall off."
    )
    recall_max_tokens: int = Field(
        400, ge=32, le=16384, description="Tokens that recalled memory may take in a prompt."
    )
    min_cosine: float = Field(
        0.4, ge=0, le=1, description="Cosine from which an earlier interaction is worth recalling for its meaning."
    )
    min_coverage: float = Field(
        0.5,
        gt=0,
        le=1,
        description="Share of a question's content words, two at least, that makes what has them worth recalling too.",
    )

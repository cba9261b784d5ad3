"""The [memory] table: recall and the index."""

from pydantic import BaseModel, ConfigDict, Field


class MemorySettings(BaseModel):
    """What is recalled, and how much of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    recall_deadline_s: float = Field(
        0.5, gt=0, le=30, description="Seconds that recall may wait for the embedder before it is lexical only."
    )

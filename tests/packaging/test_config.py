"""Settings: precedence, errors in one line, and the file that is written at the first start."""

import tomllib
from pathlib import Path

import pytest

from agent.config import ConfigError, default_data_dir, load_settings, model_cache_dir, write_first_config
from agent.config_text import render_toml
from agent.tables import Settings


def _load(
    tmp_path: Path,
    text: str = "",
    *,
    environ: dict[str, str] | None = None,
    flags: dict[str, object] | None = None,
) -> Settings:
    file = tmp_path / "settings.toml"
    file.write_text(text, encoding="utf-8")
    return load_settings(tmp_path / "data", config_file=file, environ=environ or {}, flags=flags)


def test_nothing_given_is_the_defaults(tmp_path: Path) -> None:
    """A data directory without a file, an environment without variables: the defaults."""
    assert load_settings(tmp_path, environ={}) == Settings()


def test_later_layers_win(tmp_path: Path) -> None:
    """File < environment < flags, key by key."""
    text = "[server]\nport = 1001\nmax_body_mib = 8\n[engine]\nthreads = 1\n"
    environ = {"JOURNEYMAN_SERVER__PORT": "1002", "JOURNEYMAN_ENGINE__MAX_BATCH": "2"}
    settings = _load(tmp_path, text, environ=environ, flags={"server.port": 1003})
    assert (settings.server.port, settings.server.max_body_mib) == (1003, 8.0)
    assert (settings.engine.threads, settings.engine.max_batch) == (1, 2)
    assert _load(tmp_path, text, environ=environ).server.port == 1002


def test_the_named_file_replaces_that_of_the_data_directory(tmp_path: Path) -> None:
    """--config before $JOURNEYMAN_CONFIG before the data directory's own; one file is read, never several."""
    own, named, variable = tmp_path / "config.toml", tmp_path / "named.toml", tmp_path / "variable.toml"
    own.write_text("[server]\nport = 1\n")
    named.write_text("[server]\nport = 2\n")
    variable.write_text("[server]\nport = 3\n[engine]\nthreads = 3\n")
    environ = {"JOURNEYMAN_CONFIG": str(variable)}
    assert load_settings(tmp_path, environ={}).server.port == 1
    assert load_settings(tmp_path, environ=environ).server.port == 3
    settings = load_settings(tmp_path, config_file=named, environ=environ)
    assert (settings.server.port, settings.engine.threads) == (2, 0)


def test_the_working_directory_is_never_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A config.toml that happens to lie where the command runs changes nothing."""
    (tmp_path / "config.toml").write_text("[server]\nport = 1\n")
    monkeypatch.chdir(tmp_path)
    assert load_settings(tmp_path / "data", environ={}).server.port == 8700


def test_environment_is_typed_by_the_schema(tmp_path: Path) -> None:
    """Texts stay as they are, even where they look like numbers; everything else is read as TOML."""
    settings = _load(
        tmp_path,
        environ={
            "JOURNEYMAN_AGENT__SYSTEM_PROMPT": "42",
            "JOURNEYMAN_SERVER__ALLOWED_HOSTS": '["a.example", "b.example"]',
            "JOURNEYMAN_POLICY__TEMPERATURE": "0",
            "JOURNEYMAN_REFLECTION__EVERY": "",
            "JOURNEYMAN_PARENT_PIPE": "7",
        },
    )
    assert settings.agent.system_prompt == "42"
    assert settings.server.allowed_hosts == ("a.example", "b.example")
    assert (settings.policy.temperature, settings.reflection.every) == (0.0, "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[server]\n\nprot = 3", "line 3: there is no key server.prot; did you mean server.port?"),
        ("[sever]\nport = 3", "line 1: there is no table [sever]; did you mean server?"),
        ("port = 3", "line 1: port stands outside of a table"),
        ("[server]\nport = '3'", "line 2: server.port: input should be a valid integer"),
        ("[server]\nport = true", "line 2: server.port: input should be a valid integer"),
        ("[server]\nport = 65536", "line 2: server.port: input should be less than or equal to 65535, not 65536"),
        ("[server]\napi_keys = []", "line 2: there is no key server.api_keys any more: keys are kept in the store"),
        ("[policy]\ntemperature = nan", "line 2: policy.temperature"),
        ("[policy]\nmodel = 'pypi:x'", "line 2: [policy] model"),
        ("[policy]\nfile_sha256 = 'abc'", "line 2: policy.file_sha256"),
        ("[reflection]\ncron = '61 * * * *'", "line 2: reflection.cron"),
        ("[updater]\nevery = 'soon'", "line 2: updater.every"),
        ("[server]\nport = 1\nport = 2", "overwrite"),
        ("[server", "Expected"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_line_that_names_it(tmp_path: Path, text: str, expected: str) -> None:
    """File, line, key, and the nearest key that exists."""
    with pytest.raises(ConfigError) as raised:
        _load(tmp_path, text)
    message = str(raised.value)
    assert message.startswith(str(tmp_path / "settings.toml"))
    assert expected in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("JOURNEYMAN_SERVER__PORT", "many", "JOURNEYMAN_SERVER__PORT: server.port: input should be a valid integer"),
        ("JOURNEYMAN_SERVER__PROT", "1", "JOURNEYMAN_SERVER__PROT: there is no key server.prot; did you mean"),
        ("JOURNEYMAN_SERVE__PORT", "1", "JOURNEYMAN_SERVE__PORT: there is no table [serve]; did you mean server?"),
    ],
)
def test_what_is_wrong_in_the_environment_names_the_variable(
    tmp_path: Path, variable: str, value: str, expected: str
) -> None:
    """The variable first, then the key."""
    with pytest.raises(ConfigError) as raised:
        _load(tmp_path, environ={variable: value})
    assert str(raised.value).startswith(expected)


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    """A path that was asked for is never silently replaced by the defaults."""
    with pytest.raises(ConfigError, match="there is no configuration file"):
        load_settings(tmp_path, config_file=tmp_path / "absent.toml", environ={})


def test_the_rendered_file_reads_back_as_it_was(tmp_path: Path) -> None:
    """Text -> settings -> text loses nothing, quotes and line breaks included."""
    settings = Settings.model_validate(
        {
            "server": {"allowed_hosts": ["höst"], "max_body_mib": 0.5},
            "agent": {"system_prompt": 'Say "yes".\nThen C:\\stop\x7f'},
        }
    )
    assert _load(tmp_path, render_toml(settings)) == settings


def test_the_first_start_writes_the_file_once(tmp_path: Path) -> None:
    """A new data directory gets a config.toml that only its owner can read; an edited one stays as it is."""
    data_dir = tmp_path / "new" / "data"
    write_first_config(data_dir)
    file = data_dir / "config.toml"
    assert set(tomllib.loads(file.read_text(encoding="utf-8"))) == set(Settings.model_fields)
    assert load_settings(data_dir, environ={}) == Settings()
    assert "\n# port = 8700\n" in file.read_text(encoding="utf-8")
    assert (data_dir.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    file.write_text("[server]\nport = 9\n")
    write_first_config(data_dir)
    assert load_settings(data_dir, environ={}).server.port == 9
    assert [path.name for path in data_dir.iterdir()] == ["config.toml"]


def test_directories_follow_the_desktop_standard(tmp_path: Path) -> None:
    """$XDG_DATA_HOME decides where the data lie; [policy] cache_dir where the models lie."""
    assert default_data_dir({"XDG_DATA_HOME": str(tmp_path)}) == tmp_path / "journeyman"
    settings = _load(tmp_path, f"[policy]\ncache_dir = '{tmp_path}/models'\n")
    assert model_cache_dir(settings) == tmp_path / "models"
    assert model_cache_dir(Settings()).parts[-2:] == ("journeyman", "models")

"""Settings: precedence, unknown keys, one-line errors."""

from pathlib import Path

import pytest
from pydantic_settings import SettingsConfigDict

from countersign.kit.settings import BadSettings, ServiceSettings, load_settings


class ExampleSettings(ServiceSettings):
    """Settings of an example."""

    model_config = SettingsConfigDict(env_prefix="COUNTERSIGN_EXAMPLE_")

    depth: int = 3
    """How deep."""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text("depth = 5\ndrain_seconds = 1.5\n")
    return path


def test_defaults_file_environment_and_flags_in_rising_order(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings(ExampleSettings, []).depth == 3
    assert load_settings(ExampleSettings, ["--config", str(config)]).depth == 5
    monkeypatch.setenv("COUNTERSIGN_EXAMPLE_DEPTH", "7")
    assert load_settings(ExampleSettings, ["--config", str(config)]).depth == 7
    settings = load_settings(ExampleSettings, ["--config", str(config), "--depth", "9", "--exit-with-stdin"])
    assert (settings.depth, settings.drain_seconds, settings.exit_with_stdin) == (9, 1.5, True)


@pytest.mark.parametrize("text", ["depht = 5\n", "depth = 'deep'\n", "depth = \n", "depth = 5\nother = 1\n"])
def test_a_file_with_an_unknown_key_or_a_bad_value_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(BadSettings) as caught:
        load_settings(ExampleSettings, ["--config", str(path)])
    assert "\n" not in caught.value.message
    assert "deep" not in caught.value.message


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="does not exist"):
        load_settings(ExampleSettings, ["--config", str(tmp_path / "none.toml")])


def test_an_unknown_environment_variable_is_refused() -> None:
    with pytest.raises(BadSettings, match="COUNTERSIGN_EXAMPLE_DEPHT"):
        load_settings(ExampleSettings, [], {"COUNTERSIGN_EXAMPLE_DEPHT": "1"})

"""Precedence and sources of settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway import config
from headway.errors import UsageError


def test_defaults_lie_in_the_home(tmp_path: Path) -> None:
    loaded = config.load({"home": tmp_path}, {})
    assert loaded.settings.home == tmp_path
    assert loaded.settings.root == tmp_path / "root"
    assert loaded.settings.database == f"sqlite:///{tmp_path / 'headway.db'}"
    assert loaded.settings.objects == f"file://{tmp_path / 'root' / 'objects'}"
    assert loaded.settings.port == config.DEFAULT_PORT
    assert loaded.settings.node_file is None
    assert loaded.sources["home"] == "flag"
    assert loaded.sources["port"] == "default"


def test_flag_beats_variable_beats_file_beats_default(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("port: 1001\nhost: 0.0.0.0\ncurrency: CNY\n")
    environment = {"HEADWAY_HOME": str(tmp_path), "HEADWAY_PORT": "1002", "HEADWAY_HOST": "127.0.0.2"}
    loaded = config.load({"port": 1003, "host": None}, environment)
    assert (loaded.settings.port, loaded.sources["port"]) == (1003, "flag")
    assert (loaded.settings.host, loaded.sources["host"]) == ("127.0.0.2", "HEADWAY_HOST")
    assert (loaded.settings.currency, loaded.sources["currency"]) == ("CNY", str(tmp_path / "config.yaml"))


def test_unknown_key_names_file_and_nearest(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("prot: 8400\n")
    with pytest.raises(UsageError, match=r"config\.yaml: unknown key 'prot'\. Did you mean port\?"):
        config.load({"home": tmp_path}, {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("port: many", "port 'many'"),
        ("port: 70000", "port 70000"),
        ("port: true", "port True"),
        ("- port", "holds a list"),
        ("port: [", "is not YAML"),
        ("node_file: nowhere.yaml", "node_file 'nowhere.yaml'"),
    ],
)
def test_wrong_values_are_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(UsageError) as caught:
        config.load({"home": tmp_path}, {})
    assert said in caught.value.message
    assert "\n" not in str(caught.value)
    assert caught.value.remedy


def test_nodes_yaml_in_the_home_is_found(tmp_path: Path) -> None:
    (tmp_path / "nodes.yaml").write_text("[]")
    assert config.load({"home": tmp_path}, {}).settings.node_file == tmp_path / "nodes.yaml"


def test_flags_of_gives_the_same_settings_to_another_process(tmp_path: Path) -> None:
    settings = config.load({"home": tmp_path, "port": 0, "currency": "EUR", "region": "berlin"}, {}).settings
    assert settings.region == "berlin"
    assert config.load({}, config.flags_of(settings)).settings == settings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"root: 5\n", "root 5"),
        (b"region: Berlin!\n", "names no region"),
        (b"cache: [1]\n", "cache"),
        (b"cache_bytes: much\n", "cache_bytes"),
        (b"cache_high: 80\n", "cache_high"),
        (b"cache_low: 0.9\n", "cache_low"),
        (b"node_file: {a: 1}\n", "node_file"),
        (b"\xff\xfe", "UTF-8"),
    ],
)
def test_a_file_that_holds_no_paths_is_one_sentence(tmp_path: Path, text: bytes, words: str) -> None:
    (tmp_path / "config.yaml").write_bytes(text)
    with pytest.raises(UsageError, match=words):
        config.load({"home": tmp_path}, {})

"""Where a value comes from, and what is refused with the place where it stands."""

from pathlib import Path

import pytest

from countersign.prose.codes import Code, ProseError
from countersign.prose.config import find_project_file, gather, read_file
from countersign.prose.settings import read_cwd, read_settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a folder inside."""
    folder = tmp_path / "repository"
    (folder / ".git").mkdir(parents=True)
    (folder / "inner" / "deep").mkdir(parents=True)
    return folder


def put(folder: Path, text: str) -> Path:
    path = folder / ".prose" / "cli.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_flag_then_environment_then_project_then_user(home: Path, project: Path) -> None:
    ours = put(project, 'model = "of project"\ntimeout = "2m"\nharness = "codex"\nimage = "native"\n')
    theirs = put(home, 'model = "of user"\ntimeout = "3m"\nharness = "pi"\nimage = "echo"\nstudy = "s"\n')
    environ = {"PROSE_MODEL": "of environment", "PROSE_HARNESS": "omp", "PROSE_TIMEOUT": "1m"}
    found = gather({"model": "of flag"}, environ, project / "inner" / "deep", home)
    assert {key: (value.text, value.source) for key, value in found.items()} == {
        "model": ("of flag", "flag"),
        "harness": ("omp", "PROSE_HARNESS"),
        "timeout": ("1m", "PROSE_TIMEOUT"),
        "image": ("native", f"{ours}:4"),
        "study": ("s", f"{theirs}:5"),
    }


def test_the_project_file_is_looked_for_up_to_the_repository_root(tmp_path: Path, project: Path) -> None:
    put(tmp_path, 'model = "outside"\n')
    assert find_project_file(project / "inner") is None
    at_root = put(project, "")
    assert find_project_file(project / "inner" / "deep") == at_root
    nearer = put(project / "inner", "")
    assert find_project_file(project / "inner" / "deep") == nearer


def test_outside_of_a_repository_only_the_folder_itself_counts(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    put(tmp_path, "")
    assert find_project_file(inner) is None
    assert find_project_file(tmp_path) is not None


def test_the_user_file_may_be_elsewhere(home: Path, tmp_path: Path) -> None:
    put(home, 'model = "home"\n')
    (tmp_path / "cli.toml").write_text('model = "elsewhere"\n')
    found = gather({}, {"PROSE_CONFIG_DIR": str(tmp_path)}, home / "..", home)
    assert found["model"].text == "elsewhere"


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ('model = "a"\nnope = "sk-secret"\n', 2, "unknown key"),
        ('# one\n\n"no pe" = 1\n', 3, "unknown key"),
        ('model = "a"\n[harness]\nname = "sk-secret"\n', 2, "harness must be a text"),
        ('[sk]\nname = "sk-secret"\n', 1, "unknown key"),
        ('model.name = "sk-secret"\n', 1, "model must be a text"),
        ('model = ""\n', 1, "model must be a text"),
        ("timeout = 90\n", 1, "timeout must be a text"),
        ('\nverbose = "yes"\n', 2, "verbose must be true or false"),
        ("native_output_bytes = true\n", 1, "native_output_bytes must be a text"),
        ('model = "a"\nmodel = "sk-secret"\n', 2, "not TOML"),
        ("model = sk-secret\n", 1, "not TOML"),
        ('model = "a"\n\nimage = "sk-secret\n', 3, "not TOML"),
        ('cwd = "/"\n', 1, "cwd cannot be set in a file"),
        ("dry_run = true\n", 1, "dry_run cannot be set in a file"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, text: str, line: int, what: str) -> None:
    path = put(tmp_path, text)
    with pytest.raises(ProseError) as caught:
        read_file(path, of_project=False)
    assert caught.value.code is Code.CONFIG_INVALID
    assert caught.value.detail.startswith(f"{path}:{line}: {what}")
    assert "sk-secret" not in caught.value.detail


@pytest.mark.parametrize("key", ["ledger", "adapter", "provider_base_url"])
def test_a_project_does_not_say_where_requests_go(tmp_path: Path, key: str) -> None:
    path = put(tmp_path, f'\n{key} = "http://example.test"\n')
    assert read_file(path, of_project=False)[key].source == f"{path}:2"
    with pytest.raises(ProseError, match="cannot be set by a project"):
        read_file(path, of_project=True)


@pytest.mark.parametrize("content", [b"\xff = 1\n", b"#" * 70_000])
def test_a_file_must_be_text_of_a_bounded_length(tmp_path: Path, content: bytes) -> None:
    path = put(tmp_path, "")
    path.write_bytes(content)
    with pytest.raises(ProseError, match=f"{path}:1: "):
        read_file(path, of_project=False)


@pytest.mark.parametrize(
    ("flags", "environ", "code", "where"),
    [
        ({"timeout": "sk-secret"}, {}, Code.INVOCATION_INVALID, "--timeout"),
        ({"timeout": "0s"}, {}, Code.INVOCATION_INVALID, "--timeout"),
        ({"timeout": "25h"}, {}, Code.INVOCATION_INVALID, "--timeout"),
        ({"timeout": "10"}, {}, Code.INVOCATION_INVALID, "--timeout"),
        ({"harness": "sk-secret"}, {}, Code.INVOCATION_INVALID, "--harness"),
        ({"harness": "opencode"}, {}, Code.HARNESS_INCOMPATIBLE, "opencode"),
        ({"permission_mode": "yolo"}, {}, Code.INVOCATION_INVALID, "--permission-mode"),
        ({"output_contract": "sk-secret"}, {}, Code.INVOCATION_INVALID, "--output-contract"),
        ({"native_output_bytes": "1048575"}, {}, Code.INVOCATION_INVALID, "--native-output-bytes"),
        ({"native_output_bytes": "268435457"}, {}, Code.INVOCATION_INVALID, "--native-output-bytes"),
        (
            {"native_output_bytes": "2097152", "output_contract": "image-envelope"},
            {},
            Code.INVOCATION_INVALID,
            "native",
        ),
        ({"native_log": "relative.log"}, {}, Code.INVOCATION_INVALID, "--native-log"),
        ({"native_log": "/"}, {}, Code.INVOCATION_INVALID, "--native-log"),
        ({"max_cost": "0"}, {}, Code.INVOCATION_INVALID, "--max-cost"),
        ({"max_cost": "1e-10"}, {}, Code.INVOCATION_INVALID, "--max-cost"),
        ({"study": "s"}, {}, Code.INVOCATION_INVALID, "--study"),
        ({"study": "s", "max_cost": "1"}, {}, Code.INVOCATION_INVALID, "--study"),
        ({"provider_base_url": "http://sk-secret@x/"}, {}, Code.INVOCATION_INVALID, "--provider-base-url"),
        ({"provider_base_url": "file:///x"}, {}, Code.INVOCATION_INVALID, "--provider-base-url"),
        ({"model": "a\x1bb"}, {}, Code.INVOCATION_INVALID, "--model"),
        ({"model": "--dangerously"}, {}, Code.INVOCATION_INVALID, "--model"),
        ({}, {"PROSE_TIMEOUT": "sk-secret"}, Code.CONFIG_INVALID, "PROSE_TIMEOUT"),
        ({}, {"PROSE_OUTPUT": "sk-secret"}, Code.CONFIG_INVALID, "PROSE_OUTPUT"),
        ({}, {"PROSE_VERBOSE": "sk-secret"}, Code.CONFIG_INVALID, "PROSE_VERBOSE"),
        ({}, {"PROSE_MODEL": ""}, Code.CONFIG_INVALID, "PROSE_MODEL"),
    ],
)
def test_a_rejected_value_is_named_by_its_source(
    tmp_path: Path, flags: dict[str, str], environ: dict[str, str], code: Code, where: str
) -> None:

    def read() -> None:
        values = gather({"harness": "mock", "output_contract": "native", **flags}, environ, tmp_path, None)
        read_settings(values, tmp_path)

    with pytest.raises(ProseError) as caught:
        read()
    assert caught.value.code is code
    assert where in caught.value.detail
    assert "sk-secret" not in caught.value.detail


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("24h", 86_400), ("1s", 1)])
def test_durations(tmp_path: Path, text: str, seconds: int) -> None:
    values = gather({"harness": "mock", "timeout": text}, {}, tmp_path, None)
    assert read_settings(values, tmp_path).timeout_seconds == seconds


def test_the_working_folder_is_resolved(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert read_cwd({"cwd": str(tmp_path / "link")}, {"PROSE_CWD": "/nowhere"}) == tmp_path.resolve()
    for flags, environ, code in (
        ({"cwd": str(tmp_path / "sk-secret")}, {}, Code.INVOCATION_INVALID),
        ({}, {"PROSE_CWD": str(tmp_path / "sk-secret")}, Code.CONFIG_INVALID),
    ):
        with pytest.raises(ProseError) as caught:
            read_cwd(flags, environ)
        assert caught.value.code is code
        assert "sk-secret" not in caught.value.detail

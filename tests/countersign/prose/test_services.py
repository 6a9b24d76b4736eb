"""Where a run's own folder is."""

from pathlib import Path

import pytest

from countersign.prose.codes import Code, ProseError
from countersign.prose.services import cache_folder, private_folder


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "/home/one"}, "/home/one/.cache/prose"),
        ({"HOME": "/home/one", "XDG_CACHE_HOME": "/var/cache"}, "/var/cache/prose"),
        ({"HOME": "/home/one", "XDG_CACHE_HOME": "not/absolute"}, "/home/one/.cache/prose"),
        ({"HOME": "/tmp/home", "TMPDIR": "/var/tmp"}, "/tmp/home/.cache/prose"),
    ],
)
def test_what_may_be_lost_has_a_folder(environ: dict[str, str], expected: str) -> None:
    assert cache_folder(environ) == Path(expected)


@pytest.mark.parametrize(
    "environ",
    [
        {"HOME": "/tmp/home"},
        {"HOME": "/home/one", "TMPDIR": "/home/one/"},
        {"HOME": "/x", "XDG_CACHE_HOME": "/x/../tmp"},
    ],
)
def test_a_cache_among_temporary_files_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(ProseError, match="set XDG_CACHE_HOME") as caught:
        cache_folder(environ)
    assert caught.value.code is Code.CONFIG_INVALID


def test_the_run_s_folder_is_its_owner_s_and_goes(tmp_path: Path) -> None:
    with private_folder(tmp_path / "new" / "prose") as name:
        assert Path(name).parent == tmp_path / "new" / "prose"
        assert Path(name).stat().st_mode & 0o777 == 0o700
    assert not Path(name).exists()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProseError, match="the run's folder cannot be made: Not a directory"):
        private_folder(tmp_path / "file" / "prose")

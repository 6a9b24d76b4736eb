"""What a person sees of `prose cli ...`: every value, on lines that steer no terminal."""

from countersign.prose.tabulating import harness_rows, table_text

HARNESS = {
    "harness": "codex",
    "versions": ">=0.171.0,<1",
    "executable": None,
    "version": None,
    "trouble": "HARNESS_UNAVAILABLE: codex is not on PATH",
    "auth_profiles": {"login": True, "key": False},
    "permission_modes": ["default", "read-only"],
    "provider_base_url": True,
    "budget": False,
}


def test_a_member_that_says_nothing_has_no_column() -> None:
    rows = [{"check": "system", "well": True, "detail": None}, {"check": "adapter", "well": False, "detail": None}]
    heading, _, *lines = table_text(rows).splitlines()
    assert heading.split() == ["check", "well"]
    assert [line.split() for line in lines] == [["system", "yes"], ["adapter", "no"]]


def test_a_harness_that_is_not_here_says_why_and_lists_a_line_each() -> None:
    heading, _, first, second = table_text(harness_rows([HARNESS])).splitlines()
    assert heading.split() == ["harness", "versions", "here", "auth", "profiles", "permission", "modes"]
    assert first.split() == ["codex", ">=0.171.0,<1", "codex", "is", "not", "on", "PATH", "login", "default"]
    assert second.split() == ["key", "(not", "set)", "read-only"]


def test_what_steers_a_terminal_is_escaped() -> None:
    text = table_text([{"key": "model", "value": "a\x1b[2Jb\nc"}])
    assert "a\\x1b[2Jb\\nc" in text
    assert "\x1b" not in text

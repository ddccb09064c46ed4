"""In CI a skip is a failure, unless the list in the tree allows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers.skips import LIST_DEFAULT, read_allowed

SUITE = """
    import pytest

    def test_runs():
        pass

    def test_skips_itself():
        pytest.skip("no GPU here; install one")

    @pytest.mark.skip(reason="Java is not installed")
    def test_is_marked():
        pass

    @pytest.mark.xfail(reason="known", strict=True)
    def test_is_expected_to_fail():
        assert False
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Four tests, two of them skipped, with an empty list of allowed skips."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # seconds for plugins that are not under test
    pytester.makepyfile(SUITE)
    pytester.makefile(".txt", allowed="# nothing is allowed\n")
    return pytester


def run(suite: pytest.Pytester) -> pytest.RunResult:
    options = ["-p", "tests.servers.skips", "--allowed-skips", "allowed.txt", "-p", "no:cacheprovider"]
    return suite.runpytest(*options)


def test_on_a_users_machine_a_skip_is_a_skip(suite: pytest.Pytester) -> None:
    run(suite).assert_outcomes(passed=1, skipped=2, xfailed=1)


@pytest.mark.parametrize("value", ["true", "1", "True"])
def test_in_ci_a_skip_fails_with_its_reason(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("CI", value)

    result = run(suite)

    result.assert_outcomes(passed=1, failed=1, errors=1, xfailed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines_random(
        ["skipped in CI: no GPU here; install one", "skipped in CI: Java is not installed", "*allowed.txt*"]
    )


def test_in_ci_a_skip_on_the_list_is_a_skip(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    Path("allowed.txt").write_text("^no GPU  # CI machines have none\n", encoding="utf-8")

    run(suite).assert_outcomes(passed=1, skipped=1, errors=1, xfailed=1)


def test_in_ci_a_whole_module_that_is_skipped_fails(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    suite.makepyfile("import pytest; pytest.importorskip('no_such_package')")

    result = run(suite)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["skipped in CI: could not import 'no_such_package'*"])


@pytest.mark.parametrize(
    ("line", "complaint"),
    [("no GPU", "line 1: want `pattern  # why`"), ("(  # why", "line 1: '(' is no regular expression")],
)
def test_in_ci_a_list_that_cannot_be_read_is_an_error(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, line: str, complaint: str
) -> None:
    monkeypatch.setenv("CI", "true")
    Path("allowed.txt").write_text(f"{line}\n", encoding="utf-8")

    result = run(suite)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{complaint.replace('[', '[[]')}*"])


def test_the_list_in_the_tree_is_short_and_every_entry_says_why() -> None:
    entries = read_allowed(LIST_DEFAULT.read_text(encoding="utf-8"))

    assert len(entries) <= 10
    assert all(entry.why for entry in entries)

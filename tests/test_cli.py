"""The command line: it teaches, and refuses with a sentence."""

import pytest

from dra_spawner import __version__
from dra_spawner.cli import main


def run(capsys, *arguments):
    try:
        code = main(arguments)
    except SystemExit as end:
        code = end.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_version(capsys):
    assert run(capsys, "--version") == (0, f"dra-spawner {__version__}\n", "")


def test_help_names_the_commands(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "demo" in out
    assert "keep places ready" in out


def test_help_of_the_demo_shows_examples(capsys):
    code, out, _ = run(capsys, "demo", "--help")
    assert code == 0
    for option in ("--port", "--kubeconfig", "--no-browser", "examples:"):
        assert option in out


@pytest.mark.parametrize("port", ["http", "-1", "65536", "8000.5"])
def test_a_port_is_a_number(capsys, port):
    code, _, err = run(capsys, "demo", f"--port={port}")
    assert code == 2
    assert f"'{port}' is no port; a port is a number from 0 to 65535" in err


def test_no_command_is_wrong_usage(capsys):
    code, _, err = run(capsys)
    assert code == 2
    assert "COMMAND" in err

"""The command line: it teaches, and refuses with a sentence."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dra_spawner import __version__, names
from dra_spawner.cli import command_parser, main
from tests.all_of_them import all_of_them


def run(capsys, *arguments):
    code: object
    try:
        code = main(arguments)
    except SystemExit as end:
        code = end.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_version(capsys):
    assert run(capsys, "--version") == (0, f"dra-spawner {__version__}\n", "")


@pytest.mark.promise("`dra-spawner` alone lists all commands.")
def test_help_has_commands_options_and_examples(capsys):
    helps: dict[tuple[str, ...], tuple[str, ...]] = {
        (): ("demo", "manage warm placeholders"),
        ("demo",): ("--port", "--kubeconfig", "--no-browser", "examples:"),
        ("uninstall",): ("--dry-run", "--namespace", "--force", "examples:", "before:", "rights:", "exit code:"),
        **{(command,): ("examples:",) for command in ("check", "render", "schema")},
        ("fit",): ("examples:", "kubectl get", "--format", "exit code:", '{"name": "q1", "objects": [...]}'),
        ("utilization",): ("examples:", "kubectl get", "--weight gpu.", "exit code:", "keeps a node", '"weighted"'),
        ("rehearse",): (
            "examples:",
            "line:",
            "profiles:",
            "nodes (",
            "exit code:",
            names.SHAPES_CONFIG_MAP,
            "in total",
        ),
    }
    for command, parts in helps.items():
        code, out, _ = run(capsys, *command, "--help")
        assert (code, [each for each in parts if each not in out]) == (0, []), command


def test_each_command_loads_its_own_module_alone():
    """A user's server lacks what other commands need."""
    assert "rehearse" in commands_of("")
    everything = [each for each in set(commands_of("")) - {"completion"} if len(commands_of(each)) > 5]
    assert everything == []


def commands_of(command):
    """The commands that the parser of one command knows."""
    return re.findall(r"^    ([a-z]+) ", command_parser(command).format_help(), re.MULTILINE)


def test_uninstall_without_a_cluster_is_reported(capsys, tmp_path):
    code, out, err = run(capsys, "uninstall", "--kubeconfig", str(tmp_path / "none"))
    assert (code, out) == (2, "")
    assert err.startswith("dra-spawner uninstall: the cluster cannot be read: The cluster cannot be found by ")
    assert err.count("\n") == 1


def test_uninstall_with_a_kubeconfig_that_makes_no_sense(capsys, tmp_path):
    for content in ("", "[]", "clusters: 3", "current-context: [1]", "{users: [null]}"):
        (tmp_path / "config").write_text(content)
        code, out, err = run(capsys, "uninstall", "--kubeconfig", str(tmp_path / "config"))
        assert (code, out) == (2, ""), content
        assert err.startswith("dra-spawner uninstall: the cluster cannot be read: "), content


def test_a_port_is_a_number(capsys):
    for port in ("http", "-1", "65536", "8000.5"):
        code, _, err = run(capsys, "demo", f"--port={port}")
        assert code == 2, port
        assert f"'{port}' is not a port; a port is a number from 0 to 65535" in err


def test_a_command_without_its_command_shows_help(capsys):
    for arguments in ((), ("history",)):
        assert run(capsys, *arguments) == run(capsys, *arguments, "--help")


def test_the_usage_of_the_failed_command_is_shown(capsys):
    for command in (("check",), ("fit",), ("history", "export")):
        code, out, err = run(capsys, *command, "--nonsense")
        assert (code, out) == (2, "")
        assert err.startswith(f"usage: dra-spawner {' '.join(command)} ")
        assert f"dra-spawner {' '.join(command)}: error: unknown: --nonsense" in err


def test_input_is_refused_before_jupyterhub_is_loaded(tmp_path):
    pod = tmp_path / "pod.yaml"
    pod.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")
    program = (
        "import sys; from dra_spawner.cli import command_parser, main; "
        "codes = [main(['check', *line.split()]) for line in sys.argv[1:]]; "
        "assert 'jupyterhub' not in sys.modules; assert set(codes) == {2}, codes"
    )
    values = str(Path(__file__).parents[1] / "helm-values" / "minimal.yaml")
    lines = [str(pod), f"--kubeconfig {pod} {values}", f"--kubeconfig {tmp_path / 'none'} {values}", "none.yaml"]
    done = subprocess.run([sys.executable, "-c", program, *lines], capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr.splitlines() == [
        f"dra-spawner check: {pod}: this is a Pod; allowed: a hub's configuration, Helm values, or profiles",
        f"dra-spawner check: {pod}: this is a Pod, not a kubeconfig",
        f"dra-spawner check: {tmp_path / 'none'}: there is no such file; --kubeconfig names the kubeconfig of a cluster",
        "dra-spawner check: none.yaml: No such file or directory",
    ]


def test_the_service_ends_without_its_kubeconfig(tmp_path):
    command = [str(Path(sys.executable).with_name("dra-spawner")), "service", "--url=http://127.0.0.1:0"]
    missing = tmp_path / "none"
    done = subprocess.run([*command, f"--kubeconfig={missing}"], capture_output=True, text=True, timeout=240)
    assert done.returncode == 2
    assert f"The cluster cannot be found by {missing}: there is no such file.\n" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def defect(monkeypatch):
    def fail(options):
        raise LookupError("no such\nthing")

    monkeypatch.setattr("dra_spawner.commands.fit._fit", fail)


@pytest.mark.promise("A defect is reported in one sentence.")
@pytest.mark.usefixtures("defect")
def test_a_defect_is_reported_in_one_sentence_that_asks_for_a_report(capsys, monkeypatch):
    monkeypatch.delenv("DRA_SPAWNER_DEBUG", raising=False)
    code, out, err = run(capsys, "fit")
    assert (code, out) == (70, "")
    assert err.startswith(
        f"dra-spawner fit: this is a defect of dra-spawner {__version__} (LookupError: no such thing)"
    )
    assert "DRA_SPAWNER_DEBUG=1" in err
    assert err.count("\n") == 1


@pytest.mark.usefixtures("defect")
def test_the_traceback_of_a_defect_is_shown_on_demand(capsys, monkeypatch):
    monkeypatch.setenv("DRA_SPAWNER_DEBUG", "1")
    code, _, err = run(capsys, "fit")
    assert code == 70
    assert err.startswith("Traceback (most recent call last):")


def test_errors_that_are_no_defects(capsys, monkeypatch):
    full = "No space left on device"
    cases = [
        (KeyboardInterrupt(), 130, ""),
        (MemoryError(), 2, "dra-spawner fit: there is not enough memory for this input\n"),
        (OSError(errno.ENOSPC, full), 1, f"dra-spawner fit: the output cannot be written: {full}\n"),
    ]
    errors = iter([error for error, _, _ in cases])

    def fail(options):
        raise next(errors)

    monkeypatch.setattr("dra_spawner.commands.fit._fit", fail)
    monkeypatch.setattr("dra_spawner.cli._discard_output", lambda: None)
    assert [run(capsys, "fit") for _ in cases] == [(code, "", message) for _, code, message in cases]


def test_the_reader_of_the_output_may_close_the_pipe():
    """``dra-spawner schema | head -1``"""
    command = [str(Path(sys.executable).with_name("dra-spawner")), "schema"]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as output:
        done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, timeout=240)
    assert (done.returncode, done.stderr) == (128 + 13, b"")


@all_of_them(
    "arguments, said",
    {
        "command": (["statu"], "Did you mean status?"),
        "option": (["doctor", "--fromat", "json"], "unknown: --fromat json. Did you mean --format?"),
        "value": (["doctor", "--format", "jsn"], "Did you mean json?"),
        "service": (
            ["service", "--kubeconfg=x"],
            "dra-spawner service: error: unknown: --kubeconfg=x. Did you mean --kubeconfig?",
        ),
        "far": (["service", "--nope"], "usage: dra-spawner service [-h] [-f FILE]"),
        "nothing like it": (["qqqqqqq"], "invalid choice: 'qqqqqqq'"),
    },
)
def test_a_typing_error_is_answered_with_what_is_like_it(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())


@all_of_them(
    "arguments, code",
    {
        "a closed output": (["schema"], 0),
        "a closed input": (["check", "-"], 2),
        "an error with closed streams": (["check", "no-such-file.yaml"], 2),
        "another error": (["status"], 2),
    },
)
def test_closed_streams_are_empty_and_no_defect(monkeypatch, arguments, code):
    """As ``dra-spawner schema >&-``: Python has no stream then."""
    monkeypatch.delenv("DRA_SPAWNER_URL", raising=False)
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    try:
        assert main(arguments) == code
    finally:
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            stream.close()

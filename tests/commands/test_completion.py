"""Completion in bash, zsh and fish, by the shells themselves where they are installed."""

import argparse
import os
import shutil
import subprocess

import pytest

from dra_spawner.cli import main
from dra_spawner.commands.completion import completion_script

SHELLS = ("bash", "fish", "zsh")
needs_fish = pytest.mark.needs_program("fish")
needs_zsh = pytest.mark.needs_program("zsh")


@pytest.fixture
def script(capsys, tmp_path):
    def write(shell):
        assert main(["completion", shell]) == 0
        path = tmp_path / shell
        path.write_text(capsys.readouterr().out)
        return path

    return write


CASES = [
    ("check --format ", {"json", "table"}),
    ("history ", {"export", "forget", "import"}),
    ("history import --from ", {"csv", "jupyterhub", "prometheus"}),
    ("history import --fr", {"--from"}),
    ("schema dev", {"device_claims"}),
    ("check --nodes", {"--nodes-may-be-added"}),
    ("completion ", set(SHELLS)),
    ("check --namespace ", set()),
]


def test_bash(script):
    tries = "\n".join(f"try {line}" + ('""' if line.endswith(" ") else "") for line, _ in CASES)
    program = f"""source {script("bash")}
function=$(complete -p dra-spawner | sed 's/.*-F \\([^ ]*\\).*/\\1/')
try() {{
  COMP_WORDS=(dra-spawner "$@"); COMP_CWORD=$#; COMPREPLY=()
  $function dra-spawner "${{COMP_WORDS[COMP_CWORD]}}"; echo "${{COMPREPLY[*]}}"
}}
{tries}
try check {__file__[:-3]}"""
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=240, check=True)
    *found, file = done.stdout.splitlines()
    assert [set(each.split()) for each in found] == [expected for _, expected in CASES]
    assert file == __file__


@needs_fish
def test_fish(script, tmp_path):
    tries = "\n".join(f"complete -C 'dra-spawner {line}'; echo ==" for line, _ in CASES)
    command = ["fish", "--no-config", "-c", f"source {script('fish')}\n{tries}"]
    home = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True, cwd=tmp_path, env=home)
    found = [{line.split("\t")[0] for line in each.split("\n") if line} for each in done.stdout.split("==")[:-1]]
    assert found == [expected for _, expected in CASES]


#: A shell at a terminal. Its Tab key writes the offered completions into the file FOUND.
ZSH = """
PROMPT=
autoload -Uz compinit
compinit -u -D
eval "$(<SCRIPT)"
compadd() {
  if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\\ * ]]; then
    local -a offered
    builtin compadd -A offered "$@"
    print -rl -- $offered >> FOUND
  fi
  builtin compadd "$@"
}
complete-and-tell() { zle complete-word; print -r -- '==' >> FOUND; print ENDED }
zle -N complete-and-tell
bindkey '^I' complete-and-tell
print READY
"""
TYPIST = """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "source $1"
zpty -r shell said '*READY*'
for line in "${@[2,-1]}"; do
  zpty -n -w shell "dra-spawner $line"$'\\t'
  zpty -r shell said '*ENDED*'
  zpty -n -w shell $'\\x15'
done
"""


@needs_zsh
def test_zsh(script, tmp_path):
    setup, found = tmp_path / "setup.zsh", tmp_path / "found"
    setup.write_text(ZSH.replace("SCRIPT", str(script("zsh"))).replace("FOUND", str(found)))
    command = ["zsh", "-f", "-c", TYPIST, "typist", str(setup), *(line for line, _ in CASES)]
    subprocess.run(command, timeout=240, check=True, cwd=tmp_path)
    offered = [set(each.split()) for each in found.read_text().split("==")[:-1]]
    assert offered == [expected for _, expected in CASES]


def test_texts_with_quotes_and_brackets(tmp_path):
    parser = argparse.ArgumentParser()
    parser.add_subparsers().add_parser("one").add_argument("--a", help='it\'s [one]: `x` $(y) "z"')
    for shell in SHELLS:
        path = tmp_path / shell
        path.write_text(completion_script(shell, parser))
        if shutil.which(shell):
            subprocess.run([shell, "-n", str(path)], timeout=240, check=True)

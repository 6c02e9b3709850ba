"""Code of a hub's configuration, in a process of its own."""

from __future__ import annotations

import time
from pathlib import Path

from dra_spawner.commands.hub_files.hub_code import HubCode, run_hub_code
from tests.polling import PATIENCE_SECONDS, eventually_sync
from tests.running import is_running


def test_code_that_does_not_end():
    """The pieces before and after it count; one that takes signals away is ended from outside, with its children."""
    pieces = [("a", "c.KubeSpawner.uid = 5"), ("b", "import time\ntime.sleep(600)"), ("c", "c.KubeSpawner.gid = 6")]
    # The process has three times as long for all of it: enough to begin on a busy machine.
    outcome = run_hub_code(HubCode(pieces=pieces), seconds=5)
    assert outcome.settings["uid"] == 5
    assert outcome.settings["gid"] == 6
    assert [(each.piece, each.sentence_end) for each in outcome.problems] == [("b", "did not end within 5 seconds")]


def test_code_that_cannot_be_interrupted(tmp_path: Path):
    trace = tmp_path / "trace"
    child = "import time\ntime.sleep(600)"
    begin = (
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}])\nopen({str(trace)!r}, 'w').write(str(child.pid))"
    )
    piece = f"import signal, subprocess, sys\n{begin}\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\nwhile True: pass"
    began = time.monotonic()
    outcome = run_hub_code(HubCode(settings={"KubeSpawner": {"uid": 5}}, pieces=[("a", piece)]), seconds=0.5)
    assert time.monotonic() - began < PATIENCE_SECONDS
    assert outcome.settings == {"uid": 5}
    # On a busy machine the time is over before the code has blocked the signals.
    (problem,) = outcome.problems
    assert problem.sentence_end in ("did not end in time", "did not end within 0.5 seconds")
    assert outcome.spawner.is_ours is None
    # It was ended before it began the child, or with the child.
    if trace.exists() and (pid := trace.read_text()):
        eventually_sync(lambda: not is_running(int(pid)), "the child is ended, too")


def test_values_that_json_lacks_come_back():
    """A function stays one, and everything else is a value that the language refuses by its text."""
    code = "c.KubeSpawner.profile_list = lambda spawner: []\nc.KubeSpawner.environment = {1: (2, None), 'a': {3}, 'b': 10**400}"
    settings = run_hub_code(HubCode(pieces=[("a", code)])).settings
    assert callable(settings["profile_list"])
    assert settings["environment"][1] == [2, None]
    assert repr(settings["environment"]["a"]) == "{3}"
    assert repr(settings["environment"]["b"]).startswith("1000")


def test_files_stay_in_a_directory_of_their_own(tmp_path: Path):
    """Whatever their paths say; one that cannot be laid out is missing for the code that reads it."""
    outside = f"/../../../../../../../..{tmp_path}/outside"
    files = {outside: "a", "/etc/lists": "b", "/etc/lists/below": "c", "": "d"}
    read = f"c.KubeSpawner.cmd = [open({str(tmp_path / 'outside')!r}).read(), open('/etc/lists').read()]"
    outcome = run_hub_code(HubCode(files=files, pieces=[("a", read), ("b", "open('/etc/lists/below')")]))
    assert outcome.settings["cmd"] == ["a", "b"]
    assert [each.piece for each in outcome.problems] == ["b"]
    assert not (tmp_path / "outside").exists()


def test_setup_does_not_load_jupyterhub():
    """It would take most of the time of a check."""
    pieces = [
        (
            "a",
            "from dra_spawner.hub import setup\nsetup(c)\nassert not any(each.startswith('jupyterhub') for each in sys.modules)",
        )
    ]
    outcome = run_hub_code(HubCode(pieces=pieces))
    assert (outcome.spawner.is_ours, outcome.spawner.set_by, outcome.problems) == (True, "a", ())

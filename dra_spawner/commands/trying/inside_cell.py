"""Runs in a kernel of the server that is tried: prints what is there, as one line of JSON.

It is sent as text, so it imports the standard library alone, and runs with every Python that a server may have.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request

_MARK = "dra-spawner-try:"
_PROGRAM = _MARK.rpartition("-")[0]
_LIMIT_SECONDS = 60
_QUERY = "--query-gpu=name,uuid,memory.total"


def _run(command: list[str]) -> tuple[str, str]:
    """Output of a program, and why it has failed."""
    try:
        done = subprocess.run(  # noqa: S603 - programs of the server's image
            command, capture_output=True, text=True, timeout=_LIMIT_SECONDS, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return "", f"{type(error).__name__}: {error}"
    return done.stdout, "" if done.returncode == 0 else (done.stderr.strip() or f"exit code {done.returncode}")


def _whoami() -> dict:  # type: ignore[type-arg] # older Pythons read it
    """The devices by `dra-spawner whoami`, where the server has it; else the hub's own answer."""
    beside = os.path.join(os.path.dirname(sys.executable), _PROGRAM)  # noqa: PTH118, PTH120 - as short as it gets
    program = shutil.which(_PROGRAM) or (beside if os.access(beside, os.X_OK) else "")
    if program:
        output, problem = _run([program, "whoami", "--format", "json"])
        try:
            return {"by": "whoami", "answer": json.loads(output)}
        except ValueError:
            return {"by": "whoami", "problem": problem or "its output is no JSON"}
    url = os.environ.get("JUPYTERHUB_API_URL", "").rstrip("/")
    request = urllib.request.Request(  # noqa: S310 - the hub of this server
        url[: -len("api")] + "dra-spawner/devices" if url.endswith("/api") else "http://none/",
        headers={"Authorization": "token " + os.environ.get("JUPYTERHUB_API_TOKEN", "")},
    )
    try:
        with urllib.request.urlopen(request, timeout=_LIMIT_SECONDS) as answer:  # noqa: S310
            return {"by": "hub", "answer": json.load(answer)}
    except urllib.error.HTTPError as error:
        return {"by": "hub", "problem": f"the hub answers {error.code}"}
    except (OSError, ValueError) as error:
        return {"by": "hub", "problem": str(error)}


def _nvidia_smi() -> dict:  # type: ignore[type-arg] # older Pythons read it
    """GPUs as NVIDIA's own program sees them; empty without the program."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    output, problem = _run([program, _QUERY, "--format=csv,noheader"])
    parts, _ = _run([program, "-L"])
    mig = [each.strip() for each in parts.splitlines() if each.strip().startswith("MIG")]
    return {"gpus": [each.strip() for each in output.splitlines() if each.strip()], "mig": mig, "problem": problem}


def look() -> str:
    """All of it, with a mark before it, as a kernel may print other lines."""
    found = {
        "python": sys.version.split()[0],
        "has_dra_spawner": importlib.util.find_spec("dra_spawner") is not None,
        "whoami": _whoami(),
        "nvidia_smi": _nvidia_smi(),
        "variables": sorted(each for each in os.environ if each.startswith("DRA_")),
    }
    return _MARK + json.dumps(found)


if __name__ == "__main__":
    print(look())  # noqa: T201 - the cell's output

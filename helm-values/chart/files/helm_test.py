"""The program of `helm test`: it asks the service and the hub, and says what is wrong and what to do."""

import os
import sys
import time
import urllib.error
import urllib.request

DEADLINE_SECONDS = 120.0
CHECKS = (
    (
        "REPLICAS",
        "The service is ready",
        "Look at its page or its log: the cluster's data are incomplete, a right is missing, or no replica leads.",
    ),
    (
        "STATUS",
        "The Service finds the leader",
        "No replica leads, or it cannot label its pod: look at the log of the service.",
    ),
    (
        "HUB",
        "The hub knows the service",
        "Add the values that `helm get notes` prints to the hub; hub.baseUrl must be the same in both charts.",
    ),
)


def problem(url: str, headers: dict[str, str]) -> str:
    """Why an address does not answer with 200; empty if it does."""
    try:
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 (the chart wrote it)
        with urllib.request.urlopen(request, timeout=10):  # noqa: S310
            return ""
    except (urllib.error.URLError, TimeoutError, OSError) as error:
        return str(error)


def main() -> int:
    """Try each check until it succeeds or the time is over; the exit code."""
    deadline = time.monotonic() + float(os.environ.get("DEADLINE_SECONDS", DEADLINE_SECONDS))
    failed = 0
    for variable, title, advice in CHECKS:
        url = os.environ[variable]
        headers = {"Authorization": f"token {os.environ['TOKEN']}"} if variable == "HUB" else {}
        while (found := problem(url, headers)) and time.monotonic() < deadline:
            time.sleep(2)
        failed += bool(found)
        print(f"{title}: {f'no. {url}: {found}. {advice}' if found else 'yes'}", flush=True)  # noqa: T201 (the output of the test)
    return min(failed, 1)


sys.exit(main())

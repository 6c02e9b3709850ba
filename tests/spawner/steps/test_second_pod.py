"""The second pod of a start."""

from __future__ import annotations

from dra_spawner.spawner.steps.pod_failures import PodFailure, PodFailureKind
from dra_spawner.spawner.steps.second_pod import failed_twice


def test_a_reason_that_is_the_same_twice_is_said_once() -> None:
    first = PodFailure(PodFailureKind.ADMISSION, "a").sentence(())
    second = PodFailure(PodFailureKind.PREPARATION, "b").sentence(("gpu-0",))
    end = "Please try again later, or tell your administrator."
    assert failed_twice(first, first) == (
        f"This server was tried twice and did not start. Both times: Machine a did not accept this server. {end}"
    )
    assert failed_twice(first, second) == (
        "This server was tried twice and did not start. First: Machine a did not accept this server. Then: Machine b "
        f"could not make device gpu-0 ready for this server. {end}"
    )

"""Durations of a start: in words for users, and the part for cleaning up."""

from __future__ import annotations

__all__ = ["clean_up_seconds", "in_words", "so_far", "wait_for_pod_may_end"]

_MINUTE = 60
#: Seconds below which a duration is told in seconds.
_SECONDS_BELOW = 2 * _MINUTE
#: The earliest end of KubeSpawner's own wait for the pod, as a part of ``start_timeout``. The end is random, from this
#: to 1.1 (``jupyterhub.utils.exponential_backoff``).
_EARLIEST_END = 0.9


def in_words(seconds: float) -> str:
    """A duration in whole seconds, or in minutes from two minutes on."""
    return f"{seconds:.0f} seconds" if seconds < _SECONDS_BELOW else f"{seconds / _MINUTE:.0f} min"


def so_far(elapsed_seconds: float, limit_seconds: float) -> str:
    """How long something lasts already, and at most; changes every ten seconds, later every minute."""
    if limit_seconds < _SECONDS_BELOW:
        return f"{elapsed_seconds // 10 * 10:.0f} s of at most {limit_seconds:.0f} s"
    limit = f"{limit_seconds / _MINUTE:.0f} min"
    if elapsed_seconds < _MINUTE:
        return f"{elapsed_seconds // 10 * 10:.0f} s of at most {limit}"
    return f"{elapsed_seconds // _MINUTE:.0f} min of at most {limit}"


def clean_up_seconds(start_timeout: float) -> float:
    """The part of ``start_timeout`` in which a failed start removes its objects, before JupyterHub itself gives up.

    A tenth of it: at most 5 s, and 2 s at least if these are not more than a quarter.
    """
    return min(5.0, max(2.0, start_timeout / 10), start_timeout / 4)


def wait_for_pod_may_end(elapsed_seconds: float, start_timeout: float) -> bool:
    """Whether KubeSpawner's own wait for the pod may end, so long after the start began, because of ``start_timeout``.

    It ends at random up to a tenth before ``start_timeout``: for long limits before `clean_up_seconds` begin.
    """
    return elapsed_seconds >= start_timeout * _EARLIEST_END

"""Durations of a start and of a server: in words for users, and the part for cleaning up."""

from __future__ import annotations

_MINUTE = 60
#: Seconds below which a duration is told in seconds.
_SECONDS_BELOW = 2 * _MINUTE
#: The shortest wait of KubeSpawner for the pod, as a part of ``start_timeout``. The longest is 1.1
#: (``jupyterhub.utils.exponential_backoff``).
_SHORTEST_WAIT = 0.9


def duration_text(seconds: float) -> str:
    """A duration in whole seconds, in minutes from two minutes on, or in hours and minutes from an hour on."""
    if seconds < _SECONDS_BELOW:
        return f"{seconds:.0f} seconds"
    return _minutes_text(round(seconds / _MINUTE))


def _minutes_text(minutes: int) -> str:
    hours, rest = divmod(minutes, 60)
    return " ".join([f"{hours} h"] * bool(hours) + [f"{rest} min"] * bool(rest))


def so_far(elapsed_seconds: float, limit_seconds: float) -> str:
    """How long something lasts already, and at most; changes every ten seconds, later every minute."""
    if limit_seconds < _SECONDS_BELOW:
        return f"{elapsed_seconds // 10 * 10:.0f} s of at most {limit_seconds:.0f} s"
    limit = duration_text(limit_seconds)
    if elapsed_seconds < _MINUTE:
        return f"{elapsed_seconds // 10 * 10:.0f} s of at most {limit}"
    return f"{_minutes_text(int(elapsed_seconds // _MINUTE))} of at most {limit}"


def clean_up_seconds(start_timeout: float) -> float:
    """The part of ``start_timeout`` in which a failed start removes its objects, before JupyterHub itself gives up.

    A tenth of it: at most 5 s, and 2 s at least if these are not more than a quarter.
    """
    return min(5.0, max(2.0, start_timeout / 10), start_timeout / 4)


def kubespawner_may_give_up(elapsed_seconds: float, start_timeout: float) -> bool:
    """Whether a start has lasted so long that KubeSpawner may end it.

    KubeSpawner waits for the pod for a random time. The shortest is a tenth less than ``start_timeout``. With a limit
    over 50 s that is earlier than this project's own limit, which leaves `clean_up_seconds`.
    """
    return elapsed_seconds >= start_timeout * _SHORTEST_WAIT

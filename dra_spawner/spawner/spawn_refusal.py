"""Refusals of spawns: a sentence for the user, and a short reason for the hub's metrics.

JupyterHub 6 has ``SpawnException`` for this, which is not a failure of the hub. JupyterHub 5 shows the sentence of any
exception with ``jupyterhub_message``.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from logging import Logger
from typing import Any, Final

import aiohttp
from kubernetes_asyncio.client.exceptions import ApiException
from prometheus_client import Counter
from tornado.web import HTTPError

from dra_spawner.common.project_links import where
from dra_spawner.dra.model.claim_sizes import SIZE_ALLOWED
from dra_spawner.kube.client.rights import right_in
from dra_spawner.profiles.syntax.problems import ProfileError
from dra_spawner.spawner.code_of_others import failure_of_others
from dra_spawner.spawner.progress.durations import duration_text

try:
    from jupyterhub.spawner import SpawnException

    _REFUSALS_COUNT = False
except ImportError:  # JupyterHub 5
    _REFUSALS_COUNT = True

    class SpawnException(HTTPError):  # type: ignore[no-redef]
        def __init__(self, message: str, *, reason: str, status_code: int = 400) -> None:
            super().__init__(status_code, "%s", message, reason=reason)


NO_ANSWER: Final = "The cluster does not answer. Please try again later."
_BEING_REMOVED: Final = (
    "The shared device of this choice is being removed, and other servers still use it. Please try again when they "
    "have stopped."
)


_ERROR_IN_HUB: Final = "Your server cannot start because of an error in this hub. Please tell your administrator."


class RefusalReason(StrEnum):
    """Label of the refusal in the hub's metric ``server_spawn_duration_seconds``."""

    OPTIONS = "invalid-options"
    PROFILE = "invalid-profile"
    CLUSTER = "refused-by-cluster"
    PERMISSION = "hub-lacks-permission"
    DEVICE_CLASS = "unknown-device-class"
    NO_DEVICE = "no-device-in-time"
    NO_NODE = "no-node-can-have-it"
    VLAN = "no-vlan"
    TIMEOUT = "not-started-in-time"
    POD = "pod-failed"
    DEVICE = "device-failed"
    QUEUE = "others-are-first"


_OTHER: Final = "other-error"
FAILED_STARTS: Final = Counter(
    "dra_spawner_failed_starts", "Starts that failed, by reason; a start that its user ends is none", ["reason"]
)
for _each in (*RefusalReason, _OTHER):
    FAILED_STARTS.labels(_each)  # from 0: Prometheus sees no increase in a series that begins with 1


def count_failed_start(error: BaseException) -> None:
    """Count a failed start by its reason."""
    is_ended = isinstance(error, asyncio.CancelledError | GeneratorExit)
    if not is_ended:
        FAILED_STARTS.labels(error.refusal if isinstance(error, SpawnRefused) else _OTHER).inc()


class SpawnRefused(SpawnException):
    """Raised for a spawn that cannot succeed, with a sentence for the user."""

    is_logged = False
    """Whether the log has a line about it."""

    def __init__(self, message: str, reason: RefusalReason, status_code: int = 400) -> None:
        super().__init__(message, reason=reason.value, status_code=status_code)
        self.refusal = reason
        self.jupyterhub_message = message
        #: With links, for JupyterHub's pages; the message itself if there are none.
        self.jupyterhub_html_message = ""
        #: Key of the configuration and what is wrong there, for administrators; empty if no key is to blame.
        self.path, self.detail = "", ""

    def __str__(self) -> str:
        return self.jupyterhub_message

    @property
    def log_level(self) -> int:
        """What a user has chosen or typed wrongly is no error."""
        return logging.INFO if self.refusal is RefusalReason.OPTIONS else logging.ERROR


class OptionsRefused(SpawnRefused, ValueError):
    """Raised for options that no form of this hub sends.

    It is a ``ValueError``, as KubeSpawner catches these when it selects earlier options in the form.
    """

    def __init__(self, message: str, reason: RefusalReason = RefusalReason.OPTIONS) -> None:
        super().__init__(message, reason)


class ErrorInHubCode(SpawnRefused):
    """Raised after an error in code of the hub's own, such as a ``profile_list`` function; its cause is that error."""

    def __init__(self) -> None:
        super().__init__(_ERROR_IN_HUB, RefusalReason.PROFILE, status_code=500)


class UnexpectedFailure(HTTPError):
    """Raised after an unknown error. It counts as a failure of the hub, as with KubeSpawner."""

    def __init__(self) -> None:
        super().__init__(500, "%s", _ERROR_IN_HUB)
        self.jupyterhub_message = _ERROR_IN_HUB


def explain_missing_answer(spawner: Any, *, is_counted: bool = True) -> None:
    """Give the failure a sentence for the user, should the started server not answer JupyterHub in time.

    JupyterHub's own message has the server's address in the cluster, which tells a user nothing; the hub's log has it.
    The failure is counted, too, unless it is that of a trial: it comes after the spawner's own start.
    """
    under_way = getattr(spawner, "_spawn_future", None)
    if under_way is not None and not under_way.done():
        under_way.add_done_callback(partial(_explain, spawner.http_timeout, is_counted))


def _explain(seconds: float, is_counted: bool, ended: asyncio.Future[Any]) -> None:
    error = None if ended.cancelled() else ended.exception()
    if isinstance(error, TimeoutError) and not is_for_users(error):
        error.jupyterhub_message = (  # type: ignore[attr-defined]  # JupyterHub's own way to name a sentence for users
            f"Your server was started, but did not answer within {duration_text(seconds)}, and was stopped. "
            "Please try again, or tell your administrator."
        )
        if is_counted:
            FAILED_STARTS.labels(RefusalReason.TIMEOUT).inc()


def count_as_refusal(spawner: Any) -> None:
    """Keep a refused start from counting as a failure of the hub.

    JupyterHub 5 ends after ``consecutive_failure_limit`` failed starts in a row, so a user could stop it with a few
    wrong options. It will add one to its count for this refusal, so one is subtracted here.
    """
    handler = getattr(spawner, "handler", None)
    if _REFUSALS_COUNT and handler is not None:
        handler.settings["failure_count"] = handler.settings.get("failure_count", 0) - 1


def log_refusal(log: Logger, user: str, server: str, refusal: SpawnRefused) -> None:
    """Log a refused start in one line. `hub_start.refusal_log` leaves out what JupyterHub says about it."""
    words = "Spawn failed: user=%s server=%s reason=%s: %s"
    log.log(refusal.log_level, words, user, server, refusal.refusal, refusal, extra={"spawn_refused": refusal})


def wrong_profile_sentence(what: str) -> str:
    """Return the sentence about a misconfigured choice."""
    return f"This profile is misconfigured. Please tell your administrator: {what}"


def wrong_profile(what: str) -> SpawnRefused:
    """Return the refusal of a misconfigured choice."""
    return SpawnRefused(wrong_profile_sentence(what), RefusalReason.PROFILE)


def is_for_users(error: BaseException) -> bool:
    """Whether the text of an error is for users: JupyterHub shows it as it is."""
    return isinstance(error, HTTPError) or any(
        hasattr(error, name) for name in ("jupyterhub_message", "jupyterhub_html_message")
    )


def refusal_of_profile(error: ProfileError, user_options: Mapping[str, Any] | None) -> SpawnRefused:
    """Return the refusal of a profile, or of the value that the user typed into it."""
    problem = error.problems[0]
    if any(name.endswith("--unlisted-choice") and value for name, value in (user_options or {}).items()):
        return OptionsRefused(f"The value you typed cannot be used: found {problem.found}, allowed: {problem.allowed}.")
    return wrong_profile(str(problem))


def refusal_of_size(size: str) -> SpawnRefused:
    """Return the refusal of an invalid size of a device's share."""
    return SpawnRefused(f"The size {size!r} is not possible. Allowed: {SIZE_ALLOWED}.", RefusalReason.OPTIONS)


def most_informative_error(group: BaseException) -> BaseException:
    """The most informative error of a group of tasks."""
    while isinstance(group, BaseExceptionGroup):
        group = next((each for each in group.exceptions if isinstance(each, SpawnRefused)), group.exceptions[0])
    return group


def status_message(error: Any) -> str:
    """The message of the Status object in an ``ApiException`` of the Kubernetes client."""
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.reason or error.status)


def refusal_of_kubernetes_error(what: str, status: int, message: str, log: Logger) -> SpawnRefused:
    """Return the refusal for an error of the Kubernetes API; object, rule and message are logged.

    Parameters
    ----------
    what
        The refused object, for the log.
    message
        Message of the Status object.
    """
    reason, code, hint = RefusalReason.CLUSTER, 400, ""
    sentence = "The cluster refused this server. Please tell your administrator."
    if status == 403 and right_in(message) is not None:
        reason, code, hint = RefusalReason.PERMISSION, 403, f"; add the rules of {where('helm-values/rbac.yaml')}"
        sentence = "JupyterHub lacks a right in the cluster. Please tell your administrator."
    elif status == 404 and "could not find the requested resource" in message:
        hint = "; claims need Kubernetes 1.34 or later"
    elif status == 403 and "exceeded quota" in message:
        # The service preempts placeholders in a few seconds.
        sentence = (
            "A quota of the cluster is used up. Please try again in a minute. If that does not help, stop other "
            "servers, or tell your administrator."
        )
    elif status >= 500 or status in (0, 429):
        code, sentence = 503, "The cluster cannot start this server at the moment. Please try again later."
    log.error("Spawn refused, the Kubernetes API refuses %s: status=%d message=%s%s", what, status, message, hint)
    return SpawnRefused(sentence, reason, status_code=code)


def refusal_of_error(
    error: BaseException,
    waiting_for: str,
    late_after_seconds: float | None,
    log: Logger,
    terminating: str = "",
    held_back: str = "",
) -> BaseException:
    """Return the refusal for an error of a start; the error itself if its text is for users, or it is no failure.

    Parameters
    ----------
    waiting_for
        Why the pod waits for devices; empty if it does not.
    late_after_seconds
        Time limit of the start if it has passed; else None.
    terminating
        Which shared object is being deleted, so that the pod could not be requested; empty if none is.
    held_back
        Why a queue or another system holds the pod back; empty if none does.
    """
    if late_after_seconds is None and failure_of_others(error):
        return error  # of a hook that asks a cluster, or anything else, itself
    if isinstance(error, ApiException):
        return refusal_of_kubernetes_error("the pod", error.status, status_message(error), log)
    if late_after_seconds is not None and isinstance(error, asyncio.CancelledError):
        # A hub that stood still over both limits: JupyterHub's own one has cancelled the start, too.
        error = TimeoutError()
    if isinstance(error, TimeoutError):
        if terminating:
            log.error("Spawn refused, a shared object was not deleted in time: %s", terminating)
            return SpawnRefused(_BEING_REMOVED, RefusalReason.CLUSTER, status_code=503)
        if late_after_seconds is None:
            # KubeSpawner's words name objects of the cluster, or there are none.
            log.error("The Kubernetes API did not answer in time: %s", error or "nothing more is known")
            return SpawnRefused(NO_ANSWER, RefusalReason.CLUSTER, status_code=503)
        reason = RefusalReason.NO_DEVICE if waiting_for else RefusalReason.TIMEOUT
        why = waiting_for or held_back or "The server did not start in time."
        # The user may have read that the server starts as soon as a device is free: that has ended.
        after = f"Gave up after {duration_text(late_after_seconds)}."
        return SpawnRefused(f"{after} {why} The server does not wait any more.", reason, status_code=503)
    if isinstance(error, aiohttp.ClientError):
        return SpawnRefused(NO_ANSWER, RefusalReason.CLUSTER, status_code=503)
    if isinstance(error, Exception) and not is_for_users(error):
        # JupyterHub's progress page would show the text of any error.
        log.error("A start ended with an unexpected error, maybe of the hub's own code", exc_info=error)
        return UnexpectedFailure()
    return error

"""One line in the hub's log for each refused start, and all other lines as they are."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyterhub.handlers import pages
from tornado.log import app_log, gen_log

from dra_spawner.spawner.hub_start.refusal_log import filter_refusals
from dra_spawner.spawner.spawn_refusal import OptionsRefused, RefusalReason, SpawnRefused, log_refusal

SENTENCE = "No device of this kind became free."


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.setFormatter(logging.Formatter("%(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def text(self) -> list[str]:
        return [self.format(each) for each in self.records]


@pytest.fixture
def lines() -> Iterator[Lines]:
    gc.collect()  # tasks of other tests that nobody has awaited
    found = Lines()
    filters = {log: log.filters[:] for log in (app_log, gen_log, logging.getLogger("asyncio"))}
    for log in filters:
        log.addHandler(found)
    yield found
    for log, before in filters.items():
        log.removeHandler(found)
        log.filters[:] = before


def hub_log(lines: Lines) -> logging.Logger:
    log = logging.Logger("JupyterHub")
    filter_refusals(log)
    filter_refusals(log)
    log.addHandler(lines)
    return log


def said_by_jupyterhub(log: logging.Logger, message: str, error: Exception | None = None) -> None:
    """A line of JupyterHub's own code, with the traceback of an error."""
    exc_info = (type(error), error, error.__traceback__) if error is not None else None
    record = log.makeRecord(log.name, logging.ERROR, str(Path(pages.__file__)), 1, message, (), exc_info)
    log.handle(record)


def raised(error: Exception) -> Exception:
    try:
        raise error
    except type(error):
        return error


def test_a_failed_start_is_one_line_with_user_and_reason(lines: Lines) -> None:
    """JupyterHub logs the same start three times, the last time with a traceback."""
    log = hub_log(lines)
    refusal = raised(SpawnRefused(SENTENCE, RefusalReason.NO_DEVICE))
    assert isinstance(refusal, SpawnRefused)
    log_refusal(log, "ada", "second", refusal)
    said_by_jupyterhub(app_log, f"Not starting ada's server second: {SENTENCE}")
    said_by_jupyterhub(gen_log, f"400 POST /hub/api/users/ada/server (127.0.0.1): {SENTENCE}")
    said_by_jupyterhub(log, f"Error starting ada's server: HTTP 503: Service Unavailable ({SENTENCE})")
    said_by_jupyterhub(log, "Failed to spawn single-user server with form", refusal)
    assert lines.text == [f"ERROR Spawn failed: user=ada server=second reason=no-device-in-time: {SENTENCE}"]


async def test_a_start_that_is_refused_after_the_redirect_is_one_line(lines: Lines) -> None:
    """JupyterHub's form waits a second for the task of a start, and then leads to the page of the start."""
    log = hub_log(lines)
    refused = asyncio.Event()

    async def start(error: Exception) -> None:
        await refused.wait()
        raise error

    refusal = SpawnRefused(SENTENCE, RefusalReason.NO_DEVICE)
    starts = [asyncio.ensure_future(start(each)) for each in (refusal, ValueError("a defect"))]
    await asyncio.sleep(0)
    log_refusal(log, "ada", "", refusal)
    refused.set()
    await asyncio.wait(starts)
    starts.clear()
    gc.collect()
    assert [each.partition("\n")[0] for each in lines.text] == [
        f"ERROR Spawn failed: user=ada server= reason=no-device-in-time: {SENTENCE}",
        "ERROR Task exception was never retrieved",
    ]
    assert "ValueError: a defect" in lines.text[1]


def test_a_users_mistake_in_the_form_has_no_traceback(lines: Lines) -> None:
    log = hub_log(lines)
    for user_error in (OptionsRefused("There is no profile 'x'."), OptionsRefused("There is no profile 'y'.")):
        said_by_jupyterhub(log, "Failed to spawn single-user server with form", raised(user_error))
    begin = "INFO Failed to spawn single-user server with form: There is no profile"
    assert lines.text == [f"{begin} 'x'.", f"{begin} 'y'."]


def test_other_lines_stay(lines: Lines) -> None:
    """Defects keep their tracebacks, and our own lines about a cause are not JupyterHub's."""
    log = hub_log(lines)
    log_refusal(log, "ada", "", SpawnRefused(SENTENCE, RefusalReason.NO_DEVICE))
    log.error("A hook of this hub: %s", SENTENCE)
    said_by_jupyterhub(log, "Unhandled error", raised(ValueError("a defect")))
    said_by_jupyterhub(log, "User grace took 3 s to start")
    assert [each.partition("\n")[0] for each in lines.text[1:]] == [
        f"ERROR A hook of this hub: {SENTENCE}",
        "ERROR Unhandled error",
        "ERROR User grace took 3 s to start",
    ]
    assert "ValueError: a defect" in lines.text[2]

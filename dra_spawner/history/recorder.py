"""Recorder with a thread of its own: callers never wait for the database, and never get its errors."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError, StatementError

from dra_spawner.history.connecting import HistoryUrlError
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.migrations import NewerDatabase
from dra_spawner.history.records import (
    Launch,
    LearnedDemand,
    NodeLeadTime,
    PresentServers,
    Record,
    RecordedDecision,
    RecordSink,
)
from dra_spawner.history.schema import decisions, launches, learned_demands, node_lead_times
from dra_spawner.history.stored_settings import NO_WRITER, KeyFileError, Writer

log = logging.getLogger(__name__)

_LONGEST_PROBLEM: Final = 300


class AnotherWriter(Exception):
    """Raised where the service of another hub writes into the database: each would end the launches of the other."""

    def __init__(self, writer: Writer) -> None:
        super().__init__(
            f"another service writes into this database, the one of {writer}; each hub needs a database of its own"
        )


_UNAVAILABLE: Final = (SQLAlchemyError, NewerDatabase, HistoryUrlError, KeyFileError, AnotherWriter, OSError)


class RecordOutcome(StrEnum):
    """Outcome of a record."""

    WRITTEN = "written"
    #: The queue was full while the database was not available, or the database refused the record.
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class RecorderLimits:
    """Limits and times of a recorder; all times in seconds."""

    queue: int = 20_000
    """Limit of waiting records; more are dropped."""
    batch: int = 500
    """Limit of records in one transaction."""

    interval: float = 1.0
    """Time between two transactions."""
    first_retry: float = 1.0
    longest_retry: float = 300.0
    """Pauses between attempts double from the first to the longest."""

    seen: float = 60.0
    """Time between two calls of `HistoryDatabase.note_seen`."""

    expiry: float = 3600.0
    """Time between two deletions of old records."""
    hanging: float = 60.0
    """Time for one step of work after which the database counts as not available."""


class Recorder(RecordSink):
    """Bounded queue of records, and a thread that writes them.

    If the database is full, locked, not available or of a newer version, the recorder logs it once, sets `problem`, and
    tries again after growing pauses. While the queue is full, new records are counted and dropped. When the database
    works again, the recorder calls `on_gap`, so that the present state of the cluster is recorded again.

    Parameters
    ----------
    open_database
        Opens the database; called in the thread, again after each error.
    keep
        Age after which launches and lead times are deleted.
    on_gap
        Called in the thread; it must return at once. It must lead to a `PresentServers` record.
    writer
        The service, the same for all its replicas. While another one writes, nothing is written or deleted; without a
        name it writes beside others. One that has ended may be followed by another, as after a move to a new cluster.
    clock
        Returns seconds of a monotonic clock.
    """

    def __init__(
        self,
        open_database: Callable[[], HistoryDatabase],
        keep: timedelta,
        *,
        on_gap: Callable[[], None] = lambda: None,
        writer: Writer = NO_WRITER,
        limits: RecorderLimits = RecorderLimits(),
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._open = open_database
        self._keep = keep
        self._on_gap = on_gap
        self._writer = writer
        self._followed = NO_WRITER
        """The other service whose records this one goes on with, once that is logged."""
        self._limits = limits
        self._clock = clock
        self._now = now
        self._queue: deque[Record] = deque()
        self._woken = threading.Condition()
        self._is_ending = False
        self._is_paused = True
        self._thread: threading.Thread | None = None
        self._database: HistoryDatabase | None = None
        self._problem = ""
        self._delay = 0.0
        self._retry_at = 0.0
        self._seen_at = 0.0
        self._expiry_at = 0.0
        self._has_gap = False
        self._awaits_present = False
        self._busy_since: float | None = None
        self.counts: Counter[RecordOutcome] = Counter()
        """Numbers of records since the start of the process."""

    # --- for all threads ----------------------------------------------------------------------------------------------

    @property
    def problem(self) -> str:
        """Why no records can be written, as the end of a sentence; empty while the database works."""
        return self._problem or self.hanging

    @property
    def hanging(self) -> str:
        """That the database does not answer, as the end of a sentence; empty if it does. The thread waits for it."""
        since = self._busy_since
        if since is None or self._clock() - since < self._limits.hanging:
            return ""
        return f"the database has not answered for {self._limits.hanging:g} s"

    @property
    def queued(self) -> int:
        """Number of records that wait for the database."""
        return len(self._queue)

    @property
    def database(self) -> HistoryDatabase | None:
        """The database, for reading; None while it is not open."""
        return self._database

    def record(self, record: Record) -> None:
        """Queue a record. It takes microseconds, and raises nothing."""
        with self._woken:
            if len(self._queue) >= self._limits.queue:
                self.counts[RecordOutcome.DROPPED] += 1
                self._has_gap = True
                return
            self._queue.append(record)

    def record_all(self, records: Iterable[Record]) -> None:
        """Queue records regardless of the queue's limit: none of them is dropped. They must be in memory anyway."""
        with self._woken:
            self._queue.extend(records)

    def resume(self, *, threaded: bool = True) -> None:
        """Begin to write to the database. Only one process may do so at a time.

        Parameters
        ----------
        threaded
            Whether to start the thread; if not, call `work`.
        """
        with self._woken:
            # `note_seen` must wait until the present servers are recorded: ends before then use the last seen time.
            self._is_paused, self._awaits_present = False, True
        if self._thread is None and threaded:
            # A daemon: a database that hangs must not keep the process alive.
            self._thread = threading.Thread(target=self._run, name="history", daemon=True)
            self._thread.start()

    def pause(self) -> None:
        """Write the queued records, and then nothing more: another process may write now."""
        self._is_paused = True

    def stop(self, within_seconds: float = 2.0) -> None:
        """Write the queued records if possible within this time, and end the thread."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        with self._woken:
            self._is_ending = True
            self._woken.notify()
        thread.join(within_seconds)
        if thread.is_alive():
            log.warning("The history's last records may be lost: the database does not answer.")

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            try:
                wait = self.work()
            except Exception as error:
                # A defect of this program must not end the thread.
                log.exception("The history cannot be written.")
                self._problem, wait = _describe(error), self._limits.longest_retry
            with self._woken:
                if self._is_ending and (not self._queue or self._problem):
                    break
                if not self._is_ending and wait > 0:
                    self._woken.wait_for(lambda: self._is_ending, wait)
        self._close()

    def work(self) -> float:
        """Do the work that is due: open the database, delete old records, write a batch.

        Returns
        -------
        float
            Seconds until the next call.
        """
        now = self._clock()
        if now < self._retry_at and not self._is_ending:
            return self._retry_at - now
        if self._is_paused and not self._queue:
            # Another process writes now, and reports problems of the database.
            self._problem, self._delay = "", 0.0
            return self._limits.interval
        self._busy_since = now
        try:
            database = self._database or self._opened()
            if now >= self._seen_at:
                self._check_file(database)
                self._refuse_another_writer(database)
            self._note_gap()
            if not self._is_paused:
                # First, as it frees space for new records.
                self._delete_expired(database, now)
            self._write_batch(database)
            if not self._is_paused:
                self._note_seen(database, now)
        except _UNAVAILABLE as error:
            self._failed(error, now)
            return self._delay
        finally:
            self._busy_since = None
        self._worked()
        if self._queue:
            return 0.0 if len(self._queue) >= self._limits.batch else self._limits.interval
        return self._limits.interval

    def _opened(self) -> HistoryDatabase:
        self._database = database = self._open()
        return database

    def _check_file(self, database: HistoryDatabase) -> None:
        try:
            database.check_file()
        except OSError:
            self._has_gap = True  # the last records are in a file that is gone
            raise

    def _refuse_another_writer(self, database: HistoryDatabase) -> None:
        """Look whether another service writes: at the beginning, and each time before this one notes that it does."""
        if not self._writer.name:
            return
        found = database.last_writer()
        if not found.name or not found.is_other(self._writer):
            return
        if database.is_written(self._now()):
            raise AnotherWriter(found)
        if found != self._followed:
            self._followed = found
            log.warning("The history was written by another service before: before=%s now=%s", found, self._writer)

    def _note_gap(self) -> None:
        """Request records of the cluster's present state, after records were dropped."""
        with self._woken:
            has_gap = self._has_gap and len(self._queue) < self._limits.queue // 2
            if has_gap:
                self._has_gap = False
                # `note_seen` must wait until they are recorded: ends in the gap use the last seen time.
                self._awaits_present = True
        if has_gap:
            self._on_gap()

    def _write_batch(self, database: HistoryDatabase) -> None:
        with self._woken:
            batch = [self._queue[number] for number in range(min(len(self._queue), self._limits.batch))]
        if not batch:
            return
        try:
            database.add(batch)
        except Exception as error:
            if not _is_about_values(error):
                raise
            self._write_singly(database, batch)
        else:
            self.counts[RecordOutcome.WRITTEN] += len(batch)
        with self._woken:
            for record in batch:
                self._queue.popleft()
                if isinstance(record, PresentServers):
                    self._awaits_present = False

    def _write_singly(self, database: HistoryDatabase, batch: list[Record]) -> None:
        """Write the records one by one, and drop those that the database refuses."""
        for record in batch:
            try:
                database.add((record,))
            except Exception as error:
                if not _is_about_values(error):
                    raise
                self.counts[RecordOutcome.DROPPED] += 1
                log.error("A record cannot be written: record=%s error=%s", _id_of(record), _describe(error))
            else:
                self.counts[RecordOutcome.WRITTEN] += 1

    def _note_seen(self, database: HistoryDatabase, now: float) -> None:
        if now >= self._seen_at and not self._awaits_present:
            database.note_seen(self._now(), self._writer)
            self._seen_at = now + self._limits.seen

    def _delete_expired(self, database: HistoryDatabase, now: float) -> None:
        if now >= self._expiry_at:
            is_unfinished = delete_expired(database, self._now(), self._keep)
            self._expiry_at = now if is_unfinished else now + self._limits.expiry

    def _failed(self, error: Exception, now: float) -> None:
        if self._database is not None and not self._database.is_in_memory:
            self._close()
        problem = _describe(error)
        if not self._problem:
            log.error("The history cannot be written; the service goes on without it: %s", problem)
        self._problem = problem
        self._delay = min(max(2 * self._delay, self._limits.first_retry), self._limits.longest_retry)
        self._retry_at = now + self._delay

    def _worked(self) -> None:
        if self._problem:
            log.info("The history is written again.")
        self._problem, self._delay = "", 0.0

    def _close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()


def _is_about_values(error: Exception) -> bool:
    """Whether the cause of an error is a record, not the database."""
    if isinstance(error, DBAPIError):
        return isinstance(error, DataError | IntegrityError)
    return isinstance(error, StatementError) or not isinstance(error, _UNAVAILABLE)


def _describe(error: Exception) -> str:
    """An error as the end of a sentence: the driver's message, without the SQL statement."""
    original = getattr(error, "orig", None)
    # A server of PostgreSQL also quotes the line of the statement.
    message = getattr(getattr(original, "diag", None), "message_primary", None)
    words = " ".join(str(message or original or error).split()).rstrip(".")
    return words[:_LONGEST_PROBLEM] or type(error).__name__


def _id_of(record: Record) -> str:
    match record:
        case Launch() | NodeLeadTime():
            return record.uid
        case RecordedDecision():
            return record.id
        case LearnedDemand():
            return record.group
        case PresentServers():
            return "the servers that are present"


MAX_DECISION_AGE: Final = timedelta(days=30)
"""Limit of the age of decisions, whatever the settings: there are many, and forecasts do not use them."""
MAX_MEMORY_AGE: Final = timedelta(days=7)
"""Limit of the age of records in memory, whatever the settings."""

_AT_ONCE: Final = 2_000


def delete_expired(database: HistoryDatabase, now: datetime, keep: timedelta, at_once: int = _AT_ONCE) -> bool:
    """Delete some of the old records.

    Parameters
    ----------
    keep
        Age after which launches and lead times are deleted.
    at_once
        Limit of deleted rows of each kind.

    Returns
    -------
    bool
        Whether there may be more old records.
    """
    if database.is_in_memory:
        keep = min(keep, MAX_MEMORY_AGE)
    counts = (
        database.delete_older(launches, launches.c.asked, now - keep, at_once),
        database.delete_older(node_lead_times, node_lead_times.c.created, now - keep, at_once),
        database.delete_older(learned_demands, learned_demands.c.at, now - keep, at_once),
        database.delete_older(decisions, decisions.c.at, now - min(keep, MAX_DECISION_AGE), at_once),
    )
    return max(counts) >= at_once

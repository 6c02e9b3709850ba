"""The database of the history: records outlive restarts, and no record is stored twice."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Table,
    and_,
    case,
    delete,
    func,
    or_,
    select,
    text,
    tuple_,
    type_coerce,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL

from dra_spawner.history import migrations
from dra_spawner.history.connecting import READS, engine_of, is_in_memory, parsed_url
from dra_spawner.history.records import (
    SERVICE,
    TRIAL,
    Launch,
    LearnedDemand,
    MinuteCount,
    NodeLeadTime,
    PresentServers,
    Record,
    RecordedDecision,
)
from dra_spawner.history.rows import (
    SenselessRow,
    decision_of,
    decision_row,
    launch_of,
    launch_row,
    lead_time_of,
    lead_time_row,
    learned_row,
    time_of,
)
from dra_spawner.history.schema import (
    EPOCH,
    MICROSECONDS,
    UtcTime,
    calendar_entries,
    decisions,
    launches,
    learned_demands,
    node_lead_times,
    settings,
)
from dra_spawner.history.statements import as_number, between, earliest, end_absent
from dra_spawner.history.stored_settings import (
    LAST_SEEN,
    NO_WRITER,
    ORIGIN,
    WRITER,
    Writer,
    hash_plain_names,
    key_of_file,
    last_seen_of,
    stored_names,
    writer_of,
)
from dra_spawner.history.user_names import UserNameMode, UserNames

log = logging.getLogger(__name__)

_Read = TypeVar("_Read")

#: Number (arbitrary) of the advisory lock of PostgreSQL under which tables are created or upgraded.
_UPGRADE_LOCK: Final = 0x6472612D
_PAGE: Final = 5_000
_MINUTE: Final = 60 * MICROSECONDS
_DAY: Final = 24 * 60 * _MINUTE
#: Time after which a service that has noted nothing writes no more.
_PRESENT: Final = timedelta(minutes=3)


class DeletedCounts(tuple[int, int]):
    """Numbers of deleted launches and of deleted decisions."""

    __slots__ = ()


class HistoryDatabase:
    """An open database. Its methods may be called from any thread; they block.

    Every method raises ``sqlalchemy.exc.SQLAlchemyError`` if the database cannot be reached, is full or locked.

    Parameters
    ----------
    engine
        Engine of a database with the newest tables; `open` creates one.
    names
        How names of users are stored.
    """

    def __init__(self, engine: Engine, names: UserNames, *, in_memory: bool = False) -> None:
        self._engine = engine
        self.names = names
        self.is_in_memory = in_memory
        # A database in memory has one connection, for all threads.
        self._lock = threading.RLock() if in_memory else contextlib.nullcontext()
        path = engine.url.database if engine.dialect.name == "sqlite" and not in_memory else None
        self._file = Path(path) if path else None
        self._file_number = self._file.stat().st_ino if self._file is not None else 0
        self._with_nonsense = set[str]()
        """Tables of which a row was left out."""

    @classmethod
    def open(cls, url: str | URL, user_names: UserNameMode | None = None, key_file: str = "") -> Self:
        """Connect, and create or upgrade the tables.

        Parameters
        ----------
        user_names
            How names of users are stored from now on; None keeps the present mode. With `HASHED`, plain names in the
            database are hashed now, and decisions with plain names are deleted.
        key_file
            File with the key; empty if the key is in the database.

        Raises
        ------
        NewerDatabase
            If a newer version of this package made the tables.
        HistoryUrlError
            If the URL cannot be used.
        KeyFileError
            If the key file cannot be used.
        OSError
            If the file of a SQLite database cannot be created.
        """
        parsed = parsed_url(url) if isinstance(url, str) else url
        key = key_of_file(key_file) if key_file else b""
        engine = engine_of(parsed)
        try:
            with engine.begin() as connection:
                if engine.dialect.name == "postgresql":
                    connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _UPGRADE_LOCK})
                migrations.upgrade(connection)
                names = stored_names(connection, user_names, key)
                if names.is_hashed:
                    hash_plain_names(connection, names)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine, names, in_memory=is_in_memory(parsed))

    def check_file(self) -> None:
        """Look whether a database in a file is still the one at its path: SQLite writes on into a file that is deleted.

        Raises
        ------
        OSError
            If the file is gone, or another one is there.
        """
        if self._file is not None and self._file.stat().st_ino != self._file_number:
            raise OSError(f"{self._file} was replaced by another file")

    def close(self) -> None:
        """Close all connections. A database in memory is lost then."""
        # A reading thread may use the only connection of a database in memory: SQLite would crash.
        with self._lock:
            self._engine.dispose()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._lock, self._engine.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._lock, self._engine.connect().execution_options(**{READS: True}) as connection:
            yield connection

    # --- writing ------------------------------------------------------------------------------------------------------

    def add(self, records: Iterable[Record]) -> None:
        """Write records in one transaction, all or none.

        A stored launch or lead time is completed, not overwritten: the first values are more exact than those that a
        restarted service finds.
        """
        groups = list(_grouped(records))
        with self._writing() as connection:
            for group in groups:
                self._add_group(connection, group)

    def _add_group(self, connection: Connection, group: Sequence[Record]) -> None:
        first = group[0]
        rows: list[dict[str, Any]]
        match first:
            case PresentServers():
                for each in group:
                    assert isinstance(each, PresentServers)
                    end_absent(connection, each.uids)
            case Launch():
                rows = [launch_row(each, self.names) for each in group if isinstance(each, Launch)]
                self._upsert(connection, launches, rows)
            case NodeLeadTime():
                rows = [lead_time_row(each) for each in group if isinstance(each, NodeLeadTime)]
                self._upsert(connection, node_lead_times, rows)
            case RecordedDecision():
                rows = [decision_row(each, self.names) for each in group if isinstance(each, RecordedDecision)]
                statement = self._insert(decisions).on_conflict_do_nothing(index_elements=["id"])
                connection.execute(statement, rows)
            case LearnedDemand():
                rows = [learned_row(each) for each in group if isinstance(each, LearnedDemand)]
                self._replace_older(connection, rows)

    def _upsert(self, connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
        statement = self._insert(table)
        new = statement.excluded
        key = next(iter(table.primary_key))
        values: dict[str, ColumnElement[Any]] = {}
        for column in table.columns:
            if column.nullable:
                values[column.name] = func.coalesce(column, new[column.name])
        if table is node_lead_times:
            # The oldest pod that waited for the node may be seen later than others.
            values["asked"] = earliest(node_lead_times.c.asked, new.asked)
        else:
            # What was observed replaces an estimate: an end, or that the server still runs. A leader's last records may
            # be written after the first ones of the next leader.
            is_observed = and_(launches.c.ended.is_not(None), ~launches.c.end_is_estimate)
            values["ended"] = case((is_observed, launches.c.ended), else_=new.ended)
            values["end_is_estimate"] = and_(~is_observed, new.end_is_estimate)
        connection.execute(statement.on_conflict_do_update(index_elements=[key], set_=values), rows)

    def _replace_older(self, connection: Connection, rows: list[dict[str, Any]]) -> None:
        """Store what was learned last: a leader may write its last records after the first ones of the next leader."""
        statement = self._insert(learned_demands)
        new, stored = statement.excluded, learned_demands.c.at
        ahead = type_coerce(stored, BigInteger) - type_coerce(new.at, BigInteger)
        change = statement.on_conflict_do_update(
            index_elements=["profile_group"],
            set_={"at": new.at, "state": new.state},
            # What is a day ahead was stored while a clock was wrong.
            where=or_(new.at >= stored, ahead > _DAY),
        )
        connection.execute(change, rows)

    def _insert(self, table: Table) -> Any:
        insert = postgresql.insert if self._engine.dialect.name == "postgresql" else sqlite.insert
        return insert(table)

    def note_seen(self, now: datetime, writer: Writer = NO_WRITER) -> None:
        """Store that a service observes the cluster now: an end that it does not observe is later than this time."""
        found = {LAST_SEEN: now.isoformat()} | ({WRITER: writer.name, ORIGIN: writer.origin} if writer.name else {})
        rows = [{"name": name, "value": value} for name, value in found.items()]
        statement = self._insert(settings)
        change = statement.on_conflict_do_update(index_elements=["name"], set_={"value": statement.excluded.value})
        with self._writing() as connection:
            connection.execute(change, rows)

    def last_writer(self) -> Writer:
        """The service that has written last; without a name if none has."""
        with self._reading() as connection:
            return writer_of(connection)

    def is_written(self, now: datetime) -> bool:
        """Whether a service has written within some minutes."""
        seen = self.last_seen()
        return seen is not None and abs(now - seen) < _PRESENT

    def delete_calendar_entry(self, name: str) -> None:
        """Delete a calendar entry if it exists."""
        with self._writing() as connection:
            connection.execute(delete(calendar_entries).where(calendar_entries.c.id == name))

    def delete_older(self, table: Table, column: Column[Any], before: datetime, most: int) -> int:
        """Delete at most `most` rows of a table in which `column` is earlier than `before`.

        Returns
        -------
        int
            Number of deleted rows.
        """
        key = next(iter(table.primary_key))
        found = select(key).where(column < before).limit(most)
        with self._writing() as connection:
            return connection.execute(delete(table).where(key.in_(found))).rowcount

    def forget(self, user: str) -> DeletedCounts:
        """Delete the launches of a user, and decisions about the user's servers."""
        with self._writing() as connection:
            whose = or_(
                and_(launches.c.user_is_hashed, launches.c.user_name == self.names.hash(user)),
                and_(~launches.c.user_is_hashed, launches.c.user_name == user),
            )
            pods = connection.scalars(select(launches.c.pod).where(whose, launches.c.pod.is_not(None)).distinct()).all()
            about = 0
            for pod in {*pods, self.names.hash(user), user}:
                mentioned = decisions.c.mentions.contains(f" {pod} ", autoescape=True)
                about += connection.execute(delete(decisions).where(mentioned)).rowcount
            return DeletedCounts((connection.execute(delete(launches).where(whose)).rowcount, about))

    # --- reading ------------------------------------------------------------------------------------------------------

    def launches(
        self, begin: datetime | None = None, end: datetime | None = None, *, profile: str = ""
    ) -> Iterator[Launch]:
        """Launches that were asked for from `begin` on and before `end`, the oldest first.

        They are read in pages, so no transaction is open while the caller works.
        """
        conditions = between(launches.c.asked, begin, end)
        if profile:
            conditions.append(launches.c.profile == profile)
        yield from self._pages(launches, launches.c.asked, launches.c.uid, conditions, launch_of)

    def lead_times(
        self, kind: str | None = None, begin: datetime | None = None, end: datetime | None = None
    ) -> Iterator[NodeLeadTime]:
        """Lead times of nodes of a kind (None: all kinds) that were created from `begin` to `end`, the oldest first."""
        conditions = between(node_lead_times.c.created, begin, end)
        if kind is not None:
            conditions.append(node_lead_times.c.kind == kind)
        key = node_lead_times.c.uid
        yield from self._pages(node_lead_times, node_lead_times.c.created, key, conditions, lead_time_of)

    def decisions(self, begin: datetime | None = None, end: datetime | None = None) -> Iterator[RecordedDecision]:
        """Decisions from `begin` to `end`, the oldest first."""
        conditions = between(decisions.c.at, begin, end)
        yield from self._pages(decisions, decisions.c.at, decisions.c.id, conditions, decision_of)

    def arrivals(self, begin: datetime, end: datetime) -> list[MinuteCount]:
        """Numbers of launches of users by minute and choice; minutes without launches are left out."""
        return self._counts(launches.c.asked, begin, end)

    def departures(self, begin: datetime, end: datetime) -> list[MinuteCount]:
        """Numbers of ended servers by minute and choice; minutes without ends are left out."""
        return self._counts(launches.c.ended, begin, end)

    def calendar_entries(self) -> dict[str, str]:
        """Calendar entries as JSON, by id."""
        with self._reading() as connection:
            found = connection.execute(select(calendar_entries.c.id, calendar_entries.c.entry))
            return {row.id: row.entry for row in found}

    def learned_demands(self, begin: datetime) -> dict[str, str]:
        """What scale-ahead has learned last, by group, as JSON; older than `begin` is left out."""
        with self._reading() as connection:
            newer = learned_demands.c.at >= begin
            found = connection.execute(select(learned_demands.c.profile_group, learned_demands.c.state).where(newer))
            return {row.profile_group: row.state for row in found}

    def service_began(self) -> datetime | None:
        """Time of the first launch that the service recorded itself; None without one."""
        with self._reading() as connection:
            of_service = launches.c.source == SERVICE, launches.c.asked >= EPOCH
            first = select(as_number(launches.c.asked)).where(*of_service).order_by(launches.c.asked).limit(1)
            with contextlib.suppress(SenselessRow):
                return time_of(connection.scalar(first))
        return None

    def existing(self, uids: Sequence[str]) -> set[str]:
        """The stored ones of these launches."""
        with self._reading() as connection:
            return set(connection.scalars(select(launches.c.uid).where(launches.c.uid.in_(uids))))

    def last_seen(self) -> datetime | None:
        """Time of the last call of `note_seen`; None if there was none."""
        with self._reading() as connection:
            return last_seen_of(connection)

    def _counts(self, column: Column[Any], begin: datetime, end: datetime) -> list[MinuteCount]:
        minute = (type_coerce(column, BigInteger) // _MINUTE).label("minute")
        counts = (
            select(minute, launches.c.profile, launches.c.choice, func.count())
            .where(*between(column, begin, end), launches.c.source != TRIAL)
            .group_by(minute, launches.c.profile, launches.c.choice)
            .order_by(minute, launches.c.profile, launches.c.choice)
        )
        with self._reading() as connection:
            found = connection.execute(counts).all()
        return [
            MinuteCount(EPOCH + timedelta(minutes=int(minute)), profile or "", choice or profile or "", count)
            for minute, profile, choice, count in found
        ]

    def _pages(
        self,
        table: Table,
        order: Column[Any],
        key: Column[Any],
        conditions: Sequence[ColumnElement[bool]],
        read: Callable[[Sequence[Any]], _Read],
    ) -> Iterator[_Read]:
        """What is read of each row. A row that makes no sense is left out: another program may have written it."""
        # Times as numbers: a conversion that fails would end the whole page.
        columns = [as_number(each) if isinstance(each.type, UtcTime) else each for each in table.columns]
        after: tuple[Any, ...] | None = None
        while True:
            wanted = select(*columns).where(*conditions).order_by(order, key).limit(_PAGE)
            if after is not None:
                wanted = wanted.where(
                    tuple_(type_coerce(order, BigInteger), key)
                    > tuple_(type_coerce(after[0], BigInteger), type_coerce(after[1], key.type))
                )
            with self._reading() as connection:
                rows = connection.execute(wanted).all()
            for row in rows:
                try:
                    found = read(row)
                except SenselessRow as error:
                    self._left_out(table, row._mapping[key.name], error)
                    continue
                yield found
            if len(rows) < _PAGE:
                return
            after = tuple(rows[-1]._mapping[each.name] for each in (order, key))

    def _left_out(self, table: Table, key: object, cause: SenselessRow) -> None:
        if table.name not in self._with_nonsense:
            self._with_nonsense.add(table.name)
            what = "A row of the history makes no sense, and is left out as are others like it"
            log.warning("%s: table=%s row=%.100r cause=%s", what, table.name, key, cause)


def _grouped(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Groups of consecutive records of one type, in the given order."""
    group: list[Record] = []
    for record in records:
        if group and type(group[0]) is not type(record):
            yield group
            group = []
        group.append(record)
    if group:
        yield group

"""The version of the schema: a new database gets `schema.sql`, an older one the migrations it lacks."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import NamedTuple

import duckdb

from opilio.errors import StoreError


class Migration(NamedTuple):
    """One numbered step from the version before it."""

    version: int
    name: str
    sql: str


def migrations() -> list[Migration]:
    """All migrations of this version of Opilio, in order."""
    folder = resources.files("opilio.store") / "migrations"
    found = []
    for file in folder.iterdir():
        number, _, name = file.name.removesuffix(".sql").partition("_")
        if file.name.endswith(".sql"):
            found.append(Migration(int(number), name, file.read_text("utf-8")))
    return sorted(found)


def create(connection: duckdb.DuckDBPyConnection, steps: list[Migration]) -> None:
    """Make the tables of a new collection."""
    sql = (resources.files("opilio.store") / "schema.sql").read_text("utf-8")
    connection.execute("BEGIN")
    connection.execute(sql)
    connection.execute("INSERT INTO meta VALUES ('schema_version', ?)", [str(steps[-1].version)])
    connection.execute("COMMIT")


def version(connection: duckdb.DuckDBPyConnection, path: Path) -> int:
    """The version the database is at."""
    try:
        # All rows, not one: a result that is not read to its end keeps its transaction open, and that would keep every
        # checkpoint from being made.
        rows = connection.execute("SELECT value FROM meta WHERE name = 'schema_version'").fetchall()
    except duckdb.CatalogException:
        rows = []
    if not rows:
        raise StoreError(f"{path}: a DuckDB database, but not one of Opilio", "Name the folder of a collection.")
    return int(rows[0][0])


def is_older(connection: duckdb.DuckDBPyConnection, path: Path) -> bool:
    """Whether the database lacks migrations."""
    return version(connection, path) < migrations()[-1].version


def migrate(connection: duckdb.DuckDBPyConnection, path: Path, steps: list[Migration]) -> None:
    """Bring an older database up to date, one transaction a step; refuse a newer one."""
    at = version(connection, path)
    newest = steps[-1].version
    if at > newest:
        raise StoreError(
            f"{path}: has schema version {at}, this version of Opilio knows {newest}", "Upgrade Opilio to open it."
        )
    for step in steps:
        if step.version > at:
            connection.execute("BEGIN")
            connection.execute(step.sql)
            connection.execute("UPDATE meta SET value = ? WHERE name = 'schema_version'", [str(step.version)])
            connection.execute("COMMIT")

"""Alembic runs this file. It works on the connection that `Database.upgrade` hands it."""

from alembic import context

from burnish.control.tables import Table

connection = context.config.attributes["connection"]
# SQLite can undo a half-done migration too, because our engine begins its transactions itself.
context.configure(connection=connection, target_metadata=Table.metadata, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()

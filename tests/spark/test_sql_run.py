"""A run into a table of PostgreSQL, as the service's own files name it: killed, resumed, an answer lost."""

from __future__ import annotations

import json

import pytest

from support.database import Database, postgresql_server
from support.project_on_disk import OnDisk, disordered
from support.tcp_proxy import proxy_to_socket
from tideglass.core.errors import TideglassError
from tideglass.job import commit

pytestmark = pytest.mark.spark

QUERY = """
WITH perDevice AS (
    SELECT device, COUNT(*) AS n, System.Timestamp() AS at
    FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 10)
)
SELECT * INTO counts FROM perDevice
SELECT * INTO files FROM perDevice
"""
HOST = "toll.postgres.database.azure.com"


def die(*_):
    raise RuntimeError("the run dies here")


def test_a_killed_run_leaves_every_row_once_in_the_table(spark, tmp_path, monkeypatch):
    found = OnDisk(tmp_path / "job", spark).make(QUERY)
    manifest = found.folder / "asaproj.json"
    words = json.loads(manifest.read_text())
    words["configurations"].append({"filePath": "counts.json", "subType": "Output"})
    manifest.write_text(json.dumps(words))
    output = {
        "Name": "counts",
        "DataSourceType": "Azure PostgreSQL",
        "PostgreSQLProperties": {
            "Server": "toll",
            "Database": "postgres",
            "User": "postgres",
            "Password": None,
            "Table": "public.counts",
            "MaxWriterCount": 1,
            "AuthenticationMode": "ConnectionString",
        },
        "ScriptType": "Output",
    }
    (found.folder / "counts.json").write_text(json.dumps(output))
    monkeypatch.setenv("Outputs_counts_DataSource_Password", "secret")
    with postgresql_server() as server, proxy_to_socket(server.socket) as proxy:
        monkeypatch.setenv("TIDEGLASS_ENDPOINTS", json.dumps({HOST: f"postgresql://127.0.0.1:{proxy.port}"}))
        database = Database(server.uri)
        database.run("CREATE TABLE counts (device text, n bigint, at timestamptz); SET TIME ZONE 'UTC'")
        for partition in range(2):
            found.put(f"{partition}/a.json", disordered(partition, 60))
        proxy.lose_answer_to, proxy.once_seen = b"COMMIT", b"SET generation"
        with monkeypatch.context() as patch:
            steps = (commit.record_partition_watermarks, commit.publish_rows, die)
            patch.setattr(commit, "COMMIT_STEPS", steps)
            with pytest.raises(TideglassError, match="the run dies here"):
                found.run(live=True)
        after_death = database.rows("SELECT count(*) FROM counts")
        found.run(live=True)
        shown = database.rows("SELECT device, n, to_char(at, 'HH24:MI:SS') FROM counts")
    plain = [json.loads(row) for row in found.rows("files")]
    assert sorted(shown) == sorted((row["device"], row["n"], row["at"][11:19]) for row in plain)
    assert proxy.lost == 1
    assert len(shown) > 10
    assert after_death > [(0,)], "the batch was in the table when the run died"
    assert "secret" not in (found.folder / ".tideglass" / "run" / "manifest.json").read_text()

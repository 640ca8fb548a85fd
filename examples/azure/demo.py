"""A job of Azure, from its project files as they are, through kill after kill, on stand-ins of this machine.

    make azure                                         (or: PYTHONPATH=.:tests python examples/azure/demo.py)
    PYTHONPATH=.:tests python examples/azure/demo.py --kills 5 --seed 7

Starts a Kafka broker for Event Hubs, Azurite for the storage account and a PostgreSQL, sends passages of toll
booths to the hub as they happen, and runs `examples/azure/tolls` live. The run is killed again and again
(SIGKILL, driver and JVM) and started again. Then the hub is read once more by a run that nobody disturbs and
that writes files, and the tables of Delta Lake and PostgreSQL and the other hub are compared with them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "kafka"))

from broker import Security, free_ports, running_broker
from jars import JarsUnavailable
from rich.console import Console
from rich.table import Table
from topics import Message, create_topic, read, send

from support.database import Database, postgresql_server
from support.stores import ACCOUNT_KEY, azurite
from support.tcp_proxy import proxy_to_socket
from tideglass.connect.files.written_rows import read_rows
from tideglass.connect.kafka.hub_output import ROW_ID
from tideglass.storage import storage_path

PROJECT = Path(__file__).parent / "tolls"
NAMESPACE, SERVER = "motorway.servicebus.windows.net", "motorway.postgres.database.azure.com"
ACCOUNT = "motorwaylake"
KEY = "c2VjcmV0IG9mIGEgcG9saWN5"
CONNECTION = f"Endpoint=sb://{NAMESPACE}/;SharedAccessKeyName=jobs;SharedAccessKey={KEY}"
BOOTHS, PLATES, EXPIRED_EVERY = 4, 400, 9
OUTPUTS = ("perBooth", "expired", "alerts")
#: Longest wait for a run to begin a batch, or to end.
_MOST_SECONDS = 600.0
_TICK_SECONDS = 0.1


@dataclass(frozen=True)
class Services:
    """What stands in for the services of the project.

    broker: its address for whoever needs no key.
    lake: the URI of the container of the storage account.
    lake_url: the account's address.
    database_uri: of the database of the project, for its owner.
    environment: of a process that runs the job.
    """

    broker: str
    lake: str
    lake_url: str
    database_uri: str
    environment: Mapping[str, str]


@contextlib.contextmanager
def running_services(folder: Path) -> Iterator[Services]:
    """The stand-ins, with the hubs, the container, the reference data and the table that the job needs."""
    (port,) = free_ports(1)
    with (
        running_broker(folder / "broker", Security(port, {"$ConnectionString": CONNECTION})) as address,
        azurite(folder / "azurite", ACCOUNT, "tolls") as store,
        postgresql_server() as postgres,
        proxy_to_socket(postgres.socket) as proxy,
    ):
        for hub in ("toll", "alerts"):
            create_topic(address, hub, BOOTHS)
        os.environ |= store.environment
        rows = [
            {"plate": f"P{number:03d}", "owner": f"owner {number}", "expired": number % EXPIRED_EVERY == 0}
            for number in range(PLATES)
        ]
        registration = storage_path(f"{store.root}/reference/registration.json")
        registration.write("\n".join(json.dumps(row) for row in rows).encode())
        tolls = make_database(postgres.uri)
        stand_ins = {
            NAMESPACE: f"sasl_plaintext://127.0.0.1:{port}",
            f"{ACCOUNT}.blob.core.windows.net": store.environment["AZURE_STORAGE_ENDPOINT"],
            SERVER: f"postgresql://127.0.0.1:{proxy.port}",
        }
        environment = {
            "TIDEGLASS_ENDPOINTS": json.dumps(stand_ins),
            "Inputs_toll_DataSource_SharedAccessPolicyKey": KEY,
            "Inputs_registration_DataSource_AccountKey": ACCOUNT_KEY,
            "Outputs_perBooth_DataSource_AccountKey": ACCOUNT_KEY,
            "Outputs_expired_DataSource_Password": "nobody asks here",
            "Outputs_alerts_DataSource_SharedAccessPolicyKey": KEY,
        }
        yield Services(address, store.root, store.environment["AZURE_STORAGE_ENDPOINT"], tolls, environment)


def make_database(uri: str) -> str:
    """Make the database and the table of the project; the URI of the database."""
    owner = Database(uri)
    owner.run("CREATE ROLE writer LOGIN; CREATE DATABASE tolls OWNER writer")
    owner.close()
    of_tolls = uri.replace("/postgres?", "/tolls?")
    database = Database(of_tolls)
    columns = "booth bigint, plate text, owner text, amount double precision, at timestamptz"
    database.run(f"CREATE TABLE expired ({columns}); ALTER TABLE expired OWNER TO writer")
    database.close()
    return of_tolls


class Traffic(threading.Thread):
    """Cars that pass the booths while this runs, some of them heard of up to a second and a half late.

    rate: events a second.
    """

    def __init__(self, broker: str, rate: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.count = 0
        self._broker, self._rate, self._random = broker, rate, random.Random(seed)
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(1.0):
            self.count += send(self._broker, "toll", [self._passage() for _ in range(self._rate)])

    def end(self) -> None:
        self._ended.set()
        self.join()

    def _passage(self) -> Message:
        booth = self._random.randrange(BOOTHS)
        entered = datetime.fromtimestamp(time.time() - self._random.random() * 1.5, UTC)
        event = {
            "booth": booth,
            "plate": f"P{self._random.randrange(PLATES):03d}",
            "amount": self._random.randrange(400, 2000) / 100,
            "entered": entered.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        }
        return Message(json.dumps(event).encode(), None, booth)


@dataclass(frozen=True)
class Job:
    """The job as a user runs it, by its command, in a process of its own."""

    services: Services
    folder: Path
    began: str

    def start(self, directory: str, *more: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "tideglass.cli.main", "run", str(PROJECT), "--live", "--quiet"]
        words += ["--run-dir", str(self.folder / directory), *more]
        environment = {**os.environ, **self.services.environment, "PYTHONPATH": os.pathsep.join(sys.path)}
        log = (self.folder / f"{directory}.log").open("ab")
        return subprocess.Popen(words, env=environment, stdout=log, stderr=log, start_new_session=True)

    def batches(self, directory: str) -> int:
        """How many batches have begun."""
        return len(list((self.folder / directory).glob("**/checkpoint/offsets/[0-9]*")))

    def killed(self, directory: str, after_seconds: float) -> None:
        """Run until a batch has begun and so much time has passed; then `kill -9` of all its processes."""
        begun = self.batches(directory)
        process = self.start(directory, *(("--start", self.began) if not begun else ()))
        self._wait(directory, process, lambda: self.batches(directory) > begun)
        time.sleep(after_seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def finished(self, directory: str, *more: str) -> None:
        process = self.start(directory, "--once", *more)
        self._wait(directory, process, lambda: process.poll() is not None)
        if process.returncode:
            raise RuntimeError(f"the run has failed:\n{self.log(directory)}")

    def log(self, directory: str) -> str:
        return (self.folder / f"{directory}.log").read_text(errors="replace")[-3000:]

    def _wait(self, directory: str, process: subprocess.Popen[bytes], done: Callable[[], bool]) -> None:
        limit = time.monotonic() + _MOST_SECONDS
        while not done():
            if process.poll():
                raise RuntimeError(f"the run has failed:\n{self.log(directory)}")
            if time.monotonic() > limit:
                os.killpg(process.pid, signal.SIGKILL)
                raise RuntimeError(f"the run takes longer than {_MOST_SECONDS:.0f} s:\n{self.log(directory)}")
            time.sleep(_TICK_SECONDS)


def written(services: Services) -> dict[str, list[dict[str, Any]]]:
    """The rows that readers find in what the job has written to, by output."""
    from deltalake import DeltaTable

    options = {
        "azure_storage_account_name": ACCOUNT,
        "azure_storage_account_key": ACCOUNT_KEY,
        "azure_storage_endpoint": services.lake_url,
        "allow_http": "true",
    }
    database = Database(services.database_uri)
    try:
        passages = database.rows("SELECT booth, plate, owner, amount, at FROM expired")
    finally:
        database.close()
    names = ("booth", "plate", "owner", "amount", "at")
    return {
        "perBooth": DeltaTable(f"{services.lake}/tables/perBooth", storage_options=options)
        .to_pyarrow_table()
        .to_pylist(),
        "expired": [dict(zip(names, row, strict=True)) for row in passages],
        "alerts": [json.loads(each.value or b"") for each in once_each(read(services.broker, "alerts"))],
    }


def once_each(messages: Iterable[Message]) -> list[Message]:
    """Each message once, by the id its sender gave it, as a consumer of a hub does it."""
    return list({each.headers[ROW_ID]: each for each in messages}.values())


def bag(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """The rows without regard to their order, times in microseconds, which all three can hold."""
    return Counter(json.dumps({name: plain(row[name]) for name in sorted(row)}) for row in rows)


def plain(value: object) -> object:
    if isinstance(value, str) and value.endswith("Z"):
        value = datetime.fromisoformat(f"{value[:26].rstrip('Z')}+00:00")
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return value


def compared(services: Services, folder: Path, options: argparse.Namespace, console: Console) -> bool:
    """Whether the services hold, after kills, the rows of a run that nobody has disturbed."""
    began = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    job, chance = Job(services, folder, began), random.Random(options.seed)
    traffic = Traffic(services.broker, options.rate, options.seed)
    traffic.start()
    for number in range(options.kills):
        after = chance.random() * 2
        job.killed("killed", after)
        console.print(
            f"kill {number + 1} of {options.kills}: {after:.2f} s after the first batch of the run began"
        )
    traffic.end()
    console.print(f"{traffic.count:,} events sent; the run is finished")
    job.finished("killed")
    files = {name: folder / "files" / name for name in OUTPUTS}
    stand_ins = [word for name, path in files.items() for word in ("--output", f"{name}={path}")]
    job.finished("undisturbed", "--start", began, *stand_ins)
    found, messages = written(services), len(read(services.broker, "alerts"))
    table = Table("output", "where", "rows", "undisturbed", "")
    same = True
    for name, place in zip(OUTPUTS, ("Delta Lake", "PostgreSQL", "a hub"), strict=True):
        expected = read_rows(files[name])
        equal = bool(expected) and bag(found[name]) == bag(expected)
        same &= equal
        table.add_row(
            name, place, f"{len(found[name]):,}", f"{len(expected):,}", "equal" if equal else "NOT EQUAL"
        )
    console.print(table)
    console.print(
        f"{options.kills} kills (seed {options.seed}); the hub holds {messages:,} messages, "
        f"{messages - len(found['alerts']):,} of them repeated with the same id"
    )
    return same


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a job of Azure on stand-ins, through kills.")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rate", type=int, default=500, help="events a second")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="tideglass-azure-") as text:
        folder = Path(text)
        try:
            with running_services(folder) as services:
                console.print("a broker for Event Hubs, Azurite and a PostgreSQL run on this machine")
                return 0 if compared(services, folder, options, console) else 1
        except (JarsUnavailable, RuntimeError) as error:
            console.print(str(error), style="red", markup=False)
            return 1


if __name__ == "__main__":
    sys.exit(main())

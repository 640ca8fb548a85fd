"""Runs one query of bench/toll with tideglass."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from kafka_jars import connector
from programs import answer, arguments
from tideglass.bind.catalog import InputInfo
from tideglass.compile import compile_query
from tideglass.connect.files.input import FileInput
from tideglass.connect.files.output import FileOutput
from tideglass.connect.kafka.topic import TopicInput
from tideglass.connect.spec import Arrival, InputSpec, ReferenceSpec
from tideglass.core.errors import Source
from tideglass.job.options import JobPlan, RunOptions
from tideglass.job.outputs import BatchRows
from tideglass.job.report.metrics import Metrics
from tideglass.job.runner import run
from tideglass.project.settings import from_options
from tideglass.spark.session.spark_session import local_session

QUERIES = Path(__file__).parent / "toll"

#: Of some four million events.
BATCH_BYTES = {"json": 512 << 20, "parquet": 128 << 20}

#: The rivals' watermark is two minutes; so are our tolerances.
SETTINGS = {"late_arrival": "2m", "out_of_order": "2m", "policy": "adjust"}


def main() -> None:
    parser = arguments()
    parser.add_argument("--batch-bytes", type=int, help="by default for some four million events")
    parser.add_argument("--reference", type=Path, help="a JSON file; its name is that of the input")
    options = parser.parse_args()
    references = {options.reference.stem: options.reference} if options.reference else {}
    settings = from_options(SETTINGS)
    path = QUERIES / f"{options.query}.asaql"
    compiled = compile_query(
        Source(path.read_text(), path.name),
        settings,
        key_groups=options.cores,
        inputs={name: InputInfo(name, "reference") for name in references}
        | {folder.name: InputInfo(folder.name) for folder in options.data.iterdir() if folder.is_dir()},
    )
    shutil.rmtree(options.out, ignore_errors=True)
    arrival = Arrival(path=("arrival_time",), format="epoch_milliseconds")
    job = JobPlan(
        name=options.query,
        compiled=compiled,
        settings=settings,
        inputs={}
        if options.topic
        else {
            name: FileInput(
                InputSpec(
                    name=name,
                    path=options.data / name,
                    format=options.format,
                    partitions="folders",
                    arrival=arrival,
                )
            )
            for name in compiled.topology.fields
        },
        topics={
            name: TopicInput(name, options.broker, options.topic, arrival="CreateTime")
            for name in compiled.topology.fields
        }
        if options.topic
        else {},
        outputs={"result": FileOutput("result", options.out / "rows", "parquet")},
        references={
            name: ReferenceSpec(name=name, path=file, format="json") for name, file in references.items()
        },
        run_directory=options.out / "run",
        options=RunOptions(
            once=True,
            cores=options.cores,
            batch_bytes=options.batch_bytes or BATCH_BYTES[options.format],
            live=bool(options.topic),
        ),
    )
    spark = local_session(options.cores, options.out / "spark.log", connector() if options.topic else None)
    batches: list[tuple[int, float]] = []
    started = last = time.monotonic()

    def on_batch(number: int, given: BatchRows, metrics: Metrics) -> None:
        nonlocal last
        now = time.monotonic()
        batches.append((metrics.events, round(now - last, 4)))
        last = now

    run(job, on_batch)
    answer(time.monotonic() - started, batches)
    spark.stop()


if __name__ == "__main__":
    main()

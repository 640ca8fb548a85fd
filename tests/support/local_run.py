"""A job run to its end in this process: its files, through the decoders, scans and stages Spark runs."""

from __future__ import annotations

from typing import Any

from tideglass.connect.reference.references import inline_rows
from tideglass.core.partition_numbers import partition_numbers
from tideglass.job.options import JobPlan
from tideglass.local import LocalDriver, PartitionBatch, rows_by_output
from tideglass.project.test_rows import read_rows
from tideglass.testing import rows_in_order


def rows_of_job(job: JobPlan) -> dict[str, list[dict[str, Any]]]:
    """The rows of every output, in the order of their timestamps."""
    topology = job.compiled.topology
    batches: list[PartitionBatch] = []
    for name, files in job.inputs.items():
        fields = topology.fields[name]
        ends = files.latest({})
        for partition, number in partition_numbers(list(ends)).items():
            chunks = list(files.read(partition, [], ends[partition], fields, topology.level))
            assert not any(chunk.rejected for chunk in chunks)
            batches.append(PartitionBatch(name, number, chunks))
    known = {
        name: read_rows(spec.path, spec.format, spec.delimiter)
        for name, spec in job.references.items()
        if spec.path is not None
    }
    driver = LocalDriver(topology, references=inline_rows(topology.references, known))
    tables = rows_by_output(topology, driver.run(batches, final=True))
    return {name: rows_in_order(parts) for name, parts in tables.items()}

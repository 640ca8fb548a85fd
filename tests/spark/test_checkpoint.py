"""A checkpoint that was moved names its new place; no Spark is started."""

from __future__ import annotations

import json
from pathlib import Path

from tideglass.core.durable import hadoop_checksums
from tideglass.spark.checkpoint import has_timers, relocate


def metadata(path: Path) -> str:
    """What Spark writes of an operator, as far as paths go."""
    schema = f"file:{path}/state/0/_stateSchema/default/0_c19ae939"
    store = {"storeName": "default", "numPartitions": 2, "stateSchemaFilePaths": [schema]}
    return "v2\n" + json.dumps({"operatorInfo": {"operatorId": 0}, "stateStoreInfo": [store]})


def test_a_moved_checkpoint_names_itself_and_one_in_its_place_is_left_alone(tmp_path: Path) -> None:
    here = tmp_path / "state" / "0" / "_metadata" / "v2" / "0"
    here.parent.mkdir(parents=True)
    here.write_text(metadata(Path("/somewhere/state/0/else")))
    checksum = here.with_name(".0.crc")
    checksum.write_bytes(hadoop_checksums(here.read_bytes()))
    assert relocate(tmp_path) == 1
    told = here.read_text().split("\n", 1)
    assert (told[0], json.loads(told[1])) == ("v2", json.loads(metadata(tmp_path).split("\n", 1)[1]))
    assert sorted(file.name for file in here.parent.iterdir()) == [".0.crc", "0"]
    assert checksum.read_bytes() == hadoop_checksums(here.read_bytes())
    assert relocate(tmp_path) == 0


def test_a_checkpoint_says_whether_its_query_has_timers(tmp_path: Path) -> None:
    for operator, mode in enumerate(("NoTime", "ProcessingTime")):
        file = tmp_path / "state" / str(operator) / "_metadata" / "v2" / "0"
        file.parent.mkdir(parents=True)
        body = {"operatorPropertiesJson": json.dumps({"timeMode": mode, "outputMode": "Append"})}
        file.write_text(f"v2\n{json.dumps(body)}")
        assert has_timers(tmp_path) is (mode == "ProcessingTime")

"""The picture of a benchmark: the rates of those who took part, the floor left out."""

from __future__ import annotations

from picture import draw, rates_of

RESULTS = {
    "scenarios": [
        {
            "name": "join",
            "title": "entry and exit",
            "figures": {
                "tideglass": {"rates": [400.0, 420.0, None], "finished": True},
                "flink heap": {"rates": [50.0, 60.0, 70.0], "finished": True},
                "structured streaming": {"rates": [30.0], "finished": False},
                "duckdb": {"rates": [4000.0], "finished": True},
            },
        },
        {"name": "small-batch", "title": "", "figures": {"tideglass": {"rates": [], "finished": True}}},
        {"name": "replay", "title": "", "seconds": [9.0]},
    ]
}


def test_rates_are_the_medians_of_those_who_compare():
    (join,) = rates_of(RESULTS)
    assert join.rates == {"tideglass": 410.0, "flink heap": 55.0, "structured streaming": 30.0}
    assert join.ratios == {"tideglass": 1.0, "flink heap": 7.5, "structured streaming": 400 / 30}
    assert join.bounds == {"structured streaming"}


def test_the_picture_tells_every_rate_and_ratio(tmp_path):
    path = tmp_path / "rates.svg"
    draw(rates_of(RESULTS), path)
    shown = path.read_text()
    for told in ("join: entry and exit", "410 events/s", "55  (ours 7.5 ×)", "30  (ours more than 13.3 ×)"):
        assert told in shown
    assert "4,000" not in shown

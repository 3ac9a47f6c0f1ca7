import json

import keras

import keras_xd
from keras_xd.finalizing.report import FinalizingReport, LayerReport


def test_a_report_is_a_table_and_a_dictionary():
    sizes = (10, 1234, 40, 4936, 100, None)
    rows = (
        LayerReport("a", "XDConv1D", "Conv1D", "snapped", "convolution 3", 0.0123, None, *sizes),
        LayerReport("b", "XDConv1D", "StaticXD", "spectrum", None, None, "no axis", *sizes, 7),
    )
    report = FinalizingReport(rows)
    assert report.snapped == ("a",)
    assert json.loads(json.dumps(report.to_dict()))["rows"][1]["forming"] == 7
    lines = str(report).splitlines()
    assert lines[0].split() == "layer kind form distance parameters multiply–adds bytes".split()
    assert "0.012 from convolution 3" in lines[2] and "10 → 1,234" in lines[2]
    assert "no axis" in lines[3] and "100 → ? + 7 a call" in lines[3]


def test_masks_have_rows_and_a_missed_budget_is_told(caplog):
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            keras.layers.Conv2D(12, 3, name="first"),
            keras.layers.BatchNormalization(name="norm"),
            keras.layers.Conv2D(3, 1, name="second"),
        ]
    )
    space = keras_xd.rewrite(model, to="masked", masks="width", initial_value=0.1)
    for variable in keras_xd.architecture_variables(space):
        variable.assign(variable - 0.2 * abs(variable) if variable.name == "offset" else variable)
    search = keras_xd.SearchModel(space)
    options = {"complexity_target": 0.6 * keras_xd.complexity(model), "complexity_weight": 0.5}
    search.compile("sgd", "sgd", "mse", **options)
    plain = keras_xd.finalize(search)
    rows = {row.name: row for row in plain.report.rows}
    assert set(rows) == {"first", "norm", "second"}
    assert rows["second"].multiply_adds_before == 36 * 12 * 3
    assert rows["second"].multiply_adds_after == 36 * 10 * 3
    for row in plain.report.rows:
        assert row.form == "trimmed" and row.kind_after == type(model.get_layer(row.name)).__name__
        assert row.parameters_after == plain.get_layer(row.name).count_params()
    ratio = keras_xd.complexity(plain) / options["complexity_target"]
    assert f"misses its complexity_target by {100 * (ratio - 1):.1f} %" in caplog.text
    search.complexity_weight = 0.0
    caplog.clear()
    keras_xd.finalize(search)
    assert not caplog.text

import keras

import keras_xd


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

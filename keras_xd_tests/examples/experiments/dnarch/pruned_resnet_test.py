"""The narrow network is the one of the budget."""

from keras_xd_tests import example_scripts

pruned = example_scripts.load("experiments.dnarch.pruned_resnet")


def test_the_network_is_resnet_20_of_the_width_for_the_budget(tmp_path):
    options, _ = pruned.parse(["--size", "8", "--output", str(tmp_path)])
    found = pruned.narrow(options, 1000.0, 500.0)
    kept = [layer.filters for layer in found.layers if hasattr(layer, "filters")]
    assert kept == 7 * [11] + 6 * [22] + 6 * [44]  # 16 / √2

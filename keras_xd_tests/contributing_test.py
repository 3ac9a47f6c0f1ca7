"""The worked example of CONTRIBUTING.md passes the check of layers."""

from keras_xd.testing import check_layer
from keras_xd_tests.docstrings_test import ROOT, code_blocks


def test_layer_passes_the_check_of_all_layers():
    """Registered under another name than in the example's own run."""
    (code,) = code_blocks((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    layer, *_ = code.split("# 2. ")
    layer = layer.replace('package="keras_xd"', 'package="keras_xd_tests_contributing"')
    names = {}
    exec(compile(layer, "CONTRIBUTING.md", "exec"), names)
    check_layer(names["GatedDense"], {"units": 3, "activation": "relu"}, (2, 6, 2))

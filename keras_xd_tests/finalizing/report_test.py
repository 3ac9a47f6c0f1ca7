import json

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

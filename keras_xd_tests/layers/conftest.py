"""What tests of layers share."""

import pytest

from keras_xd_tests import eager_steps


@pytest.fixture
def untraced(monkeypatch):
    """Run the parts of cells as they are, without a graph for each of them.

    To trace a part takes longer than to run it a few times. All edges from a node are computed
    together then, as in what XLA compiles. Tests of graphs, of files and of training trace parts.
    """
    eager_steps.trace_in_graphs_alone(monkeypatch)

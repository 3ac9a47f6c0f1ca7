from keras_xd import layers
from keras_xd.layers.cells.edge_counts import edge_counts


def test_counts_are_those_of_layers():
    names = ("dilated_3", "dynamic_3", "identity")
    cell = layers.HeterogeneousCell(8, layers.CellArchitecture(True, names), reduction=True)
    shapes = [(None, 8, 8, 3), (None, 8, 8, 5)]
    counts = edge_counts(cell, shapes, [0, 3, None])
    assert counts.shape == (3, 3)
    strided = cell.make_operation("dilated_3", 2, "strided").multiply_adds((None, 8, 8, 8))
    plain = cell.make_operation("dilated_3", 1, "plain").multiply_adds((None, 4, 4, 8))
    assert counts[:, 0].tolist() == [strided, plain, plain]
    # A kernel is made of the node, and the convolution has the size of the outputs.
    kernel = cell.make_operation("dynamic_3", 1, "kernel")
    convolution = 9 * 4 * 4 * 8
    made = [kernel.multiply_adds((None, n, n, 8)) + convolution for n in (8, 4, 4)]
    assert counts[:, 1].tolist() == made
    assert counts[0, 2] > 0 and not counts[1:, 2].any()


def test_xd_operations_count_as_they_are_built():
    names = ("identity", "xd_3")
    architecture = layers.CellArchitecture(operations=names)
    cell = layers.HeterogeneousCell(2, architecture)
    shapes = [(None, 4, 4, 2)] * 2
    cell.build(shapes)
    found = edge_counts(cell, shapes, [0, 2, None])
    for row, edge in enumerate((0, 4, 14)):
        operation = cell.edge_operation(edge, "xd_3")
        assert found[row].tolist() == [0, float(operation.multiply_adds((None, 4, 4, 2)))]
    assert float(cell.complexity(shapes)) > 0

from keras_xd import genotypes
from keras_xd.layers.cells import edge as edges


def test_statistics_lie_one_behind_the_other():
    edge = edges.Edge(16, 2, genotypes.NOS_OPERATIONS, True)
    found = edge.statistics
    # Four operations of one or two steps, the identity with strides, attention and two kernels.
    assert found == {
        "pointwise_0": slice(0, 64),
        "pointwise_1": slice(64, 96),
        "reduction": slice(96, 112),
        "spatial": slice(112, 113),
        "bottleneck": slice(113, 117),
    }
    assert "reduction" not in edges.Edge(16, 1, genotypes.NOS_OPERATIONS, True).statistics
    assert not edges.Edge(16, 2, ("max_pooling_3",), True).statistics


def test_names_by_their_steps():
    names = ("dilated_5", "separable_3", "identity", "dynamic_5", "dynamic_3")
    assert edges.depthwise_names(names) == ["dilated_5", "separable_3"]
    assert edges.depthwise_names(names, 1) == ["separable_3"]
    assert edges.kernel_sizes(names) == [5, 3]

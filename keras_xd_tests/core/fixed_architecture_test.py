from keras_xd.core import fixed_architecture
from keras_xd.layers.cells.architecture_logits import ArchitectureLogits


def test_one_operation_is_sampled_where_only_weights_move():
    weights = ArchitectureLogits(operations=("identity", "dilated_3"), relaxation="sampled")
    weights.build()
    generator = weights.generator()
    assert weights.paths(generator)["numbers"].shape == (18, 2)
    with fixed_architecture.fixed():
        assert weights.paths(generator)["numbers"].shape == (18, 1)

"""Other packages that prune a trained ResNet-20, for `pruned_resnet`.

They are not among the requirements of the examples: `pip install torch torch-pruning` for the one,
`pip install tf-keras tensorflow-model-optimization` for the other.
"""

import keras
import numpy as np

BLOCKS = [f"stage{stage}_block{block}" for stage in (1, 2, 3) for block in (1, 2, 3)]
STEPS = 100  # of a cut by torch-pruning, each with gradients of its own
TOLERANCE = 0.01  # of the share of weights that are not zero


def torch_pruning(model, share, x, y):
    """Return the network cut by torch-pruning to a share of its multiply–adds, not yet trained.

    It cuts the channels between the two convolutions of each block, by its Taylor importance for
    samples over all blocks: it cannot follow shortcuts that add channels of zeros.
    """
    import torch
    import torch_pruning as tp
    from torch.nn import functional

    def torch_layer(layer):
        values = [np.array(weight) for weight in layer.weights]
        if isinstance(layer, keras.layers.Conv2D):
            values = [values[0].transpose(3, 2, 0, 1)]
            made = torch.nn.Conv2d(*values[0].shape[1::-1], 3, layer.strides, bias=False)
        elif isinstance(layer, keras.layers.Dense):
            values[0] = values[0].T
            made = torch.nn.Linear(*values[0].shape[::-1])
        else:
            made = torch.nn.BatchNorm2d(len(values[0]), layer.epsilon)
        for tensor, value in zip(made.state_dict().values(), values, strict=False):
            tensor.copy_(torch.from_numpy(value))
        return made

    class ResNet(torch.nn.Module):
        def __init__(self):
            super().__init__()
            found = {layer.name: torch_layer(layer) for layer in model.layers if layer.weights}
            self.parts = torch.nn.ModuleDict(found)

        def convolved(self, x, name):
            convolution = self.parts[name]
            edges = (1, 1, 1, 1) if convolution.stride == (1, 1) else (0, 1, 0, 1)
            return self.parts[f"{name}_normalization"](convolution(functional.pad(x, edges)))

        def shortcut(self, x, y):
            added = (y.shape[1] - x.shape[1]) // 2
            return x if not added else functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, added, added))

        def forward(self, x):
            x = _residual(x, self.convolved, functional.relu, self.shortcut)
            return self.parts["classifier"](x.mean((2, 3)))

    network = ResNet().eval()
    x, y = torch.from_numpy(x.transpose(0, 3, 1, 2)), torch.from_numpy(y.astype("int64"))
    inner = [network.parts[f"{name}_conv1"] for name in BLOCKS]
    kept = [
        part for name, part in network.parts.items() if part not in inner and "norm" not in name
    ]
    pruner = tp.pruner.BasePruner(
        network,
        x[:1],
        tp.importance.GroupTaylorImportance(),
        global_pruning=True,
        pruning_ratio=0.99,
        iterative_steps=STEPS,
        ignored_layers=kept,
    )
    whole, _ = tp.utils.count_ops_and_params(network, x[:1])
    while tp.utils.count_ops_and_params(network, x[:1])[0] > share * whole:
        network.zero_grad()
        functional.cross_entropy(network(x), y).backward()
        pruner.step()

    def narrower(layer):
        config = layer.get_config()
        if "filters" in config:
            config["filters"] = network.parts[layer.name].out_channels
        return type(layer).from_config(config)

    small = keras.models.clone_model(model, clone_function=narrower)
    for name, part in network.parts.items():
        values = [value.numpy() for value in part.state_dict().values()][:4]
        order = range(values[0].ndim)[::-1] if values[0].ndim < 4 else (2, 3, 1, 0)
        small.get_layer(name).set_weights([values[0].transpose(order), *values[1:]])
    return small


def keras_2_pruner(model, share, batches, epochs, rate, warmup, weight_decay):
    """Return the network trained while TensorFlow's pruner of Keras 2 sets weights to zero.

    A share of the weights of convolutions stays. The multiply–adds remain the same.
    """
    import tensorflow as tf
    import tensorflow_model_optimization as tfmot
    import tf_keras

    layers = {layer.name: layer for layer in model.layers if layer.weights}
    steps = epochs * len(batches)
    zeros = tfmot.sparsity.keras.PolynomialDecay(0.0, 1 - share, 0, steps // 2)

    def of_keras_2(layer):
        if isinstance(layer, keras.layers.Conv2D):
            return tf_keras.layers.Conv2D(layer.filters, 3, layer.strides, "same", use_bias=False)
        if isinstance(layer, keras.layers.Dense):
            return tf_keras.layers.Dense(layer.units)
        return tf_keras.layers.BatchNormalization(momentum=0.9, epsilon=layer.epsilon)

    new = {name: of_keras_2(layer) for name, layer in layers.items()}

    def convolved(x, name):
        x = tfmot.sparsity.keras.prune_low_magnitude(new[name], zeros)(x)
        return new[f"{name}_normalization"](x)

    def shortcut(x, y):
        added = (y.shape[-1] - x.shape[-1]) // 2
        return x if not added else tf.pad(x[:, ::2, ::2], [(0, 0), (0, 0), (0, 0), (added, added)])

    class Sequence(tf_keras.utils.Sequence):
        def __len__(self):
            return len(batches)

        def __getitem__(self, index):
            return batches[index]

        def on_epoch_end(self):
            batches.on_epoch_end()

    x = inputs = tf_keras.Input(model.input_shape[1:])
    x = _residual(x, convolved, tf.nn.relu, shortcut)
    x = new["classifier"](tf_keras.layers.GlobalAveragePooling2D()(x))
    network = tf_keras.Model(inputs, x)
    for name, layer in layers.items():
        new[name].set_weights(layer.get_weights())
    rising = max(1, round(warmup * steps))
    optimizer = tf_keras.optimizers.SGD(
        tf_keras.optimizers.schedules.CosineDecay(
            0.0, max(1, steps - rising), warmup_target=rate, warmup_steps=rising
        ),
        momentum=0.9,
        nesterov=True,
        weight_decay=weight_decay,
    )
    optimizer.exclude_from_weight_decay(var_names=["gamma", "beta", "bias"])
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile(optimizer, loss)
    pruning = [tfmot.sparsity.keras.UpdatePruningStep()]
    network.fit(Sequence(), epochs=epochs, shuffle=False, verbose=2, callbacks=pruning)
    small = keras.models.clone_model(model)
    for name in layers:
        small.get_layer(name).set_weights(new[name].get_weights())
    kernels = [x.get_weights()[0] for x in small.layers if isinstance(x, keras.layers.Conv2D)]
    found = np.count_nonzero(np.concatenate(kernels, axis=None)) / sum(x.size for x in kernels)
    if abs(found - share) > TOLERANCE:
        raise ValueError(f"{found:.3f} of the weights are not zero, and not {share}")
    return small


def _residual(x, convolved, relu, shortcut):
    """Apply the convolutions of ResNet-20."""
    x = relu(convolved(x, "conv"))
    for name in BLOCKS:
        y = convolved(relu(convolved(x, f"{name}_conv1")), f"{name}_conv2")
        x = relu(y + shortcut(x, y))
    return x

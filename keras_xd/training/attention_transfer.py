"""Guidance of a search by the attention of a trained network, its teacher."""

from collections.abc import Sequence

import keras
from keras import ops

from keras_xd.core.searchable import is_graph
from keras_xd.core.type_aliases import Tensor
from keras_xd.core.validation import nonnegative_number, one_of

STAGES = ("stage1", "stage2", "stage3")
FORMS = ("stable", "literal")
# What norms and their squares are kept above, so that zeros have a gradient.
SMALLEST_NORM = 1e-12


class AttentionTransfer:
    """Guides a search by a trained teacher: the student is to attend where the teacher does.

    For a stage of a network with features `F` its attention is the vector of all positions

        q = x / ‖x‖₂,   x(position) = Σ_channel F(position, channel)²

    and the loss of the search becomes its own plus `weight` times, for stages `j` of student `s`
    and teacher `t`,

    - `"stable"`: `Σ_j mean of (q_s - q_t)²` over batch and positions;
    - `"literal"`: `½ Σ_j mean of ‖q_s - q_t‖₂` over the batch, as printed in the paper. Its slope
      does not fall as the two become alike, and with the paper's weight of 1000 it outweighs the
      cross-entropy by far.

    Give it to `SearchModel.compile(guidance=…)`. It is a term of the loss in training, in the
    bilevel modes on both levels; evaluation is without it. `fit` reports it as
    `attention_transfer`, times the weight. The features of the student come from the pass that
    computes its outputs. The teacher is given the same inputs and passed once a batch, in
    inference mode. It is no part of the search: its variables are neither trained nor saved with
    it, and after loading a file of a guided search `attach` guidance again to go on.

    Args:
        teacher: a trained model, Functional or Sequential, of the inputs of the student.
        teacher_layers: names of the layers whose outputs are the stages.
        student_layers: names of as many layers of the student. Their outputs must have the spatial
            sizes of the teacher's; numbers of channels may differ. The networks of
            `keras_xd.models` for it have layers of the default names.
        weight: number of at least 0, the paper's λ.
        form: `"stable"` or `"literal"`.
        data_format: of the stages, `"channels_last"`, `"channels_first"` or `None` for Keras'
            default.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import keras_xd
    >>> inputs = keras.Input((8, 8, 1))
    >>> def network(convolution):
    ...     x = keras.layers.GlobalAveragePooling2D()(convolution(inputs))
    ...     return keras.Model(inputs, x)
    >>> teacher = network(keras.layers.Conv2D(5, 3, name="last"))
    >>> student = network(keras_xd.layers.XDConv2D(2, 3, name="conv"))
    >>> search = keras_xd.SearchModel(student)
    >>> guidance = keras_xd.training.AttentionTransfer(
    ...     teacher, ["last"], ["conv"], weight=10
    ... )
    >>> search.compile("sgd", "sgd", "mse", guidance=guidance)
    >>> x, y = np.random.default_rng(0).normal(size=(4, 8, 8, 1)), np.zeros((4, 2))
    >>> history = search.fit(x, y, verbose=0).history
    >>> sorted(history)
    ['architecture_change', 'attention_transfer', 'loss']

    Reference:
        "Neural Operator Search", 2020, equations 6, 8 and 9; Zagoruyko and Komodakis, "Paying More
        Attention to Attention", 2017, whose code has the stable form.
    """

    def __init__(
        self,
        teacher: keras.Model,
        teacher_layers: Sequence[str] = STAGES,
        student_layers: Sequence[str] = STAGES,
        weight: float = 1e3,
        form: str = "stable",
        data_format: str | None = None,
    ):
        self.teacher_layers = _checked_names(teacher_layers, "teacher_layers")
        self.student_layers = _checked_names(student_layers, "student_layers")
        if len(self.teacher_layers) != len(self.student_layers):
            raise ValueError(
                "There must be as many `student_layers` as `teacher_layers`. Received: "
                f"teacher_layers={self.teacher_layers}, student_layers={self.student_layers}"
            )
        self.weight = nonnegative_number(weight, "weight")
        self.form = one_of(form, FORMS, "form")
        data_format = keras.config.image_data_format() if data_format is None else data_format
        formats = ("channels_last", "channels_first")
        self.data_format = one_of(data_format, formats, "data_format")
        self.teacher = teacher
        self.teacher_stages = _with_stages(teacher, self.teacher_layers, "teacher")

    def attach(self, search: keras.Model) -> keras.Model:
        """Guide a search from now on, in place; `SearchModel.compile` does it for its `guidance`.

        The optimizer stays as it is, so a search that was loaded from a file goes on.

        Args:
            search: a `SearchModel`.

        Returns:
            `search`.
        """
        search.guide = Guide(self, search.model)
        search.train_function = None
        return search

    def loss(self, student_features: Sequence, teacher_features: Sequence) -> Tensor:
        """Return the term that guidance adds to the loss, a scalar tensor.

        Args:
            student_features: list of the features of the student's stages.
            teacher_features: likewise, those of the teacher.
        """
        last = self.data_format == "channels_last"
        pairs = zip(student_features, teacher_features, strict=True)
        total = 0.0
        for student, teacher in pairs:
            change = attention(student, last) - ops.stop_gradient(attention(teacher, last))
            if self.form == "stable":
                total = total + ops.mean(ops.square(change))
            else:
                squares = ops.sum(ops.square(change), axis=-1)
                total = total + 0.5 * ops.mean(ops.sqrt(ops.maximum(squares, SMALLEST_NORM**2)))
        return self.weight * total


class Guide:
    """What a search calls in training in place of its model: the model, and a term of the loss."""

    def __init__(self, transfer, student):
        self.transfer = transfer
        if transfer is not None:
            self.student = _with_stages(student, transfer.student_layers, "student")
            self._check_sizes()

    def __call__(self, inputs):
        """Return the outputs of the student in training and the term of the loss."""
        if self.transfer is None:
            raise ValueError(
                "The search was guided by a teacher, which is not saved with it. Call `attach` of "
                "an `AttentionTransfer` with the search before training, or compile it again. "
                "Received: a search without its teacher"
            )
        outputs, features = self.student(inputs, training=True)
        _, attended = self.transfer.teacher_stages(inputs, training=False)
        return outputs, self.transfer.loss(features, attended)

    def _check_sizes(self):
        names = self.transfer.student_layers, self.transfer.teacher_layers
        models = self.student, self.transfer.teacher_stages
        outputs = [model.outputs[-len(names[0]) :] for model in models]
        for own, other, *tensors in zip(*names, *outputs, strict=True):
            sizes = [self._sizes(tensor.shape) for tensor in tensors]
            known = [a == b for a, b in zip(*sizes, strict=False) if None not in (a, b)]
            if len(sizes[0]) != len(sizes[1]) or not sizes[0] or not all(known):
                raise ValueError(
                    "The stages of student and teacher must have the same spatial sizes. Received: "
                    f"'{own}' with sizes {sizes[0]}, '{other}' with sizes {sizes[1]}"
                )

    def _sizes(self, shape):
        return tuple(shape[1:-1] if self.transfer.data_format == "channels_last" else shape[2:])


def attention(features: Tensor, channels_last: bool = True) -> Tensor:
    """Return where features attend to: their squares summed over channels, of norm 1."""
    squares = ops.square(ops.cast(features, "float32"))
    summed = ops.sum(squares, axis=-1 if channels_last else 1)
    flat = ops.reshape(summed, (ops.shape(summed)[0], -1))
    norms = ops.sum(ops.square(flat), axis=-1, keepdims=True)
    return flat / ops.sqrt(ops.maximum(norms, SMALLEST_NORM**2))


def _with_stages(model, names, role):
    """Return a model of the same layers whose outputs are those of `model` and of the named."""
    if not is_graph(model):
        raise ValueError(
            f"The {role} must be a Functional or a built Sequential model. Received: {model!r}"
        )
    stages = []
    for name in names:
        if name not in {layer.name for layer in model.layers}:
            raise ValueError(
                f"`{role}_layers` must be names of layers of the {role}. Received: {name!r}, "
                f"layers {[layer.name for layer in model.layers]}"
            )
        stages.append(model.get_layer(name).output)
    sequential = isinstance(model, keras.Sequential)
    inputs, outputs = (
        (model.inputs[0], model.outputs[0]) if sequential else (model.input, model.output)
    )
    return keras.Model(inputs, [outputs, stages], name=model.name)


def _checked_names(names, argument):
    names = (names,) if isinstance(names, str) else tuple(names)
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"`{argument}` must be names of layers. Received: {argument}={names!r}")
    return names

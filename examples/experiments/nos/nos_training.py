"""How `nos.py` trains teachers, searches cells, and trains what it derives from them."""

import time

import fitting
import keras
import numpy as np
import reporting
from datasets.batches import ImageBatches, normalize
from datasets.images import block_means

import keras_xd
from experiments.k.chrysalis_models import halves
from experiments.nos.resnet18 import resnet18
from keras_xd.layers.cells.genotypes import FEATURE_OPERATIONS, NOS_OPERATIONS, random_genotype
from keras_xd.layers.cells.self_calibration import gate_value

METHODS = ("nos_guided", "nos", "features_guided", "features", "random", "resnet")
# The method and the weight of the attention loss.
GUIDANCES = {
    "unguided": ("nos", 0.0),
    "weight_100": ("nos_guided", 1e2),
    "weight_1000": ("nos_guided", 1e3),
    "weight_10000": ("nos_guided", 1e4),
}
# What the names of methods end with, and the gates.
FORMS = {"": "zero", "_tanh": "tanh", "_paper": None}
CALIBRATED = {
    "dynamic_3": "dynamic convolution 3 × 3",
    "dynamic_5": "dynamic convolution 5 × 5",
    "dynamic_dilated_3": "dilated dynamic convolution 3 × 3",
    "dynamic_dilated_5": "dilated dynamic convolution 5 × 5",
    "spatial_attention": "spatial attention",
    "channel_attention": "channel attention",
}
# The ends of the stages that are calibrated.
ENDS = {
    "resnet20": [f"stage{stage}_block3_relu2" for stage in (1, 2, 3)],
    "resnet18": [f"stage{stage}_block2_relu2" for stage in (1, 2, 3)],
}
CALIBRATIONS = ("none", *(f"{operation}{form}" for operation in CALIBRATED for form in FORMS))
MOMENTUM, WEIGHT_DECAY, CLIP = 0.9, 3e-4, 5.0
WARMUP_FACTOR = 20  # how many times smaller the rate is with which warm-up begins
TEACHER_RATE, TEACHER_DECAY = 0.1, 1e-4
AUXILIARY_WEIGHT, SMALLEST_AUXILIARY = 0.4, 29
XLA = False  # which takes minutes to compile so many small operations
LOSS = keras.losses.SparseCategoricalCrossentropy


class LabelsTwice(ImageBatches):
    """Batches whose labels are those of two outputs."""

    def take(self, chosen, index):
        inputs, labels = super().take(chosen, index)
        return inputs, (labels, labels)


def optimizer(steps, rate, decay=WEIGHT_DECAY, warmup=0, nesterov=False):
    """Return SGD whose rate falls to zero along a cosine, after steps in which it rises."""
    schedule = keras.optimizers.schedules.CosineDecay(rate, steps)
    if warmup:
        schedule = keras.optimizers.schedules.CosineDecay(
            rate / WARMUP_FACTOR, steps - warmup, warmup_target=rate, warmup_steps=warmup
        )
    # Keras' weight decay passes by the momentum, which multiplies by 1 / (1 - momentum).
    return keras.optimizers.SGD(
        schedule,
        momentum=MOMENTUM,
        nesterov=nesterov,
        weight_decay=decay / (1 - MOMENTUM),
        global_clipnorm=CLIP,
    )


def accuracy(model, data):
    """Return the share of images whose class is found."""
    return fitting.accuracy(model, normalize(data[0]), data[1])


def fit_plain(model, data, epochs, batch_size, seed, border, rate, decay):
    """Train a model of one output."""
    batches = ImageBatches(*data, batch_size, seed, augment=True, border=border)
    rated = optimizer(epochs * len(batches), rate, decay)
    fitting.compiled(model, rated, loss=LOSS(from_logits=True), jit_compile=XLA)
    model.fit(batches, epochs=epochs, verbose=0)


def teacher(data, seed, options):
    """Return a trained PyramidNet, and how long it took."""
    shape = data[0].shape[1:]
    model = keras_xd.models.pyramidnet(options.teacher_depth, options.teacher_alpha, shape, 10)
    begin = time.perf_counter()
    arguments = options.teacher_epochs, options.batch_size, seed, options.border
    fit_plain(model, data, *arguments, TEACHER_RATE, TEACHER_DECAY)
    return model, time.perf_counter() - begin


def search(method, data, evaluation, seed, options, guide=None):
    """Return the genotype that a method finds, and what was noted on the way."""
    generator = np.random.default_rng(seed)
    operations = FEATURE_OPERATIONS if method.startswith("features") else NOS_OPERATIONS
    if method == "random":
        return random_genotype(generator, operations), {}
    model = keras_xd.models.nos_search_network(
        options.search_cells,
        options.search_channels,
        data[0].shape[1:],
        10,
        operations,
        seed=seed,
    )
    for variable in keras_xd.architecture_variables(model):
        # What DARTS adds to the gradient; Keras' own weight decay of Adam would not pass its slots.
        variable.regularizer = keras.regularizers.L2(options.architecture_decay / 2)
    guidance = None
    if guide is not None:
        guidance = keras_xd.training.AttentionTransfer(
            guide, weight=options.guidance_weight, form=options.guidance_form
        )
    size = options.search_batch_size or options.batch_size
    parts = halves(*(array[: options.search_images] for array in data), seed)
    training, held_out = (
        ImageBatches(*half, size, seed, augment=True, border=options.border) for half in parts
    )
    searched = keras_xd.SearchModel(model)
    searched.compile(
        optimizer(options.search_epochs * len(training), options.search_rate),
        keras.optimizers.Adam(options.architecture_rate, beta_1=0.5),
        LOSS(from_logits=True),
        mode="first_order",
        warmup_epochs=options.warmup_epochs,
        guidance=guidance,
        jit_compile=XLA,
    )
    callbacks = [keras_xd.callbacks.GenotypeLogger(), keras_xd.callbacks.CollapseGuard()]
    callbacks.append(keras_xd.callbacks.TerminateOnNonFinite())
    begin = time.perf_counter()
    history = searched.fit(
        training,
        architecture_validation_data=held_out,
        epochs=options.search_epochs,
        callbacks=callbacks,
        verbose=0,
    ).history
    seconds = time.perf_counter() - begin
    noted = {
        f"{kind}_entropy": [round(float(value), 5) for value in history[f"{kind}_entropy"]]
        for kind in ("normal", "reduction")
    }
    return keras_xd.layers.derived_genotype(searched), {
        "search_seconds": seconds,
        "search_accuracy": accuracy(model, evaluation),
        "search": noted,
    }


def train_plain(train, evaluation, seed, options):
    """Train a plain ResNet-20 by the recipe of the cells; return what was measured."""
    shape, classes = train[0].shape[1:], options.classes
    network = keras_xd.models.resnet20(shape, classes, width=options.resnet_width)
    return _trained(network, train, evaluation, seed, options)


def retrain(genotype, train, evaluation, seed, options):
    """Train the network of a genotype from scratch; return what was measured."""
    shape = train[0].shape[1:]
    auxiliary = min(shape[:2]) >= SMALLEST_AUXILIARY
    network = keras_xd.models.nos_network(
        genotype,
        options.cells,
        options.channels,
        shape,
        options.classes,
        auxiliary=auxiliary,
        drop_path=options.drop_path,
        seed=seed,
    )
    callbacks = [keras_xd.callbacks.DropPathSchedule()] if options.drop_path else []
    return _trained(network, train, evaluation, seed, options, callbacks)


def _trained(network, train, evaluation, seed, options, callbacks=()):
    auxiliary = len(network.outputs) > 1
    x = inputs = keras.Input(train[0].shape[1:])
    if options.cutout:
        x = keras_xd.layers.Cutout(options.cutout, seed=seed)(x)
    model = keras.Model(inputs, network(x))
    kind = LabelsTwice if auxiliary else ImageBatches
    batches = kind(*train, options.batch_size, seed, augment=True, border=options.border)
    losses = {"loss": LOSS(from_logits=True)}
    if auxiliary:
        losses = {"loss": [LOSS(from_logits=True)] * 2, "loss_weights": [1.0, AUXILIARY_WEIGHT]}
    rated = optimizer(
        options.epochs * len(batches),
        options.training_rate,
        options.training_decay,
        options.training_warmup_epochs * len(batches),
        options.nesterov,
    )
    fitting.compiled(model, rated, jit_compile=XLA, **losses)
    callbacks = [keras_xd.callbacks.TerminateOnNonFinite(), *callbacks]
    begin = time.perf_counter()
    model.fit(batches, epochs=options.epochs, callbacks=callbacks, verbose=0)
    seconds = time.perf_counter() - begin
    found = keras.Model(network.input, network.outputs[0])
    return {
        "accuracy": accuracy(found, evaluation),
        "parameters": reporting.count(found.trainable_variables),
        "seconds": seconds,
    }


def pooled(images, width):
    """Return uint8 images whose pixels are means of squares so many pixels wide."""
    return np.round(block_means(images, width)).astype("uint8")


def calibrated_resnet(method, shape, backbone="resnet20"):
    """Return a network with a `SelfCalibration` behind the last block of each of three stages.

    With one seed its convolutions begin alike, whatever the method.
    """
    make = resnet18 if backbone == "resnet18" else keras_xd.models.resnet20
    model = make(shape, 10)
    if method == "none":
        return model
    form = next(form for form in reversed(FORMS) if method.endswith(form))

    def call(layer, *arguments, **keywords):
        x = layer(*arguments, **keywords)
        if layer.name not in ENDS[backbone]:
            return x
        return keras_xd.layers.SelfCalibration(
            method.removesuffix(form),
            gate=FORMS[form],
            name=f"{layer.name.partition('_')[0]}_calibration",
        )(x)

    calibrated = keras.models.clone_model(model, call_function=call)
    for layer in model.layers:
        calibrated.get_layer(layer.name).set_weights(layer.get_weights())
    return calibrated


def calibrate(method, train, evaluation, seed, options):
    """Train a residual network with an operation; return what was measured."""
    train, evaluation = [(pooled(images, options.pool), y) for images, y in (train, evaluation)]
    model = calibrated_resnet(method, train[0].shape[1:], options.backbone)
    deviation = deviation_at_start(model, train)
    begin = time.perf_counter()
    arguments = options.epochs, options.batch_size, seed, options.border
    fit_plain(model, train, *arguments, TEACHER_RATE, TEACHER_DECAY)
    seconds = time.perf_counter() - begin
    gates = [
        float(keras.ops.convert_to_numpy(gate_value(layer.residual_weight, layer.gate)))
        for layer in model.layers
        if getattr(layer, "gate", None)
    ]
    return {
        "accuracy": accuracy(model, evaluation),
        "parameters": reporting.count(model.trainable_variables),
        "seconds": seconds,
        "deviation_at_start": deviation,
        "gates": [round(value, 4) for value in gates],
    }


def deviation_at_start(model, data):
    """Return the standard deviation of the logits of a batch, normalized by its statistics."""
    weights = model.get_weights()
    logits = model(normalize(data[0][:250]), training=True)
    model.set_weights(weights)  # the moving statistics have seen the batch
    return float(np.std(keras.ops.convert_to_numpy(logits)))

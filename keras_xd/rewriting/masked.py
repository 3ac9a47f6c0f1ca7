"""From a Keras model to one whose kernel sizes, widths and depth are learned."""

import collections
import dataclasses
import logging
import re

import keras

from keras_xd.core import validation
from keras_xd.core.searchable import is_graph, named_layers
from keras_xd.graph import channel_groups, cloning, residual_blocks, skips
from keras_xd.layers import MaskedBranch, RelativeMask
from keras_xd.layers.masked import masks as mask_functions
from keras_xd.rewriting import candidates, explaining, kinds

logger = logging.getLogger("keras_xd.rewriting")

MASKS = ("kernel", "width", "depth")
DEPTH_GROUPS = ("stage", "model")


@dataclasses.dataclass(frozen=True)
class MaskOptions:
    """The options of `rewrite(model, to="masked")`.

    Attributes:
        masks: what is masked, of `MASKS`.
        temperature: of the masks of widths.
        depth_temperature: of the masks of depths.
        initial_value: of all masks, as in `RelativeMask`.
        depth_groups: `"stage"`: the blocks of the same spatial sizes have one mask of the depth;
            `"model"`: all blocks of a graph have one.
    """

    masks: str | tuple = MASKS
    temperature: float = 25.0
    depth_temperature: float = 8.0
    initial_value: float = mask_functions.LARGEST_AT_END
    depth_groups: str = "stage"

    @classmethod
    def checked(cls, options: dict) -> "MaskOptions":
        """Return the options of a dictionary.

        Raises:
            ValueError: for one that does not exist, or a value that it cannot have.
        """
        allowed = [field.name for field in dataclasses.fields(cls)]
        wrong = {name: value for name, value in options.items() if name not in allowed}
        if wrong:
            raise ValueError(f"`to='masked'` takes the options {allowed}. Received: {wrong}")
        result = cls(**options)
        names = (result.masks,) if isinstance(result.masks, str) else tuple(result.masks)
        if not names or not set(names) <= set(MASKS):
            raise ValueError(
                f"`masks` must be one or several of {MASKS}. Received: masks={result.masks!r}"
            )
        validation.one_of(result.depth_groups, DEPTH_GROUPS, "depth_groups")
        result.width_mask("width"), result.depth_mask("depth")  # check the numbers
        return dataclasses.replace(result, masks=names)

    def width_mask(self, name: str) -> RelativeMask:
        """Return a new mask of channels."""
        return RelativeMask(
            temperature=self.temperature, initial_value=self.initial_value, name=name
        )

    def depth_mask(self, name: str) -> RelativeMask:
        """Return a new mask of blocks."""
        return RelativeMask(
            temperature=self.depth_temperature, initial_value=self.initial_value, name=name
        )


def rewrite_masked(model: keras.Model, options: dict, only=None, skip=None) -> keras.Model:
    """Return `model` with masks of its kernels, widths and depth: `rewrite(model, to="masked")`.

    Args:
        model: a Functional or a built Sequential model.
        options: those of `MaskOptions`, as a dictionary.
        only, skip: as in `rewrite`. The mask of a kernel goes by the name of its layer, that of a
            width by those of the layers that make the channels, and that of a depth by those of
            the additions.

    Raises:
        ValueError: as `rewrite`.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> inputs = keras.Input((8, 8, 1))
    >>> x = keras.layers.Conv2D(8, 3, activation="relu", name="first")(inputs)
    >>> model = keras.Model(inputs, keras.layers.Conv2D(2, 1, name="second")(x))
    >>> space = keras_xd.rewrite(model, to="masked")
    >>> [variable.name for variable in keras_xd.architecture_variables(space)]
    ['width', 'offset']
    """
    options = MaskOptions.checked(options)
    candidates.check_graph(model)
    graphs = [graph for _, graph in named_layers(model) if is_graph(graph)]
    reasons = _reasons(model, graphs)
    counts = channel_groups.call_counts(model)

    def able(layer):
        return reasons.get(id(layer), "") is None

    sites = _sites(graphs, able, lambda layer: counts[id(layer)] > 1, options)
    _check_selection(sites, graphs, only, "only")
    _check_selection(sites, graphs, skip, "skip")
    wanted = validation.matcher(only, "only") if only is not None else lambda operation: True
    unwanted = validation.matcher(skip, "skip")
    arguments, gates = _arguments(sites, lambda x: wanted(x) and not unwanted(x), able, options)
    texts = [
        f"{path} ({reasons[id(layer)]})"
        for path, layer in named_layers(model)
        if reasons.get(id(layer)) is not None
    ]
    if not arguments:
        raise ValueError(
            "Nothing of the model can be masked. A kernel needs more than one tap; a width, "
            "channels between two convolutions or dense layers and what treats each channel by "
            f"itself; a depth, two residual blocks of a group.{explaining.searched_already(model)} "
            f"Received: masks={options.masks}, only={only!r}, skip={skip!r}, model '{model.name}' "
            f"(not: {'; '.join(texts) or 'nothing'})"
        )
    layers = {}
    for graph in graphs:
        for layer in graph.layers:
            if id(layer) in arguments:
                twin = kinds.MASKED[type(layer)]
                # Built frozen it would freeze what it shares; the flag is copied afterwards.
                config = {**layer.get_config(), "trainable": True, **arguments[id(layer)]}
                layers[id(layer)] = layer, twin.from_config(config)
    result, replaced = cloning.clone(
        model,
        lambda layer: layers[id(layer)][1] if id(layer) in layers else None,
        insert=skips.inserting(gates),
    )
    for old, new in replaced:
        kinds.copy_weights(old, new)
    if texts:
        logger.warning("keras_xd.rewrite: left as they are: %s", "; ".join(texts))
    return result


@dataclasses.dataclass(frozen=True)
class _Sites:
    """Where masks may be: convolutions, groups of channels, and groups of blocks."""

    kernels: list
    widths: list
    depths: list

    @property
    def operations(self):
        """What they can be selected by."""
        found = [*self.kernels]
        for group in self.widths:
            found += group.producers
        for _, group in self.depths:
            found += [block.operation for block in group]
        return found


def _sites(graphs, able, shared, options):
    """Return the `_Sites` of all graphs of a model."""
    kernels, widths, depths = {}, [], []
    for graph in graphs:
        if "kernel" in options.masks:
            for layer in graph.layers:
                if able(layer) and max(getattr(layer, "kernel_size", (1,))) > 1:
                    kernels[id(layer)] = layer
        if "width" in options.masks:
            widths += channel_groups.find_channels(graph, able, shared)
        if "depth" in options.masks:
            groups = collections.defaultdict(list)
            for block in residual_blocks.find_blocks(graph, able):
                groups[block.spatial if options.depth_groups == "stage" else None].append(block)
            for spatial, group in groups.items():
                name = "depth" if spatial is None else f"depth_{'x'.join(map(str, spatial))}"
                depths.append((name, group))
    return _Sites(list(kernels.values()), widths, depths)


def _arguments(sites, wanted, able, options):
    """Return the further arguments of each new layer, by the id of the old one, and the gates.

    Gates are pairs of a `Block` and the `MaskedBranch` at the end of its branch.
    """
    arguments, gates, names = collections.defaultdict(dict), [], set()
    for layer in filter(wanted, sites.kernels):
        arguments[id(layer)] |= {"mask_kernel": True, "initial_value": options.initial_value}
    for group in sites.widths:
        if not all(map(wanted, group.producers)):
            continue
        mask = options.width_mask(f"{group.producers[0].name}_width")
        for layer in (*group.producers, *group.members):
            arguments[id(layer)]["output_width"] = mask
        for layer in group.consumers:
            arguments[id(layer)]["input_width"] = mask
    for name, group in sites.depths:
        chosen = [block for block in group if wanted(block.operation)]
        if len(chosen) < 2:
            continue
        mask = options.depth_mask(name)
        for number, block in enumerate(chosen):
            shared = {"depth_mask": mask, "block": (number, len(chosen))}
            for layer in filter(able, block.layers):
                arguments[id(layer)] |= shared
            gate = f"{block.operation.name}_depth"
            while gate in names or gate in {layer.name for layer in block.graph.layers}:
                gate += "_1"
            names.add(gate)
            gates.append((block, MaskedBranch(**shared, name=gate)))
    return arguments, gates


def _reasons(model, graphs):
    """Return why layers in the graphs cannot be masked, `None` where they can, by their id."""
    inside = {id(layer) for graph in graphs for layer in graph.layers}
    result = {}
    for candidate in candidates.find_candidates(model, "masked", ("convolution",)):
        reason = candidate.reason
        if reason is None and id(candidate.layer) not in inside:
            reason = "it is inside another layer"
        result[id(candidate.layer)] = reason
    for graph in graphs:
        for layer in graph.layers:
            if isinstance(layer, keras.layers.Dense):
                plain = type(layer) is keras.layers.Dense
                result[id(layer)] = (
                    candidates.reason_of_state(layer)
                    if plain
                    else f"{type(layer).__name__} is a subclass of Dense"
                )
    return result


def _check_selection(sites, graphs, selection, argument):
    """Raise `ValueError` if a name or pattern in `selection` finds nothing that can be masked."""
    items = selection if isinstance(selection, (list, tuple, set)) else [selection]
    names = [operation.name for operation in sites.operations]
    for item in items:
        if not isinstance(item, (str, re.Pattern)):
            continue
        matches = validation.matcher(item, argument)
        found = sites.operations
        if argument == "skip":
            found = [layer for graph in graphs for layer in graph.layers] + found
        if not any(map(matches, found)):
            raise ValueError(
                f"`{argument}` must name layers that can be masked. "
                f"Received: {argument}={item!r}; these are {list(dict.fromkeys(names))}"
            )

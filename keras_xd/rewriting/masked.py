"""The search space of kernel sizes, widths and depth."""

import collections
import dataclasses

from keras_xd import layers
from keras_xd.core import validation
from keras_xd.core.configured import config_with_functions
from keras_xd.core.searchable import is_graph, named_layers
from keras_xd.graph import cloning, residual_blocks
from keras_xd.graph.channel_units import internal_channels
from keras_xd.layers.masked import masks as mask_functions
from keras_xd.layers.masked.relative_mask import RelativeMask
from keras_xd.rewriting.candidates import Candidate, check_graph, find_candidates
from keras_xd.rewriting.explaining import searched_already
from keras_xd.rewriting.search_space import Plan, SearchSpace, given_options
from keras_xd.rewriting.selecting import selection
from keras_xd.rewriting.twins import named_twins

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
        """Return the options of a dictionary."""
        result = given_options(cls, options, "masked")
        names = (result.masks,) if isinstance(result.masks, str) else tuple(result.masks)
        if not names or not set(names) <= set(MASKS):
            raise ValueError(
                f"`masks` must be one or several of {MASKS}. Received: masks={result.masks!r}"
            )
        validation.one_of(result.depth_groups, DEPTH_GROUPS, "depth_groups")
        for temperature in (result.temperature, result.depth_temperature):
            result.mask("mask", temperature)  # check the numbers
        return dataclasses.replace(result, masks=names)

    def mask(self, name: str, temperature: float) -> RelativeMask:
        """Return a new mask."""
        return RelativeMask(temperature=temperature, initial_value=self.initial_value, name=name)


class MaskedSpace(SearchSpace):
    """The search space of `rewrite(model, to="masked")`: kernel sizes, widths and depth."""

    no_forecast = (
        "Masks need no forecast: they add one number for each axis, and the model begins with the "
        "multiply–adds that it has."
    )

    def __init__(self):
        super().__init__(
            "masked",
            named_twins(
                "Masked", ("Conv1D", "Conv2D", "DepthwiseConv1D", "DepthwiseConv2D", "Dense")
            ),
            layers=[layers.MaskedBranch],
            recipe={
                "rate": 0.03,
                "compile_options": {"complexity_weight": 5.0},
                "phases": {"warmup_epochs": 6 / 11, "cooldown_epochs": 2 / 11},
            },
        )

    def candidates(self, model, operations=("convolution",), windowed=True):
        """Return the convolutions and dense layers, which are masked in graphs only."""
        inside = {id(layer) for graph in _graphs(model) for layer in graph.layers}
        # Masks only make kernels smaller, so what takes the place of causal layers is causal.
        found = find_candidates(model, self, ("convolution",), windowed=True)
        return [
            c
            if id(c.layer) in inside
            else dataclasses.replace(c, reason=c.reason or "it is inside another layer")
            for c in found
        ]

    def plan(self, model, options, only=None, skip=None):
        """Decide which kernels, widths and branches get masks."""
        options = MaskOptions.checked(options)
        check_graph(model)
        graphs, found = _graphs(model), self.candidates(model)
        maskable = {id(c.layer) for c in found if c.reason is None}
        _, counts = cloning.traces(model)

        def able(layer):
            return id(layer) in maskable

        sites = _sites(graphs, able, lambda layer: counts[id(layer)] > 1, options)
        operations = {operation.name: operation for operation in sites.operations}
        wanted = selection(model, found, operations, only, skip)
        arguments, gates = _arguments(sites, wanted, able, options)
        if not arguments:
            left = [f"{c.path} ({c.reason})" for c in found if c.reason is not None]
            raise ValueError(
                "Nothing of the model can be masked. A kernel needs more than one tap; a width, "
                "channels between two convolutions or dense layers and what treats each channel by "
                f"itself; a depth, two residual blocks of a group.{searched_already(model)} "
                f"Received: masks={options.masks}, only={only!r}, skip={skip!r}, model "
                f"'{model.name}' (not: {'; '.join(left) or 'nothing'})"
            )
        chosen = []
        for candidate in found:
            layer = candidate.layer
            if id(layer) in arguments:
                # Built frozen it would freeze what it shares; the flag is copied afterwards.
                config = config_with_functions(layer)
                config |= {"trainable": True, **arguments[id(layer)]}
                chosen.append((candidate, self.twins[type(layer)].from_config(config)))
        for block, gate in gates:
            place = Candidate(gate.name, "skip", None, block.shape, None, skip=block)
            chosen.append((place, gate))
        return Plan(found, chosen)


def _graphs(model):
    """Return the graphs in a model, and that of the model."""
    return [graph for _, graph in named_layers(model) if is_graph(graph)]


@dataclasses.dataclass(frozen=True)
class _Sites:
    """Where masks may be: convolutions, groups of channels, and groups of blocks."""

    kernels: list
    widths: list
    depths: list

    @property
    def operations(self):
        """What they can be selected by."""
        producers = [layer for group in self.widths for layer in group.producers]
        additions = [block.call.operation for _, group in self.depths for block in group]
        return [*self.kernels, *producers, *additions]


def _sites(graphs, able, shared, options):
    """Return the `_Sites` of all graphs of a model."""
    kernels, widths, depths = [], [], []
    for graph in graphs:
        if "kernel" in options.masks:
            able_here = filter(able, graph.layers)
            kernels += [x for x in able_here if max(getattr(x, "kernel_size", (1,))) > 1]
        if "width" in options.masks:
            widths += internal_channels(graph, able, shared)
        if "depth" in options.masks:
            groups = collections.defaultdict(list)
            for block in residual_blocks.find_blocks(graph, able):
                groups[block.spatial if options.depth_groups == "stage" else None].append(block)
            for spatial, group in groups.items():
                name = "depth" if spatial is None else f"depth_{'x'.join(map(str, spatial))}"
                depths.append((name, group))
    return _Sites(kernels, widths, depths)


def _arguments(sites, wanted, able, options):
    """Return the further arguments of each new layer, by the id of the old one, and the gates."""
    arguments: dict[int, dict] = collections.defaultdict(dict)
    gates, names = [], set()
    for layer in filter(wanted, sites.kernels):
        arguments[id(layer)] |= {"mask_kernel": True, "initial_value": options.initial_value}
    for group in sites.widths:
        if not all(map(wanted, group.producers)):
            continue
        mask = options.mask(f"{group.producers[0].name}_width", options.temperature)
        for layer in (*group.producers, *group.members):
            arguments[id(layer)]["output_width"] = mask
        for layer in group.consumers:
            arguments[id(layer)]["input_width"] = mask
    for name, group in sites.depths:
        chosen = [block for block in group if wanted(block.call.operation)]
        if len(chosen) < 2:
            continue
        mask = options.mask(name, options.depth_temperature)
        for number, block in enumerate(chosen):
            shared = {"depth_mask": mask, "block": (number, len(chosen))}
            for layer in filter(able, block.layers):
                arguments[id(layer)] |= shared
            names |= {layer.name for layer in block.call.graph.layers}
            gate = cloning.unused_name(f"{block.call.operation.name}_depth", names)
            gates.append((block, layers.MaskedBranch(**shared, name=gate)))
    return arguments, gates

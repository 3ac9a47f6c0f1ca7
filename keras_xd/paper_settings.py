"""The settings of the papers' experiments, each with the section or table that it is from."""

from collections.abc import Iterable, Mapping
from typing import Any

Group = tuple[str, Mapping[str, Any]]


def _experiment(*groups: Group, unstated: Iterable[str] = ()) -> dict[str, Any]:
    """Return settings with where each is from, and the names of those that are said nowhere."""
    settings = {name: value for _, values in groups for name, value in values.items()}
    sources = {name: source for source, values in groups for name in values}
    return {**settings, "sources": sources, "unstated": tuple(unstated)}


CODE = "published code"
SGD = {"optimizer": "SGD", "momentum": 0.9}
CROPS_AND_FLIPS = ("random crops of 32 x 32 with a border of 4", "horizontal flips")

# XD-operations. Sections are those of the text; what tables do not say is in the code that the
# appendices name.
_XD_SPACE: Group = ("definition 3.2", {"frequency_bias": True, "channel_gates": True})
_XD_IMAGES: Group = (CODE, {"depth": (3, 3, 3), "largest_kernel": 5})
_XD_SCHEDULE: Group = (
    CODE,
    {"architecture_schedule": "that of the weights", "architecture_weight_decay": 0.0},
)
_LENET: tuple[Group, ...] = (
    (
        "appendix C.1",
        {"epochs": 200, **SGD, "learning_rate": 0.01, "schedule": {100: 0.005, 150: 0.001}},
    ),
    (CODE, {"batch_size": 128, "weight_decay": 1e-4, "seeds": 3}),
)
_RESNET20: tuple[Group, ...] = (
    (
        f"{CODE} of appendix C.2",
        {
            **{"epochs": 200, "batch_size": 128, **SGD, "weight_decay": 1e-4, "seeds": 3},
            **{"learning_rate": 0.1, "schedule": {100: 0.01, 150: 0.001}},
        },
    ),
)
_IMAGES: dict[str, tuple[Group, ...]] = {
    "cifar10": (
        ("appendix C, section 4", {"permuted": False}),
        (CODE, {"augmentation": CROPS_AND_FLIPS}),
    ),
    "permuted_cifar10": (("appendix C, section 4", {"permuted": True, "augmentation": ()}),),
}
_DARTS_OPERATIONS: Group = (
    CODE,
    {
        "operations": (
            *("conv_3x3", "conv_5x5", "dil_conv_3x3", "dil_conv_5x5"),
            *("max_pool_3x3", "avg_pool_3x3", "skip_connect", "none"),
        )
    },
)


def _architecture(
    source: str, optimizer: str, rate: float, warmup: int, momentum: float | None = None
) -> Group:
    """Return the settings of the architecture's optimizer."""
    found = {"architecture_optimizer": optimizer, "architecture_rate": rate}
    found |= {} if momentum is None else {"architecture_momentum": momentum}
    return source, {**found, "warmup_epochs": warmup}


# Table 5: backbone, data, rate and epochs of warm-up of XD, then of the DARTS operations, with how
# much of the mixtures is not the backbone's operation at the start.
_TABLE_5 = (
    ("lenet", "cifar10", 1e-4, 0, 1e-1, 0, 0.1),
    ("lenet", "permuted_cifar10", 1e-3, 0, 1e-1, 50, 0.875),
    ("resnet20", "cifar10", 1e-4, 50, 1e-3, 0, 0.1),
    ("resnet20", "permuted_cifar10", 1e-3, 0, 1e-1, 0, 0.875),
)
XD = {}
for _backbone, _data, _rate, _warmup, _darts_rate, _darts_warmup, _perturb in _TABLE_5:
    _common = (*{"lenet": _LENET, "resnet20": _RESNET20}[_backbone], *_IMAGES[_data])
    XD[f"{_backbone}_{_data}"] = _experiment(
        *_common,
        _architecture("appendix C, table 5", "Adam", _rate, _warmup),
        *(_XD_SCHEDULE, _XD_SPACE, _XD_IMAGES),
    )
    XD[f"{_backbone}_{_data}_darts_operations"] = _experiment(
        *_common,
        _architecture("appendix C, table 5", "Adam", _darts_rate, _darts_warmup),
        ("appendix C, table 5", {"other_weight": _perturb}),
        *(_XD_SCHEDULE, _DARTS_OPERATIONS),
    )
    if _backbone == "resnet20":
        XD[f"wide_resnet40_4_{_data}"] = _experiment(
            *_IMAGES[_data],
            _architecture("appendix C.3, table 5", "Adam", _rate, _warmup),
            (
                "appendix C.3",
                {"weight_decay": 1e-4, "frequency_bias": False, "channel_gates": False},
            ),
            (CODE, {"depth": (3, 3, 3), "largest_kernel": 3}),
            unstated=("epochs", "batch_size", "learning_rate", "schedule"),
        )


def _pde(architecture: Group, **own: Any) -> dict[str, Any]:
    """Return the settings of an equation: the routine of the Fourier neural operator's code."""
    common = {"epochs": 500, "optimizer": "Adam", "weight_decay": 1e-4, "batch_size": 20}
    common |= {"learning_rate": 1e-3, "schedule": "halved every 100 epochs"}
    common |= {"samples": (1000, 100), "loss": "sum of the relative L2 errors of a batch"}
    common |= {"architecture_schedule": "that of the weights", "architecture_weight_decay": 1e-4}
    code = common | own | {"depth": (1, 1, 1), "frequency_bias": False, "channel_gates": False}
    return _experiment(
        ("appendix D", {"padding": "circular"}), (f"{CODE} of appendix D", code), architecture
    )


_BURGERS = {"width": 64, "kernel_size": 17, "sizes": (256, 512, 1024, 2048, 4096, 8192)}
_DARCY = {"width": 32, "kernel_size": 13, "sizes": (85, 106, 141, 211, 421)}
_NAVIER_STOKES = {"width": 20, "kernel_size": 9, "batch_size": 10, "learning_rate": 2.5e-3}
_NAVIER_STOKES |= {"samples": (1000, 200), "sizes": (64,)}
_TABLE_7 = "appendix D, table 7"
XD |= {
    "burgers": _pde(_architecture(_TABLE_7, "Adam", 1e-3, 0), **_BURGERS),
    "burgers_from_fno": _pde(_architecture(_TABLE_7, "SGD", 1e-4, 250, 0.5), **_BURGERS),
    "darcy": _pde(_architecture(_TABLE_7, "SGD", 1e-1, 0, 0.5), **_DARCY),
    "darcy_from_fno": _pde(_architecture(_TABLE_7, "SGD", 1e-1, 0, 0.5), **_DARCY),
    # The labels of these two rows of table 7 are lost in the text; the code tells them apart.
    "navier_stokes_1e-4": _pde(_architecture(CODE, "SGD", 1e-3, 0, 0.5), **_NAVIER_STOKES),
    "navier_stokes_1e-5": _pde(_architecture(CODE, "SGD", 5e-3, 0, 0.5), **_NAVIER_STOKES),
}
for _layers, _optimizer, _rate, _momentum in (
    (4, "Adam", 1e-4, None),
    (6, "SGD", 1e-4, 0.99),
    (10, "SGD", 1e-3, 0.99),
    (18, "SGD", 5e-4, 0.9),
    (34, "SGD", 5e-4, 0.9),
):
    XD[f"psicov_resnet{_layers}"] = _experiment(
        ("section 6", {"frequency_bias": False, "channel_gates": False, "seeds": 3}),
        ("section 6", {"samples": (3356, 100, 150), "score": "MAE8"}),
        ("appendix E", {"dilation_rate": 1}),
        _architecture("appendix E, table 10", _optimizer, _rate, 2, _momentum),
        unstated=("epochs", "batch_size", "learning_rate", "schedule", "depth"),
    )
_MUSIC = {"epochs": 100, "optimizer": "Adam", "learning_rate": 1e-3, "channels": 150}
_MUSIC |= {"schedule": "a tenth when the validation loss is above those of the last three epochs"}
_MUSIC |= {"clipnorm": 0.4, "clipped": "weights only", "batch": "all prefixes of one sequence"}
_MUSIC |= {"history": 40, "seeds": 3}
_TABLE_12, _TCN = "appendix F, table 12", f"{CODE} of appendix F"
XD |= {
    "permuted_mnist": _experiment(
        (
            _TCN,
            {
                **{"epochs": 20, "optimizer": "Adam", "learning_rate": 2e-3, "batch_size": 64},
                **{"schedule": "a tenth every 10 epochs", "dropout": 0.0, "channels": 25},
                **{"kernel_size": 7, "levels": 8, "depth": (3, 3, 3)},
            },
        ),
        _architecture(_TABLE_12, "Adam", 2e-4, 0),
    ),
    "jsb_chorales": _experiment(
        (_TCN, {**_MUSIC, "kernel_size": 2, "levels": 3, "dropout": 0.5}),
        _architecture(_TABLE_12, "Adam", 2e-4, 25),
        unstated=("depth",),
    ),
    "nottingham": _experiment(
        (_TCN, {**_MUSIC, "kernel_size": 6, "levels": 4, "dropout": 0.2}),
        _architecture(_TABLE_12, "Adam", 2e-3, 0),
        unstated=("depth",),
    ),
    "penn_treebank": _experiment(
        (
            _TCN,
            {
                **{"epochs": 100, "optimizer": "SGD", "learning_rate": 4.0, "batch_size": 16},
                **{"channels": 600, "levels": 4, "kernel_size": 3, "clipnorm": 0.4},
                **{"dropout": 0.5, "embedding_dropout": 0.25},
            },
        ),
        _architecture(_TABLE_12, "Adam", 2e-6, 0),
        unstated=("depth",),
    ),
}

_GAEA = {"method": "GAEA PC-DARTS", "relaxation": "partial", "update": "exponentiated_gradient"}
_GAEA |= {"tiers": 1, "partial_channels": 4, "mode": "first_order", "halves": True}
_GAEA |= {"architecture_optimizer": "SGD", "architecture_rate": 0.1}
_GAEA |= {"architecture_schedule": "constant", "architecture_weight_decay": 0.0}
_GAEA |= {**SGD, "epochs": 50, "batch_size": 256, "learning_rate": 0.1, "schedule": "cosine"}
_GAEA |= {"weight_decay": 3e-4, "clipnorm": 5.0, "cells": 8, "channels": 16}
_GAEA["operations"] = (
    *("none", "max_pool_3x3", "avg_pool_3x3", "skip_connect"),
    *("sep_conv_3x3", "sep_conv_5x5", "dil_conv_3x3", "dil_conv_5x5"),
)
XD["darts_cells_permuted_cifar10"] = _experiment(
    (f"{CODE} of appendix C.4", _GAEA),
    ("appendix C.4", {"permuted": True, "searches": 4, "auxiliary_weight": 0.0}),
    unstated=("augmentation", "seeds"),
)

# The Chrysalis. The text has no momentum, and no batch size of the searches.
_WARM_OR_SCRATCH: Group = (
    "appendix C.1.1",
    {
        "warm": {"depth": 1, "K_1, K_2": "unitary Fourier transforms", "M": "unscaled transform"},
        "scratch": {"depth": 9, "K_1, K_2, M": "random unitary"},
    },
)
_CHRYSALIS_AUGMENTATION = {
    "augmentation": {
        "warm": ("random crops", "horizontal flips"),
        "scratch": ("Fast AutoAugment with the policy of CIFAR-10",),
    }
}
_STEPS_OF_200 = {"learning_rate": 0.01, "schedule": {100: 0.005, 150: 0.001}}
_DECAYED_SGD = {"optimizer": "SGD", "weight_decay": 1e-4}
_SEEDS: Group = ("caption of table 1", {"seeds": 5})


def _darts(order: int) -> dict[str, Any]:
    """Return the settings of a search by DARTS."""
    found = {"architecture_optimizer": "Adam", "architecture_rate": 1e-3, "optimizer": "SGD"}
    found |= {"order": order, "halves": True, "weight_decay": 1e-4, **_CHRYSALIS_AUGMENTATION}
    return _experiment(
        ("section 4, the same budget for all", {"epochs": 800}),
        ("appendix C.1.3", found),
        *(_WARM_OR_SCRATCH, _SEEDS),
        unstated=("batch_size", "momentum", "learning_rate", "schedule"),
    )


CHRYSALIS = {
    "supernet_sgd": _experiment(
        (
            "appendix C.1.3",
            {
                **{"epochs": 800, **_DECAYED_SGD, **_CHRYSALIS_AUGMENTATION},
                **{"learning_rate": 0.01, "schedule": {400: 0.005, 600: 0.001}},
            },
        ),
        *(_WARM_OR_SCRATCH, _SEEDS),
        unstated=("batch_size", "momentum"),
    ),
    "supernet_sgdr": _experiment(
        ("appendix C.1.3", {"epochs": 800, "cycles": 4, "epochs_of_a_cycle": 200}),
        ("appendix C.1.3", {**_DECAYED_SGD, **_STEPS_OF_200, **_CHRYSALIS_AUGMENTATION}),
        ("section 4", {"reset": "weights"}),
        *(_WARM_OR_SCRATCH, _SEEDS),
        unstated=("batch_size", "momentum"),
    ),
    "darts_first_order": _darts(1),
    "darts_second_order": _darts(2),
    "offline": _experiment(
        (
            "appendix C.1.2",
            {
                **{"epochs": 200, "batch_size": 128, **_DECAYED_SGD, **_STEPS_OF_200},
                **_CHRYSALIS_AUGMENTATION,
            },
        ),
        _SEEDS,
        unstated=("momentum",),
    ),
    "offline_darts": _experiment(
        ("appendix C.1.2", {"optimizer": "Adam"}),
        _SEEDS,
        unstated=("epochs", "batch_size", "learning_rate", "schedule"),
    ),
    "wide": _experiment(
        (
            "appendix C.1.1",
            {"filters": (32, 64, 128), "kernel_size": 3, "units": 128, "tied": (2, 3)},
        ),
        unstated=("epochs", "batch_size", "learning_rate", "schedule"),
    ),
    "text": _experiment(
        (
            "appendix C.2.1",
            {"kernel_sizes": (3, 4, 5), "filters": 100, "embedding": "static word2vec of 300"},
        ),
        (
            "appendix C.2.2",
            {"optimizer": "Adadelta", "batch_size": 50, "dropout": 0.5, "patience": 3},
        ),
        unstated=("epochs", "learning_rate"),
    ),
    "spherical": _experiment(
        ("appendix C.3.1", {"filters": (20, 40), "kernel_size": 5, "strides": 3}),
        ("appendix C.3.1", {"start": ("warm", "scratch")}),
        (
            "appendix C.3.2",
            {"epochs": 20, "optimizer": "Adam", "learning_rate": 5e-4, "batch_size": 32},
        ),
    ),
}

# DNArch.
_COLUMNS_OF_TABLE_6 = (
    *("epochs", "batch_size", "learning_rate", "dropout", "weight_decay", "omega_0"),
    *("complexity_weight", "resolution_temperature", "width_temperature", "depth_temperature"),
)
_TABLE_6 = {
    "listops": (50, 50, 0.005, 0.0, 0.01, 27500.0, 5.0, 50.0, 25.0, 8.0),
    "text": (100, 50, 0.02, 0.2, 0.01, 19500.0, 0.1, 50.0, 25.0, 8.0),
    "retrieval": (50, 50, 0.001, 0.1, 0.01, 21500.0, 0.1, 50.0, 25.0, 8.0),
    "image": (210, 50, 0.02, 0.1, 0.001, 12500.0, 0.1, 25.0, 25.0, 8.0),
    "pathfinder": (210, 50, 0.005, 0.0, 0.001, 21500.0, 0.1, 50.0, 25.0, 8.0),
    "path_x": (80, 32, 0.001, 0.0, 0.0, 30000.0, 0.1, 100.0, 25.0, 8.0),
    "cifar10": (210, 50, 0.01, 0.1, 0.01, 21500.0, 0.1, 25.0, 25.0, 8.0),
    "cifar100": (210, 50, 0.01, 0.0, 0.01, 6500.0, 5.0, 25.0, 25.0, 8.0),
    "darcy": (310, 8, 0.02, 0.0, 0.0001, 24500.0, 0.1, 50.0, 25.0, 8.0),
    "cosmic": (310, 8, 0.02, 0.3, 0.0001, 5500.0, 0.1, 100.0, 25.0, 8.0),
}
_SHORT_WARMUP = ("listops", "retrieval", "path_x")
DNARCH = {
    task: _experiment(
        ("appendix E.2, table 6", dict(zip(_COLUMNS_OF_TABLE_6, row, strict=True))),
        (
            "appendix E.2",
            {
                **{"optimizer": "AdamW", "schedule": "cosine"},
                "learning_rate_warmup_epochs": 5 if task in _SHORT_WARMUP else 10,
            },
        ),
        ("section 3", {"blocks": 4, "channels": 140, "threshold": 0.1}),
        ("section 3", {"kernel_mask_sigma": 0.0325, "highest_frequency": 0.85}),
        ("section 4", {"largest_blocks": 8, "largest_channels": 280}),
        (
            "appendix E.1",
            {
                **{"kernel_network_kind": "fourier", "kernel_network_features": 128},
                **{"kernel_network_layers": 4, "kernel_network_units": 128, "kernel_networks": 1},
                **{"batch_normalization": "statistics of the batch", "lowest_position": 0.95},
                "highest_position": 0.85,
            },
        ),
        unstated=("augmentation", "seeds", "architecture_rate"),
    )
    for task, row in _TABLE_6.items()
}

# Neural Operator Search.
_NOS_EVALUATION = {"epochs": 600, "batch_size": 128, **SGD, "learning_rate": 0.25}
_NOS_EVALUATION |= {"schedule": "cosine", "cutout": 16, "drop_path": 0.3}
_NOS_NETWORK: Group = (
    "section 4.3",
    {"cells": 20, "channels": 36, "auxiliary_weight": 0.4, "runs": 10},
)
NOS = {
    "search": _experiment(
        (
            "appendix A.2.1",
            {
                **{**SGD, "learning_rate": 0.025, "schedule": "cosine", "weight_decay": 3e-4},
                **{"architecture_optimizer": "Adam", "architecture_rate": 6e-4},
                **{"architecture_schedule": "constant", "architecture_weight_decay": 1e-3},
            },
        ),
        (
            "section 4.2",
            {
                **{"epochs": 25, "cells": 8, "halves": True, "teacher": "PyramidNet-110"},
                **{"teacher_alpha": 84, "guidance_weight": 1e3},
            },
        ),
        ("equation 6", {"guidance_form": "literal"}),
        ("equations 3 and 5", {"calibration_gate": None}),
        ("section 3.3", {"method": "DARTS"}),
        unstated=("batch_size", "channels", "order", "augmentation"),
    ),
    "cifar10": _experiment(
        ("appendix A.2.1", {**_NOS_EVALUATION, "weight_decay": 3e-4}), _NOS_NETWORK
    ),
    "cifar100": _experiment(
        ("appendix A.2.1", {**_NOS_EVALUATION, "weight_decay": 5e-4}), _NOS_NETWORK
    ),
    "imagenet": _experiment(
        ("section 4.3", {"size": 224, "cells": 14, "channels": 48, "auxiliary_weight": 0.4}),
        (
            "appendix A.2.2",
            {
                **{"epochs": 300, "batch_size": 512, "optimizer": "SGD", "learning_rate": 0.25},
                **{"schedule": "linear to 0", "learning_rate_warmup_epochs": 5},
            },
        ),
        unstated=("momentum", "weight_decay", "drop_path", "augmentation"),
    ),
    # ResNet-18 of table 1, and the teacher.
    "calibration": _experiment(
        (
            "appendix A.2.1",
            {
                **{"epochs": 300, "batch_size": 32, **SGD, "weight_decay": 1e-4},
                **{"learning_rate": 0.025, "schedule": "a tenth every 30 epochs"},
                "augmentation": "the standard one",
            },
        ),
        ("section 4.1", {"backbone": "ResNet-18", "stages": (1, 2, 3)}),
        (
            "table 1",
            {
                "operations": (
                    *("dynamic_3", "dynamic_5", "dynamic_dilated_3"),
                    *("dynamic_dilated_5", "spatial_attention", "channel_attention"),
                )
            },
        ),
    ),
    "random": _experiment(("table 2", {"samples": 30})),
}

# Algebraic search. The text that is at hand, abstract and introduction, has no figures.
_CIFAR_OF_NAS_BENCH_201 = {"epochs": 200, **SGD, "nesterov": True, "learning_rate": 0.1}
_CIFAR_OF_NAS_BENCH_201 |= {"schedule": "cosine", "weight_decay": 5e-4, "batch_size": 256}
_UNSEEN = {"epochs": 64, **SGD, "learning_rate": 0.01, "schedule": "cosine"}
_UNSEEN |= {"weight_decay": 3e-4, "batch_size": 64}
_BAYESIAN = {"strategy": "bayesian", "initial_trials": 10, "candidates": 200, "trials": 150}
_BAYESIAN |= {"self_crossover": 0.5, "acquisition": "expected improvement", "objective": "log"}
_BAYESIAN |= {"seeds": (777, 888, 999), "fold_levels": (0, 1, 2, 3, 4)}
ALGEBRAIC = {
    "cifar10": _experiment((CODE, {**_CIFAR_OF_NAS_BENCH_201, "channels": 16, **_BAYESIAN})),
    "addnist": _experiment((CODE, {**_UNSEEN, **_BAYESIAN})),
    "cifartile": _experiment((CODE, {**_UNSEEN, **_BAYESIAN})),
    "activation_functions": _experiment(
        (
            CODE,
            {
                **{"backbone": "ResNet-20", **SGD, "learning_rate": 0.1, "weight_decay": 1e-4},
                **{"schedule": {"steps": (32000, 48000), "factor": 0.1}, "batch_size": 128},
                **{"strategy": "bayesian", "initial_trials": 50, "trials": 1000, "seeds": (777,)},
            },
        )
    ),
}

PAPERS = {"xd": XD, "chrysalis": CHRYSALIS, "dnarch": DNARCH, "nos": NOS, "algebraic": ALGEBRAIC}

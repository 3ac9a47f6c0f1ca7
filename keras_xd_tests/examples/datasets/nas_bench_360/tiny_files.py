"""Files of the tasks of NAS-Bench-360 in their published formats, with few samples."""

import csv
import json

import h5py
import numpy as np
from scipy import io
from scipy.io import wavfile

RHYTHMS = "NAO~" * 4
LABELS = ("Bark", "Music", "Rain")


def cifar100(folder, numbers=(10, 4)):
    rng = np.random.default_rng(0)
    place = folder / "cifar-100-binary"
    place.mkdir()
    for name, number in zip(("train", "test"), numbers, strict=True):
        records = rng.integers(256, size=(number, 3074), dtype="uint8")
        records[:, 0], records[:, 1] = rng.integers(20, size=number), np.arange(number) % 100
        records.tofile(place / f"{name}.bin")


def spherical(folder, numbers=(10, 4), **changed):
    rng = np.random.default_rng(0)
    arrays = {}
    for part, number in zip(("train", "test"), numbers, strict=True):
        arrays[f"{part}_images"] = rng.integers(256, size=(number, 3, 60, 60), dtype="uint8")
        arrays[f"{part}_labels"] = np.arange(number) % 100
    np.savez(folder / "s2_cifar100.npz", **{**arrays, **changed})
    return arrays


def ninapro(folder, numbers=(8, 4, 4)):
    rng = np.random.default_rng(0)
    for part, number in zip(("train", "val", "test"), numbers, strict=True):
        np.save(folder / f"ninapro_{part}.npy", rng.normal(size=(number, 52, 16)))
        np.save(folder / f"label_{part}.npy", np.arange(number) % 18)


def fsd50k(folder, clips=(4, 3, 3)):
    """Write clips of one to three chunks of a second; each label occurs in each part."""
    rng = np.random.default_rng(0)
    chunks = folder / "data" / "chunks"
    chunks.mkdir(parents=True)
    numbers = {label: index for index, label in enumerate(LABELS)}
    (chunks / "lbl_map.json").write_text(json.dumps(numbers), encoding="utf-8")
    names = iter(range(100, 200))
    for part, number in zip(("tr", "val", "eval"), clips, strict=True):
        sounds = chunks / ("eval_chunks" if part == "eval" else "dev_chunks")
        sounds.mkdir(exist_ok=True)
        with open(chunks / f"{part}.csv", "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(["files", "labels", "ext"])
            for index in range(number):
                clip = next(names)
                labels = [LABELS[index % 3]] + (["Rain"] if index == 0 else [])
                for chunk in range(1 + index % 3):
                    name = f"{clip}_{chunk}.wav"
                    samples = rng.integers(-20_000, 20_000, size=22_050).astype("int16")
                    wavfile.write(sounds / name, 22_050, samples)
                    table.writerow([f"/elsewhere/{sounds.name}/{name}", ",".join(labels), clip])


def darcy(folder, numbers=(10, 4), nodes=11, version=5):
    """Write MATLAB files of version 5 or 7.3, which is HDF5 with the axes in reverse."""
    rng = np.random.default_rng(0)
    arrays = []
    for index, number in enumerate(numbers, start=1):
        coefficient = np.where(rng.random((number, nodes, nodes)) < 0.5, 3.0, 12.0)
        solution = rng.uniform(0.1, 1, size=coefficient.shape)
        fields = {"coeff": coefficient, "sol": solution}
        path = folder / f"piececonst_r421_N1024_smooth{index}.mat"
        if version == 5:
            io.savemat(path, fields)
        else:
            with h5py.File(path, "w") as file:
                for name, field in fields.items():
                    file[name] = field.T
        arrays.append(fields)
    return arrays


def protein(length, rng):
    """Return the arrays of a protein; the distances of some far residues are small."""
    places = rng.normal(size=(length, 3)) * 6
    return {
        "ss": rng.random((3, length)),
        "pssm": rng.normal(size=(length, 22)),
        "sa": rng.random(length),
        "entropy": rng.random(length),
        "ccmpred": rng.random((length, length)),
        "freecon": rng.random((length, length)),
        "potential": rng.random((length, length)),
        "distance": np.linalg.norm(places[:, None] - places[None], axis=-1),
    }


def psicov(folder, lengths=((40, 150, 30, 60, 30, 35), (40, 50))):
    rng = np.random.default_rng(0)
    proteins = {}
    for group, chosen in zip(("deepcov", "psicov"), lengths, strict=True):
        (folder / group / "proteins").mkdir(parents=True)
        names = [f"1{group[0]}{index}A" for index in range(len(chosen))]
        lines = "".join(f"{name} {length}\n" for name, length in zip(names, chosen, strict=True))
        (folder / f"{group}.lst").write_text(lines, encoding="utf-8")
        for name, length in zip(names, chosen, strict=True):
            proteins[name] = protein(length, rng)
            np.savez(folder / group / "proteins" / f"{name}.npz", **proteins[name])
    return proteins


def cosmic(folder, numbers=(6, 2)):
    """Write images of two visits with galaxies and of one without."""
    rng = np.random.default_rng(0)
    for part, number in zip(("npy_train", "npy_test"), numbers, strict=True):
        for visit in ("10760/2", "12058/16", "9442/1"):
            place = folder / part / "f435w" / visit
            place.mkdir(parents=True)
            np.save(place / "sky.npy", np.arange(10.0, 10.0 + number))
            for index in range(1, number // 2 + 1):
                layers = rng.normal(size=(3, 256, 256)).astype("float32")
                layers[1:] = rng.random((2, 256, 256)) < 0.1
                np.save(place / f"{index}_crop.npy", layers)


def ecg(folder, rhythms=RHYTHMS):
    """Write records as PhysioNet publishes them."""
    rng = np.random.default_rng(0)
    (folder / "training2017").mkdir()
    with open(folder / "REFERENCE-v3.csv", "w", newline="", encoding="utf-8") as file:
        for index, rhythm in enumerate(rhythms):
            samples = rng.integers(-900, 900, size=(1, 1120 + index)).astype("int16")
            io.savemat(folder / "training2017" / f"A{index:05}.mat", {"val": samples})
            csv.writer(file).writerow([f"A{index:05}", rhythm])


def satellite(folder, numbers=(8, 3)):
    rng = np.random.default_rng(0)
    for part, number in zip(("train", "test"), numbers, strict=True):
        series = rng.normal(5, 3, size=(number, 46))
        np.savez(folder / f"satellite_{part}.npz", data=series, label=1 + np.arange(number) % 24)


def deepsea(folder, numbers=(8, 4, 4)):
    rng = np.random.default_rng(0)
    arrays = {}
    for part, number in zip(("train", "val", "test"), numbers, strict=True):
        arrays[f"x_{part}"] = np.eye(4, dtype="uint8")[rng.integers(4, size=(number, 1000))]
        arrays[f"y_{part}"] = rng.integers(2, size=(number, 36))
    np.savez(folder / "deepsea_filtered.npz", **arrays)
    return arrays


WRITERS = {
    "cifar100": cifar100,
    "spherical": spherical,
    "ninapro": ninapro,
    "fsd50k": fsd50k,
    "darcy": darcy,
    "psicov": psicov,
    "cosmic": cosmic,
    "ecg": ecg,
    "satellite": satellite,
    "deepsea": deepsea,
}

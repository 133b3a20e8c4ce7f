"""Random numbers that depend only on the model's and the tensor's name."""

import zlib

import numpy as np

Shape = tuple[int, ...]


def generator(model: str, tensor: str) -> np.random.Generator:
    """Gives the generator of one tensor of one model."""
    return np.random.default_rng(zlib.crc32(f"{model}/{tensor}".encode()))


def normal(rng: np.random.Generator, shape: Shape, deviation: float) -> np.ndarray:
    """Draws f32 normal numbers around zero."""
    return rng.standard_normal(shape, np.float32) * np.float32(deviation)


def uniform(rng: np.random.Generator, shape: Shape, low: float, high: float) -> np.ndarray:
    """Draws f32 numbers evenly between two bounds."""
    return rng.random(shape, np.float32) * np.float32(high - low) + np.float32(low)


def he(rng: np.random.Generator, shape: Shape, fan_in: int) -> np.ndarray:
    """Draws a weight that keeps the scale of activations through a Relu."""
    return normal(rng, shape, (2 / fan_in) ** 0.5)


def image(model: str, shape: Shape) -> np.ndarray:
    """Draws an input like a normalised picture."""
    return normal(generator(model, "input"), shape, 1.0)

"""Routed images: real images in many input and output domains."""

from neuralrace.tasks.images.base import Images
from neuralrace.tasks.images.routed import RoutedImages, routed_images

__all__ = ["Images", "RoutedImages", "routed_images"]
